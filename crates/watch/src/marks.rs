//! The two marks on a level, in keys or in the time they last.

use keymill_issuer::quantity::{Count, Mark, Span};
use serde::Serialize;

/// A level counts as above a mark again only this far above it, so that one that hovers there does not flap.
const WELL_ABOVE: f64 = 1.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Marks {
    /// Below this the filler is started anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_below: Option<Mark>,
    /// Below this a human is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_below: Option<Mark>,
}

impl Marks {
    pub fn is_set(&self) -> bool {
        self.restart_below.is_some() || self.page_below.is_some()
    }

    /// Whether one of them is in time, and so needs a rate.
    pub fn needs_rate(&self) -> bool {
        [self.restart_below, self.page_below].iter().any(|mark| matches!(mark, Some(Mark::Time(_))))
    }

    /// Why this cannot be meant, if it cannot.
    pub fn contradiction(&self) -> Option<String> {
        let (restart, page) = (self.restart_below?, self.page_below?);
        page.is_above(restart).then(|| {
            format!(
                "the page mark ({page}) is above the restart mark ({restart}): a human would be called before the \
                 filler had its chance"
            )
        })
    }
}

/// How far a level is from its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Height {
    Below,
    /// Above, but not by enough to believe it.
    Near,
    Above,
}

/// `runway` in seconds; `None` where nobody takes keys. An empty level is below every mark.
#[expect(clippy::cast_precision_loss, reason = "marks are estimates")]
pub(crate) fn height(mark: Option<Mark>, level: u64, runway: Option<f64>) -> Height {
    let (has, wants) = match mark {
        None => return Height::Above,
        Some(_) if level == 0 => return Height::Below,
        Some(Mark::Keys(Count(keys))) => (level as f64, keys as f64),
        Some(Mark::Time(Span(millis))) => match runway {
            None => return Height::Above,
            Some(seconds) => (seconds, millis as f64 / 1000.0),
        },
    };
    if has < wants {
        Height::Below
    } else if has < wants * WELL_ABOVE {
        Height::Near
    } else {
        Height::Above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &str) -> Option<Mark> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_mark_is_left_at_once_and_reached_again_a_tenth_above() {
        assert_eq!(height(mark("20M"), 19_999_999, None), Height::Below);
        assert_eq!(height(mark("20M"), 20_000_000, None), Height::Near);
        assert_eq!(height(mark("20M"), 22_000_000, None), Height::Above);
        assert_eq!(height(None, 0, None), Height::Above);
    }

    #[test]
    fn a_mark_in_time_asks_for_the_runway() {
        assert_eq!(height(mark("2h"), 5, Some(7199.0)), Height::Below);
        assert_eq!(height(mark("2h"), 5, Some(7201.0)), Height::Near);
        assert_eq!(height(mark("2h"), 5, None), Height::Above, "nobody takes keys");
        assert_eq!(height(mark("2h"), 0, None), Height::Below, "but an empty level is below every mark");
    }

    #[test]
    fn a_page_mark_above_the_restart_mark_is_refused() {
        let marks = |restart, page| Marks { restart_below: mark(restart), page_below: mark(page) };
        assert!(marks("10M", "20M").contradiction().unwrap().contains("20M"));
        assert!(marks("1h", "2h").contradiction().is_some());
        for fine in [marks("20M", "10M"), marks("20M", "2h"), Marks::default()] {
            assert_eq!(fine.contradiction(), None);
        }
    }
}
