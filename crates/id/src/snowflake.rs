//! Time-ordered IDs of one worker.
//!
//! Time comes in as a tick, an ID or a reason to wait goes out. No clock is read here and nobody sleeps: what
//! to do about a [`Pause`] is the caller's business. A [`Generator`] belongs to one thread; [`SharedGenerator`]
//! is the same over atomics. Both ask [`Lane::place`] where the next ID goes, so they cannot differ in rules.
//!
//! Whatever the clock says, an ID's tick is inside a window that only this generator holds, and places are
//! only ever taken upwards: IDs are unique and strictly increasing even with a clock that lies. The clock
//! decides only how soon.

use std::{
    hash,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    layout::{Layout, Slot, Tick},
    window::Window,
};

/// What asking for an ID came to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Next {
    Id(u64),
    /// See [`Pause::ClockBehind`].
    ClockBehind {
        by: u64,
    },
    /// See [`Pause::WindowUsedUp`].
    WindowUsedUp,
    /// See [`Pause::TickUsedUp`].
    TickUsedUp,
}

/// Why there is no ID at this tick.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pause {
    /// Wait, or refuse: the clock is so many ticks behind an earlier reading, or behind the window. With a
    /// shared generator another thread may just have read a newer time: read the clock again before believing it.
    ClockBehind { by: u64 },
    /// Extend the window: the tick of this ID is at its end or above.
    WindowUsedUp,
    /// Ask again at the next tick: this one has no sequence number left, and no more may be borrowed.
    TickUsedUp,
}

/// What to do when a tick has no sequence number left.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum OnOverflow {
    /// Pause until the clock ticks.
    #[default]
    Wait,
    /// Use ticks that are still to come, inside the window and at most so many ahead of the clock.
    Borrow { ticks_max: u64 },
}

/// What to do when the clock is behind an earlier reading.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum OnRollback {
    /// Pause until it has caught up.
    #[default]
    Refuse,
    /// Keep counting inside the window: the rest of the last tick, then as many ticks after it as the clock
    /// has ticked since it went back. So IDs are made no faster than otherwise, and once the clock or a quiet
    /// moment has caught up, the offset is gone.
    Logical,
}

/// How a generator behaves where uniqueness leaves a choice. The same for a generator's life: to change it,
/// stop the generator and begin another with what is left of the window.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// A tick's sequence starts somewhere in `0..=sequence_start`. With 0 and less than one ID a tick, every ID
    /// would be even, and a table sharded by `id % n` would fill one shard.
    pub sequence_start: u64,
    pub on_overflow: OnOverflow,
    pub on_rollback: OnRollback,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sequence_start: 1, on_overflow: OnOverflow::default(), on_rollback: OnRollback::default() }
    }
}

/// IDs of one tick with neighbouring sequence numbers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub first: u64,
    pub step: u64,
    /// At least one.
    pub count: u64,
}

impl Run {
    pub fn ids(self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let count = usize::try_from(self.count).expect("a run is no longer than a tick's sequence");
        (0..count).map(move |at| self.first + at as u64 * self.step)
    }
}

/// The next ID that is free: this tick, and this sequence number unless that is above the layout's last.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Place {
    tick: Tick,
    sequence: u64,
}

/// How a generator's time relates to the clock.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Pace {
    /// The latest time that an ID was made at, or the window's start.
    latest: Tick,
    /// What is added to a clock that went back.
    offset: u64,
}

/// What stays the same while a worker makes IDs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lane {
    layout: Layout,
    region: u32,
    worker: u32,
    settings: Settings,
    /// The bits that all its IDs share.
    stamp: u64,
    time: Slot,
    sequence: Slot,
    sequence_max: u64,
    step: u64,
}

impl Lane {
    fn new(layout: Layout, region: u32, worker: u32, settings: Settings) -> Self {
        assert!(layout.issues(), "IDs of {} bits are decoded only: `{layout}`", layout.bits());
        let (stamp, time, sequence) = layout.stamp(region, worker);
        let (sequence_max, step) = (layout.sequence_max(), layout.sequence_step());
        Self { layout, region, worker, settings, stamp, time, sequence, sequence_max, step }
    }

