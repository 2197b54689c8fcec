//! What engines over the wire really answer, and what is made of it.

use std::{sync::Arc, time::Duration};

use keymill_engines::postgres::Postgres;
use keymill_sql::{Access, SqlError, Statements as _, Transaction};
use tokio::sync::Barrier;

use crate::common::{both, count, make, mariadb, postgres, shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_undoes_the_transaction_and_says_so() {
    for database in both() {
        make(&database, &["CREATE TABLE once (k {key} NOT NULL PRIMARY KEY){table}"]).await;
        make(&database, &["INSERT INTO once (k) VALUES ('a')"]).await;
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
        make(
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
        make(&database, &["CREATE TABLE dropped (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
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
    let closed = shared("postgres://keymill@127.0.0.1:1/postgres").begin(Access::Read).await.unwrap_err();
    assert!(matches!(&closed, SqlError::Unavailable(said) if said.contains("refused")), "{closed:?}");
    let nowhere = postgres().url().replace("/postgres", "/nowhere");
    let nowhere = shared(&nowhere.replacen("postgres:", "postgresql:", 1));
    let missing = nowhere.begin(Access::Read).await.unwrap_err();
    assert!(matches!(&missing, SqlError::Refused(said) if said.contains("nowhere")), "{missing:?}");
    let wrong =
        shared(&mariadb().url().replace(":keymill@", ":wrong@")).begin(Access::Read).await.unwrap_err();
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
    let database = shared(&server.url());
    make(&database, &["CREATE TABLE replicated (n BIGINT)"]).await;
    server.hold_commits().unwrap();
    let mut transaction = database.begin(Access::Write).await.unwrap();
    transaction.execute("INSERT INTO replicated VALUES (1)", &[]).await.unwrap();
    let commit = tokio::spawn(transaction.commit());
    while !server.cancel_held().unwrap() {
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
    let database = shared(&server.url());
    make(&database, &["CREATE TABLE cut (n BIGINT)"]).await;
    let mut transaction = database.begin(Access::Write).await.unwrap();
    transaction.execute("INSERT INTO cut VALUES (1)", &[]).await.unwrap();
    server.crash().unwrap();
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Err(SqlError::Unknown(_))), "{outcome:?}");
    assert!(matches!(database.begin(Access::Write).await, Err(SqlError::Unavailable(_))));
    server.restart().unwrap();
    assert_eq!(count(&database, "cut").await, 0);
}
