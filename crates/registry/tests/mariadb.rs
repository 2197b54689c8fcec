//! MariaDB keeps every promise.

mod bench;

use std::sync::OnceLock;

use bench::{OnServer, database};
use keymill_engines::mariadb::MariaDb;
use keymill_registry::{
    Begun, Bind, Bound, Registry, RegistryError,
    conformance::requests::{KS, attempt, bind, receipt},
};

async fn open() -> OnServer {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    OnServer::new(&SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts")).url())
}

mod mariadb {
    keymill_registry::conformance!(super::open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_away_is_waited_for_and_found() {
    let mut server = MariaDb::start().unwrap();
    let registry = Registry::new(database(&server.url()), true);
    registry.begin(attempt("s", "a")).await.unwrap();
    let bound = Bind { receipt: Some(receipt("s", "a", "done")), ..bind("k", "https://a.example/") };
    assert!(matches!(registry.bind(bound).await.unwrap(), Bound::New(_)));
    server.crash().unwrap();
    let away = registry.entry(KS, "k").await.unwrap_err();
    assert!(matches!(away, RegistryError::Unavailable(_)), "{away:?}");
    server.restart().unwrap();
    assert!(registry.entry(KS, "k").await.unwrap().is_some());
    let answer = Begun::Done { answer: "done".to_owned() };
    assert_eq!(registry.begin(attempt("s", "b")).await.unwrap(), answer);
}