    fn check(&self, window: Window) {
        assert!(
            window.end() <= self.layout.ticks(),
            "window {window} is beyond the end of `{}`",
            self.layout
        );
    }

    /// What time an ID that is asked for at `now` is made at. Up to `lag_max` ticks behind the latest reading
    /// count as that reading.
    #[inline]
    fn read(&self, now: Tick, free: Place, pace: Pace, lag_max: u64) -> Result<Pace, Pause> {
        if now > free.tick {
            return Ok(Pace { latest: now, offset: 0 });
        }
        let reading = now + pace.offset;
        if reading >= pace.latest {
            return Ok(Pace { latest: reading, ..pace });
        }
        match self.settings.on_rollback {
            _ if pace.latest - reading <= lag_max => Ok(pace),
            OnRollback::Refuse => Err(Pause::ClockBehind { by: pace.latest - reading }),
            OnRollback::Logical => Ok(Pace { offset: pace.latest - now, ..pace }),
        }
    }

    /// Where the ID that is asked for at `now` goes, given the first free place and the end of the window.
    #[inline]
    fn place(&self, now: Tick, free: Place, pace: Pace, end: Tick) -> Result<Place, Pause> {
        let place = if now > free.tick {
            self.first_of(now)
        } else if free.sequence <= self.sequence_max {
            free
        } else {
            let ahead_max = match self.settings.on_overflow {
                OnOverflow::Wait => 0,
                OnOverflow::Borrow { ticks_max } => ticks_max,
            };
            if free.tick >= pace.latest.saturating_add(ahead_max) {
                return Err(Pause::TickUsedUp);
            }
            self.first_of(free.tick + 1)
        };
        if place.tick < end { Ok(place) } else { Err(Pause::WindowUsedUp) }
    }

    /// Always the same for a tick, so that "nothing was issued in it" can be seen from a place.
    fn first_of(&self, tick: Tick) -> Place {
        let choices = self.settings.sequence_start.min(self.sequence_max) + 1;
        // Not the tick's own low bits: whoever asks every ten milliseconds sees only even ones.
        Place { tick, sequence: ((mix(tick, self.worker) >> 32) * choices) >> 32 }
    }

    /// The first tick of which no ID was made. A tick that was begun counts as issued.
    fn unused_from(&self, free: Place) -> Tick {
        if free == self.first_of(free.tick) { free.tick } else { free.tick + 1 }
    }

    /// As many IDs as are asked for and left in the tick.
    #[inline]
    fn run(&self, place: Place, count: u64) -> Run {
        let left = self.sequence_max + 1 - place.sequence;
        Run { first: self.compose(place), step: self.step, count: count.min(left) }
    }

    /// What [`Layout::compose`] makes of a place, from what is at hand.
    #[inline]
    fn compose(&self, place: Place) -> u64 {
        self.stamp | self.time.write(place.tick) | self.sequence.write(place.sequence)
    }
}

/// The finalizer of SplitMix64: every bit of the tick changes the top bits.
fn mix(tick: Tick, worker: u32) -> u64 {
    let mut z = (tick ^ u64::from(worker) << 48).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Makes the IDs of one worker, in one thread.
#[derive(Clone, Debug)]
pub struct Generator {
    lane: Lane,
    window: Window,
    free: Place,
    pace: Pace,
    /// When the last ID was asked for, if nothing has changed since, and that ID without its sequence.
    asked: Option<Tick>,
    base: u64,
    ahead: u64,
    ticks_borrowed: u64,
}

impl PartialEq for Generator {
    /// By what it will do: when it was last asked makes it faster and changes nothing.
    fn eq(&self, other: &Self) -> bool {
        (&self.lane, self.window, self.free, self.pace) == (&other.lane, other.window, other.free, other.pace)
    }
}

impl Eq for Generator {}

impl hash::Hash for Generator {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (self.window, self.free, self.pace).hash(state);
    }
}

