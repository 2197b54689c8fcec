//! How the bits of a time-ordered ID are divided, as data.
//!
//! A [`Layout`] names its fields from the top bit down, how long a tick is and when tick 0 was. It turns
//! parts into an ID and an ID back into its parts, and answers what follows from the numbers: how many
//! workers, how many IDs a tick, which year it ends. It is read from a text and cannot be invalid.

use std::{fmt, sync::Arc};

use thiserror::Error;

/// A tick of a layout's clock, counted from its epoch: the number that a worker's track counts.
pub type Tick = u64;

/// A signed 64-bit column holds IDs of this many bits.
const SIGNED_BITS: u32 = 63;
const WORKER_BITS_MAX: u32 = 16;
const REGION_BITS_MAX: u32 = 16;
const SEQUENCE_BITS_MAX: u32 = 32;

/// 2026-01-01T00:00:00Z, the epoch of layouts that are nobody else's.
const OWN_EPOCH_MS: u64 = 1_767_225_600_000;
/// As far as a signed number of milliseconds reaches.
const END_MS_MAX: u64 = i64::MAX as u64;

const YEAR_MS: f64 = 365.25 * 86_400_000.0;

/// What is known by name.
struct Preset {
    name: &'static str,
    fields: &'static str,
    tick_ms: u32,
    epoch_ms: u64,
}

/// In the order in which `decode` tries them; see there for the reasons.
const PRESETS: &[Preset] = &[
    // IDs below 2^53, which JavaScript's numbers hold exactly.
    preset("js53", "time:41 worker:4 sequence:8", 1, OWN_EPOCH_MS),
    preset("default", "time:41 worker:10 sequence:12", 1, OWN_EPOCH_MS),
    preset("regional", "time:41 region:4 worker:6 sequence:12", 1, OWN_EPOCH_MS),
    // Published as worker 5 and process 5. The epoch is 2015-01-01T00:00:00Z.
    preset("discord", "time:42 worker:10 sequence:12", 1, 1_420_070_400_000),
    // Published as datacenter 5 and worker 5. The epoch is 2010-11-04T01:42:54.657Z.
    preset("twitter", "time:41 worker:10 sequence:12", 1, 1_288_834_974_657),
    // The worker is a logical shard. The epoch is 2011-08-24T21:07:01.721Z.
    preset("instagram", "time:41 worker:13 sequence:10", 1, 1_314_220_021_721),
    // The epoch is 2014-09-01T00:00:00Z.
    preset("sonyflake", "time:39 sequence:8 worker:16", 10, 1_409_529_600_000),
    preset("wide", "time:41 worker:11 sequence:12", 1, OWN_EPOCH_MS),
];

const fn preset(name: &'static str, fields: &'static str, tick_ms: u32, epoch_ms: u64) -> Preset {
    Preset { name, fields, tick_ms, epoch_ms }
}

/// A stretch of an ID's bits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Field {
    Time(u32),
    Region(u32),
    Worker(u32),
    Sequence(u32),
    /// Bits that are the same in every ID.
    Const {
        bits: u32,
        value: u64,
    },
}

/// What an ID says. A field that the layout does not have is zero.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Parts {
    pub tick: Tick,
    pub region: u32,
    pub worker: u32,
    pub sequence: u64,
}

/// Fields from the top bit down, the length of a tick, and the time of tick 0.
#[derive(Clone, Debug)]
pub struct Layout {
    name: Option<&'static str>,
    fields: Arc<[Field]>,
    tick_ms: u32,
    epoch_ms: u64,
    time: Slot,
    region: Slot,
    worker: Slot,
    sequence: Slot,
    /// The bits of constant fields as they are in every ID, and where they are.
    constant: u64,
    constant_mask: u64,
    bits: u32,
}

/// Name a preset or spell out a valid layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    #[error(
        "no layout is called `{}`: choose {}, or list fields from the top bit down, such as \
         `time:41 worker:10 sequence:12`", text.escape_debug(), Layout::preset_names().collect::<Vec<_>>().join(", ")
    )]
    Unknown { text: String },
    #[error(
        "`{}` is no field: write `time:BITS`, `region:BITS`, `worker:BITS`, `sequence:BITS` or \
         `const:BITS=VALUE`", text.escape_debug()
    )]
    Field { text: String },
    #[error("`{field}` has 1 to {bits_max} bits, not {bits}")]
    Bits { field: &'static str, bits: u32, bits_max: u32 },
    #[error("a layout has one `{field}`: remove the second")]
    Twice { field: &'static str },
    #[error("a layout needs a time: add `time:BITS`, such as `time:41` for 69 years of milliseconds")]
    NoTime,
    #[error("`sequence` comes below `time`, or the IDs of a worker would not increase: move it to the right")]
    SequenceAboveTime,
    #[error("an ID has 64 bits and this layout {bits}: take {} away", bits - 64)]
    TooWide { bits: u32 },
    #[error("{value} does not fit a constant of {bits} bits: give it more bits or another value")]
    Constant { bits: u32, value: u64 },
    #[error("a tick lasts at least one millisecond")]
    Tick,
    #[error(
        "the time would end beyond 2^63 milliseconds: use fewer time bits, a shorter tick or an earlier epoch"
    )]
    Endless,
}

