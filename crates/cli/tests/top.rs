//! `keymill top` on the real binary: on a terminal (a pty made by `script`), in a pipe, and through a restart of its
//! server. What is drawn for which snapshot is tested beside the code.

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use keymill_api::Snapshot;
use serde_json::json;

mod harness;
use harness::{Guarded, Home, PATIENCE, Server};

/// `keymill top` on a terminal of its own.
#[derive(Debug)]
struct Terminal {
    child: Guarded,
    typed: std::process::ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(home: &Home, server: &Server, more: &str) -> Self {
        const BINARY: &str = env!("CARGO_BIN_EXE_keymill");
        let inside = format!("stty rows 24 cols 120; exec {BINARY} --server {} top {more}", server.url());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &inside, "/dev/null"]).current_dir(home.path());
        command.env("TERM", "xterm-256color").env_remove("KEYMILL_TOKEN");
        let mut child: Child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is in bsdutils");
        let (typed, mut pipe) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = shown.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child: Guarded(child), typed, shown }
    }

    /// Waits until it draws `wanted`, after what it drew before.
    #[track_caller]
    fn until(&self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut shown = self.shown.lock().unwrap();
            if let Some(at) = shown.windows(wanted.len()).position(|bytes| bytes == wanted.as_bytes()) {
                shown.drain(..at + wanted.len());
                return;
            }
            let text = String::from_utf8_lossy(&shown).into_owned();
            drop(shown);
            assert!(Instant::now() < deadline, "`{wanted}` is not drawn: {text:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        self.typed.write_all(keys.as_bytes()).unwrap();
        self.typed.flush().unwrap();
    }

    #[track_caller]
    fn until_left(mut self) {
        let status = self.child.wait(PATIENCE).expect("it leaves");
        assert!(status.success(), "{status:?}");
    }
}

#[test]
fn it_draws_follows_keys_and_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let server = home.start();
    let mut top = Terminal::open(&home, &server, "");
    top.until("\u{1b}[?1049h");
    top.until("tickets");
    server.take("tickets", 5000);
    top.until("█");
    // Only cells that change are drawn, so words are waited for, not sentences.
    top.press("\t");
    top.until("heard");
    top.press("\t\t\t/link\r");
    top.until("Esc");
    top.press("q");
    top.until("\u{1b}[?1049l");
    top.until_left();
}

#[test]
fn it_finds_a_server_again_that_was_restarted() {
    let home = Home::new();
    let server = home.start();
    let address = server.address.to_string();
    let mut top = Terminal::open(&home, &server, "--filter tick");
    top.until("tickets");
    server.kill();
    top.until("trying again");
    let _server = home.server().http(&address).start();
    top.until("live");
    // Ctrl-C: in a raw terminal it is a key like any other.
    top.press("\u{3}");
    top.until_left();
}

#[test]
fn without_a_terminal_it_prints_once() {
    let home = Home::new();
    let server = home.start();
    server.create(json!({"name": "codes", "scheme": "pool", "length": 2, "page_below": 5000}));
    let said = home.run(&["top"]).ok();
    for wanted in
        ["ledger sqlite (strict), ok", "codes", "3,844", "tickets", "events: 1 of 1024 workers held"]
    {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
    let filtered = home.run(&["top", "--once", "--filter", "tick"]).ok();
    assert!(filtered.contains("tickets") && !filtered.contains("codes "), "{filtered}");
    let snapshot: Snapshot = serde_json::from_str(&home.run(&["--json", "top"]).ok()).unwrap();
    assert_eq!(snapshot.keyspaces.len(), 4);
}

#[test]
fn who_may_not_look_is_told_before_anything_is_drawn() {
    let home = Home::new();
    let data = home.data();
    home.run(&["token", "create", "--name", "a", "--scope", "take", "--data-dir", data.to_str().unwrap()])
        .ok();
    let server = home.server().environment("KEYMILL_AUTH__MODE", "on").start();
    let refused = home.run(&["top"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("unauthenticated") && refused.stderr.contains("--token-file"),
        "{refused:?}"
    );
    let url = server.url();
    server.terminate();
    let gone = home.run(&["--server", &url, "top", "--once"]);
    assert!(gone.code == Some(1) && gone.stderr.contains("keymill serve"), "{gone:?}");
}
