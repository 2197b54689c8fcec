//! Python packages of the tests' own, pinned: installed once, below `target/`, and kept.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Finished, finish};

/// A download on a slow line takes a while.
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// A folder that has exactly these packages (`name==version`).
#[derive(Debug)]
pub(crate) struct Packages {
    folder: PathBuf,
}

impl Packages {
    #[track_caller]
    pub(crate) fn installed(name: &str, packages: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python").join(name);
        let made_of = folder.join("made-of");
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        // Tests run in several processes: the first installs, the others wait.
        let lock = File::create(folder.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let wanted = packages.join("\n");
        if fs::read_to_string(&made_of).is_ok_and(|made_of| made_of == wanted) {
            return Self { folder };
        }
        let _ = fs::remove_dir_all(&folder);
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&folder).args(packages);
        finish(install, INSTALL_WITHIN).ok();
        fs::write(&made_of, wanted).unwrap();
        Self { folder }
    }

    /// Where they are; programs of theirs are in its `bin`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A Python that knows the packages, and is told what to run.
    pub(crate) fn python(&self) -> Command {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", &self.folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a script of `tests/` to its end.
    #[track_caller]
    pub(crate) fn run(&self, script: &str, arguments: &[&str], patience: Duration) -> Finished {
        let mut command = self.python();
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script)).args(arguments);
        finish(command, patience)
    }
}
