//! Patterns of keyspace names, in which `*` stands for anything, or nothing.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Box<[u8]>);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.as_bytes().into())
    }

    /// Whether it stands for every name there can be.
    pub(super) fn is_everything(&self) -> bool {
        self.0.iter().all(|byte| *byte == b'*') && !self.0.is_empty()
    }

    /// Never looks back further than the last `*`, so a pattern costs at most its length times the name's.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let pattern = &*self.0;
        let (mut at, mut seen) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(byte) if *byte == name[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => {
                    let Some((star_at, taken)) = star else { return false };
                    // The last `*` has to stand for one more.
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    seen = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_or_nothing() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name.as_bytes());
        for (pattern, name) in [
            ("links", "links"),
            ("*", "links"),
            ("promo*", "promo"),
            ("promo*", "promo-2026"),
            ("*-eu", "links-eu"),
            ("a*b*c", "a-b-b-c"),
            ("a**c", "abc"),
            ("*a*", "bab"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("links", "link"),
            ("links", "links2"),
            ("promo*", "prom"),
            ("promo*", "a-promo"),
            ("*-eu", "links-eu2"),
            ("a*b*c", "a-c-b"),
            ("a", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!(Pattern::new("**").is_everything() && !Pattern::new("a*").is_everything());
    }
}
