//! Runs the real `keymill` in a folder of its own: starts it on a free port, asks it over plain sockets,
//! kills it by its process id, and starts it again on the same data dir.
//!
//! Every wait has an end: whoever does not answer fails the test, with the server's log in the message.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) mod dice;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod python;

pub(crate) use http::{Answer, Connection};

/// No command and no start takes this long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// A folder with a data dir in it, gone at the end of the test.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a folder to test in") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where a server without `--data-dir` keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("keymill-data")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    /// Writes a file beside the data dir and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A server to be started here.
    pub(crate) fn server(&self) -> Launch {
        Launch::new(self.path())
    }

    pub(crate) fn start(&self) -> Server {
        self.server().start()
    }

    /// Runs a command here to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = keymill(self.path());
        command.args(arguments);
        finish(command, PATIENCE)
    }

    /// Runs `keymill ledger …` on the data dir.
    pub(crate) fn ledger(&self, arguments: &[&str]) -> Finished {
        let data = self.data();
        let mut all = vec!["ledger"];
        all.extend(arguments);
        all.extend(["--data-dir", data.to_str().unwrap()]);
        self.run(&all)
    }

    pub(crate) fn node(&self) -> String {
        fs::read_to_string(self.file("node")).unwrap().trim().to_owned()
    }

    /// A copy of the database files, taken while no server runs.
    pub(crate) fn copy_database(&self) -> Copied {
        let read = |name: &str| fs::read(self.file(name)).ok();
        Copied { database: read("keymill.db").expect("there is a database"), wal: read("keymill.db-wal") }
    }

    /// Puts a copy in the place of the database, as whoever restores a backup does.
    pub(crate) fn restore_database(&self, copied: &Copied) {
        for name in ["keymill.db", "keymill.db-wal", "keymill.db-shm"] {
            let _ = fs::remove_file(self.file(name));
        }
        fs::write(self.file("keymill.db"), &copied.database).unwrap();
        if let Some(wal) = &copied.wal {
            fs::write(self.file("keymill.db-wal"), wal).unwrap();
        }
    }
}

/// The ledger as it was at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    pub database: Vec<u8>,
    pub wal: Option<Vec<u8>>,
}

/// The command, in a folder, with nothing inherited that would configure it.
pub(crate) fn keymill(folder: &Path) -> Command {
    through(&[], folder)
}

/// The command behind a wrapper, such as `strace …`.
fn through(wrapper: &[String], folder: &Path) -> Command {
    const BINARY: &str = env!("CARGO_BIN_EXE_keymill");
    let mut command = match wrapper.split_first() {
        None => Command::new(BINARY),
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(BINARY);
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KEYMILL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Finished {
    /// Its answer, if it did what it was asked to.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }
}

/// Runs a command to its end, `patience` at most.
#[track_caller]
pub(crate) fn finish(mut command: Command, patience: Duration) -> Finished {
    let begun = Instant::now();
    let mut child =
        Guarded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started"));
    let stdout = gather(child.0.stdout.take().unwrap());
    let stderr = gather(child.0.stderr.take().unwrap());
    let status = child.wait(patience);
    let took = begun.elapsed();
    if status.is_none() {
        let _ = child.0.kill();
        let _ = child.0.wait();
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let Some(status) = status else {
        panic!("{command:?} did not end within {patience:?}\n{stdout}\n{stderr}")
    };
    Finished { code: status.code(), stdout, stderr, took }
}

fn gather(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A child that does not outlive the test.
#[derive(Debug)]
pub(crate) struct Guarded(pub Child);

impl Guarded {
    /// Waits for its end; `None` if it is still running after `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.0.try_wait().expect("our own child") {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    folder: PathBuf,
    /// Where the test sees the data dir.
    data: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    wrapper: Vec<String>,
    http: String,
    resp: String,
}

impl Launch {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            data: folder.join("keymill-data"),
            arguments: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            http: "127.0.0.1:0".to_owned(),
            resp: "127.0.0.1:0".to_owned(),
        }
    }

    pub(crate) fn arguments<S: AsRef<str>>(mut self, arguments: &[S]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it behind another program, which must become the server's process by `exec`.
    pub(crate) fn behind<S: AsRef<str>>(mut self, wrapper: &[S]) -> Self {
        self.wrapper = wrapper.iter().map(|part| part.as_ref().to_owned()).collect();
        self
    }

    pub(crate) fn http(mut self, address: &str) -> Self {
        self.http = address.to_owned();
        self
    }

    pub(crate) fn resp(mut self, address: &str) -> Self {
        self.resp = address.to_owned();
        self
    }

    /// Where the test finds what the server calls `./keymill-data`.
    pub(crate) fn data_seen_at(mut self, data: &Path) -> Self {
        self.data = data.to_owned();
        self
    }

    fn command(&self) -> Command {
        let mut command = through(&self.wrapper, &self.folder);
        command.arg("serve").args(["--http", &self.http, "--resp", &self.resp]).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (OsStr::new(name), value)));
        command
    }

    /// Expects it to end by itself.
    #[track_caller]
    pub(crate) fn run(&self) -> Finished {
        finish(self.command(), PATIENCE)
    }

    /// Starts it and does not wait for anything.
    pub(crate) fn spawn(&self) -> Starting {
        let log = |name: &str| {
            let path = self.folder.join(name);
            (OpenOptions::new().create(true).append(true).open(&path).unwrap(), path)
        };
        let ((stdout, said), (stderr, logged)) = (log("stdout"), log("stderr"));
        let begun = Instant::now();
        let child = self.command().stdout(stdout).stderr(stderr).spawn().expect("it can be started");
        Starting { child: Guarded(child), begun, data: self.data.clone(), said, logged }
    }

    /// Starts it and waits until it answers, even if it does not serve keys.
    #[track_caller]
    pub(crate) fn start_unready(&self) -> Server {
        match self.spawn().listening() {
            Ok(server) => server,
            Err(ended) => panic!("the server ended: {ended:#?}"),
        }
    }

    /// Starts it and waits until it serves keys.
    #[track_caller]
    pub(crate) fn start(&self) -> Server {
        let server = self.start_unready();
        server.until_ready();
        server
    }
}

/// A process that may become a server.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Guarded,
    begun: Instant,
    data: PathBuf,
    said: PathBuf,
    logged: PathBuf,
}

