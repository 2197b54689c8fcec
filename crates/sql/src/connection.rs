//! One connection, whatever the engine behind it.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, MySqlConnection, PgConnection, mysql::MySqlArguments,
    postgres::PgArguments, query::Query,
};

use crate::{
    Dialect, Row, SqlError, Value,
    address::{Address, Driver},
    error::{Complaint, Phase},
    insert, notices,
};

/// How long a transaction of ours may be idle before the engine ends it. A node that is stopped in the
/// middle of one holds locks that all others wait for.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// How long an engine that answered is taken to be there. What is sent to one that has gone meanwhile fails, and if it
/// was a write that commits itself, nobody knows whether it was done.
const FRESH_FOR: Duration = Duration::from_millis(500);

pub(crate) struct Connection {
    wire: Wire,
    timeout: Duration,
    /// Something was left half said: never to be used again.
    spoilt: bool,
    /// No transaction is begun, and what is written is committed by its own statement.
    commits_itself: bool,
    answered_at: Instant,
}

/// What an engine says of rows it was given.
struct Done {
    rows: u64,
    insert_id: u64,
}

enum Wire {
    Postgres(Box<PgConnection>),
    MySql(Box<MySqlConnection>),
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> Result<Self, SqlError> {
        let connect = async {
            Ok(match &address.driver {
                Driver::Postgres(options) => Wire::Postgres(Box::new(options.connect().await?)),
                Driver::MySql(options) => Wire::MySql(Box::new(options.connect().await?)),
            })
        };
        let wire =
            answer(address.timeout, connect).await.map_err(|complaint| complaint.during(Phase::Connect))?;
        let timeout = address.timeout;
        let mut connection =
            Self { wire, timeout, spoilt: false, commits_itself: false, answered_at: Instant::now() };
        connection.set_up().await?;
        Ok(connection)
    }