impl Generator {
    /// # Panics
    /// When the layout is for decoding only, region or worker do not fit it, or the window reaches beyond it.
    pub fn new(layout: Layout, region: u32, worker: u32, window: Window, settings: Settings) -> Self {
        let lane = Lane::new(layout, region, worker, settings);
        lane.check(window);
        let free = lane.first_of(window.start());
        let pace = Pace { latest: window.start(), offset: 0 };
        Self { lane, window, free, pace, asked: None, base: 0, ahead: 0, ticks_borrowed: 0 }
    }

    /// The next ID, above all before.
    #[inline]
    pub fn next(&mut self, now: Tick) -> Next {
        // Asked again at one and the same time, the rules would choose the free place again.
        if self.asked == Some(now) && self.free.sequence <= self.lane.sequence_max {
            assert!(self.window.contains(self.free.tick));
            let id = self.base | self.free.sequence << self.lane.sequence.shift();
            self.free.sequence += 1;
            return Next::Id(id);
        }
        self.run(now, 1).into()
    }

    /// At least one and at most `count` IDs of one tick.
    ///
    /// # Panics
    /// When `count` is zero.
    pub fn run(&mut self, now: Tick, count: u64) -> Result<Run, Pause> {
        assert!(count > 0, "a run has at least one ID");
        let pace = self.lane.read(now, self.free, self.pace, 0)?;
        let place = self.lane.place(now, self.free, pace, self.window.end())?;
        // A tick outside the window could repeat someone else's ID.
        assert!(self.window.contains(place.tick));
        // And a place that was taken, our own.
        assert!((self.free.tick, self.free.sequence) <= (place.tick, place.sequence));
        let run = self.lane.run(place, count);
        if place.tick > self.free.tick && place.tick > pace.latest {
            self.ticks_borrowed += 1;
        }
        self.free = Place { sequence: place.sequence + run.count, ..place };
        self.pace = pace;
        self.asked = Some(now);
        self.base = self.lane.compose(Place { sequence: 0, ..place });
        self.ahead = place.tick.saturating_sub(now);
        Ok(run)
    }

    /// Appends `count` IDs, or fewer and the reason.
    pub fn next_many(&mut self, now: Tick, count: usize, out: &mut Vec<u64>) -> Result<(), Pause> {
        let mut left = count as u64;
        while left > 0 {
            let run = self.run(now, left)?;
            out.extend(run.ids());
            left -= run.count;
        }
        Ok(())
    }

    /// Goes on into a window that was reserved later. If there is a gap between the two, the rest of the old
    /// one is burned.
    ///
    /// # Panics
    /// When the window begins below the end of the old one, or reaches beyond the layout.
    pub fn extend(&mut self, later: Window) {
        self.lane.check(later);
        self.window = self.window.followed_by(later);
        if self.free.tick < self.window.start() {
            self.free = self.lane.first_of(self.window.start());
            self.pace.latest = self.pace.latest.max(self.window.start());
            self.asked = None;
        }
    }

    /// Ends it. What it returns was never embedded and may be given back.
    pub fn stop(self) -> Option<Window> {
        Window::new(self.lane.unused_from(self.free), self.window.end())
    }

    pub fn layout(&self) -> &Layout {
        &self.lane.layout
    }

    pub fn region(&self) -> u32 {
        self.lane.region
    }

    pub fn worker(&self) -> u32 {
        self.lane.worker
    }

    pub fn settings(&self) -> Settings {
        self.lane.settings
    }

    pub fn window(&self) -> Window {
        self.window
    }

    /// How many ticks of the window are left at this time: when it is few, extend.
    pub fn ticks_left(&self, now: Tick) -> u64 {
        self.window.end().saturating_sub(self.lane.unused_from(self.free).max(now))
    }

    /// By how many ticks the last ID was ahead of the clock, through borrowing or a clock that went back.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }

    /// How many ticks were borrowed since the start.
    pub fn ticks_borrowed(&self) -> u64 {
        self.ticks_borrowed
    }
}