impl Layout {
    /// Reads a preset's name, or fields from the top bit down: `time:41 region:4 worker:6 sequence:12`, also
    /// `const:3=5`. What is not stated is the preset's; without one, a tick is 1 ms and the epoch
    /// 2026-01-01T00:00:00Z.
    pub fn parse(text: &str, tick_ms: Option<u32>, epoch_ms: Option<u64>) -> Result<Self, LayoutError> {
        let preset = PRESETS.iter().find(|preset| preset.name == text);
        if preset.is_none() && !text.contains(':') {
            return Err(LayoutError::Unknown { text: shortened(text) });
        }
        let fields = preset.map_or(text, |preset| preset.fields);
        let fields = fields.split_ascii_whitespace().map(Field::parse).collect::<Result<_, _>>()?;
        let tick_ms = tick_ms.unwrap_or(preset.map_or(1, |preset| preset.tick_ms));
        let epoch_ms = epoch_ms.unwrap_or(preset.map_or(OWN_EPOCH_MS, |preset| preset.epoch_ms));
        Self::build(preset.map(|preset| preset.name), fields, tick_ms, epoch_ms)
    }

    /// The names that [`parse`](Self::parse) knows, likeliest first.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }

    fn build(
        name: Option<&'static str>,
        fields: Vec<Field>,
        tick_ms: u32,
        epoch_ms: u64,
    ) -> Result<Self, LayoutError> {
        let bits = fields.iter().map(|field| field.bits()).sum();
        if bits > u64::BITS {
            return Err(LayoutError::TooWide { bits });
        }
        let [mut time, mut region, mut worker, mut sequence] = [Slot::default(); 4];
        let (mut constant, mut constant_mask) = (0, 0);
        let mut shift = bits;
        for field in &fields {
            shift -= field.bits();
            let here = Slot { shift, bits: field.bits() };
            let slot = match field {
                Field::Time(_) => &mut time,
                Field::Region(_) => &mut region,
                Field::Worker(_) => &mut worker,
                Field::Sequence(_) => &mut sequence,
                Field::Const { value, .. } => {
                    constant |= here.write(*value);
                    constant_mask |= here.write(here.max());
                    continue;
                }
            };
            if slot.bits > 0 {
                return Err(LayoutError::Twice { field: field.word() });
            }
            *slot = here;
        }
        if time.bits == 0 {
            return Err(LayoutError::NoTime);
        }
        if sequence.shift > time.shift {
            return Err(LayoutError::SequenceAboveTime);
        }
        if tick_ms == 0 {
            return Err(LayoutError::Tick);
        }
        let end = time.max().checked_add(1).and_then(|ticks| ticks.checked_mul(u64::from(tick_ms)));
        if end.and_then(|life| life.checked_add(epoch_ms)).is_none_or(|end| end > END_MS_MAX) {
            return Err(LayoutError::Endless);
        }
        Ok(Self {
            name,
            fields: fields.into(),
            tick_ms,
            epoch_ms,
            time,
            region,
            worker,
            sequence,
            constant,
            constant_mask,
            bits,
        })
    }

