//! `keymill watch` as a process of its own.

use std::{
    fs::File,
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Guarded, Home, PATIENCE, keymill};

#[derive(Debug)]
pub(crate) struct Watching {
    child: Guarded,
    log: PathBuf,
}

impl Watching {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let log = home.path().join("watch.log");
        let file = File::create(&log).unwrap();
        let mut command = keymill(home.path());
        command.args(["watch", "--interval", "200ms"]).args(arguments);
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("it can be started");
        Self { child: Guarded(child), log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until `expected` is in its log.
    #[track_caller]
    pub(crate) fn logged(&self, expected: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(expected) {
            assert!(Instant::now() < deadline, "it did not log `{expected}`: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.0.kill().expect("our own child");
        self.child.0.wait().expect("our own child");
    }

    /// Asks it to stop, and says how it did.
    #[track_caller]
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait(PATIENCE).expect("it stops").code()
    }
}
