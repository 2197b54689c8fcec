//! A socket and the protocol's answers, nothing else.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Longer than any answer takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Null,
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Map(Vec<Reply>),
}

impl Reply {
    /// The key of a pop.
    #[track_caller]
    pub(crate) fn key(self) -> String {
        match self {
            Self::Bulk(key) => key,
            other => panic!("not a key: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn keys(self) -> Vec<String> {
        match self {
            Self::Array(keys) | Self::Set(keys) => keys.into_iter().map(Self::key).collect(),
            other => panic!("not keys: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn integer(self) -> i64 {
        match self {
            Self::Integer(value) => value,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The prefix of an error and the rest of it.
    #[track_caller]
    pub(crate) fn error(self) -> (String, String) {
        match self {
            Self::Error(text) => {
                let (prefix, rest) = text.split_once(' ').unwrap_or((&text, ""));
                (prefix.to_owned(), rest.to_owned())
            }
            other => panic!("not an error: {other:?}"),
        }
    }
}

/// A command as clients send it.
pub(crate) fn array(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

impl Raw {
    #[track_caller]
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("it listens")
    }

    pub(crate) fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a command, words apart by blanks, and reads its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str) -> Reply {
        let words: Vec<&str> = command.split(' ').collect();
        match self.send(&array(&words)).and_then(|()| self.reply()) {
            Ok(reply) => reply,
            Err(error) => panic!("`{command}` was not answered: {error}"),
        }
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| io::Error::other("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(|_| io::Error::other(line.clone()));
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()?),
            "_" => Reply::Null,
            "$" if rest == "-1" => Reply::Null,
            "$" => {
                let mut bytes = vec![0; usize::try_from(number()?).map_err(io::Error::other)? + 2];
                self.stream.read_exact(&mut bytes)?;
                assert!(bytes.ends_with(b"\r\n"), "{}", bytes.escape_ascii());
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(String::from_utf8(bytes).map_err(io::Error::other)?)
            }
            "*" => Reply::Array(self.elements(number()?)?),
            "~" => Reply::Set(self.elements(number()?)?),
            "%" => Reply::Map(self.elements(2 * number()?)?),
            _ => return Err(io::Error::other(line)),
        })
    }

    fn elements(&mut self, count: i64) -> io::Result<Vec<Reply>> {
        (0..count).map(|_| self.reply()).collect()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(64 << 10).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => String::from_utf8(line.to_vec()).map_err(io::Error::other),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Whether something has come that was not read yet.
    pub(crate) fn is_answered(&self) -> bool {
        let stream = self.stream();
        stream.set_nonblocking(true).expect("our own socket");
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("our own socket");
        !self.stream.buffer().is_empty() || peeked.is_ok()
    }

    /// Whether the server has closed the connection; what it said before is gone.
    pub(crate) fn ends(mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
