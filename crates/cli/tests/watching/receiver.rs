//! Somebody who is told: a small HTTP server that keeps what it hears.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::PATIENCE;

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Long enough for several looks at the intervals of these tests.
pub(crate) const A_WHILE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Receiver {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    status: Arc<AtomicU16>,
    closed: Arc<AtomicBool>,
}

#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub method: String,
    pub path: String,
    pub body: String,
}

impl Heard {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Where somebody may listen later, and nobody does now.
    pub(crate) fn nobody() -> SocketAddr {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            heard: Arc::default(),
            status: Arc::new(AtomicU16::new(200)),
            closed: Arc::default(),
        };
        let (heard, status, closed) =
            (receiver.heard.clone(), receiver.status.clone(), receiver.closed.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let (heard, status) = (heard.clone(), status.clone());
                thread::spawn(move || listen(stream.unwrap(), &heard, &status));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it answers from now on.
    pub(crate) fn answers(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// What it took so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until it took so many, and says which.
    #[track_caller]
    pub(crate) fn until(&self, count: usize) -> Vec<Heard> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let heard = self.heard();
            if heard.len() >= count {
                return heard;
            }
            assert!(Instant::now() < deadline, "{} of {count} were told: {heard:?}", heard.len());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until something came that it had not heard before.
    #[track_caller]
    pub(crate) fn until_next(&self) {
        self.until(self.heard().len() + 1);
    }

    /// Waits until it hears nothing for a while.
    #[track_caller]
    pub(crate) fn until_silent(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = self.heard().len();
            thread::sleep(A_WHILE);
            if self.heard().len() == before {
                return;
            }
            assert!(Instant::now() < deadline, "it does not fall silent");
        }
    }

    /// What the pages and resolutions it took were of.
    pub(crate) fn told(&self) -> Vec<(String, String)> {
        let field = |heard: &Heard, name: &str| heard.json()[name].as_str().unwrap_or_default().to_owned();
        self.heard().iter().map(|heard| (field(heard, "keyspace"), field(heard, "status"))).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
    }
}

fn listen(stream: TcpStream, heard: &Mutex<Vec<Heard>>, status: &AtomicU16) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let status = status.load(Ordering::Relaxed);
        if status == 200 {
            heard.lock().unwrap().push(request);
        }
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Heard> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Heard { method, path, body: String::from_utf8(body).ok()? })
}
