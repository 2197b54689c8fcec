//! What can go wrong, told apart by what it says of the transaction.

use crate::Dialect;

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
}

/// When something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connect,
    Statement,
    Commit,
}

/// What the driver complained of: the engine's own code, if it was the engine that spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// SQLSTATE on PostgreSQL, the error number on MySQL.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    /// The configuration cannot work: a bad certificate, a TLS mode the server does not have.
    pub(crate) misconfigured: bool,
}

impl Complaint {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let code = match error {
            sqlx::Error::Database(error) => {
                match error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
                    Some(mysql) => Some(mysql.number().to_string()),
                    None => error.code().map(|code| code.into_owned()),
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
    pub(crate) fn ends_connection(&self, dialect: Dialect) -> bool {
        match (&self.code, dialect) {
            (None, _) => true,
            (Some(code), Dialect::Postgres) => {
                code.starts_with("57") || code.starts_with("08") || code == "25P03"
            }
            (Some(code), Dialect::MySql) => matches!(code.as_str(), "1053" | "1927" | "4031"),
        }
    }

    /// The consequence for the transaction.
    pub(crate) fn during(self, phase: Phase, dialect: Dialect) -> SqlError {
        let Self { code, message, misconfigured } = self;
        let said = match &code {
            Some(code) => format!("{message} ({code})"),
            None => message,
        };
        let Some(code) = code else {
            return match phase {
                Phase::Commit => SqlError::Unknown(said),
                _ if misconfigured => SqlError::Refused(said),
                Phase::Connect | Phase::Statement => SqlError::Unavailable(said),
            };
        };
        let kind = match dialect {
            Dialect::Postgres => postgres(&code),
            Dialect::MySql => mysql(&code),
        };
        match (phase, kind) {
            // The engine itself says that it undid everything.
            (Phase::Commit, Kind::Conflict) => SqlError::Aborted(said),
            (Phase::Commit, _) => SqlError::Unknown(said),
            (_, Kind::Conflict) => SqlError::Aborted(said),
            (_, Kind::ReadOnly) => SqlError::Unavailable(format!(
                "it is a read-only standby: {said}; name the primary in the URL, or wait until it is one"
            )),
            (_, Kind::Busy) => SqlError::Unavailable(said),
            (_, Kind::No) => SqlError::Refused(said),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Another transaction was in the way: a deadlock, a lock that did not come, a row that came first.
    Conflict,
    ReadOnly,
    /// Full, starting, stopping.
    Busy,
    No,
}

fn postgres(code: &str) -> Kind {
    match code {
        "40001" | "40P01" | "55P03" | "23505" => Kind::Conflict,
        "25006" => Kind::ReadOnly,
        // An idle transaction that was ended, a statement that was cancelled.
        "25P03" => Kind::Busy,
        _ if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => Kind::Busy,
        _ => Kind::No,
    }
}

fn mysql(code: &str) -> Kind {
    match code {
        // Deadlock, lock wait timeout, duplicate key, record changed, NOWAIT.
        "1213" | "1205" | "1062" | "1020" | "3572" => Kind::Conflict,
        "1290" | "1792" | "1836" => Kind::ReadOnly,
        // Too many connections, shutting down, network, killed, interrupted, disk or table full, timeouts.
        "1040" | "1053" | "1077" | "1079" | "1152" | "1158" | "1159" | "1160" | "1161" | "1203" | "1226"
        | "1317" | "1927" | "1021" | "1114" | "1047" | "3024" | "4031" => Kind::Busy,
        _ => Kind::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(code: Option<&str>) -> Complaint {
        Complaint { code: code.map(str::to_owned), message: "so it says".to_owned(), misconfigured: false }
    }

    #[test]
    fn only_a_commit_can_end_in_an_unknown_outcome() {
        for dialect in [Dialect::Postgres, Dialect::MySql] {
            for phase in [Phase::Connect, Phase::Statement] {
                let error = complaint(None).during(phase, dialect);
                assert!(matches!(error, SqlError::Unavailable(_)), "{error:?}");
            }
            assert!(matches!(complaint(None).during(Phase::Commit, dialect), SqlError::Unknown(_)));
        }
    }

    #[test]
    fn a_commit_is_known_to_be_undone_only_if_the_engine_says_so() {
        let postgres = |code| complaint(Some(code)).during(Phase::Commit, Dialect::Postgres);
        assert!(matches!(postgres("40001"), SqlError::Aborted(_)));
        // Shut down while it waited for a standby: it is committed here, and perhaps nowhere else.
        assert!(matches!(postgres("57P01"), SqlError::Unknown(_)));
        assert!(matches!(postgres("XX000"), SqlError::Unknown(_)));
        let mysql = |code| complaint(Some(code)).during(Phase::Commit, Dialect::MySql);
        assert!(matches!(mysql("1213"), SqlError::Aborted(_)));
        assert!(matches!(mysql("1180"), SqlError::Unknown(_)));
    }

    #[test]
    fn statements_are_sorted_by_what_the_caller_does_next() {
        let postgres = |code| complaint(Some(code)).during(Phase::Statement, Dialect::Postgres);
        assert!(matches!(postgres("40P01"), SqlError::Aborted(_)));
        assert!(matches!(postgres("23505"), SqlError::Aborted(_)));
        assert!(matches!(postgres("53300"), SqlError::Unavailable(_)));
        assert!(matches!(postgres("25006"), SqlError::Unavailable(text) if text.contains("standby")));
        assert!(matches!(postgres("28P01"), SqlError::Refused(_)));
        let mysql = |code| complaint(Some(code)).during(Phase::Statement, Dialect::MySql);
        assert!(matches!(mysql("1205"), SqlError::Aborted(_)));
        assert!(matches!(mysql("1290"), SqlError::Unavailable(text) if text.contains("standby")));
        assert!(matches!(mysql("1045"), SqlError::Refused(_)));
    }
}
