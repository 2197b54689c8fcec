//! One process at a time: an advisory lock on a file that says who holds it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use crate::LedgerError;

/// Held as long as this value lives; the kernel lets go of it when the process dies, however it dies.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Locks `path` for `holder`, or says who has it. `what` is how the error calls the thing locked.
    pub fn acquire(path: &Path, what: &str, holder: &str) -> Result<Self, LedgerError> {
        let failed = |error: io::Error| LedgerError::Unavailable {
            store: "file",
            operation: "lock",
            source: format!("{}: {error}", path.display()).into(),
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                file.read_to_string(&mut by).map_err(failed)?;
                let by = if by.is_empty() { "another process".to_owned() } else { by.trim().to_owned() };
                return Err(LedgerError::InUse { what: what.to_owned(), by });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{holder} (pid {})", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}