    /// The preset it was read from. Its tick and epoch may have been stated otherwise.
    pub fn name(&self) -> Option<&'static str> {
        self.name
    }

    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// How many bits an ID has, at most 64.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Whether IDs fit a signed 64-bit integer, as in every database and in Java.
    pub fn signed_safe(&self) -> bool {
        self.bits <= SIGNED_BITS
    }

    /// Whether IDs of this layout may be issued. Those that a signed column would turn negative are
    /// decoded only.
    pub fn issues(&self) -> bool {
        self.signed_safe()
    }

    /// Whether IDs of all workers sort by time: nothing but constants is above it.
    pub fn sorts_by_time(&self) -> bool {
        let above = |slot: &Slot| slot.shift > self.time.shift;
        ![self.region, self.worker].iter().any(above)
    }

    /// How long a tick lasts.
    pub fn tick_ms(&self) -> u32 {
        self.tick_ms
    }

    /// When tick 0 began, in Unix time.
    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// How many ticks there are: valid ones are below.
    pub fn ticks(&self) -> u64 {
        self.time.max() + 1
    }

    /// How many regions; 1 without such a field.
    pub fn regions(&self) -> u32 {
        self.region.count()
    }

    /// How many workers, in each region; 1 without such a field.
    pub fn workers(&self) -> u32 {
        self.worker.count()
    }

    /// The last sequence number of a tick.
    pub fn sequence_max(&self) -> u64 {
        self.sequence.max()
    }

    /// How many IDs a worker can make in a tick.
    pub fn per_tick(&self) -> u64 {
        self.sequence.max() + 1
    }

    /// What separates IDs of one tick whose sequence numbers are neighbours.
    pub fn sequence_step(&self) -> u64 {
        self.sequence.write(1.min(self.sequence.max())).max(1)
    }

    pub fn lifetime_years(&self) -> f64 {
        (self.ends_at_ms() - self.epoch_ms) as f64 / YEAR_MS
    }

    /// When its last tick is over, in Unix time. With long ticks that may be after the year 9999, for which
    /// RFC 3339 has no words.
    pub fn ends_at_ms(&self) -> u64 {
        self.epoch_ms + self.ticks() * u64::from(self.tick_ms)
    }

    /// The tick of a Unix time; `None` before the epoch and after the end.
    pub fn tick_at(&self, unix_ms: u64) -> Option<Tick> {
        let tick = self.since_epoch(unix_ms.checked_sub(self.epoch_ms)?);
        (tick < self.ticks()).then_some(tick)
    }

    /// The same for a clock that may be wrong: tick 0 before the epoch, and after the end
    /// [`ticks`](Self::ticks), which no window holds.
    #[inline]
    pub fn tick_of_clock(&self, unix_ms: u64) -> Tick {
        self.since_epoch(unix_ms.saturating_sub(self.epoch_ms)).min(self.ticks())
    }

    /// When a tick begins, in Unix time.
    ///
    /// # Panics
    /// When the tick is above [`ticks`](Self::ticks), which is the end of the last one.
    pub fn unix_ms_of(&self, tick: Tick) -> u64 {
        assert!(tick <= self.ticks(), "tick {tick} is after the end of `{self}`");
        self.epoch_ms + tick * u64::from(self.tick_ms)
    }

    /// The ID of these parts.
    ///
    /// # Panics
    /// When a part does not fit its field: cut to size it would be another ID's. A field that the layout
    /// does not have holds 0 alone.
    pub fn compose(&self, tick: Tick, region: u32, worker: u32, sequence: u64) -> u64 {
        self.constant
            | self.time.write(tick)
            | self.region.write(region.into())
            | self.worker.write(worker.into())
            | self.sequence.write(sequence)
    }

    /// The parts of an ID; `None` if its constants differ or it has bits above the layout's.
    pub fn decompose(&self, id: u64) -> Option<Parts> {
        let outside = !Slot { shift: 0, bits: self.bits }.max();
        (id & (self.constant_mask | outside) == self.constant).then(|| Parts {
            tick: self.time.read(id),
            region: self.region.read_small(id),
            worker: self.worker.read_small(id),
            sequence: self.sequence.read(id),
        })
    }

    /// The first and the last ID that can have been made at `from ≤ time < to`, by any worker of any region;
    /// `None` if there is no such time. A tick that is only partly inside counts: every ID made at such a
    /// time lies in `first..=last`.
    pub fn range(&self, from_ms: u64, to_ms: u64) -> Option<(u64, u64)> {
        let to_ms = to_ms.min(self.ends_at_ms());
        let from_ms = from_ms.max(self.epoch_ms);
        if from_ms >= to_ms {
            return None;
        }
        let first = self.tick_at(from_ms)?;
        let last = self.tick_at(to_ms - 1)?;
        Some((
            self.compose(first, 0, 0, 0),
            self.compose(last, self.regions() - 1, self.workers() - 1, self.sequence_max()),
        ))
    }

    /// The bits that all IDs of a worker share, and the time and the sequence as they are placed: what a
    /// generator keeps at hand.
    pub(crate) fn stamp(&self, region: u32, worker: u32) -> (u64, Slot, Slot) {
        (self.compose(0, region, worker, 0), self.time, self.sequence)
    }

    #[inline]
    fn since_epoch(&self, ms: u64) -> Tick {
        // Most ticks are a millisecond, and a division costs more than everything else on the way to an ID.
        if self.tick_ms == 1 { ms } else { ms / u64::from(self.tick_ms) }
    }
}

