//! A small HTTP/1.1 client that keeps what arrived of an answer that was cut off, and that can send
//! what no proper client would.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// Longer than any answer takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// More than any head or chunk line has.
const LINE_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

#[derive(Clone)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// False: the connection ended before the body did.
    pub whole: bool,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut_off = if self.whole { "" } else { " (cut off)" };
        write!(f, "{} {:?}{cut_off} {}", self.status, self.headers, self.text())
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Option<&str>) -> io::Result<Answer> {
        let kind = body.map(|_| ("Content-Type", "application/json"));
        self.send(method, path, kind.as_slice(), body.map(str::as_bytes).unwrap_or_default())
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n").into_bytes();
        for (name, value) in headers {
            request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !body.is_empty() {
            request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        self.write(&request)?;
        self.answer(method == "HEAD")
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// No more will be sent.
    pub(crate) fn finish_writing(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(Shutdown::Write)
    }

    /// Reads one answer. An error means that not even its head came.
    pub(crate) fn answer(&mut self, head_only: bool) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not an answer: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(line.clone()))?;
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new(), whole: true };
        if head_only {
            return Ok(answer);
        }
        answer.whole = if answer.header("transfer-encoding") == Some("chunked") {
            self.chunks(&mut answer.body).is_ok()
        } else {
            let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            let read = self.stream.by_ref().take(length).read_to_end(&mut answer.body);
            read.is_ok() && answer.body.len() as u64 == length
        };
        Ok(answer)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let length = u64::from_str_radix(&line, 16).map_err(io::Error::other)?;
            let before = body.len() as u64;
            self.stream.by_ref().take(length).read_to_end(body)?;
            if body.len() as u64 != before + length || !self.line()?.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(io::Error::other)
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("not JSON ({error}): {self:?}"),
        }
    }

    /// The `code` of a problem, or nothing.
    pub(crate) fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The keys of a whole JSON answer.
    #[track_caller]
    pub(crate) fn keys(&self) -> Vec<String> {
        assert!(self.whole, "{self:?}");
        let body = self.json();
        let keys = body["keys"].as_array().unwrap_or_else(|| panic!("{body}"));
        keys.iter().map(|key| key.as_str().expect("keys are strings").to_owned()).collect()
    }

    /// The whole lines of a text, even of one that was cut off.
    pub(crate) fn lines(&self) -> Vec<String> {
        let end = self.body.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = std::str::from_utf8(&self.body[..end]).expect("keys are ASCII");
        text.lines().map(str::to_owned).collect()
    }
}
