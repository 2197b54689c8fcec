//! Clients of the Redis protocol: a raw one that can send what no proper client would, and the real ones,
//! installed once into the target folder in the versions named here. One that cannot be had fails the test.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use crate::harness::{Finished, finish};

pub(crate) mod raw;

const REDIS_PY: &str = "redis==8.1.0";
const IOREDIS: &str = "ioredis@5.11.1";
/// Downloading takes as long as it takes.
const INSTALL_WITHIN: Duration = Duration::from_secs(300);
/// No script takes this long.
const SCRIPT_WITHIN: Duration = Duration::from_secs(60);

/// A folder that is made once, by whoever comes first.
fn installed(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _mine = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let clean = name.replace(['@', '='], "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(clean);
    let done = folder.join("installed");
    if !done.exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        install(&folder);
        fs::write(done, "").unwrap();
    }
    folder
}

fn command<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a script of this folder with redis-py; it must say `ok`.
#[track_caller]
pub(crate) fn python(script: &str, port: u16) {
    let folder = installed(REDIS_PY, |folder| {
        let mut pip = command("python3", &["-m", "pip", "install", "--quiet", "--target", ".", REDIS_PY]);
        pip.current_dir(folder);
        finish(pip, INSTALL_WITHIN).ok();
    });
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder);
    said_ok(python, script, port);
}

/// Runs a script of this folder with ioredis; it must say `ok`.
#[track_caller]
pub(crate) fn node(script: &str, port: u16) {
    let folder = installed(IOREDIS, |folder| {
        let mut npm =
            command("npm", &["install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", IOREDIS]);
        npm.current_dir(folder);
        finish(npm, INSTALL_WITHIN).ok();
    });
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