impl PartialEq for Layout {
    /// By what it composes: a preset equals its fields spelled out.
    fn eq(&self, other: &Self) -> bool {
        (&self.fields, self.tick_ms, self.epoch_ms) == (&other.fields, other.tick_ms, other.epoch_ms)
    }
}

impl Eq for Layout {}

impl fmt::Display for Layout {
    /// The fields, as [`Layout::parse`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.fields.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{field}")?;
        }
        Ok(())
    }
}

impl Field {
    fn parse(text: &str) -> Result<Self, LayoutError> {
        let no_field = || LayoutError::Field { text: shortened(text) };
        let (word, rest) = text.split_once(':').ok_or_else(no_field)?;
        let (bits, value) = match rest.split_once('=') {
            Some((bits, value)) => (bits, Some(digits(value).ok_or_else(no_field)?)),
            None => (rest, None),
        };
        let bits = digits(bits).and_then(|bits| u32::try_from(bits).ok()).ok_or_else(no_field)?;
        let (field, bits_max) = match (word, value) {
            ("time", None) => (Self::Time(bits), SIGNED_BITS),
            ("region", None) => (Self::Region(bits), REGION_BITS_MAX),
            ("worker", None) => (Self::Worker(bits), WORKER_BITS_MAX),
            ("sequence", None) => (Self::Sequence(bits), SEQUENCE_BITS_MAX),
            ("const", Some(value)) => (Self::Const { bits, value }, SIGNED_BITS),
            _ => return Err(no_field()),
        };
        if !(1..=bits_max).contains(&bits) {
            return Err(LayoutError::Bits { field: field.word(), bits, bits_max });
        }
        match field {
            Self::Const { bits, value } if value >> bits > 0 => Err(LayoutError::Constant { bits, value }),
            _ => Ok(field),
        }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Time(bits)
            | Self::Region(bits)
            | Self::Worker(bits)
            | Self::Sequence(bits)
            | Self::Const { bits, .. } => bits,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Time(_) => "time",
            Self::Region(_) => "region",
            Self::Worker(_) => "worker",
            Self::Sequence(_) => "sequence",
            Self::Const { .. } => "const",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.word(), self.bits())?;
        match self {
            Self::Const { value, .. } => write!(f, "={value}"),
            _ => Ok(()),
        }
    }
}

/// Where a field is. No bits, no field: it reads as zero and holds nothing else.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Slot {
    shift: u32,
    bits: u32,
}

impl Slot {
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    #[inline]
    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    #[inline]
    pub(crate) fn max(self) -> u64 {
        if self.bits == 0 { 0 } else { u64::MAX >> (u64::BITS - self.bits) }
    }

    #[inline]
    pub(crate) fn write(self, value: u64) -> u64 {
        assert!(value <= self.max(), "{value} does not fit {} bits", self.bits);
        value << self.shift
    }

    fn read(self, id: u64) -> u64 {
        id >> self.shift & self.max()
    }

    /// For fields of at most 16 bits.
    fn read_small(self, id: u64) -> u32 {
        u32::try_from(self.read(id)).expect("regions and workers have at most 16 bits")
    }

    fn count(self) -> u32 {
        u32::try_from(self.max() + 1).expect("regions and workers have at most 16 bits")
    }
}

