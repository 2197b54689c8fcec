//! What was seen while `top` runs: a short past of each keyspace, for its sparkline.

use std::collections::{HashMap, VecDeque};

use keymill_api::Snapshot;

/// A second each.
const POINTS_MAX: usize = 120;

/// Keys a second, oldest first, by keyspace.
#[derive(Debug, Default)]
pub(super) struct History {
    rates: HashMap<String, VecDeque<u64>>,
}

impl History {
    pub(super) fn push(&mut self, snapshot: &Snapshot) {
        self.rates.retain(|name, _| snapshot.keyspaces.iter().any(|keyspace| keyspace.name == *name));
        for keyspace in &snapshot.keyspaces {
            let past = self.rates.entry(keyspace.name.clone()).or_default();
            if past.len() == POINTS_MAX {
                past.pop_front();
            }
            past.push_back(whole(keyspace.rate));
        }
    }

    /// The newest `width` rates of a keyspace as bars, the highest of them at full height.
    pub(super) fn bars(&self, keyspace: &str, width: usize) -> String {
        let Some(past) = self.rates.get(keyspace) else { return String::new() };
        let newest = past.iter().skip(past.len().saturating_sub(width));
        let highest = newest.clone().copied().max().unwrap_or(0).max(1);
        newest.map(|rate| bar(*rate, highest)).collect()
    }
}

/// A rate that is not nothing is seen.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a height in a chart")]
fn whole(rate: f64) -> u64 {
    rate.ceil().max(0.0) as u64
}

fn bar(rate: u64, highest: u64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if rate == 0 {
        return ' ';
    }
    let height = u128::from(rate) * (BARS.len() as u128 - 1) / u128::from(highest.max(rate));
    BARS[usize::try_from(height).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_has_the_highest_bar_and_none_has_none() {
        let drawn: String = [0, 1, 50, 100, u64::MAX].map(|rate| bar(rate, 100)).into_iter().collect();
        assert_eq!(drawn, " ▁▄██");
        assert_eq!(whole(0.2), 1);
    }
}
