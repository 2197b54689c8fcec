//! The memory store keeps every promise; and what the stamps are good for is shown by leaving them out.

use std::sync::Arc;

use keymill_id::{Block, Number};
use keymill_ledger::{
    LedgerError, MemoryStore, Rows, Store, Track,
    conformance::{Bench, FailsOver, Rewinds, TestNode, track},
    ops::Operation,
    store::memory::MemoryRows,
};

struct Memory(Arc<MemoryStore>);

async fn open() -> Memory {
    Memory(Arc::new(MemoryStore::new("test")))
}

impl Bench for Memory {
    type Store = MemoryStore;

    async fn handle(&self) -> Arc<MemoryStore> {
        self.0.clone()
    }

    async fn pass(&self, _millis: u64) {}
}

impl Rewinds for Memory {
    type Moment = MemoryRows;

    async fn moment(&self) -> MemoryRows {
        self.0.snapshot()
    }

    async fn rewind(&self, to: MemoryRows) {
        self.0.rewind(to);
    }
}

impl FailsOver for Memory {
    async fn fail_over(&self) {
        self.0.change_incarnation("memory-2");
    }
}

mod memory {
    keymill_ledger::conformance!(super::open, rewinds, fails_over);
}

/// A reserve as one would write it without stamps: correct in every way, but that it believes the store.
#[derive(Debug, Clone)]
struct BelievingReserve {
    track: Track,
}

impl Operation for BelievingReserve {
    type Answer = Block;
    const NAME: &'static str = "believing_reserve";

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<Block, LedgerError> {
        let row = rows.track(&self.track).await?.expect("the test made it");
        let ten = 10.try_into().expect("ten is not zero");
        let (after, block) = row.reserve(Number::ZERO, ten, Number::MAX).expect("far from used up");
        rows.put_track(&self.track, &after).await?;
        Ok(block)
    }
}

/// The control to `the_first_write_after_a_rewind_halts_before_it_changes_anything`: if this test
/// ever fails, the rewind of the bench rewinds nothing, and the suite proves nothing.
#[tokio::test]
async fn without_a_stamp_a_rewound_store_grants_the_same_block_twice() {
    let bench = open().await;
    let mut node = TestNode::with_links(bench.handle().await, "a").await;
    let moment = bench.moment().await;
    let first = bench.0.transact(BelievingReserve { track: track("links") }).await.unwrap();
    bench.rewind(moment.clone()).await;
    let second = bench.0.transact(BelievingReserve { track: track("links") }).await.unwrap();
    assert_eq!(first, second, "the duplicate that the stamp prevents");

    bench.rewind(moment.clone()).await;
    node.reserve("links", 10).await.unwrap();
    bench.rewind(moment).await;
    let refused = node.reserve("links", 10).await;
    assert!(matches!(refused, Err(LedgerError::Halted { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_operation_that_fails_half_way_leaves_nothing_behind() {
    /// Writes, then fails.
    #[derive(Debug, Clone)]
    struct Half;

    impl Operation for Half {
        type Answer = ();
        const NAME: &'static str = "half";

        async fn run<R: Rows>(&self, rows: &mut R) -> Result<(), LedgerError> {
            let mut row = rows.track(&track("links")).await?.expect("the test made it");
            row.revision += 1;
            rows.put_track(&track("links"), &row).await?;
            Err(LedgerError::NotHalted)
        }
    }

    let bench = open().await;
    let node = TestNode::with_links(bench.handle().await, "a").await;
    let before = node.row("links").await;
    bench.0.transact(Half).await.unwrap_err();
    assert_eq!(node.row("links").await, before);
}
