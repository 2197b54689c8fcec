//! A worker that a server lent us: its generator, and how its window is kept ahead of the clock.
//!
//! It decides and never calls; `keeper` does. A window that was lent is ours for ever, whatever becomes of the
//! lease, so that nothing here has to be in time to be right.

use std::time::Duration;

use keymill_id::{Layout, Settings, SharedGenerator, Tick, Window};
use keymill_wire::grpc::WorkerLease;

use crate::clock::unix_ms;

#[derive(Debug)]
pub(crate) struct Lane {
    pub generator: SharedGenerator,
    /// What a renewal and a release must show.
    pub lease_id: String,
    ttl: Duration,
}

impl Lane {
    /// Reads a lease; why it makes no sense, if it does not.
    pub(crate) fn new(lease: &WorkerLease) -> Result<Self, String> {
        let epoch_ms = u64::try_from(lease.epoch_ms).map_err(|_| "an epoch before 1970".to_owned())?;
        let layout = Layout::parse(&lease.layout, Some(lease.tick_ms), Some(epoch_ms))
            .map_err(|error| format!("the layout `{}`: {error}", lease.layout))?;
        let fits =
            layout.issues() && lease.worker < layout.workers() && lease.region < layout.regions().max(1);
        if !fits {
            return Err(format!("worker {} of region {} in `{layout}`", lease.worker, lease.region));
        }
        let window = window(lease, &layout)?;
        let settings = Settings::default();
        Ok(Self {
            generator: SharedGenerator::new(layout, lease.region, lease.worker, window, settings),
            lease_id: lease.lease_id.clone(),
            ttl: Duration::from_millis(lease.ttl_ms.into()),
        })
    }

    /// Goes on into the window of a renewal; why that cannot be ours, if it cannot.
    pub(crate) fn extend(&self, lease: &WorkerLease) -> Result<(), String> {
        let window = window(lease, self.generator.layout())?;
        let ours = (self.generator.worker(), self.generator.end());
        if lease.worker != ours.0 || window.start() < ours.1 {
            return Err(format!("worker {} from tick {}, below our own", lease.worker, window.start()));
        }
        self.generator.extend(window);
        Ok(())
    }

    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        self.generator.layout().tick_of_clock(unix_ms())
    }

    pub(crate) fn span(&self, ticks: u64) -> Duration {
        Duration::from_millis(ticks.saturating_mul(self.generator.layout().tick_ms().into()))
    }

    /// How long to leave lease and window alone: a third of whichever ends first.
    pub(crate) fn renew_after(&self, window: Duration) -> Duration {
        self.ttl.min(window) / 3
    }

    /// How far the clock is beyond the window, if it is.
    pub(crate) fn clock_ahead(&self) -> Option<Duration> {
        let ahead = (self.tick() + 1).checked_sub(self.generator.end()).filter(|ticks| *ticks > 0)?;
        Some(self.span(ahead))
    }

    /// How much more to ask for, in milliseconds, so that the window reaches `wanted` ahead of the clock again.
    /// At least one tick, because 0 would mean "as much as is usual".
    pub(crate) fn top_up_ms(&self, wanted: Duration) -> u32 {
        let tick_ms = self.generator.layout().tick_ms();
        let left = self.span(self.generator.ticks_left(self.tick()));
        let missing = wanted.saturating_sub(left).as_millis();
        u32::try_from(missing).unwrap_or(u32::MAX).max(tick_ms)
    }
}

fn window(lease: &WorkerLease, layout: &Layout) -> Result<Window, String> {
    Window::new(lease.window_start, lease.window_end)
        .filter(|window| window.end() <= layout.ticks())
        .ok_or_else(|| format!("the window {}..{} in `{layout}`", lease.window_start, lease.window_end))
}

#[cfg(test)]
pub(crate) mod tests {
    use keymill_id::Next;

    use super::*;

    const EPOCH_MS: i64 = 1_767_225_600_000;

