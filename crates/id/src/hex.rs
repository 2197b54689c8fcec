//! Bytes as lower-case hexadecimal, for secrets at rest and fingerprints.

/// Two digits a byte.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

/// `None` unless the text is exactly `N` bytes in lower case: one value has one spelling.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    fn digit(byte: u8) -> Option<u8> {
        match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_back_what_it_wrote_and_nothing_else() {
        assert_eq!(encode(&[0x00, 0x9f, 0xff]), "009fff");
        assert_eq!(decode::<3>("009fff"), Some([0x00, 0x9f, 0xff]));
        for wrong in ["", "009ff", "009fff0", "009fff00", "009FFF", "00 9ff", "00é9f"] {
            assert_eq!(decode::<3>(wrong), None, "{wrong}");
        }
    }
}
