//! PostgreSQL keeps every promise.

mod bench;

use std::{sync::OnceLock, time::Duration};

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
    assert_eq!(registry.entry(KS, "k").await.unwrap(), None);
    assert_eq!(registry.begin(attempt("s", "a")).await.unwrap(), Begun::Go);
    let bind = Bind { receipt: Some(receipt("s", "a", "done")), ..bind("k", "https://a.example/") };
    leave_unknown(&server, &registry, &bind).await;
    let again = registry.bind(bind).await.unwrap();
    assert_eq!(again, Bound::Overtaken { answer: Some("done".to_owned()) }, "its own answer");
}

/// The same of one that is committed by its own statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_bind_whose_outcome_nobody_knows_is_told_so() {
    let server = Postgres::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    assert!(matches!(registry.bind(bind("first", "https://a.example/")).await.unwrap(), Bound::New(_)));
    let bind = bind("k", "https://a.example/");
    leave_unknown(&server, &registry, &bind).await;
    let again = registry.bind(bind).await.unwrap();
    assert!(matches!(again, Bound::Same(_)), "{again:?}");
}

/// Binds so that nobody knows whether it was done, although it was.
async fn leave_unknown(server: &Postgres, registry: &Registry, bind: &Bind) {
    server.hold_commits().unwrap();
    let (registry, bind) = (registry.clone(), bind.clone());
    let asked = tokio::spawn(async move { registry.bind(bind).await });
    while !server.cancel_held().unwrap() {
        assert!(!asked.is_finished(), "it did not wait");
    }
    let outcome = asked.await.unwrap();
    assert!(matches!(outcome, Err(RegistryError::Unknown(_))), "{outcome:?}");
    server.release_commits().unwrap();
}

/// Those who ask at once are asked for by one statement, and the engine refuses all of it for one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_for_somebody_else() {
    let server = Postgres::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    assert_eq!(registry.entry(KS, "k").await.unwrap(), None);
    server.sql("ALTER TABLE keymill_registry_names ADD CHECK (name NOT LIKE 'poison%')").unwrap();
    let names = (0..64).map(|n| if n % 16 == 7 { format!("poison{n}") } else { format!("k{n}") });
    let asked: Vec<_> = names
        .map(|name| {
            let registry = registry.clone();
            let asked = bind(&name, "https://a.example/");
            (name, tokio::spawn(async move { registry.bind(asked).await }))
        })
        .collect();
    for (name, asked) in asked {
        let outcome = asked.await.unwrap();
        if name.starts_with("poison") {
            assert!(matches!(outcome, Err(RegistryError::Refused(_))), "{name}: {outcome:?}");
        } else {
            assert!(matches!(outcome, Ok(Bound::New(_))), "{name}: {outcome:?}");
        }
    }
}

/// A connection that nobody used for a while may be a dead one, and what is sent to it is not to be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_after_a_restart_of_the_engine_is_done() {
    let mut server = Postgres::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    assert!(matches!(registry.bind(bind("k1", "https://a.example/")).await.unwrap(), Bound::New(_)));
    server.crash().unwrap();
    server.restart().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(registry.bind(bind("k2", "https://a.example/")).await.unwrap(), Bound::New(_)));
    assert!(registry.entry(KS, "k1").await.unwrap().is_some());
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