/// Between reading the clock and asking, a thread may be overtaken by this much without being told that the
/// clock went back.
const LAG_TICKS_MAX: u64 = 2;

/// Makes the IDs of one worker, for any number of threads, without a lock.
///
/// Tick and sequence are one atomic word that only ever rises, so whoever raises it owns what it passed. The
/// window's end is another that only ever rises. Why no tick at or above the end, and none in a gap between
/// two windows, is embedded:
///
/// - A tick is chosen below an end that was read before, and an end that was once read stays valid.
/// - [`extend`](Self::extend) over a gap first lifts the place above the gap and then the end. Whoever reads the
///   new end also finds the lifted place when it exchanges, so an exchange from a place below the gap fails.
///
/// Padding to a cache line is left to whoever holds several.
#[derive(Debug)]
pub struct SharedGenerator {
    lane: Lane,
    /// The first free place, packed; see [`pack`](Self::pack).
    free: AtomicU64,
    /// The window's end.
    end: AtomicU64,
    /// The two parts of the pace. They decide about waiting alone, so they may lag behind and disagree.
    latest: AtomicU64,
    offset: AtomicU64,
    ticks_borrowed: AtomicU64,
}

impl SharedGenerator {
    /// # Panics
    /// When the layout is for decoding only, region or worker do not fit it, or the window reaches beyond it.
    pub fn new(layout: Layout, region: u32, worker: u32, window: Window, settings: Settings) -> Self {
        let lane = Lane::new(layout, region, worker, settings);
        lane.check(window);
        let free = Self::pack(&lane, lane.first_of(window.start()));
        Self {
            lane,
            free: free.into(),
            end: window.end().into(),
            latest: window.start().into(),
            offset: 0.into(),
            ticks_borrowed: 0.into(),
        }
    }

