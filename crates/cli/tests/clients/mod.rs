//! Clients of the Redis protocol: a raw one that can send what no proper client would, and the real ones,
//! installed once into the target folder in the versions named here. One that cannot be had fails the test.

use std::{ffi::OsStr, fs, path::Path, process::Command, sync::Mutex, time::Duration};

use crate::harness::{Finished, finish, python::Packages};

pub(crate) mod raw;

const REDIS_PY: &str = "redis==8.1.0";
const IOREDIS: &str = "ioredis@5.11.1";
/// Downloading takes as long as it takes.
const INSTALL_WITHIN: Duration = Duration::from_secs(300);
/// No script takes this long.
const SCRIPT_WITHIN: Duration = Duration::from_secs(60);

fn command<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a script of this folder with redis-py; it must say `ok`.
#[track_caller]
pub(crate) fn python(script: &str, port: u16) {
    said_ok(Packages::installed("redis", &[REDIS_PY]).python(), script, port);
}

/// Runs a script of this folder with ioredis; it must say `ok`.
#[track_caller]
pub(crate) fn node(script: &str, port: u16) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(IOREDIS.replace('@', "-"));
    if !folder.join("installed").exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let mut npm =
            command("npm", &["install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", IOREDIS]);
        npm.current_dir(&folder);
        finish(npm, INSTALL_WITHIN).ok();
        fs::write(folder.join("installed"), "").unwrap();
    }
    drop(one_at_a_time);
    let mut node = Command::new("node");
    node.env("NODE_PATH", folder.join("node_modules"));
    said_ok(node, script, port);
}

#[track_caller]
fn said_ok(mut interpreter: Command, script: &str, port: u16) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    interpreter.arg(script).arg(port.to_string());
    assert_eq!(finish(interpreter, SCRIPT_WITHIN).ok().trim(), "ok");
}

/// Runs redis-cli or redis-benchmark.
#[track_caller]
pub(crate) fn tool(program: &str, port: u16, arguments: &[&str]) -> Finished {
    let mut tool = command(program, &["-p", &port.to_string()]);
    tool.args(arguments);
    finish(tool, SCRIPT_WITHIN)
}
