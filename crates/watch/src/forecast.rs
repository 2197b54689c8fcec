//! When a level will be gone, and how one says such things.

use std::time::{Duration, SystemTime};

use crate::{history::Standing, sample::Supply};

/// Beyond this a calendar is of no use.
const FORECAST_SECONDS_MAX: f64 = 2.0e11;

/// When nothing will be left, if keys go on leaving as they do.
pub fn exhausted_at(runway: Option<f64>, now: SystemTime) -> Option<SystemTime> {
    let seconds = runway.filter(|seconds| (0.0..FORECAST_SECONDS_MAX).contains(seconds))?;
    now.checked_add(Duration::from_secs_f64(seconds))
}

/// ` (1000.0 keys/s: it runs dry at …)`, or nothing where nobody takes keys.
pub(crate) fn outlook(standing: &Standing, now: SystemTime) -> String {
    let Some(at) = exhausted_at(standing.runway, now).map(crate::moment::rfc3339) else {
        return String::new();
    };
    let rate = standing.rate.map_or_else(String::new, |rate| format!("{rate:.1} keys/s: "));
    match standing.supply {
        Supply::Pool => format!(" ({rate}the pool is exhausted at {at})"),
        Supply::Keyspace => format!(" ({rate}the keyspace is exhausted at {at})"),
        Supply::Epoch { .. } => format!(" (the epoch is exhausted at {at})"),
    }
}

/// What is left, as a person would say it.
pub(crate) fn left(standing: &Standing) -> String {
    match standing.supply {
        Supply::Epoch { left } => format!("has {} of time left", spoken(left.as_secs_f64())),
        _ => format!("has {} keys left", standing.level),
    }
}

/// 83 min rather than 1.4 h, 27.8 h rather than 1.2 days.
pub(crate) fn spoken(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(31_557_600.0, "years"), (86_400.0, "days"), (3600.0, "h"), (60.0, "min")];
    match UNITS.into_iter().find(|(size, _)| seconds >= 2.0 * size) {
        Some((size, "min")) => format!("{:.0} min", seconds / size),
        Some((size, unit)) => format!("{:.1} {unit}", seconds / size),
        None => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(supply: Supply, runway: Option<f64>) -> Standing {
        Standing { level: 5_000_000, supply, rate: Some(1000.0), runway }
    }

    #[test]
    fn each_supply_says_what_will_be_gone_and_when() {
        let now = SystemTime::UNIX_EPOCH;
        let pool = outlook(&standing(Supply::Pool, Some(5000.0)), now);
        assert_eq!(pool, " (1000.0 keys/s: the pool is exhausted at 1970-01-01T01:23:20.000Z)");
        let keyspace = outlook(&standing(Supply::Keyspace, Some(5000.0)), now);
        assert!(keyspace.contains("keyspace is exhausted"), "{keyspace}");
        let epoch = Supply::Epoch { left: Duration::from_secs(86_400 * 30) };
        assert!(
            outlook(&standing(epoch, Some(2_592_000.0)), now).contains("epoch is exhausted at 1970-01-31")
        );
        assert_eq!(left(&standing(epoch, None)), "has 30.0 days of time left");
    }

    #[test]
    fn no_calendar_is_asked_for_the_end_of_a_very_long_time() {
        for runway in [None, Some(1e18), Some(f64::INFINITY), Some(f64::NAN)] {
            assert_eq!(exhausted_at(runway, SystemTime::UNIX_EPOCH), None);
        }
    }
}