    /// The next ID, above all that were returned before this was called.
    #[inline]
    pub fn next(&self, now: Tick) -> Next {
        let seen = self.free.load(Ordering::Acquire);
        let free = Self::unpack(&self.lane, seen);
        // In a tick that was begun, the rules choose the free place, whatever the pace.
        let is_next = free.tick == now && free.sequence <= self.lane.sequence_max;
        if is_next && now < self.end.load(Ordering::Acquire) {
            let taken = self.free.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return Next::Id(self.lane.compose(free));
            }
        }
        self.run(now, 1).into()
    }

    /// At least one and at most `count` IDs of one tick.
    ///
    /// # Panics
    /// When `count` is zero.
    #[inline]
    pub fn run(&self, now: Tick, count: u64) -> Result<Run, Pause> {
        assert!(count > 0, "a run has at least one ID");
        let mut seen = self.free.load(Ordering::Acquire);
        loop {
            let end = self.end.load(Ordering::Acquire);
            let before = Pace {
                latest: self.latest.load(Ordering::Relaxed),
                offset: self.offset.load(Ordering::Relaxed),
            };
            let free = Self::unpack(&self.lane, seen);
            let pace = self.lane.read(now, free, before, LAG_TICKS_MAX)?;
            let place = self.lane.place(now, free, pace, end)?;
            assert!(place.tick < end); // a tick outside the window could repeat someone else's ID
            let run = self.lane.run(place, count);
            let after = Place { sequence: place.sequence + run.count, ..place };
            let after = Self::pack(&self.lane, after);
            assert!(after > seen); // and a place that was taken, our own
            match self.free.compare_exchange_weak(seen, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if pace != before {
                        self.latest.store(pace.latest, Ordering::Relaxed);
                        self.offset.store(pace.offset, Ordering::Relaxed);
                    }
                    if place.tick > free.tick && place.tick > pace.latest {
                        self.ticks_borrowed.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(run);
                }
                Err(other) => seen = other,
            }
        }
    }

    /// Appends `count` IDs, or fewer and the reason. Other threads' IDs may lie between them.
    pub fn next_many(&self, now: Tick, count: usize, out: &mut Vec<u64>) -> Result<(), Pause> {
        let mut left = count as u64;
        while left > 0 {
            let run = self.run(now, left)?;
            out.extend(run.ids());
            left -= run.count;
        }
        Ok(())
    }

    /// Goes on into a window that was reserved later. If there is a gap between the two, the rest of the old
    /// one is burned. One caller at a time; IDs may be asked for meanwhile.
    ///
    /// # Panics
    /// When the window begins below the end of the old one, or reaches beyond the layout.
    pub fn extend(&self, later: Window) {
        self.lane.check(later);
        let end = self.end.load(Ordering::Acquire);
        assert!(later.start() >= end, "window {later} reaches back below {end}");
        if later.start() > end {
            // The order matters: see the type.
            let start = Self::pack(&self.lane, self.lane.first_of(later.start()));
            self.free.fetch_max(start, Ordering::AcqRel);
            self.latest.fetch_max(later.start(), Ordering::Relaxed);
        }
        let before = self.end.fetch_max(later.end(), Ordering::AcqRel);
        assert!(before == end, "two windows at a time");
    }

    /// Ends it for all threads: no ID is made after this. What it returns was never embedded and may be given
    /// back; the second time, nothing.
    pub fn stop(&self) -> Option<Window> {
        // A used-up place in the last tick there is: what follows it is above every window.
        let last = Place { tick: self.lane.layout.ticks() - 1, sequence: self.lane.sequence_max + 1 };
        // The end first: an end that was raised later may have a gap below it.
        let end = self.end.load(Ordering::Acquire);
        let free = self.free.swap(Self::pack(&self.lane, last), Ordering::AcqRel);
        Window::new(self.lane.unused_from(Self::unpack(&self.lane, free)), end)
    }

    pub fn layout(&self) -> &Layout {
        &self.lane.layout
    }

    pub fn region(&self) -> u32 {
        self.lane.region
    }

    pub fn worker(&self) -> u32 {
        self.lane.worker
    }

    pub fn settings(&self) -> Settings {
        self.lane.settings
    }

    /// The window's end.
    pub fn end(&self) -> Tick {
        self.end.load(Ordering::Acquire)
    }

    /// How many ticks of the window are left at this time: when it is few, extend.
    pub fn ticks_left(&self, now: Tick) -> u64 {
        let free = Self::unpack(&self.lane, self.free.load(Ordering::Acquire));
        self.end().saturating_sub(self.lane.unused_from(free).max(now))
    }

    /// By how many ticks the last ID was ahead of this time, through borrowing or a clock that went back.
    pub fn ahead(&self, now: Tick) -> u64 {
        let free = Self::unpack(&self.lane, self.free.load(Ordering::Acquire));
        self.lane.unused_from(free).saturating_sub(now + 1)
    }

    /// How many ticks were borrowed since the start.
    pub fn ticks_borrowed(&self) -> u64 {
        self.ticks_borrowed.load(Ordering::Relaxed)
    }

    /// The tick above the sequence, which has one bit more than in an ID, for "used up". That is at most 64
    /// bits, because IDs that are issued have 63.
    #[inline]
    fn pack(lane: &Lane, place: Place) -> u64 {
        assert!(place.tick <= lane.time.max() && place.sequence <= lane.sequence_max + 1);
        place.tick << (lane.sequence.bits() + 1) | place.sequence
    }

    #[inline]
    fn unpack(lane: &Lane, packed: u64) -> Place {
        let bits = lane.sequence.bits() + 1;
        Place { tick: packed >> bits, sequence: packed & ((1 << bits) - 1) }
    }
}

impl From<Result<Run, Pause>> for Next {
    #[inline]
    fn from(run: Result<Run, Pause>) -> Self {
        match run {
            Ok(run) => Self::Id(run.first),
            Err(Pause::ClockBehind { by }) => Self::ClockBehind { by },
            Err(Pause::WindowUsedUp) => Self::WindowUsedUp,
            Err(Pause::TickUsedUp) => Self::TickUsedUp,
        }
    }
}