/// Plain decimal digits, without a sign.
fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// What a message quotes of a text that may be anything.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        Layout::parse(text, None, None).unwrap()
    }

    #[test]
    fn every_preset_is_valid_and_reads_back_from_its_fields() {
        for preset in PRESETS {
            let named = layout(preset.name);
            assert_eq!(named.name(), Some(preset.name));
            assert_eq!(named.to_string(), preset.fields);
            let spelled = Layout::parse(preset.fields, Some(preset.tick_ms), Some(preset.epoch_ms)).unwrap();
            assert_eq!(spelled, named);
            assert_eq!(spelled.name(), None);
        }
    }

    #[test]
    fn a_stated_tick_or_epoch_replaces_the_presets() {
        let slow = Layout::parse("twitter", Some(1000), Some(0)).unwrap();
        assert_eq!((slow.tick_ms(), slow.epoch_ms()), (1000, 0));
        assert_ne!(slow, layout("twitter"));
        assert_eq!(slow.tick_at(1999), Some(1));
        assert_eq!(slow.unix_ms_of(1), 1000);
    }

    #[test]
    fn times_outside_its_life_have_no_tick() {
        let layout = layout("sonyflake");
        assert_eq!(layout.tick_at(layout.epoch_ms() - 1), None);
        assert_eq!(layout.tick_at(layout.epoch_ms() + 9), Some(0));
        assert_eq!(layout.tick_at(layout.ends_at_ms() - 1), Some(layout.ticks() - 1));
        assert_eq!(layout.tick_at(layout.ends_at_ms()), None);
        assert_eq!(layout.tick_of_clock(0), 0);
        assert_eq!(layout.tick_of_clock(u64::MAX), layout.ticks());
    }

    #[test]
    fn a_constant_is_in_every_id_and_asked_of_every_id() {
        let layout = layout("const:3=5 time:41 worker:6 sequence:12");
        let id = layout.compose(1, 0, 2, 3);
        assert_eq!(id >> 59, 5);
        assert_eq!(layout.decompose(id), Some(Parts { tick: 1, region: 0, worker: 2, sequence: 3 }));
        assert_eq!(layout.decompose(id ^ 1 << 59), None);
        assert_eq!(layout.decompose(id | 1 << 62), None, "that bit is above the layout");
    }

    #[test]
    fn what_a_layout_lacks_it_has_once() {
        let bare = layout("time:41");
        assert_eq!((bare.regions(), bare.workers(), bare.per_tick()), (1, 1, 1));
        assert_eq!(bare.compose(7, 0, 0, 0), 7);
        assert_eq!(bare.sequence_step(), 1);
    }

    #[test]
    #[should_panic = "1024 does not fit 10 bits"]
    fn a_part_that_does_not_fit_is_not_cut_to_size() {
        layout("default").compose(0, 0, 1024, 0);
    }

    #[test]
    #[should_panic = "1 does not fit 0 bits"]
    fn a_field_that_is_not_there_holds_nothing() {
        layout("default").compose(0, 1, 0, 0);
    }

    #[test]
    fn a_layout_with_something_above_the_time_says_that_it_does_not_sort() {
        assert!(layout("const:3=5 time:41 sequence:12").sorts_by_time());
        assert!(layout("sonyflake").sorts_by_time());
        assert!(!layout("region:4 time:41 worker:6 sequence:12").sorts_by_time());
    }

    #[test]
    fn a_wrong_layout_is_refused_with_its_reason() {
        let refused = |text: &str| Layout::parse(text, None, None).unwrap_err();
        assert_eq!(refused("twiter"), LayoutError::Unknown { text: "twiter".into() });
        assert_eq!(refused(""), LayoutError::Unknown { text: String::new() });
        for text in ["time:", "time:+4", "time:4=1", "const:3", "const:3=", "shard:4", "time:99999999999"] {
            assert_eq!(refused(text), LayoutError::Field { text: text.into() });
        }
        assert_eq!(refused("time:41 worker"), LayoutError::Field { text: "worker".into() });
        assert_eq!(refused("time:0 sequence:12"), LayoutError::Bits { field: "time", bits: 0, bits_max: 63 });
        assert_eq!(
            refused("time:41 worker:17"),
            LayoutError::Bits { field: "worker", bits: 17, bits_max: 16 }
        );
        assert_eq!(refused("time:41 time:1"), LayoutError::Twice { field: "time" });
        assert_eq!(refused("time:41 worker:4 worker:4"), LayoutError::Twice { field: "worker" });
        assert_eq!(refused("worker:10 sequence:12"), LayoutError::NoTime);
        assert_eq!(refused("sequence:12 time:41"), LayoutError::SequenceAboveTime);
        assert_eq!(refused("time:41 worker:12 sequence:12"), LayoutError::TooWide { bits: 65 });
        assert_eq!(refused("time:41 const:3=8"), LayoutError::Constant { bits: 3, value: 8 });
        assert_eq!(refused("time:63"), LayoutError::Endless);
        assert_eq!(Layout::parse("time:41", Some(0), None), Err(LayoutError::Tick));
        assert_eq!(Layout::parse("time:41", Some(u32::MAX), None), Err(LayoutError::Endless));
        assert_eq!(Layout::parse("time:41", None, Some(u64::MAX)), Err(LayoutError::Endless));
        assert_eq!(
            refused("time:41 worker:12 sequence:12").to_string(),
            "an ID has 64 bits and this layout 65: take 1 away"
        );
    }
}