    /// Worker 3, from now on for a minute.
    pub(crate) fn lease() -> WorkerLease {
        let now = unix_ms() - u64::try_from(EPOCH_MS).unwrap();
        WorkerLease {
            lease_id: "3-1-x".to_owned(),
            worker: 3,
            region: 0,
            layout: "time:41 worker:10 sequence:12".to_owned(),
            epoch_ms: EPOCH_MS,
            tick_ms: 1,
            window_start: now,
            window_end: now + 60_000,
            ttl_ms: 15_000,
        }
    }

    #[test]
    fn ids_carry_the_worker_and_a_tick_of_the_window() {
        let lease = lease();
        let lane = Lane::new(&lease).unwrap();
        let Next::Id(id) = lane.generator.next(lane.tick()) else { panic!("the window is now") };
        let parts = lane.generator.layout().decompose(id).unwrap();
        assert_eq!(parts.worker, 3);
        assert!((lease.window_start..lease.window_end).contains(&parts.tick));
    }

    #[test]
    fn a_lease_that_makes_no_sense_is_refused_and_never_panics() {
        for wrong in [
            WorkerLease { worker: 1024, ..lease() },
            WorkerLease { region: 1, ..lease() },
            WorkerLease { layout: "time:41 worker:11 sequence:12".to_owned(), ..lease() },
            WorkerLease { layout: "nonsense".to_owned(), ..lease() },
            WorkerLease { epoch_ms: -1, ..lease() },
            WorkerLease { tick_ms: 0, ..lease() },
            WorkerLease { window_end: lease().window_start, ..lease() },
            WorkerLease { window_end: u64::MAX, ..lease() },
        ] {
            Lane::new(&wrong).unwrap_err();
        }
    }

    #[test]
    fn a_window_below_our_own_or_of_another_worker_is_never_used() {
        let lease = lease();
        let lane = Lane::new(&lease).unwrap();
        let later = |worker, window_start| WorkerLease {
            worker,
            window_start,
            window_end: window_start + 60_000,
            ..lease.clone()
        };
        lane.extend(&lease).unwrap_err();
        lane.extend(&later(3, lease.window_end - 1)).unwrap_err();
        lane.extend(&later(4, lease.window_end)).unwrap_err();
        lane.extend(&later(3, lease.window_end)).unwrap();
        assert_eq!(lane.generator.end(), lease.window_end + 60_000);
    }

    #[test]
    fn a_clock_outside_the_window_gets_no_id_and_is_told_by_how_much() {
        let hour = 3_600_000;
        let WorkerLease { window_start, window_end, .. } = lease();
        let at =
            |start, end| Lane::new(&WorkerLease { window_start: start, window_end: end, ..lease() }).unwrap();
        let past = at(window_start - hour, window_end - hour);
        assert_eq!(past.generator.next(past.tick()), Next::WindowUsedUp);
        assert!(past.clock_ahead().unwrap() >= Duration::from_secs(3539));
        assert_eq!(past.top_up_ms(Duration::from_secs(60)), 60_000);
        let future = at(window_start + hour, window_end + hour);
        assert!(matches!(future.generator.next(future.tick()), Next::ClockBehind { .. }));
        assert_eq!(future.clock_ahead(), None);
    }

    #[test]
    fn asks_for_what_was_used_up_and_soon_enough() {
        let lane = Lane::new(&lease()).unwrap();
        let minute = Duration::from_secs(60);
        assert!(lane.top_up_ms(minute) < 5_000, "nearly all of it is left");
        assert!(lane.top_up_ms(2 * minute) >= 60_000);
        assert_eq!(lane.top_up_ms(Duration::ZERO), 1, "0 would mean something else");
        assert_eq!(lane.renew_after(minute), Duration::from_secs(5));
        assert_eq!(lane.renew_after(Duration::from_secs(3)), Duration::from_secs(1));
        assert_eq!(lane.clock_ahead(), None);
    }
}
