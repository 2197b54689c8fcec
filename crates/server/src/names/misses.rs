//! How often one address may ask for links that are not there: who asks for many is scanning for those that are.
//!
//! Only misses are refused. Behind a proxy everyone has one address, and nobody's links may go dark because
//! somebody else guesses.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Mutex,
    time::Duration,
};

/// Addresses remembered at a time. Beyond it those who owe nothing are forgotten, and then everyone.
const ADDRESSES_MAX: usize = 100_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A bucket for each address: a minute's worth of misses, refilled evenly.
#[derive(Debug)]
pub(crate) struct Misses {
    per_minute: u32,
    /// When the bucket of each address is full again, in the process's own time.
    full_at: Mutex<HashMap<IpAddr, Duration>>,
}

impl Misses {
    /// 0: any number.
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute, full_at: Mutex::default() }
    }

    /// Charges `address` for a miss. `Err` says how long it should wait, and is not charged.
    pub(crate) fn charge(&self, address: IpAddr, now: Duration) -> Result<(), Duration> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let cost = MINUTE / self.per_minute;
        let mut full_at = self.full_at.lock().expect("nothing panics while it holds this");
        if full_at.len() >= ADDRESSES_MAX {
            full_at.retain(|_, full_at| *full_at > now);
            if full_at.len() >= ADDRESSES_MAX {
                full_at.clear();
            }
        }
        let full_at = full_at.entry(household(address)).or_insert(now);
        let after = (*full_at).max(now) + cost;
        if after > now + MINUTE {
            return Err(after - now - MINUTE);
        }
        *full_at = after;
        Ok(())
    }
}

/// Who has one IPv6 address has a network of them.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_minute_of_misses_and_then_one_at_a_time() {
        let misses = Misses::new(60);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..60 {
            assert_eq!(misses.charge(a, SECOND), Ok(()));
        }
        assert_eq!(misses.charge(a, SECOND), Err(SECOND));
        assert_eq!([misses.charge(b, SECOND), misses.charge(a, 2 * SECOND)], [Ok(()); 2]);
    }

    #[test]
    fn one_network_is_one_household() {
        let misses = Misses::new(1);
        let (a, b) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        assert_eq!(misses.charge(a, SECOND), Ok(()));
        assert!(misses.charge(b, SECOND).is_err());
        assert_eq!(misses.charge("2001:db8:0:1::1".parse().unwrap(), SECOND), Ok(()));
    }

    #[test]
    fn any_number_is_any_number() {
        let (misses, address) = (Misses::new(0), "192.0.2.1".parse().unwrap());
        assert!((0..1000).all(|_| misses.charge(address, SECOND).is_ok()));
    }
}
