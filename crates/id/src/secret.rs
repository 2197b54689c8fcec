//! The key of a keyspace's shuffle.
//!
//! Made once, at creation, by a crate that has entropy; stored with the definition; shown to nobody.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::hex;

/// 32 secret bytes. `Debug` does not print them; `Serialize` does, because the ledger must keep them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; Secret::LENGTH]);

impl Secret {
    /// How many bytes of entropy a secret takes.
    pub const LENGTH: usize = 32;

    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    pub(crate) fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text).map(Self)
    }

    /// Tells two secrets apart without telling either: 256 random bits cannot be guessed from their hash.
    pub(crate) fn sha256_hex(&self) -> String {
        hex::encode(&Sha256::digest(self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text itself stays out of the message: it may be a secret with one bad digit.
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| de::Error::custom("a secret is 64 lower-case hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", Secret::from_bytes([7; 32])), "Secret(…)");
    }

    #[test]
    fn a_secret_reads_back_and_a_bad_one_is_refused_without_being_repeated() {
        let secret = Secret::from_bytes([0xab; 32]);
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Secret>(&json).unwrap(), secret);
        let error = serde_json::from_str::<Secret>("\"abcdef\"").unwrap_err().to_string();
        assert!(!error.contains("abcdef"), "{error}");
    }
}
