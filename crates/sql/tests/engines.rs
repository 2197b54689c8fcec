//! What the engines really answer, and what is made of it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use keymill_engines::{mariadb::MariaDb, postgres::Postgres};
use keymill_sql::{Access, Address, Database, Schema, SqlError, Statements as _, Tls, Transaction};
use tokio::sync::Barrier;

fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts"))
}

fn mariadb() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts"))
}

fn database(url: &str) -> Database {
    let address = Address::parse(url, &Tls::default(), Duration::from_secs(5)).expect("a good URL");
    Database::new(address)
}

fn both() -> [Database; 2] {
    [database(&postgres().url()), database(&mariadb().url())]
}

async fn do_all(database: &Database, statements: &[&str]) {
    let mut transaction = database.begin(Access::Write).await.unwrap();
    for statement in statements {
        transaction.execute(&database.dialect().typed(statement), &[]).await.unwrap();
    }
    transaction.commit().await.unwrap();
}

async fn count(database: &Database, table: &str) -> i64 {
    let mut transaction = database.begin(Access::Read).await.unwrap();
    let rows = transaction.query(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap();
    rows[0].integer(0).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_come_back_as_they_went_in() {
    for database in both() {
        do_all(
            &database,
            &["CREATE TABLE kept (k {key} NOT NULL PRIMARY KEY, n BIGINT, t {text}, f BOOLEAN NOT NULL){table}"],
        )
        .await;
        let put = database.dialect().upsert("kept", &["k", "n", "t", "f"], 1);
        let mut transaction = database.begin(Access::Write).await.unwrap();
        for (key, number) in [("aB", Some(i64::MAX)), ("Ab", Some(9_007_199_254_740_993)), ("Ab ", None)] {
            let values = [key.into(), number.into(), Some("žluť ☂".to_owned()).into(), true.into()];
            assert_eq!(transaction.execute(&put, &values).await.unwrap(), 1);
        }
        transaction.commit().await.unwrap();
        let mut transaction = database.begin(Access::Read).await.unwrap();
        let rows =
            transaction.query("SELECT k, n, t, f FROM kept WHERE k >= ? ORDER BY k", &["A".into()]).await;
        let rows: Vec<_> = rows
            .unwrap()
            .iter()
            .map(|row| {
                (
                    row.text(0).unwrap(),
                    row.maybe_integer(1).unwrap(),
                    row.text(2).unwrap(),
                    row.flag(3).unwrap(),
                )
            })
            .collect();
        let text = "žluť ☂".to_owned();
        assert_eq!(
            rows,
            [
                ("Ab".to_owned(), Some(9_007_199_254_740_993), text.clone(), true),
                ("Ab ".to_owned(), None, text.clone(), true),
                ("aB".to_owned(), Some(i64::MAX), text, true),
            ],
            "byte by byte: neither case nor a space at the end is folded"
        );
        let wrong = transaction.query("SELECT t FROM kept", &[]).await.unwrap()[0].integer(0).unwrap_err();
        assert!(wrong.to_string().contains("`t`"), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_undoes_the_transaction_and_says_so() {
    for database in both() {
        do_all(&database, &["CREATE TABLE once (k {key} NOT NULL PRIMARY KEY){table}"]).await;
        do_all(&database, &["INSERT INTO once (k) VALUES ('a')"]).await;
        let mut transaction = database.begin(Access::Write).await.unwrap();
        transaction.execute("INSERT INTO once (k) VALUES ('b')", &[]).await.unwrap();
        let refused = transaction.execute("INSERT INTO once (k) VALUES ('a')", &[]).await.unwrap_err();
        assert!(matches!(refused, SqlError::Aborted(_)), "{refused:?}");
        assert!(matches!(transaction.commit().await, Err(SqlError::Aborted(_))), "even if asked to");
        assert_eq!(count(&database, "once").await, 1);
    }
}

async fn lock(transaction: &mut Transaction, row: i64) -> Result<(), SqlError> {
    let sql = format!("SELECT n FROM crossed WHERE n = ?{}", transaction.dialect().exclusive());
    transaction.query(&sql, &[row.into()]).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_deadlock_is_undone() {
    for database in both() {
        do_all(
            &database,
            &[
                "CREATE TABLE crossed (n BIGINT NOT NULL PRIMARY KEY){table}",
                "INSERT INTO crossed VALUES (1), (2)",
            ],
        )
        .await;
        let meet = Arc::new(Barrier::new(2));
        let cross = |first, second| {
            let (database, meet) = (database.clone(), meet.clone());
            tokio::spawn(async move {
                let mut transaction = database.begin(Access::Write).await?;
                lock(&mut transaction, first).await?;
                meet.wait().await;
                lock(&mut transaction, second).await?;
                transaction.commit().await
            })
        };
        let (a, b) = (cross(1, 2), cross(2, 1));
        let outcomes = [a.await.unwrap(), b.await.unwrap()];
        let aborted = outcomes.iter().filter(|outcome| matches!(outcome, Err(SqlError::Aborted(_)))).count();
        assert_eq!(aborted, 1, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_transaction_leaves_nothing_behind() {
    for database in both() {
        do_all(&database, &["CREATE TABLE dropped (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
        for n in 0..20_i64 {
            let mut transaction = database.begin(Access::Write).await.unwrap();
            transaction.execute("INSERT INTO dropped VALUES (?)", &[n.into()]).await.unwrap();
            // In the middle of a statement, too.
            let values = [(n + 100).into()];
            let half = transaction.execute("INSERT INTO dropped VALUES (?)", &values);
            let _ = tokio::time::timeout(Duration::from_micros(50), half).await;
        }
        assert_eq!(count(&database, "dropped").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_and_what_may_is_not() {
    let closed = database("postgres://keymill@127.0.0.1:1/postgres").begin(Access::Read).await.unwrap_err();
    assert!(matches!(&closed, SqlError::Unavailable(said) if said.contains("refused")), "{closed:?}");
    let nowhere = postgres().url().replace("/postgres", "/nowhere");
    let nowhere = database(&nowhere.replacen("postgres:", "postgresql:", 1));
    let missing = nowhere.begin(Access::Read).await.unwrap_err();
    assert!(matches!(&missing, SqlError::Refused(said) if said.contains("nowhere")), "{missing:?}");
    let wrong =
        database(&mariadb().url().replace(":keymill@", ":wrong@")).begin(Access::Read).await.unwrap_err();
    assert!(matches!(&wrong, SqlError::Refused(said) if said.contains("denied")), "{wrong:?}");
    for database in both() {
        let mut reading = database.begin(Access::Read).await.unwrap();
        let refused = reading.execute("CREATE TABLE never (n BIGINT)", &[]).await.unwrap_err();
        assert!(matches!(&refused, SqlError::Unavailable(said) if said.contains("read-only")), "{refused:?}");
    }
}

/// H: a commit that did not wait for its standby was not acknowledged by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_wait_for_a_standby_was_cancelled_is_unknown() {
    let server = Postgres::start().unwrap();
    let database = database(&server.url());
    do_all(&database, &["CREATE TABLE replicated (n BIGINT)"]).await;
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let mut transaction = database.begin(Access::Write).await.unwrap();
    transaction.execute("INSERT INTO replicated VALUES (1)", &[]).await.unwrap();
    let commit = tokio::spawn(transaction.commit());
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while server.sql(cancel).unwrap().trim() != "1" {
        assert!(!commit.is_finished(), "it did not wait");
    }
    let outcome = commit.await.unwrap();
    assert!(
        matches!(&outcome, Err(SqlError::Unknown(said)) if said.contains("canceling wait")),
        "the warning was not heard: {outcome:?}"
    );
    assert_eq!(count(&database, "replicated").await, 1, "and it did take effect here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_not_answered_is_unknown_and_the_next_one_goes_on() {
    let mut server = Postgres::start().unwrap();
    let database = database(&server.url());
    do_all(&database, &["CREATE TABLE cut (n BIGINT)"]).await;
    let mut transaction = database.begin(Access::Write).await.unwrap();
    transaction.execute("INSERT INTO cut VALUES (1)", &[]).await.unwrap();
    server.crash().unwrap();
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Err(SqlError::Unknown(_))), "{outcome:?}");
    assert!(matches!(database.begin(Access::Write).await, Err(SqlError::Unavailable(_))));
    server.restart().unwrap();
    assert_eq!(count(&database, "cut").await, 0);
}

const STEPS: &[&[&str]] = &[
    &[
        "CREATE TABLE {prefix}_things (k {key} NOT NULL PRIMARY KEY){table}",
        "CREATE INDEX {prefix}_i ON {prefix}_things (k)",
    ],
    &["INSERT INTO {prefix}_things VALUES ('one')"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_run_once_however_many_start() {
    for database in both() {
        let old = Schema { prefix: "many", steps: &STEPS[..1] };
        let schema = Schema { prefix: "many", steps: STEPS };
        assert_eq!(schema.version(&database).await.unwrap().found, 0);
        old.migrate(&database).await.unwrap();
        assert_eq!(schema.version(&database).await.unwrap().found, 1);
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let database = database.clone();
                tokio::spawn(async move { Schema { prefix: "many", steps: STEPS }.migrate(&database).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert!(schema.version(&database).await.unwrap().is_current());
        assert_eq!(count(&database, "many_things").await, 1);
        let newer = old.version(&database).await.unwrap_err();
        assert!(matches!(&newer, SqlError::Refused(said) if said.contains("newer Keymill")), "{newer:?}");
    }
}
