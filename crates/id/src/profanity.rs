//! The built-in blocklist, `"default"`: English profanity and slurs that senders of links and vouchers
//! commonly block.
//!
//! Definitions name it and are frozen, so the list is frozen too: a word added here would make `inspect`
//! call a key that was sent out blocked. A better list gets a name of its own. Words that contain a shorter
//! one of the list are left out, since a match anywhere finds them already.

/// Lower case, in alphabetical order.
pub(crate) const PROFANITY: &[&str] = &[
    "anal", "anus", "arse", "ass", "bastard", "bitch", "blowjob", "bollock", "boner", "boob", "bugger",
    "bukkake", "butt", "chink", "clit", "cock", "coon", "crap", "cum", "cunt", "damn", "dick", "dildo",
    "dyke", "enema", "erotic", "fag", "fart", "felch", "fellat", "femdom", "fuck", "fuk", "gangbang", "gook",
    "hentai", "hitler", "homo", "incest", "jerkoff", "jizz", "kike", "kkk", "milf", "molest", "nazi",
    "negro", "nigga", "nigger", "nude", "orgasm", "orgy", "paki", "pecker", "pedo", "penis", "piss", "poop",
    "porn", "prick", "pube", "puss", "queef", "queer", "rape", "rapist", "rectum", "retard", "rimjob",
    "scat", "schlong", "scrotum", "semen", "sex", "shemale", "shit", "slut", "smut", "spastic", "sperm",
    "spic", "suck", "testic", "tits", "titt", "tosser", "tranny", "turd", "twat", "vagina", "vulva", "wank",
    "wetback", "whore", "xxx",
];

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::hex;

    #[test]
    fn the_list_is_sorted_and_no_word_hides_another() {
        assert!(PROFANITY.is_sorted());
        for word in PROFANITY {
            for other in PROFANITY.iter().filter(|other| *other != word) {
                assert!(!word.contains(other), "{word} already contains {other}");
            }
        }
    }

    #[test]
    fn the_list_is_frozen() {
        let digest = hex::encode(&Sha256::digest(PROFANITY.join(" ")));
        assert_eq!(digest, "2d3808c773cd226ce121e8bf90472a27ace3ea175a7d903c349ae1711bd65b41");
    }
}
