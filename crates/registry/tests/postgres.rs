//! PostgreSQL keeps every promise.

mod bench;

use std::sync::OnceLock;

use bench::{OnServer, database};
use keymill_engines::postgres::Postgres;
use keymill_registry::{
    Begun, Bind, Bound, Registry, RegistryError,
    conformance::requests::{KS, NOW, attempt, bind, receipt},
};

async fn open() -> OnServer {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    OnServer::new(&SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts")).url())
}

mod postgres {
    keymill_registry::conformance!(super::open);
}

/// A commit whose wait for a standby is cancelled took effect here, and nobody knows where else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_whose_outcome_nobody_knows_may_be_asked_for_again() {
    let server = Postgres::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    assert_eq!(registry.begin(attempt("s", "a")).await.unwrap(), Begun::Go);
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let bind = Bind { receipt: Some(receipt("s", "a", "done")), ..bind("k", "https://a.example/") };
    let asked = tokio::spawn({
        let (registry, bind) = (registry.clone(), bind.clone());
        async move { registry.bind(bind).await }
    });
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while server.sql(cancel).unwrap().trim() != "1" {
        assert!(!asked.is_finished(), "it did not wait");
    }
    let outcome = asked.await.unwrap();
    assert!(matches!(outcome, Err(RegistryError::Unknown(_))), "{outcome:?}");
    server.sql("ALTER SYSTEM RESET synchronous_standby_names").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let again = registry.bind(bind).await.unwrap();
    assert_eq!(again, Bound::Overtaken { answer: Some("done".to_owned()) }, "its own answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_outlives_a_crash_and_what_was_only_begun_leaves_nothing() {
    let mut server = Postgres::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    for scope in ["bound", "begun"] {
        assert_eq!(registry.begin(attempt(scope, "a")).await.unwrap(), Begun::Go);
    }
    let bound = Bind { receipt: Some(receipt("bound", "a", "done")), ..bind("k", "https://a.example/") };
    assert!(matches!(registry.bind(bound).await.unwrap(), Bound::New(_)));
    server.crash().unwrap();
    let away = registry.entry(KS, "k").await.unwrap_err();
    assert!(matches!(away, RegistryError::Unavailable(_)), "{away:?}");
    server.restart().unwrap();
    let answer = Begun::Done { answer: "done".to_owned() };
    assert_eq!(registry.begin(attempt("bound", "b")).await.unwrap(), answer);
    assert!(registry.entry(KS, "k").await.unwrap().unwrap().is_live_link(NOW));
    assert_eq!(registry.begin(attempt("begun", "b")).await.unwrap(), Begun::InProgress);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_only_where_that_is_allowed() {
    let server = Postgres::start().unwrap();
    let careful = Registry::new(database(&server.url()), false);
    let refused = careful.entry(KS, "k").await.unwrap_err();
    assert!(matches!(&refused, RegistryError::Refused(said) if said.contains("migrate")), "{refused}");
    assert_eq!(careful.migrate().await.unwrap().found, 0);
    assert_eq!(careful.entry(KS, "k").await.unwrap(), None, "and the same handle goes on");
}
