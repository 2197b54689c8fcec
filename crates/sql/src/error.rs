//! What can go wrong, told apart by what it says of the transaction.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// Nothing was changed. Run it again: someone else was in the way, and may be gone.
    #[error("the transaction was undone: {0}")]
    Aborted(String),
    /// Nothing was changed. Try again later: the engine cannot be reached, or not be written now.
    #[error("{0}")]
    Unavailable(String),
    /// `COMMIT` was sent, and nobody knows what became of it.
    #[error("nobody knows whether the transaction was committed: {0}")]
    Unknown(String),
    /// Nothing was changed, and asking again will not help: credentials, permissions, a missing table.
    #[error("{0}")]
    Refused(String),
    /// A value is not what it was written as.
    #[error("{0}")]
    Unexpected(String),
    /// A write to the disk failed half way, and what is on it is no longer known. Stop the process: an embedded
    /// engine that is broken reads and writes nothing more.
    #[error("its disk failed: {0}; restart after checking the disk")]
    Broken(String),
}

/// When something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connect,
    Statement,
    /// A statement that puts new rows: one that is there already will be there again.
    Load,
    Commit,
    /// A statement that is committed by itself: what goes wrong may have gone wrong before or after.
    Whole,
}

/// What an engine over the wire complained of: its own code, if it was the engine that spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) code: Option<Code>,
    pub(crate) message: String,
    /// The configuration cannot work: a bad certificate, a TLS mode the server does not have.
    pub(crate) misconfigured: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Code {
    /// SQLSTATE.
    Postgres(String),
    MySql(u16),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(code) => code.fmt(f),
            Self::MySql(number) => number.fmt(f),
        }
    }
}

