//! PostgreSQL keeps every promise.

mod bench;

use std::sync::OnceLock;

use bench::OnServer;
use keymill_engines::postgres::Postgres;

async fn open() -> OnServer {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    OnServer::new(&SERVER.get_or_init(|| Postgres::start().expect("PostgreSQL starts")).url())
}

mod postgres {
    keymill_registry::conformance!(super::open);
}
