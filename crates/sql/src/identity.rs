//! What tells one engine from another, so that a failover or a restored copy shows.

use crate::{Dialect, SqlError, Statements};

/// The cluster's identity and its timeline: the first changes with a logical restore, the second with every
/// promotion and every restore to a point in time. Read where the log is written now, because a promoted
/// standby's control file tells the old timeline until its first checkpoint.
const POSTGRES: &str = "concat('system ', (SELECT system_identifier FROM pg_control_system()), \
     ' timeline ', CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint()) \
     ELSE CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS BIT(32)) AS INTEGER) END)";
/// Kept in the data directory and made anew for a replica.
const MYSQL: &str = "concat('server ', @@server_uuid)";
/// MariaDB gives a server no identity of its own; members of one replication must differ in this.
const MARIADB: &str = "concat('server ', @@global.server_id)";
/// A file has none.
const SQLITE: &str = "'file'";

/// The engine's identity, as an expression for a `SELECT`.
pub async fn identity<S: Statements>(statements: &mut S) -> Result<&'static str, SqlError> {
    Ok(match statements.dialect() {
        Dialect::Postgres => POSTGRES,
        Dialect::MySql if is_mariadb(statements).await? => MARIADB,
        Dialect::MySql => MYSQL,
        Dialect::Sqlite => SQLITE,
    })
}

async fn is_mariadb<S: Statements>(statements: &mut S) -> Result<bool, SqlError> {
    let version = statements.query("SELECT version()", &[]).await?;
    let version = version.first().map(|row| row.text(0)).transpose()?;
    Ok(version.is_some_and(|version| version.contains("MariaDB")))
}
