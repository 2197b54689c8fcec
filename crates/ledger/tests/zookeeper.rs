//! ZooKeeper keeps every promise.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keymill_engines::zookeeper::Zookeeper;
use keymill_ledger::{
    HoleKind, LedgerError, LedgerId, StoreOptions, Tls, ZookeeperStore,
    conformance::{Bench, FailsOver, Rewinds, START, TestNode, number},
};
use zookeeper_client::{Acls, Client, CreateMode};

/// One server for all tests that leave it as it is; each has a prefix of its own.
static SHARED: LazyLock<Zookeeper> = LazyLock::new(|| Zookeeper::start().expect("a ZooKeeper server"));
static LEDGERS: AtomicU64 = AtomicU64::new(0);

fn options(new_id: &str) -> StoreOptions {
    StoreOptions {
        lossy_accepted: false,
        migrate: true,
        timeout: Duration::from_secs(20),
        tls: Tls::default(),
        create: true,
        new_id: LedgerId(new_id.to_owned()),
        at: START,
    }
}

struct Shared {
    prefix: String,
    handles: AtomicU64,
}

async fn open() -> Shared {
    let ledger = LEDGERS.fetch_add(1, Ordering::Relaxed);
    Shared { prefix: format!("test-{ledger}"), handles: AtomicU64::new(0) }
}

/// Folders, and the rows in them.
type Rows = Vec<(String, Vec<(String, Vec<u8>)>)>;

impl Shared {
    async fn client(&self) -> Client {
        Client::connect(&format!("127.0.0.1:{}", SHARED.port())).await.expect("ZooKeeper is up")
    }

    async fn copy(&self) -> Rows {
        let client = self.client().await;
        let mut rows = Rows::new();
        for folder in client.list_children(&format!("/{}", self.prefix)).await.unwrap() {
            let path = format!("/{}/{folder}", self.prefix);
            let mut leaves = Vec::new();
            for leaf in client.list_children(&path).await.unwrap() {
                let (data, _) = client.get_data(&format!("{path}/{leaf}")).await.unwrap();
                leaves.push((leaf, data));
            }
            rows.push((folder, leaves));
        }
        rows
    }

    /// Puts rows in the place of all there are. Folders stay.
    async fn put_back(&self, rows: Rows) {
        let client = self.client().await;
        for (folder, leaves) in self.copy().await {
            for (leaf, _) in leaves {
                client.delete(&format!("/{}/{folder}/{leaf}", self.prefix), None).await.unwrap();
            }
        }
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for (folder, leaves) in rows {
            for (leaf, data) in leaves {
                let path = format!("/{}/{folder}/{leaf}", self.prefix);
                client.create(&path, &data, &persistent).await.unwrap();
            }
        }
    }
}

impl Bench for Shared {
    type Store = ZookeeperStore;

    async fn handle(&self) -> Arc<ZookeeperStore> {
        let url = format!("zookeeper://127.0.0.1:{}/{}", SHARED.port(), self.prefix);
        let id = self.handles.fetch_add(1, Ordering::Relaxed);
        Arc::new(ZookeeperStore::new(&url, options(&format!("handle-{id}"))).expect("a good URL"))
    }

    async fn pass(&self, _millis: u64) {}
}

impl Rewinds for Shared {
    type Moment = Rows;

    async fn moment(&self) -> Rows {
        self.copy().await
    }

    async fn rewind(&self, to: Rows) {
        self.put_back(to).await;
    }
}

impl FailsOver for Shared {
    /// All rows are copied to where there was no ledger before, as into another ensemble.
    async fn fail_over(&self) {
        let rows = self.copy().await;
        self.put_back(Rows::new()).await;
        let client = self.client().await;
        for (folder, _) in &rows {
            client.delete(&format!("/{}/{folder}", self.prefix), None).await.unwrap();
        }
        client.delete(&format!("/{}", self.prefix), None).await.unwrap();
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for (folder, _) in &rows {
            client.mkdir(&format!("/{}/{folder}", self.prefix), &persistent).await.unwrap();
        }
        self.put_back(rows).await;
    }
}

mod zookeeper {
    keymill_ledger::conformance!(super::open, rewinds, fails_over);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_holes_are_held_and_no_more() {
    let bench = open().await;
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let numbers: Vec<u64> = (0..10_000).map(|n| n * 1_000 + 7).collect();
    a.withhold("links", &numbers, HoleKind::Import).await.unwrap();
    let refused = a.withhold("links", &[5], HoleKind::Alias).await;
    assert!(matches!(refused, Err(LedgerError::TooManyHoles { limit: 10_000, .. })), "{refused:?}");
    let reserved = a.reserve("links", 10_000_000).await.unwrap();
    assert_eq!(reserved.holes, numbers.into_iter().map(number).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_lost_is_replaced_by_another() {
    let mut server = Zookeeper::start().unwrap();
    let url = format!("zookeeper://127.0.0.1:{}", server.port());
    let quick = StoreOptions { timeout: Duration::from_secs(3), ..options("own") };
    let mut a = TestNode::with_links(Arc::new(ZookeeperStore::new(&url, quick).unwrap()), "a").await;
    a.reserve("links", 10).await.unwrap();
    server.kill().unwrap();
    let refused = a.reserve("links", 10).await;
    assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "{refused:?}");
    server.restart().unwrap();
    for _ in 0..100 {
        match a.reserve("links", 10).await {
            Ok(reserved) => {
                assert!(reserved.block.start() >= number(10));
                return;
            }
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the server is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_keeps_others_out() {
    let prefix = format!("test-{}", LEDGERS.fetch_add(1, Ordering::Relaxed));
    let open = |login: &str| {
        let url = format!("zookeeper://{login}127.0.0.1:{}/{prefix}", SHARED.port());
        Arc::new(ZookeeperStore::new(&url, options("own")).expect("a good URL"))
    };
    let store = open("app:s3cret@");
    assert!(!format!("{store:?}").contains("s3cret"), "{store:?}");
    TestNode::with_links(store, "a").await.reserve("links", 10).await.unwrap();
    for login in ["", "app:wrong@"] {
        let refused = TestNode::try_start(open(login), "b").await;
        assert!(matches!(refused, Err(LedgerError::Refused { .. })), "{login}: {refused:?}");
    }
}
