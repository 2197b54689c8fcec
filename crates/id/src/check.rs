//! One more symbol that catches typing errors: ISO 7064, hybrid system MOD N+1,N.
//!
//! It detects every single wrong symbol and nearly every swap of neighbours, and the check symbol comes
//! from the same alphabet as the rest. N must be even: the sum is doubled modulo N+1 at every step, and
//! doubling is invertible only modulo an odd number. With N odd two different sums would double to the
//! same one, and single errors would pass unseen.

use crate::alphabet::Alphabet;

/// The sum a body leaves behind, 1..=N. `None` if a byte is no symbol.
fn sum(alphabet: &Alphabet, body: &[u8]) -> Option<u32> {
    let n = alphabet.radix();
    let mut product = n;
    for byte in body {
        // The standard's two remainders, without division or branch: of a value and the value less the
        // modulus the smaller is right, because where nothing may be subtracted the difference wraps. The
        // sum is 1 to 2N−1, and a remainder of 0 counts as N; doubled it is even and at most 2N.
        let sum = product + alphabet.value(*byte)? - 1;
        let doubled = (sum.min(sum.wrapping_sub(n)) + 1) * 2;
        product = doubled.min(doubled.wrapping_sub(n + 1));
    }
    Some(product)
}

/// The check symbol of a body, or `None` if the body has a byte that is no symbol.
///
/// # Panics
/// When the alphabet's size is odd.
pub fn check_symbol(alphabet: &Alphabet, body: &[u8]) -> Option<u8> {
    let n = alphabet.radix();
    assert!(n.is_multiple_of(2), "MOD N+1,N needs an even N");
    sum(alphabet, body).map(|sum| alphabet.symbol((n + 1 - sum) % n))
}

/// Whether the last symbol checks all before it. Read as leniently as the alphabet is.
///
/// # Panics
/// When the alphabet's size is odd.
pub fn verify_check(alphabet: &Alphabet, checked: &[u8]) -> bool {
    let Some((last, body)) = checked.split_last() else { return false };
    let expected = check_symbol(alphabet, body).and_then(|symbol| alphabet.value(symbol));
    expected.is_some() && expected == alphabet.value(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alphabet(text: &str) -> Alphabet {
        Alphabet::parse(text).unwrap()
    }

    #[test]
    fn every_single_wrong_symbol_is_caught() {
        for name in ["decimal", "base36", "base62", "crockford32", "custom:ab"] {
            let alphabet = alphabet(name);
            let mut key: Vec<u8> = (0..6).map(|i| alphabet.symbol(i * 7 % alphabet.radix())).collect();
            key.push(check_symbol(&alphabet, &key).unwrap());
            assert!(verify_check(&alphabet, &key));
            for at in 0..key.len() {
                for value in 0..alphabet.radix() {
                    let mut wrong = key.clone();
                    wrong[at] = alphabet.symbol(value);
                    assert_eq!(verify_check(&alphabet, &wrong), wrong == key, "{name} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_text_with_foreign_bytes_or_none_at_all_never_checks() {
        let decimal = alphabet("decimal");
        assert_eq!(check_symbol(&decimal, b"12a"), None);
        assert!(!verify_check(&decimal, b"12a4"));
        assert!(!verify_check(&decimal, b"123x"));
        assert!(!verify_check(&decimal, b""));
    }

    #[test]
    #[should_panic(expected = "even")]
    fn an_odd_alphabet_has_no_check_symbol() {
        check_symbol(&alphabet("custom:abc"), b"a");
    }
}