impl Starting {
    /// Waits until it says where it listens, or has ended.
    #[track_caller]
    pub(crate) fn listening(mut self) -> Result<Server, Finished> {
        let pid = self.child.0.id();
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The file may be an earlier server's, who was killed.
            let file = fs::read(self.data.join("server.json")).ok();
            let file = file.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if let Some(file) = file.filter(|file| file["pid"] == pid) {
                let address = file["http"].as_str().unwrap().parse().unwrap();
                let resp = file["resp"].as_str().map(|resp| resp.parse().unwrap());
                let Self { child, begun, said, logged, .. } = self;
                return Ok(Server { child, begun, address, resp, said, logged });
            }
            if let Some(status) = self.child.wait(Duration::ZERO) {
                return Err(Finished {
                    code: status.code(),
                    stdout: tail(&self.said),
                    stderr: tail(&self.logged),
                    took: self.begun.elapsed(),
                });
            }
            assert!(Instant::now() < deadline, "it neither listens nor ends: {}", tail(&self.logged));
            thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.0.kill().expect("our own child");
        self.child.0.wait().expect("our own child");
    }
}

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    child: Guarded,
    pub begun: Instant,
    pub address: SocketAddr,
    /// Where it speaks the Redis protocol, if it does.
    pub resp: Option<SocketAddr>,
    said: PathBuf,
    logged: PathBuf,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it printed over all its starts in this folder, once `expected` is in it.
    #[track_caller]
    pub(crate) fn said(&self, expected: &str) -> String {
        until_in(&self.said, expected)
    }

    /// What it logged over all its starts in this folder, once `expected` is in it.
    #[track_caller]
    pub(crate) fn logged(&self, expected: &str) -> String {
        until_in(&self.logged, expected)
    }

    /// What it logged, over all its starts in this folder.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.logged).unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).expect("it listens")
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        match self.connect().ask(method, path, body) {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path} was not answered: {error}\n{}", tail(&self.logged)),
        }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, Some(body))
    }

    /// Keys that must be there.
    #[track_caller]
    pub(crate) fn take(&self, keyspace: &str, count: u32) -> Vec<String> {
        let answer = self.try_take(keyspace, count);
        assert_eq!(answer.status, 200, "{answer:?}\n{}", tail(&self.logged));
        let keys = answer.keys();
        assert_eq!(keys.len(), count as usize, "exactly as many as were asked for");
        keys
    }

    #[track_caller]
    pub(crate) fn try_take(&self, keyspace: &str, count: u32) -> Answer {
        self.post(&format!("/v1/keyspaces/{keyspace}/keys"), &format!("{{\"count\":{count}}}"))
    }

    /// Creates a keyspace that is not there yet.
    #[track_caller]
    pub(crate) fn create(&self, keyspace: Value) {
        let answer = self.post("/v1/keyspaces", &keyspace.to_string());
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// What `GET /v1/keyspaces/{keyspace}` shows.
    #[track_caller]
    pub(crate) fn show(&self, keyspace: &str) -> Value {
        let answer = self.get(&format!("/v1/keyspaces/{keyspace}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Numbers in the server's memory.
    #[track_caller]
    pub(crate) fn stock(&self, keyspace: &str) -> u64 {
        self.show(keyspace)["stock"].as_str().unwrap().parse().unwrap()
    }

    /// The first number that was never reserved.
    #[track_caller]
    pub(crate) fn cursor(&self, keyspace: &str) -> u64 {
        let ledger = self.get("/v1/ledger").json();
        let tracks = ledger["tracks"].as_array().unwrap_or_else(|| panic!("{ledger}"));
        let track = tracks.iter().find(|track| track["track"] == keyspace);
        track.unwrap_or_else(|| panic!("{ledger}"))["cursor"].as_str().unwrap().parse().unwrap()
    }

    /// Waits until the first refills after a start have come.
    #[track_caller]
    pub(crate) fn until_stocked(&self, keyspaces: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        while keyspaces.iter().any(|keyspace| self.stock(keyspace) == 0) {
            assert!(Instant::now() < deadline, "no stock came: {}", tail(&self.logged));
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until it serves keys.
    #[track_caller]
    pub(crate) fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get("/readyz");
            if answer.status == 200 {
                return;
            }
            assert!(Instant::now() < deadline, "it is not ready: {answer:?}\n{}", tail(&self.logged));
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until it refuses to serve for the reason of that code.
    #[track_caller]
    pub(crate) fn until_unready(&self, code: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get("/readyz");
            if answer.status == 503 && answer.json()["reasons"][0]["code"] == code {
                return answer.json();
            }
            assert!(Instant::now() < deadline, "not `{code}`: {answer:?}\n{}", tail(&self.logged));
            thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id is not 0");
        rustix::process::kill_process(pid, signal).expect("our own child");
    }

    /// Asks it to stop and waits until it has.
    #[track_caller]
    pub(crate) fn terminate(self) {
        self.signal(rustix::process::Signal::TERM);
        self.until_gone(Some(0));
    }

    /// Waits for its end, which must be by itself.
    #[track_caller]
    pub(crate) fn until_gone(mut self, code: Option<i32>) {
        let status = self.child.wait(PATIENCE);
        let Some(status) = status else { panic!("it did not stop: {}", tail(&self.logged)) };
        assert_eq!(status.code(), code, "{}", tail(&self.logged));
    }

    /// How it ended, if it does so within `patience`.
    pub(crate) fn has_ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        self.child.wait(patience)
    }

    /// What it left behind; it has ended.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Finished {
        let status = self.child.wait(Duration::ZERO).expect("it has ended");
        Finished {
            code: status.code(),
            stdout: tail(&self.said),
            stderr: tail(&self.logged),
            took: self.begun.elapsed(),
        }
    }

    /// SIGKILL: nothing is given back, nothing is said.
    pub(crate) fn kill(mut self) {
        self.child.0.kill().expect("our own child");
        self.child.0.wait().expect("our own child");
    }
}

#[track_caller]
fn until_in(path: &Path, expected: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = fs::read_to_string(path).unwrap();
        if said.contains(expected) {
            return said;
        }
        assert!(Instant::now() < deadline, "it did not say `{expected}`: {said}");
        thread::sleep(LOOK_EVERY);
    }
}

/// The end of a log, for messages.
pub(crate) fn tail(path: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = File::open(path) {
        let _ = file.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// The size of a test: small in every run, full when `KEYMILL_FULL` is set, as `cargo xtask faults` does.
pub(crate) fn sized(smoke: usize, full: usize) -> usize {
    if std::env::var_os("KEYMILL_FULL").is_some_and(|value| value == "1") { full } else { smoke }
}
