//! Quantities as people write them: `60s` is a time, `20M` are keys, `4MiB` are bytes.
//!
//! Lower case is time, upper case is keys: `20m` is twenty minutes, `20M` twenty million.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {wanted}", text.escape_debug())]
pub struct QuantityError {
    text: String,
    wanted: &'static str,
}

/// The number in front and the unit behind it.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// `units` from small to large: the value in the largest one that divides it.
fn spell(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let largest = units.iter().rev().find(|(_, size)| value != 0 && value.is_multiple_of(*size));
    let (unit, size) = largest.unwrap_or(&units[0]);
    write!(f, "{}{unit}", value / size)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $units:ident: $list:expr, $wanted:literal, bare: $bare:literal) => {
        const $units: &[(&str, u64)] = &$list;

        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                let wrong = || QuantityError { text: text.to_owned(), wanted: $wanted };
                let (value, unit) = split(text.trim()).ok_or_else(wrong)?;
                let (_, size) = $units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
                value.checked_mul(*size).map(Self).ok_or_else(wrong)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                spell(f, self.0, $units)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if $bare { serializer.serialize_u64(self.0) } else { serializer.collect_str(self) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($wanted)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$name, E> {
                        if $bare { Ok($name(value)) } else { Err(E::invalid_type(de::Unexpected::Unsigned(value), &self)) }
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$name, E> {
                        match u64::try_from(value) {
                            Ok(value) => self.visit_u64(value),
                            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
                        }
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }
    };
}

quantity!(
    /// Milliseconds.
    Span, SPANS: [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)],
    "a time such as \"500ms\", \"60s\", \"2h\" or \"7d\"", bare: false
);
quantity!(
    /// How many keys.
    Count, COUNTS: [("", 1), ("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)],
    "a number of keys such as 1024, \"20M\" or \"3G\" (upper case: lower case is time)", bare: true
);
quantity!(
    /// Bytes.
    Size, SIZES: [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
    "a size such as \"64KiB\" or \"4MiB\"", bare: false
);

impl Span {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// A mark on a level: in keys, or in the time they last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Keys(Count),
    Time(Span),
}

impl Mark {
    /// Whether it lies above `other`; what is in keys cannot be told from what is in time.
    pub fn is_above(self, other: Self) -> bool {
        match (self, other) {
            (Self::Keys(this), Self::Keys(other)) => this > other,
            (Self::Time(this), Self::Time(other)) => this > other,
            _ => false,
        }
    }
}

impl FromStr for Mark {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wanted = "a number of keys such as 5000 or \"20M\", or a time such as \"2h\"";
        let time = || text.parse().map(Self::Time);
        let wrong = |_| QuantityError { text: text.to_owned(), wanted };
        text.parse().map(Self::Keys).or_else(|_: QuantityError| time()).map_err(wrong)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(keys) => keys.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(keys) => Ok(Self::Keys(Count(keys))),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_case_is_time_and_upper_case_is_keys() {
        assert_eq!("20m".parse(), Ok(Span(1_200_000)));
        assert_eq!("20M".parse(), Ok(Count(20_000_000)));
        assert!("20M".parse::<Span>().is_err() && "20m".parse::<Count>().is_err());
        assert!(
            "".parse::<Span>().is_err() && "s".parse::<Span>().is_err() && "-1s".parse::<Span>().is_err()
        );
        assert!("99999999999999999999T".parse::<Count>().is_err());
    }

    #[test]
    fn is_spelled_in_the_largest_unit_that_divides_it() {
        let spelled = [Span(60_000).to_string(), Span(1500).to_string(), Span(0).to_string()];
        assert_eq!(spelled, ["1m", "1500ms", "0ms"]);
        assert_eq!([Count(1024).to_string(), Count(100_000_000).to_string()], ["1024", "100M"]);
        assert_eq!(Size(65536).to_string(), "64KiB");
    }

    #[test]
    fn a_mark_is_in_keys_or_in_time() {
        assert_eq!("20M".parse(), Ok(Mark::Keys(Count(20_000_000))));
        assert_eq!("2h".parse(), Ok(Mark::Time(Span(7_200_000))));
        assert_eq!(serde_json::from_str::<Mark>("5000").unwrap(), Mark::Keys(Count(5000)));
        assert_eq!(serde_json::to_string(&Mark::Time(Span(7_200_000))).unwrap(), "\"2h\"");
        for wrong in ["\"\"", "\"2x\"", "-1", "1.5", "true"] {
            assert!(serde_json::from_str::<Mark>(wrong).is_err(), "{wrong}");
        }
    }
}
