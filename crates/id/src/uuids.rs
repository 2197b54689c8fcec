//! UUIDs and ULIDs: keys that no ledger counts.
//!
//! Nothing is reserved for them; that two never meet rests on the randomness that the caller passes in. What
//! this file adds is order: [`Uuid7`] and [`UlidMonotonic`] are strictly increasing, whatever the clock does.
//! State, time and randomness are arguments; the `uuid` and `ulid` crates write the text.

use ulid::Ulid;
use uuid::{Builder, Uuid};

use crate::definition::FreeScheme;

/// Bytes of a UUID or a ULID.
pub type Bytes16 = [u8; 16];

/// How long a UUID is as text.
pub const UUID_LENGTH: usize = 36;
/// How long a ULID is as text.
pub const ULID_LENGTH: usize = 26;

/// UUIDv7 and ULID have 48 bits of milliseconds, until the year 10889.
const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Bits of a UUIDv7 that count, right below the time: `rand_a` and the top of `rand_b`.
const COUNTER_BITS: u32 = 42;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
/// A counter starts in the lower half, so that it does not overflow right after a start.
const COUNTER_START_MAX: u64 = COUNTER_MAX >> 1;
/// The rest of `rand_b`, new in each UUID.
const TAIL_BITS: u32 = 32;

// RFC 9562: 12 bits of rand_a and 62 of rand_b.
const _: () = assert!(COUNTER_BITS + TAIL_BITS == 12 + 62);

/// A UUID of version 4 from 16 random bytes, six bits of which are replaced.
pub fn uuid4(random: Bytes16) -> Bytes16 {
    Builder::from_random_bytes(random).into_uuid().into_bytes()
}

/// UUIDs of version 7, each above the one before (RFC 9562, section 6.2, method 1).
///
/// Each millisecond begins with a random counter of 42 bits, the top one clear; every further UUID of the
/// millisecond counts one up. 32 random bits follow, new each time. While the clock is behind, the last
/// millisecond goes on; a counter that overflows moves on to the next millisecond.
#[derive(Clone, Debug, Default)]
pub struct Uuid7 {
    /// Time and counter of the last one. Zero before the first, which then counts from the year 1970: it is
    /// above nothing that was made.
    last: (u64, u64),
}

impl Uuid7 {
    /// # Panics
    /// After the year 10889.
    pub fn next(&mut self, now_ms: u64, random: [u8; 10]) -> Bytes16 {
        let random = Self::split(random);
        let (last_ms, counter) = self.last;
        let (ms, counter) = if now_ms > last_ms {
            (now_ms, random.counter)
        } else if counter < COUNTER_MAX {
            (last_ms, counter + 1)
        } else {
            (last_ms + 1, random.counter)
        };
        assert!(ms <= TIME_MS_MAX, "{ms} ms are more than 48 bits hold");
        assert!((ms, counter) > self.last);
        self.last = (ms, counter);
        let (rand_a, counter_low) = (counter >> 30, counter & ((1 << 30) - 1));
        let rand_b = counter_low << TAIL_BITS | u64::from(random.tail);
        let bits =
            u128::from(ms) << 80 | 7 << 76 | u128::from(rand_a) << 64 | 0b10 << 62 | u128::from(rand_b);
        bits.to_be_bytes()
    }

    fn split(random: [u8; 10]) -> Random {
        let [a, b, c, d, e, f, tail @ ..] = random;
        let counter = u64::from_be_bytes([0, 0, a, b, c, d, e, f]) & COUNTER_START_MAX;
        Random { counter, tail: u32::from_be_bytes(tail) }
    }
}

struct Random {
    counter: u64,
    tail: u32,
}

/// ULIDs, each above the one before (the specification's "monotonicity").
///
/// Within a millisecond, and while the clock is behind, the random part counts one up.
#[derive(Clone, Debug, Default)]
pub struct UlidMonotonic {
    last: Option<Ulid>,
}

impl UlidMonotonic {
    /// `None` if the random part would overflow, as the specification demands: try again in the next
    /// millisecond. It starts at random among 2^80 and counts by one, so this is a branch nobody sees.
    ///
    /// # Panics
    /// After the year 10889.
    pub fn next(&mut self, now_ms: u64, random: [u8; 10]) -> Option<Bytes16> {
        assert!(now_ms <= TIME_MS_MAX, "{now_ms} ms are more than 48 bits hold");
        let next = match self.last {
            Some(last) if now_ms <= last.timestamp_ms() => last.increment().ok()?,
            _ => {
                let mut low = [0; 16];
                low[6..].copy_from_slice(&random);
                Ulid::from_parts(now_ms, u128::from_be_bytes(low))
            }
        };
        assert!(self.last.is_none_or(|last| next > last));
        self.last = Some(next);
        Some(next.to_bytes())
    }
}

impl FreeScheme {
    /// The one spelling of what may be written in several: UUIDs in either case, without hyphens, in braces.
    pub fn canonical(self, text: &str) -> Option<String> {
        match self {
            Self::Uuid4 | Self::Uuid7 => Uuid::try_parse(text).ok().map(|uuid| uuid.hyphenated().to_string()),
            // 26 symbols are 130 bits; the crate would drop the two that are too many.
            Self::Ulid if !text.starts_with(|first| ('0'..='7').contains(&first)) => None,
            Self::Ulid => Ulid::from_string(text).ok().map(|ulid| ulid.to_string()),
        }
    }
}

/// The hyphenated text of a UUID, in lower case.
pub fn spell_uuid(bytes: Bytes16) -> [u8; UUID_LENGTH] {
    let mut text = [0; UUID_LENGTH];
    Uuid::from_bytes(bytes).hyphenated().encode_lower(&mut text);
    text
}

/// The text of a ULID: Crockford's base 32, in upper case.
pub fn spell_ulid(bytes: Bytes16) -> [u8; ULID_LENGTH] {
    let mut text = [0; ULID_LENGTH];
    Ulid::from_bytes(bytes).array_to_str(&mut text);
    text
}
