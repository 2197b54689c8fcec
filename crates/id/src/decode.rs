//! What an ID from anywhere says: its time, and where it comes from if its layout is known.
//!
//! A UUID or a ULID shows what it is. A plain number does not: it may be read by many layouts, so each
//! *plausible* reading is given, one whose time is between the layout's epoch and tomorrow. They are in
//! order of likelihood, by a fixed rule:
//!
//! 1. `js53`, `default`, `regional`, which Keymill issues: their epoch is young, so few foreign IDs fit them by
//!    chance, and whoever asks here is likely to hold one. `js53` first, since its IDs are the smallest.
//! 2. `discord` and `twitter`, which are met most and differ in nothing but the epoch. The lower five bits of
//!    the worker are a process at Discord, nearly always one of the first, and a worker at Twitter, any of 32:
//!    `discord` comes first where they are below 3, else `twitter`.
//! 3. `instagram`, `sonyflake`, which are met less.
//! 4. `wide`, which nobody is known to issue.

use std::fmt;

use ulid::Ulid;
use uuid::{Uuid, Variant};

use crate::layout::Layout;

const DAY_MS: u64 = 86_400_000;
/// 10000-01-01T00:00:00Z: RFC 3339 has no words for what comes after.
const UNSPEAKABLE_MS: u64 = 253_402_300_800_000;

/// Process numbers that Discord's IDs are seen to have. A rule of thumb, and it decides about an order alone.
const DISCORD_PROCESSES: u32 = 3;

/// From the start of the Gregorian calendar, 1582-10-15, to the Unix epoch, in the 100 ns ticks of UUIDs.
const GREGORIAN_TO_UNIX: u64 = 0x01b2_1dd2_1381_4000;
const GREGORIAN_TICKS_PER_MS: u64 = 10_000;

/// What sort of ID a reading takes it for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Snowflake,
    Uuid,
    Ulid,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Snowflake => "snowflake",
            Self::Uuid => "uuid",
            Self::Ulid => "ulid",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One way to read an ID. What does not apply is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    pub kind: Kind,
    /// The preset's name, or the fields of a layout without one.
    pub layout: Option<String>,
    /// The layout spelled out, from the top bit down: `time:41 worker:10 sequence:12`.
    pub fields: Option<String>,
    /// Of a UUID as in RFC 9562.
    pub version: Option<u8>,
    /// In Unix time, from 1970 to the end of the year 9999; of UUIDs, versions 1, 6 and 7 have one.
    pub time_ms: Option<u64>,
    pub region: Option<u32>,
    pub worker: Option<u32>,
    pub sequence: Option<u64>,
    /// Whether IDs of the layout fit a signed 64-bit integer.
    pub signed_safe: Option<bool>,
}

impl Reading {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            layout: None,
            fields: None,
            version: None,
            time_ms: None,
            region: None,
            worker: None,
            sequence: None,
            signed_safe: None,
        }
    }
}

/// Every way to read `text`, likeliest first; none if it is no ID.
///
/// A number is read by `layout` alone if there is one, plausible or not, since whoever names it knows; else
/// by each preset that is plausible at `now_ms`, in Unix time.
pub fn readings(text: &str, layout: Option<&Layout>, now_ms: u64) -> Vec<Reading> {
    if let Some(id) = number(text) {
        return match layout {
            Some(layout) => snowflake(id, layout).into_iter().collect(),
            None => plausible(id, now_ms),
        };
    }
    if let Ok(uuid) = Uuid::try_parse(text) {
        return vec![read_uuid(uuid)];
    }
    read_ulid(text).into_iter().collect()
}

/// Decimal digits as they are printed: a leading zero makes it another text, perhaps a ULID.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn plausible(id: u64, now_ms: u64) -> Vec<Reading> {
    let presets = Layout::preset_names()
        .map(|name| Layout::parse(name, None, None).expect("presets are valid"))
        .filter_map(|layout| snowflake(id, &layout));
    // No reading is before its layout's epoch, so only the future is left to exclude.
    let latest = now_ms.saturating_add(DAY_MS);
    let mut readings: Vec<_> =
        presets.filter(|reading| reading.time_ms.is_some_and(|time| time <= latest)).collect();
    let is = |reading: &Reading, name| reading.layout.as_deref() == Some(name);
    let discord = readings.iter().position(|reading| is(reading, "discord"));
    let twitter = readings.iter().position(|reading| is(reading, "twitter"));
    if let (Some(discord), Some(twitter)) = (discord, twitter)
        && readings[discord].worker.is_some_and(|worker| worker % 32 >= DISCORD_PROCESSES)
    {
        readings.swap(discord, twitter);
    }
    readings
}

fn snowflake(id: u64, layout: &Layout) -> Option<Reading> {
    let parts = layout.decompose(id)?;
    Some(Reading {
        layout: Some(layout.name().map_or_else(|| layout.to_string(), str::to_owned)),
        fields: Some(layout.to_string()),
        time_ms: speakable(layout.unix_ms_of(parts.tick)),
        region: (layout.regions() > 1).then_some(parts.region),
        worker: (layout.workers() > 1).then_some(parts.worker),
        sequence: (layout.per_tick() > 1).then_some(parts.sequence),
        signed_safe: Some(layout.signed_safe()),
        ..Reading::of(Kind::Snowflake)
    })
}

fn read_uuid(uuid: Uuid) -> Reading {
    // Other variants, and the nil and max UUIDs, have no version, whatever is in its place.
    let standard = uuid.get_variant() == Variant::RFC4122;
    let version = u8::try_from(uuid.get_version_num()).ok().filter(|_| standard);
    let bits = uuid.as_u128();
    let slice = |shift: u32, width: u32| {
        u64::try_from(bits >> shift & ((1 << width) - 1)).expect("no slice is wider than 48 bits")
    };
    let time_ms = match version {
        Some(1) => gregorian_ms(slice(64, 12) << 48 | slice(80, 16) << 32 | slice(96, 32)),
        Some(6) => gregorian_ms(slice(80, 48) << 12 | slice(64, 12)),
        Some(7) => speakable(slice(80, 48)),
        _ => None,
    };
    Reading { version, time_ms, ..Reading::of(Kind::Uuid) }
}

fn gregorian_ms(ticks: u64) -> Option<u64> {
    Some(ticks.checked_sub(GREGORIAN_TO_UNIX)? / GREGORIAN_TICKS_PER_MS)
}

/// 48 bits of milliseconds, and 41 of seconds, reach beyond what can be said.
fn speakable(time_ms: u64) -> Option<u64> {
    (time_ms < UNSPEAKABLE_MS).then_some(time_ms)
}

fn read_ulid(text: &str) -> Option<Reading> {
    // 26 symbols are 130 bits; the crate would drop the two that are too many.
    if !text.starts_with(|first| ('0'..='7').contains(&first)) {
        return None;
    }
    let ulid = Ulid::from_string(text).ok()?;
    Some(Reading { time_ms: speakable(ulid.timestamp_ms()), ..Reading::of(Kind::Ulid) })
}
