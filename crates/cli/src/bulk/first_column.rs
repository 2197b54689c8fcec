//! The first column of a CSV file (RFC 4180), record by record. A list with one code a line is such a file.
//!
//! Lines are counted exactly and nothing but the first column is kept, however long a line is: a reject is told by
//! its line, and a file may hold anything.

use std::io::{self, BufRead};

use thiserror::Error;

/// Bytes of a first column.
pub(crate) const CELL_MAX: usize = 2048;
/// Lines that one record may take.
const RECORD_LINES_MAX: u64 = 1000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where it begins, from 1.
    pub line: u64,
    /// Without the blanks around it; or why it is none.
    pub cell: Result<String, Flaw>,
}

/// Why a first column cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Flaw {
    #[error("the first column is empty")]
    Empty,
    #[error("the first column has more than {CELL_MAX} bytes")]
    TooLong,
    #[error("the first column is not UTF-8")]
    NotText,
}

#[derive(Debug, Error)]
pub(crate) enum Unreadable {
    #[error("line {line} opens a quote that is not closed; mend the line, and run this again: it goes on")]
    OpenQuote { line: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct FirstColumn<R> {
    input: R,
    line: u64,
    tells_blank: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end, or half of a `""`.
    Quote,
}

impl<R: BufRead> FirstColumn<R> {
    pub(crate) fn new(mut input: R) -> io::Result<Self> {
        const BOM: &[u8] = "\u{feff}".as_bytes();
        if input.fill_buf()?.starts_with(BOM) {
            input.consume(BOM.len());
        }
        Ok(Self { input, line: 1, tells_blank: false })
    }

    /// Blank lines are records too, without a first column.
    pub(crate) fn tell_blank_lines(&mut self) {
        self.tells_blank = true;
    }

    /// The next record; blank lines are none, unless they were asked for.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Unreadable> {
        loop {
            let line = self.line;
            let Some((bytes, columns)) = self.record()? else { return Ok(None) };
            match cell(bytes) {
                Err(Flaw::Empty) if columns == 1 && !self.tells_blank => {}
                cell => return Ok(Some(Record { line, cell })),
            }
        }
    }

    /// The first column as it is, at most one byte longer than allowed, and how many columns there are.
    fn record(&mut self) -> Result<Option<(Vec<u8>, u64)>, Unreadable> {
        let begun = self.line;
        let (mut first, mut columns, mut state) = (Vec::new(), 1, State::Start);
        let mut is_there = false;
        while let Some(byte) = self.byte()? {
            is_there = true;
            self.line += u64::from(byte == b'\n');
            let mut keep = Some(byte);
            match (state, byte) {
                (State::Quoted, b'"') => (state, keep) = (State::Quote, None),
                (State::Quoted, b'\n') if self.line - begun > RECORD_LINES_MAX => break,
                (State::Quoted, _) => {}
                (State::Start, b'"') => (state, keep) = (State::Quoted, None),
                (State::Quote, b'"') => state = State::Quoted,
                (_, b'\n') => return Ok(Some((first, columns))),
                (_, b',') => {
                    columns += 1;
                    (state, keep) = (State::Start, None);
                }
                _ => state = State::Plain,
            }
            if columns == 1 && first.len() <= CELL_MAX {
                first.extend(keep);
            }
        }
        if state == State::Quoted {
            return Err(Unreadable::OpenQuote { line: begun });
        }
        Ok(is_there.then_some((first, columns)))
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.input.fill_buf()?.first().copied();
        self.input.consume(usize::from(byte.is_some()));
        Ok(byte)
    }
}

fn cell(bytes: Vec<u8>) -> Result<String, Flaw> {
    if bytes.len() > CELL_MAX {
        return Err(Flaw::TooLong);
    }
    let text = String::from_utf8(bytes).map_err(|_| Flaw::NotText)?;
    match text.trim() {
        "" => Err(Flaw::Empty),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line numbers, and what was read there.
    type Lines = Vec<(u64, Result<String, Flaw>)>;

    fn read(bytes: &[u8]) -> Result<Lines, Unreadable> {
        // A buffer of three bytes: whatever is cut in two is put together.
        let mut column = FirstColumn::new(io::BufReader::with_capacity(3, bytes))?;
        let mut records = Vec::new();
        while let Some(Record { line, cell }) = column.next()? {
            records.push((line, cell));
        }
        Ok(records)
    }

    fn texts(text: &str) -> Vec<(u64, String)> {
        let plain = |(line, cell): (u64, Result<String, Flaw>)| (line, cell.unwrap());
        read(text.as_bytes()).unwrap().into_iter().map(plain).collect()
    }

    #[test]
    fn lines_are_counted_whatever_is_between_them() {
        let expected =
            |lines: [u64; 3]| Vec::from_iter(lines.into_iter().zip(["a", "b", "c"].map(String::from)));
        assert_eq!(texts("a\n\n\nb\nc"), expected([1, 4, 5]));
        assert_eq!(texts("a\r\n\r\nb\r\n \t\r\nc\r\n"), expected([1, 3, 5]));
        assert_eq!(texts("\u{feff}a,1\n  b  ,2\n\"c\",3"), expected([1, 2, 3]));
        assert_eq!(texts("a,\"x\ny\"\n\nb\n\"c\""), expected([1, 4, 5]), "a column of two lines");
    }

    #[test]
    fn quotes_are_undone_where_they_begin_a_column() {
        assert_eq!(
            texts("\"a,b\",c\n\"say \"\"hi\"\"\"\n5\" pipe,x\n"),
            [(1, "a,b".to_owned()), (2, "say \"hi\"".to_owned()), (3, "5\" pipe".to_owned())]
        );
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_line() {
        let long = "x".repeat(CELL_MAX);
        let file = format!(",x\n{long}\n{long}x\n{}\n", long.repeat(100));
        let found = read(file.as_bytes()).unwrap();
        assert_eq!(
            found,
            [(1, Err(Flaw::Empty)), (2, Ok(long)), (3, Err(Flaw::TooLong)), (4, Err(Flaw::TooLong))]
        );
        assert_eq!(read(b"a\n\xff\xfe\n").unwrap()[1], (2, Err(Flaw::NotText)));
    }

    #[test]
    fn an_open_quote_does_not_swallow_the_rest() {
        for file in ["a\n\"b\nc\nd\n".to_owned(), format!("a\nx,\"b\n{}\"", "c\n".repeat(2000))] {
            assert!(matches!(read(file.as_bytes()), Err(Unreadable::OpenQuote { line: 2 })), "{file}");
        }
    }
}