impl Complaint {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let code = match error {
            sqlx::Error::Database(error) => {
                match error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
                    Some(mysql) => Some(Code::MySql(mysql.number())),
                    None => error.code().map(|code| Code::Postgres(code.into_owned())),
                }
            }
            _ => None,
        };
        let message = match error {
            sqlx::Error::Database(error) => error.message().to_owned(),
            other => other.to_string(),
        };
        let misconfigured = matches!(error, sqlx::Error::Tls(_) | sqlx::Error::Configuration(_));
        Self { code, message, misconfigured }
    }

    pub(crate) fn timed_out() -> Self {
        Self { code: None, message: "no answer in time".to_owned(), misconfigured: false }
    }

    /// Whether the connection can be used no more: the engine did not answer, or said that it ends it.
    pub(crate) fn ends_connection(&self) -> bool {
        match &self.code {
            None => true,
            Some(Code::Postgres(code)) => code.starts_with("57") || code.starts_with("08") || code == "25P03",
            Some(Code::MySql(number)) => matches!(number, 1053 | 1927 | 4031),
        }
    }

    /// The consequence for the transaction.
    pub(crate) fn during(self, phase: Phase) -> SqlError {
        let Self { code, message, misconfigured } = self;
        let said = match &code {
            Some(code) => format!("{message} ({code})"),
            None => message,
        };
        let kind = match code {
            Some(Code::Postgres(code)) => postgres(&code),
            Some(Code::MySql(number)) => mysql(number),
            None => {
                return match phase {
                    Phase::Commit | Phase::Whole => SqlError::Unknown(said),
                    _ if misconfigured => SqlError::Refused(said),
                    Phase::Connect | Phase::Statement | Phase::Load => SqlError::Unavailable(said),
                };
            }
        };
        match (phase, kind) {
            // The engine itself says that it undid everything.
            (Phase::Commit, Kind::Conflict | Kind::Duplicate) => SqlError::Aborted(said),
            (Phase::Commit, _) | (Phase::Whole, Kind::Busy | Kind::No) => SqlError::Unknown(said),
            (Phase::Load, Kind::Duplicate) => SqlError::Refused(said),
            (_, Kind::Conflict | Kind::Duplicate) => SqlError::Aborted(said),
            (_, Kind::ReadOnly) => SqlError::Unavailable(format!(
                "it is a read-only standby: {said}; name the primary in the URL, or wait until it is one"
            )),
            (_, Kind::Busy) => SqlError::Unavailable(said),
            (_, Kind::Wrong | Kind::No) => SqlError::Refused(said),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Another transaction was in the way: a deadlock, a lock that did not come.
    Conflict,
    /// A row that came first.
    Duplicate,
    ReadOnly,
    /// Full, starting, stopping.
    Busy,
    /// The statement itself, which was therefore not carried out: a value, a constraint, a table that is not there.
    Wrong,
    No,
}

fn postgres(code: &str) -> Kind {
    match code {
        "40001" | "40P01" | "55P03" => Kind::Conflict,
        "23505" => Kind::Duplicate,
        "25006" => Kind::ReadOnly,
        // An idle transaction that was ended, a statement that was cancelled.
        "25P03" => Kind::Busy,
        _ if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => Kind::Busy,
        _ if ["22", "23", "42"].iter().any(|class| code.starts_with(class)) => Kind::Wrong,
        _ => Kind::No,
    }
}

fn mysql(number: u16) -> Kind {
    match number {
        // Deadlock, lock wait timeout, record changed, NOWAIT.
        1213 | 1205 | 1020 | 3572 => Kind::Conflict,
        1062 => Kind::Duplicate,
        1290 | 1792 | 1836 => Kind::ReadOnly,
        // Too many connections, shutting down, network, killed, interrupted, disk or table full, timeouts.
        1040 | 1053 | 1077 | 1079 | 1152 | 1158 | 1159 | 1160 | 1161 | 1203 | 1226 | 1317 | 1927 | 1021
        | 1114 | 1047 | 3024 | 4031 => Kind::Busy,
        _ => Kind::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(code: Option<Code>) -> Complaint {
        Complaint { code, message: "so it says".to_owned(), misconfigured: false }
    }

    fn postgres(code: &str, phase: Phase) -> SqlError {
        complaint(Some(Code::Postgres(code.to_owned()))).during(phase)
    }

    fn mysql(number: u16, phase: Phase) -> SqlError {
        complaint(Some(Code::MySql(number))).during(phase)
    }

    #[test]
    fn only_a_commit_can_end_in_an_unknown_outcome() {
        for phase in [Phase::Connect, Phase::Statement] {
            let error = complaint(None).during(phase);
            assert!(matches!(error, SqlError::Unavailable(_)), "{error:?}");
        }
        assert!(matches!(complaint(None).during(Phase::Commit), SqlError::Unknown(_)));
    }

    #[test]
    fn a_commit_is_known_to_be_undone_only_if_the_engine_says_so() {
        assert!(matches!(postgres("40001", Phase::Commit), SqlError::Aborted(_)));
        // Shut down while it waited for a standby: it is committed here, and perhaps nowhere else.
        assert!(matches!(postgres("57P01", Phase::Commit), SqlError::Unknown(_)));
        assert!(matches!(postgres("XX000", Phase::Commit), SqlError::Unknown(_)));
        assert!(matches!(mysql(1213, Phase::Commit), SqlError::Aborted(_)));
        assert!(matches!(mysql(1180, Phase::Commit), SqlError::Unknown(_)));
    }

    #[test]
    fn a_statement_that_commits_itself_is_undone_only_if_the_engine_says_so() {
        let whole = |code| postgres(code, Phase::Whole);
        assert!(matches!(complaint(None).during(Phase::Whole), SqlError::Unknown(_)), "no answer");
        assert!(matches!(whole("57P01"), SqlError::Unknown(_)));
        assert!(matches!(whole("XX000"), SqlError::Unknown(_)));
        assert!(matches!(whole("40P01"), SqlError::Aborted(_)));
        assert!(matches!(whole("22021"), SqlError::Refused(_)), "a value that it does not take");
        assert!(matches!(whole("42P01"), SqlError::Refused(_)), "a table that is not there");
        assert!(matches!(whole("25006"), SqlError::Unavailable(_)));
    }

    #[test]
    fn statements_are_sorted_by_what_the_caller_does_next() {
        let postgres = |code| postgres(code, Phase::Statement);
        assert!(matches!(postgres("40P01"), SqlError::Aborted(_)));
        assert!(matches!(postgres("23505"), SqlError::Aborted(_)));
        assert!(matches!(postgres("53300"), SqlError::Unavailable(_)));
        assert!(matches!(postgres("25006"), SqlError::Unavailable(text) if text.contains("standby")));
        assert!(matches!(postgres("28P01"), SqlError::Refused(_)));
        let mysql = |number| mysql(number, Phase::Statement);
        assert!(matches!(mysql(1205), SqlError::Aborted(_)));
        assert!(matches!(mysql(1290), SqlError::Unavailable(text) if text.contains("standby")));
        assert!(matches!(mysql(1045), SqlError::Refused(_)));
    }

    #[test]
    fn a_load_of_what_is_there_is_not_worth_another_try() {
        assert!(matches!(postgres("23505", Phase::Load), SqlError::Refused(_)));
        assert!(matches!(mysql(1062, Phase::Load), SqlError::Refused(_)));
        assert!(matches!(mysql(1213, Phase::Load), SqlError::Aborted(_)));
    }
}
