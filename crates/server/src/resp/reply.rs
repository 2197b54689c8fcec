//! Answers into bytes, in either version of the protocol.

use keymill_api::Refusal;

/// Which version a connection speaks; HELLO changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// The longest text of an error; what a caller sent is never repeated without end.
const ERROR_TEXT_MAX: usize = 512;

/// Appends answers to what a connection has yet to send.
#[derive(Debug)]
pub(crate) struct Reply<'o> {
    pub out: &'o mut Vec<u8>,
    pub protocol: Protocol,
}

impl Reply<'_> {
    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short word of ours, without CR or LF.
    pub(crate) fn simple(&mut self, word: &'static str) {
        self.out.push(b'+');
        self.out.extend_from_slice(word.as_bytes());
        self.end();
    }

    /// `-PREFIX text`. Whatever of it a caller sent cannot end the line.
    pub(crate) fn error(&mut self, prefix: &str, text: &str) {
        self.out.push(b'-');
        self.out.extend_from_slice(prefix.as_bytes());
        self.out.push(b' ');
        let text = &text[..text.floor_char_boundary(ERROR_TEXT_MAX)];
        self.out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.end();
    }

    pub(crate) fn refusal(&mut self, refusal: &Refusal) {
        self.error(refusal.code.spelled().2, &refusal.detail);
    }

    pub(crate) fn integer(&mut self, value: u64) {
        self.header(b':', value);
    }

    /// An integer that is spelled already.
    #[inline]
    pub(crate) fn digits(&mut self, digits: &[u8]) {
        self.out.push(b':');
        self.out.extend_from_slice(digits);
        self.end();
    }

    /// How Redis spells an arity that is a lower bound: as a negative number.
    pub(crate) fn at_least(&mut self, count: u64) {
        self.out.extend_from_slice(b":-");
        self.out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
        self.end();
    }

    #[inline]
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.end();
    }

    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The next `length` answers are its elements.
    pub(crate) fn array(&mut self, length: usize) {
        self.header(b'*', length as u64);
    }

    /// As an array, but in no particular order.
    pub(crate) fn set(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, length as u64);
    }

    /// The next `pairs` pairs of answers are names and values.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * pairs as u64),
            Protocol::Resp3 => self.header(b'%', pairs as u64),
        }
    }

    /// Keys of `stride` bytes each that lie side by side, one bulk string per key.
    pub(crate) fn keys(&mut self, joined: &[u8], stride: usize) {
        macro_rules! of_known_width {
            ($($width:literal)*) => {
                match stride {
                    $($width => bulks::<$width>(self.out, joined),)*
                    _ => joined.chunks_exact(stride).for_each(|key| self.bulk(key)),
                }
            };
        }
        of_known_width!(4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 26 36);
    }

    #[inline]
    fn header(&mut self, kind: u8, value: u64) {
        self.out.push(kind);
        match u8::try_from(value) {
            // Nearly every length there is.
            Ok(digit @ 0..=9) => self.out.push(b'0' + digit),
            _ => self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        }
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Bulk strings of one width. A width that is known when this is compiled makes each copy a few
/// instructions instead of a call, and keys are most of what is ever sent.
fn bulks<const WIDTH: usize>(out: &mut Vec<u8>, joined: &[u8]) {
    let header = const { bulk_header(WIDTH) };
    let (keys, _) = joined.as_chunks::<WIDTH>();
    let head = const { if WIDTH < 10 { 4 } else { 5 } };
    let each = head + WIDTH + 2;
    let start = out.len();
    out.resize(start + keys.len() * each, b'\n');
    for (slot, key) in out[start..].chunks_exact_mut(each).zip(keys) {
        slot[..head].copy_from_slice(&header[..head]);
        slot[head..head + WIDTH].copy_from_slice(key);
        slot[head + WIDTH] = b'\r';
    }
}

/// `$7\r\n` or `$12\r\n`.
#[expect(clippy::cast_possible_truncation, reason = "a digit")]
const fn bulk_header(width: usize) -> [u8; 5] {
    assert!(width < 100);
    let (tens, ones) = (b'0' + (width / 10) as u8, b'0' + (width % 10) as u8);
    if width < 10 { [b'$', ones, b'\r', b'\n', 0] } else { [b'$', tens, ones, b'\r', b'\n'] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply { out: &mut out, protocol });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_versions_differ_where_the_protocol_says_so() {
        let all = |reply: &mut Reply<'_>| {
            reply.null();
            reply.map(2);
            reply.set(3);
            reply.array(10);
            reply.integer(u64::MAX);
            reply.bulk(b"");
        };
        assert_eq!(
            written(Protocol::Resp2, all),
            "$-1\r\n*4\r\n*3\r\n*10\r\n:18446744073709551615\r\n$0\r\n\r\n"
        );
        assert_eq!(
            written(Protocol::Resp3, all),
            "_\r\n%2\r\n~3\r\n*10\r\n:18446744073709551615\r\n$0\r\n\r\n"
        );
    }

    #[test]
    fn keys_are_bulk_strings_one_by_one_whatever_their_width() {
        for width in 1..=40 {
            let joined = "abcdefghij".repeat(width).into_bytes();
            let keys = written(Protocol::Resp2, |reply| reply.keys(&joined, width));
            let one_by_one = written(Protocol::Resp2, |reply| {
                joined.chunks(width).for_each(|key| reply.bulk(key));
            });
            assert_eq!(keys, one_by_one, "{width}");
        }
    }

    #[test]
    fn an_error_is_one_bounded_line_whatever_is_in_it() {
        let error = written(Protocol::Resp2, |reply| reply.error("ERR", "a\r\n+OK\r\nb\0"));
        assert_eq!(error, "-ERR a  +OK  b \r\n");
        let long = written(Protocol::Resp2, |reply| reply.error("ERR", &"x".repeat(10_000)));
        assert_eq!(long.len(), "-ERR \r\n".len() + ERROR_TEXT_MAX);
    }
}
