//! What the engine is, and what its acknowledgement is worth as it is set up.

use keymill_sql::{Dialect, SqlError, Statements as _, Transaction, identity};

/// What was found of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Engine {
    /// Its identity, as an expression.
    pub(super) incarnation: &'static str,
    /// Why an acknowledged write may be forgotten; empty if it may not.
    pub(super) doubts: Vec<String>,
}

pub(super) async fn look(transaction: &mut Transaction) -> Result<Engine, SqlError> {
    match transaction.dialect() {
        Dialect::Postgres => look_at_postgres(transaction).await,
        Dialect::MySql => look_at_mysql(transaction).await,
        Dialect::Sqlite => Err(SqlError::Refused("a file is not shared".to_owned())),
    }
}

async fn look_at_postgres(transaction: &mut Transaction) -> Result<Engine, SqlError> {
    if words(transaction, "SELECT CAST(pg_is_in_recovery() AS TEXT)").await?.contains(&"true".to_owned()) {
        return Err(read_only());
    }
    let mut doubts = Vec::new();
    for setting in ["fsync", "full_page_writes"] {
        let value = words(transaction, &format!("SELECT current_setting('{setting}')")).await?.join(" ");
        if value != "on" {
            doubts.push(format!("{setting} is {value}"));
        }
    }
    // Without the right to see what a standby is, it is taken for an asynchronous one.
    let standbys = "SELECT coalesce(application_name, 'unnamed') FROM pg_stat_replication \
                    WHERE coalesce(state, '') <> 'backup' AND coalesce(sync_state, '') NOT IN ('sync', 'quorum')";
    for standby in words(transaction, standbys).await? {
        doubts.push(format!(
            "standby `{standby}` is asynchronous (or pg_monitor is not granted, so that one cannot tell)"
        ));
    }
    Ok(Engine { incarnation: identity(transaction).await?, doubts })
}

async fn look_at_mysql(transaction: &mut Transaction) -> Result<Engine, SqlError> {
    let version = words(transaction, "SELECT version()").await?.join(" ");
    let is_mariadb = version.contains("MariaDB");
    if number(transaction, "SELECT CAST(@@global.read_only AS SIGNED)").await? != 0 {
        return Err(read_only());
    }
    let mut doubts = Vec::new();
    let flush = number(transaction, "SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)").await?;
    if flush != 1 {
        doubts.push(format!("innodb_flush_log_at_trx_commit is {flush}, not 1"));
    }
    if number(transaction, "SELECT CAST(@@log_bin AS SIGNED)").await? != 0 {
        let sync = number(transaction, "SELECT CAST(@@sync_binlog AS SIGNED)").await?;
        if sync != 1 {
            doubts.push(format!("the binary log is on and sync_binlog is {sync}, not 1"));
        }
        let replicas = replicas(transaction, is_mariadb).await?;
        if replicas != 0 {
            doubts.push(format!("{replicas} replicas follow asynchronously"));
        }
    }
    Ok(Engine { incarnation: identity(transaction).await?, doubts })
}

/// How many replicas are connected. MySQL shows that only to those who may see other users' threads; whoever
/// may not sees none.
async fn replicas(transaction: &mut Transaction, is_mariadb: bool) -> Result<i64, SqlError> {
    let sql = if is_mariadb {
        "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
         WHERE variable_name = 'SLAVES_CONNECTED'"
    } else {
        "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    };
    number(transaction, sql).await
}

fn read_only() -> SqlError {
    SqlError::Unavailable(
        "it is a read-only standby; name the primary in ledger.url, or wait until it is promoted".to_owned(),
    )
}

/// The first column of an answer.
async fn words(transaction: &mut Transaction, sql: &str) -> Result<Vec<String>, SqlError> {
    transaction.query(sql, &[]).await?.iter().map(|row| row.text(0)).collect()
}

async fn number(transaction: &mut Transaction, sql: &str) -> Result<i64, SqlError> {
    let rows = transaction.query(sql, &[]).await?;
    rows.first().ok_or_else(|| SqlError::Unexpected(format!("no answer to `{sql}`")))?.integer(0)
}
