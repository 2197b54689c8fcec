//! Commands out of bytes: RESP arrays of bulk strings, and inline commands as people type them.
//!
//! No I/O and no copy: a [`Parser`] is shown what has arrived of a frame and says how long the frame is,
//! or that more is needed. It remembers how far it got, so a frame that comes byte by byte is read once.
//! Nothing is believed before it is bounded: a length that is too large is refused when it is announced,
//! not when it has arrived.

/// Arguments of one command, its name included.
pub const ARGUMENTS_MAX: usize = 1024;
/// However large the configuration lets a frame be, positions in it fit 32 bits.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// Digits, a sign and CRLF: what a line that announces a length may have.
const LENGTH_LINE_MAX: usize = 24;

/// Why bytes are not a command. The connection cannot go on: nobody knows where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("Protocol error: invalid multibulk length; a command has at most {ARGUMENTS_MAX} arguments")]
    Arguments,
    #[error("Protocol error: expected '$', got '{}'; arrays are not nested", .0.escape_ascii())]
    NotBulk(u8),
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    #[error("Protocol error: too big: a command exceeds limits.body_bytes ({0} bytes)")]
    TooLarge(usize),
    #[error("Protocol error: expected CRLF after an argument")]
    Unterminated,
    #[error("Protocol error: quotes are not understood in inline commands; send an array")]
    Quoted,
}

/// Reads frames one after the other.
#[derive(Debug)]
pub struct Parser {
    frame_bytes: usize,
    /// Where the arguments lie, counted from the frame's first byte.
    spans: Vec<(u32, u32)>,
    /// Everything before this was understood.
    at: usize,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The first byte of a frame is next.
    Fresh,
    /// In an inline command, with its end not seen yet.
    Inline,
    /// In an array, with so many arguments to come.
    Array { missing: usize },
}

/// The arguments of a whole frame; the first is the command's name.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'f> {
    frame: &'f [u8],
    spans: &'f [(u32, u32)],
}

impl Parser {
    /// `frame_bytes` is the most a whole command may take.
    pub fn new(frame_bytes: usize) -> Self {
        let frame_bytes = frame_bytes.min(FRAME_BYTES_MAX);
        Self { frame_bytes, spans: Vec::new(), at: 0, stage: Stage::Fresh }
    }

    /// Whether it is between two frames.
    pub fn is_fresh(&self) -> bool {
        self.stage == Stage::Fresh
    }

