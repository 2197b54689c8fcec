//! Where levels stood during the last while, for charts: a point a look, and never more than so many in all.

use std::{
    collections::{BTreeMap, VecDeque},
    time::SystemTime,
};

use crate::history::Standing;

/// Points of one level: ten minutes at an interval of five seconds.
const POINTS_MAX: usize = 120;
/// Points of all levels. Where there are many levels, each is remembered for less long.
const ALL_POINTS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Trail {
    levels: BTreeMap<String, VecDeque<Point>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub at: SystemTime,
    pub level: u64,
    /// Keys a second, if that was known.
    pub rate: Option<f64>,
}

impl Trail {
    /// Goes on to where the levels stand now. Those that are gone are forgotten.
    pub(crate) fn extend(&mut self, at: SystemTime, levels: &[(String, Standing)]) {
        let kept = (ALL_POINTS_MAX / levels.len().max(1)).min(POINTS_MAX);
        let mut before = std::mem::take(&mut self.levels);
        for (keyspace, Standing { level, rate, .. }) in levels {
            let mut points = before.remove(keyspace).unwrap_or_default();
            points.push_back(Point { at, level: *level, rate: *rate });
            points.drain(..points.len().saturating_sub(kept));
            self.levels.insert(keyspace.clone(), points);
        }
    }

    /// The oldest first.
    pub(crate) fn of(&self, keyspace: &str) -> Vec<Point> {
        self.levels.get(keyspace).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::sample::Supply;

    fn levels(names: impl Iterator<Item = usize>, level: u64) -> Vec<(String, Standing)> {
        let standing = Standing { level, supply: Supply::Pool, rate: Some(1.0), runway: None };
        names.map(|name| (name.to_string(), standing)).collect()
    }

    #[test]
    fn the_oldest_points_go_first_and_levels_that_are_gone_with_theirs() {
        let mut trail = Trail::default();
        for look in 0..500 {
            trail.extend(UNIX_EPOCH + Duration::from_secs(look), &levels(0..2, look));
        }
        let points = trail.of("1");
        assert_eq!((points.len(), points[0].level, points[119].level), (POINTS_MAX, 380, 499));
        trail.extend(UNIX_EPOCH, &levels(1..2, 0));
        assert_eq!((trail.of("0").len(), trail.of("1").len()), (0, POINTS_MAX));
    }

    #[test]
    fn many_levels_share_what_is_remembered() {
        let mut trail = Trail::default();
        for look in 0..30 {
            trail.extend(UNIX_EPOCH, &levels(0..10_000, look));
        }
        assert_eq!(trail.of("9999").len(), ALL_POINTS_MAX / 10_000);
    }
}