    /// What every transaction relies on, whatever the server's defaults are.
    async fn set_up(&mut self) -> Result<(), SqlError> {
        let (wait, idle) = (self.timeout.as_millis().max(1), IDLE_IN_TRANSACTION.as_millis());
        match self.wire {
            Wire::Postgres(_) => {
                self.command(&format!(
                    "SET default_transaction_isolation = 'read committed';
                     SET lock_timeout = {wait};
                     SET idle_in_transaction_session_timeout = {idle};
                     SET jit = off;
                     SET enable_seqscan = off;
                     SELECT set_config('synchronous_commit', 'on', false)
                     WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
                ))
                .await
            }
            Wire::MySql(_) => {
                let (wait, idle) = (wait.div_ceil(1_000), idle / 1_000);
                self.command("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                // What does not fit is an error, and never cut off.
                self.command("SET SESSION sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES')").await?;
                self.command(&format!("SET SESSION innodb_lock_wait_timeout = {wait}")).await?;
                let version = self.fetch("SELECT version()", &[]).await?;
                let version = version.first().map(|row| row.text(0)).transpose()?.unwrap_or_default();
                // MySQL has no limit for transactions alone; a connection that it ends is opened again.
                let limit =
                    if version.contains("MariaDB") { "idle_transaction_timeout" } else { "wait_timeout" };
                self.command(&format!("SET SESSION {limit} = {idle}")).await
            }
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.wire {
            Wire::Postgres(_) => Dialect::Postgres,
            Wire::MySql(_) => Dialect::MySql,
        }
    }

    pub(crate) fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    /// Whether the engine was there a moment ago, so that it need not be asked whether it is.
    pub(crate) fn is_fresh(&self) -> bool {
        self.answered_at.elapsed() < FRESH_FOR
    }

    /// From now on, what is written is committed by its own statement, or no longer is.
    pub(crate) fn commits_itself(&mut self, so: bool) {
        self.commits_itself = so;
    }

    /// Statements without values or answers.
    pub(crate) async fn command(&mut self, sql: &str) -> Result<(), SqlError> {
        self.say(sql, Phase::Statement).await
    }

    /// Success means that the engine promises the transaction is durable, without a "but".
    pub(crate) async fn commit(&mut self) -> Result<(), SqlError> {
        match notices::heard(self.say("COMMIT", Phase::Commit)).await {
            (Ok(()), Some(warning)) => Err(SqlError::Unknown(warning)),
            (outcome, _) => outcome,
        }
    }

    async fn say(&mut self, sql: &str, phase: Phase) -> Result<(), SqlError> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        // Not an answer yet: if this future is dropped half way, so is the connection.
        self.spoilt = true;
        let said = match &mut self.wire {
            Wire::Postgres(wire) => {
                answer(self.timeout, async { sql.execute(&mut **wire).await.map(drop) }).await
            }
            Wire::MySql(wire) => {
                answer(self.timeout, async { sql.execute(&mut **wire).await.map(drop) }).await
            }
        };
        self.settle(said, phase)
    }

    pub(crate) async fn fetch(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, SqlError> {
        let text = AssertSqlSafe(self.dialect().placed(sql));
        self.spoilt = true;
        let fetched = match &mut self.wire {
            Wire::Postgres(wire) => {
                let query = bind_postgres(sqlx::query(text), values);
                let rows = answer(self.timeout, query.fetch_all(&mut **wire)).await;
                rows.map(|rows| rows.into_iter().map(Row::from).collect())
            }
            Wire::MySql(wire) => {
                let query = bind_mysql(sqlx::query(text), values);
                let rows = answer(self.timeout, query.fetch_all(&mut **wire)).await;
                rows.map(|rows| rows.into_iter().map(Row::from).collect())
            }
        };
        self.settle(fetched, Phase::Statement)
    }

    /// How many rows the statement found to write.
    pub(crate) async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, SqlError> {
        self.put(sql, values, Phase::Statement).await.map(|done| done.rows)
    }

    /// The same of rows that must not be there yet.
    pub(crate) async fn put_new(&mut self, sql: &str, values: &[Value]) -> Result<u64, SqlError> {
        self.put(sql, values, Phase::Load).await.map(|done| done.rows)
    }

    /// Whether [`Dialect::insert_absent`] of one row put it.
    pub(crate) async fn insert_absent(&mut self, sql: &str, values: &[Value]) -> Result<bool, SqlError> {
        let Done { rows, insert_id } = self.put(sql, values, Phase::Statement).await?;
        Ok(rows > 0 && insert_id == 0)
    }

    /// A statement with a list for each column instead of a value, which only PostgreSQL knows.
    pub(crate) async fn fetch_by_lists(
        &mut self,
        sql: &str,
        rows: &[&[Value]],
    ) -> Result<Vec<Row>, SqlError> {
        let text = AssertSqlSafe(self.dialect().placed(sql));
        let Wire::Postgres(wire) = &mut self.wire else {
            return Err(SqlError::Refused("only PostgreSQL takes lists".to_owned()));
        };
        let query = bind_columns(sqlx::query(text), rows)?;
        self.spoilt = true;
        let fetched = answer(self.timeout, query.fetch_all(&mut **wire)).await;
        self.settle(fetched.map(|rows| rows.into_iter().map(Row::from).collect()), Phase::Statement)
    }

    async fn put(&mut self, sql: &str, values: &[Value], phase: Phase) -> Result<Done, SqlError> {
        let text = AssertSqlSafe(self.dialect().placed(sql));
        self.spoilt = true;
        let done = match &mut self.wire {
            Wire::Postgres(wire) => {
                let query = bind_postgres(sqlx::query(text), values);
                let done = answer(self.timeout, query.execute(&mut **wire)).await;
                done.map(|done| Done { rows: done.rows_affected(), insert_id: 0 })
            }
            Wire::MySql(wire) => {
                let query = bind_mysql(sqlx::query(text), values);
                let done = answer(self.timeout, query.execute(&mut **wire)).await;
                done.map(|done| Done { rows: done.rows_affected(), insert_id: done.last_insert_id() })
            }
        };
        self.settle(done, phase)
    }

    /// PostgreSQL's own way to take many rows, spelled as [`insert::copied`] does. `None` from an engine that
    /// has no such way.
    pub(crate) async fn copy<'r>(
        &mut self,
        sql: &str,
        chunks: impl Iterator<Item = &'r [Vec<Value>]>,
    ) -> Result<Option<u64>, SqlError> {
        let Wire::Postgres(wire) = &mut self.wire else { return Ok(None) };
        self.spoilt = true;
        let timeout = self.timeout;
        let copying = async {
            let mut copy = answer(timeout, wire.copy_in_raw(sql)).await?;
            for chunk in chunks {
                answer(timeout, copy.send(insert::copied(chunk).into_bytes())).await?;
            }
            answer(timeout, copy.finish()).await
        };
        let copied = copying.await;
        self.settle(copied, Phase::Load).map(Some)
    }

    /// The engine answered, or it did not: then this connection is done with.
    fn settle<T>(&mut self, answered: Result<T, Complaint>, phase: Phase) -> Result<T, SqlError> {
        let phase = if self.commits_itself { Phase::Whole } else { phase };
        match answered {
            Ok(answer) => {
                self.spoilt = false;
                self.answered_at = Instant::now();
                Ok(answer)
            }
            Err(complaint) => {
                self.spoilt = complaint.ends_connection();
                Err(complaint.during(phase))
            }
        }
    }
}

async fn answer<T>(
    within: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Complaint> {
    match tokio::time::timeout(within, asked).await {
        Ok(answered) => answered.map_err(|error| Complaint::of(&error)),
        Err(_) => Err(Complaint::timed_out()),
    }
}

fn bind_postgres<'q>(
    query: Query<'q, sqlx::Postgres, PgArguments>,
    values: &[Value],
) -> Query<'q, sqlx::Postgres, PgArguments> {
    values.iter().cloned().fold(query, |query, value| match value {
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Flag(value) => query.bind(value),
    })
}

/// A list for each column; the first row says of what.
fn bind_columns<'q>(
    mut query: Query<'q, sqlx::Postgres, PgArguments>,
    rows: &[&[Value]],
) -> Result<Query<'q, sqlx::Postgres, PgArguments>, SqlError> {
    let mixed = || SqlError::Refused("a column of several types cannot be put".to_owned());
    let columns = rows.first().map_or(0, |row| row.len());
    for column in 0..columns {
        let values = rows.iter().map(|row| &row[column]);
        query = match &rows[0][column] {
            Value::Integer(_) => {
                let list = values
                    .map(|value| if let Value::Integer(value) = value { Ok(*value) } else { Err(mixed()) });
                query.bind(list.collect::<Result<Vec<_>, _>>()?)
            }
            Value::Text(_) => {
                let list =
                    values.map(
                        |value| if let Value::Text(value) = value { Ok(value.clone()) } else { Err(mixed()) },
                    );
                query.bind(list.collect::<Result<Vec<_>, _>>()?)
            }
            Value::Flag(_) => {
                let list = values
                    .map(|value| if let Value::Flag(value) = value { Ok(*value) } else { Err(mixed()) });
                query.bind(list.collect::<Result<Vec<_>, _>>()?)
            }
        };
    }
    Ok(query)
}

fn bind_mysql<'q>(
    query: Query<'q, sqlx::MySql, MySqlArguments>,
    values: &[Value],
) -> Query<'q, sqlx::MySql, MySqlArguments> {
    values.iter().cloned().fold(query, |query, value| match value {
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Flag(value) => query.bind(value),
    })
}