    /// How long the frame is that `bytes` begin with, once all of it is there. Until then the next call
    /// must show the same bytes and more.
    #[inline]
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.stage == Stage::Fresh {
            self.spans.clear();
            self.at = 0;
            match bytes.first() {
                None => return Ok(None),
                Some(b'*') => match self.length(bytes)? {
                    None => return Ok(None),
                    // Redis takes an empty or a null array for no command at all.
                    Some(count) if count <= 0 => return Ok(Some(self.at)),
                    Some(count) => {
                        let missing = usize::try_from(count).ok().filter(|count| *count <= ARGUMENTS_MAX);
                        self.stage = Stage::Array { missing: missing.ok_or(Malformed::Arguments)? };
                    }
                },
                Some(_) => self.stage = Stage::Inline,
            }
        }
        let whole = match self.stage {
            Stage::Array { missing } => self.bulks(bytes, missing)?,
            _ => self.inline(bytes)?,
        };
        if !whole {
            return Ok(None);
        }
        self.stage = Stage::Fresh;
        Ok(Some(self.at))
    }

    /// The arguments of the frame that was found last; `bytes` are those it was found in.
    #[inline]
    pub fn arguments<'f>(&'f self, bytes: &'f [u8]) -> Arguments<'f> {
        Arguments { frame: bytes, spans: &self.spans }
    }

    fn bulks(&mut self, bytes: &[u8], mut missing: usize) -> Result<bool, Malformed> {
        while missing > 0 {
            match bytes.get(self.at) {
                None => return Ok(self.wait(missing)),
                Some(b'$') => {}
                Some(other) => return Err(Malformed::NotBulk(*other)),
            }
            let line = self.at;
            let Some(length) = self.length(bytes)? else { return Ok(self.wait(missing)) };
            let length = usize::try_from(length).map_err(|_| Malformed::BulkLength)?;
            let end = self.at.saturating_add(length);
            if end.saturating_add(2) > self.frame_bytes {
                return Err(Malformed::TooLarge(self.frame_bytes));
            }
            if bytes.len() < end + 2 {
                // The line is read again with the rest of its argument.
                self.at = line;
                return Ok(self.wait(missing));
            }
            if bytes[end..end + 2] != *b"\r\n" {
                return Err(Malformed::Unterminated);
            }
            self.spans.push((position(self.at), position(end)));
            self.at = end + 2;
            missing -= 1;
        }
        Ok(true)
    }

    fn wait(&mut self, missing: usize) -> bool {
        self.stage = Stage::Array { missing };
        false
    }

    /// The number in a line such as `$12\r\n`, whose first byte is at `self.at`; moves behind it.
    #[inline]
    fn length(&mut self, bytes: &[u8]) -> Result<Option<i64>, Malformed> {
        let kind = bytes[self.at];
        let wrong = || if kind == b'*' { Malformed::Arguments } else { Malformed::BulkLength };
        let line = &bytes[self.at + 1..];
        let line = &line[..line.len().min(LENGTH_LINE_MAX)];
        let (negative, digits) = match line.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, line),
        };
        let mut value = 0_i64;
        for (index, byte) in digits.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let digit = i64::from(byte - b'0');
                    value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or_else(wrong)?;
                }
                b'\r' if index > 0 => {
                    return match digits.get(index + 1) {
                        None => Ok(None),
                        Some(b'\n') => {
                            self.at += 1 + usize::from(negative) + index + 2;
                            Ok(Some(if negative { -value } else { value }))
                        }
                        Some(_) => Err(wrong()),
                    };
                }
                _ => return Err(wrong()),
            }
        }
        if line.len() == LENGTH_LINE_MAX { Err(wrong()) } else { Ok(None) }
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        let seen = bytes.len().min(self.frame_bytes);
        let Some(end) = bytes[self.at..seen].iter().position(|byte| *byte == b'\n') else {
            self.at = seen;
            return if seen == self.frame_bytes { Err(Malformed::TooLarge(seen)) } else { Ok(false) };
        };
        let end = self.at + end;
        self.at = end + 1;
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        if line.contains(&b'"') || line.contains(&b'\'') {
            return Err(Malformed::Quoted);
        }
        let mut start = 0;
        for word in line.split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                self.spans.push((position(start), position(start + word.len())));
            }
            start += word.len() + 1;
        }
        if self.spans.len() > ARGUMENTS_MAX { Err(Malformed::Arguments) } else { Ok(true) }
    }
}

/// Frames are at most [`FRAME_BYTES_MAX`] long.
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a frame's positions have 32 bits")
}

