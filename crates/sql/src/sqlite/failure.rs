//! SQLite's complaints, sorted by what they say of the transaction.

use rusqlite::{Error, ErrorCode, ffi};

use crate::SqlError;

/// During `operation` of the thread that writes. A commit that failed is rolled back, so that nothing here is
/// in doubt but what a failing disk leaves.
pub(super) fn failure(operation: &str, error: Error) -> SqlError {
    let said = format!("{operation}: {error}");
    match (&error, error.sqlite_error()) {
        (_, Some(ffi::Error { code, extended_code })) => sorted(*code, *extended_code, said),
        (Error::FromSqlConversionFailure(..) | Error::InvalidColumnType(..) | Error::Utf8Error(..), None) => {
            SqlError::Unexpected(said)
        }
        // Our own use of it was wrong: too few values, rows from a statement that has none.
        (_, None) => SqlError::Refused(said),
    }
}

/// During `operation` of a thread that only reads, which breaks nothing.
pub(super) fn reading(operation: &str, error: Error) -> SqlError {
    match failure(operation, error) {
        SqlError::Broken(said) => SqlError::Unavailable(said),
        other => other,
    }
}

fn sorted(code: ErrorCode, extended: i32, said: String) -> SqlError {
    match code {
        ErrorCode::SystemIoFailure => SqlError::Broken(said),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => SqlError::Unexpected(said),
        ErrorCode::ConstraintViolation if is_duplicate(extended) => SqlError::Aborted(said),
        ErrorCode::ReadOnly => SqlError::Unavailable(format!("it is read-only: {said}")),
        ErrorCode::DiskFull
        | ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::CannotOpen
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::FileLockingProtocolFailed => SqlError::Unavailable(said),
        _ => SqlError::Refused(said),
    }
}

/// As the other engines say of a row that came first.
fn is_duplicate(extended: i32) -> bool {
    [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_CONSTRAINT_PRIMARYKEY, ffi::SQLITE_CONSTRAINT_ROWID]
        .contains(&extended)
}
