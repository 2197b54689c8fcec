//! MariaDB keeps every promise.

mod bench;

use std::sync::OnceLock;

use bench::OnServer;
use keymill_engines::mariadb::MariaDb;

async fn open() -> OnServer {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    OnServer::new(&SERVER.get_or_init(|| MariaDb::start().expect("MariaDB starts")).url())
}

mod mariadb {
    keymill_registry::conformance!(super::open);
}