impl<'f> Arguments<'f> {
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// An empty array or line: no command at all.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&'f [u8]> {
        let (from, to) = *self.spans.get(index)?;
        Some(&self.frame[from as usize..to as usize])
    }

    pub fn iter(&self) -> impl Iterator<Item = &'f [u8]> {
        let frame = self.frame;
        self.spans.iter().map(move |(from, to)| &frame[*from as usize..*to as usize])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME_BYTES: usize = 64 << 10;

    /// Reads everything from `pieces` as a connection would.
    fn read(pieces: &[&[u8]]) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
        let (mut parser, mut input, mut commands) = (Parser::new(FRAME_BYTES), Vec::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            while let Some(length) = parser.frame(&input)? {
                let arguments: Vec<_> = parser.arguments(&input).iter().map(<[u8]>::to_vec).collect();
                if !arguments.is_empty() {
                    commands.push(arguments);
                }
                input.drain(..length);
            }
        }
        Ok(commands)
    }

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn reads_arrays_and_lines_and_passes_over_empty_ones() {
        let bytes = b"*2\r\n$4\r\nLPOP\r\n$5\r\nlinks\r\nPING\r\n\r\n*0\r\n*-1\r\n  lpop  links\t3 \n*1\r\n$0\r\n\r\n";
        let read = read(&[bytes]).unwrap();
        assert_eq!(read, [words("LPOP links"), words("PING"), words("lpop links 3"), vec![Vec::new()]]);
    }

    #[test]
    fn what_cannot_be_a_command_is_refused_as_soon_as_it_shows() {
        for (bytes, expected) in [
            (&b"*1025\r\n"[..], Malformed::Arguments),
            (b"*99999999999999999999\r\n", Malformed::Arguments),
            (b"*1x\r\n", Malformed::Arguments),
            (b"*\r\n", Malformed::Arguments),
            (b"*1\r$", Malformed::Arguments),
            (b"*1\r\n*1\r\n", Malformed::NotBulk(b'*')),
            (b"*1\r\n:1\r\n", Malformed::NotBulk(b':')),
            (b"*1\r\n$-1\r\n", Malformed::BulkLength),
            (b"*1\r\n$9223372036854775808\r\n", Malformed::BulkLength),
            (b"*1\r\n$000000000000000000000000000000", Malformed::BulkLength),
            (b"*1\r\n$9223372036854775807\r\n", Malformed::TooLarge(FRAME_BYTES)),
            (b"*1\r\n$65536\r\n", Malformed::TooLarge(FRAME_BYTES)),
            (b"*1\r\n$1\r\nab\r\n", Malformed::Unterminated),
            (b"SET a \"b c\"\r\n", Malformed::Quoted),
        ] {
            assert_eq!(read(&[bytes]), Err(expected), "{}", bytes.escape_ascii());
        }
        let endless = vec![b'a'; FRAME_BYTES + 1];
        assert_eq!(read(&[&endless]), Err(Malformed::TooLarge(FRAME_BYTES)));
        assert_eq!(read(&["a ".repeat(1025).as_bytes(), b"\n"]), Err(Malformed::Arguments));
    }

    #[derive(Debug, Clone)]
    enum Sent {
        Array(Vec<Vec<u8>>),
        Line(Vec<String>),
    }

    impl Sent {
        fn bytes(&self) -> Vec<u8> {
            match self {
                Self::Line(words) => format!("{}\r\n", words.join(" ")).into_bytes(),
                Self::Array(arguments) => {
                    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
                    for argument in arguments {
                        bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
                        bytes.extend_from_slice(argument);
                        bytes.extend(b"\r\n");
                    }
                    bytes
                }
            }
        }

        fn arguments(self) -> Vec<Vec<u8>> {
            match self {
                Self::Array(arguments) => arguments,
                Self::Line(words) => words.into_iter().map(String::into_bytes).collect(),
            }
        }
    }

    fn sent() -> impl Strategy<Value = Sent> {
        let any_bytes = prop::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            prop::collection::vec(any_bytes, 0..6).prop_map(Sent::Array),
            prop::collection::vec("[a-zA-Z0-9:/._-]{1,12}", 0..5).prop_map(Sent::Line),
        ]
    }

    proptest! {
        #[test]
        fn however_a_pipeline_is_split_it_reads_the_same(
            pipeline in prop::collection::vec(sent(), 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let bytes: Vec<u8> = pipeline.iter().flat_map(Sent::bytes).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let expected: Vec<_> =
                pipeline.into_iter().map(Sent::arguments).filter(|arguments| !arguments.is_empty()).collect();
            prop_assert_eq!(read(&pieces).unwrap(), expected.clone());
            let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(read(&one_by_one).unwrap(), expected);
        }

        #[test]
        fn no_bytes_make_it_panic_or_pass_its_bounds(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..60),
                    prop::collection::vec(prop::sample::select(b"*$0123456789-\r\n \"ab".to_vec()), 0..60),
                ],
                0..8,
            ),
            frame_bytes in 1_usize..200,
        ) {
            let (mut parser, mut input) = (Parser::new(frame_bytes), Vec::new());
            'connection: for piece in pieces {
                input.extend_from_slice(&piece);
                loop {
                    match parser.frame(&input) {
                        Ok(Some(length)) => {
                            prop_assert!(length > 0 && length <= input.len());
                            prop_assert!(length <= frame_bytes.max(LENGTH_LINE_MAX + 1));
                            let arguments = parser.arguments(&input);
                            prop_assert!(arguments.len() <= ARGUMENTS_MAX);
                            prop_assert!(arguments.iter().map(<[u8]>::len).sum::<usize>() <= length);
                            input.drain(..length);
                        }
                        Ok(None) => break,
                        Err(_) => break 'connection,
                    }
                }
                prop_assert!(parser.is_fresh() || !input.is_empty());
            }
        }
    }
}
