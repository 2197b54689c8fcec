//! Workers lent to SDKs: what left the node never comes back, whatever else the node does on that track.

use std::{num::NonZeroU64, path::Path, sync::Arc, time::Duration};

use keymill_id::{KeyspaceName, Number};
use keymill_issuer::{clock::SystemClock, pen::Pen, stock::Offer, witness::Witness};
use keymill_ledger::{
    MemoryStore, NodeName, NodeReport, Track, WorkerId,
    ops::{GivenBack, Reserved},
};

async fn pen(dir: &Path) -> Pen {
    let ledger = Arc::new(MemoryStore::new("l"));
    let node = NodeName::parse("a").unwrap();
    let witness = Witness::open(&dir.join("witness"), &node).unwrap();
    let clock = Arc::new(SystemClock::new());
    let pen = Pen::new(ledger, clock, node, None, Duration::from_secs(2), witness);
    pen.register(NodeReport::default()).await.unwrap();
    pen
}

fn track() -> Track {
    Track::of_worker(KeyspaceName::parse("events").unwrap(), WorkerId(3))
}

const TICKS: NonZeroU64 = NonZeroU64::new(100).unwrap();

async fn reserve(pen: &Pen) -> Reserved {
    pen.reserve(&track(), Number::ZERO, TICKS, Number::MAX).await.unwrap()
}

async fn lend(pen: &Pen) -> Reserved {
    pen.lend(&track(), Number::ZERO, TICKS, Number::MAX).await.unwrap()
}

/// All of a block goes back.
fn whole(reserved: &Reserved) -> Offer {
    Offer { from: reserved.block.start(), revision: reserved.revision }
}

#[tokio::test]
async fn a_window_goes_back_only_where_none_was_lent() {
    let dir = tempfile::tempdir().unwrap();
    let pen = pen(dir.path()).await;
    // The control: without a loan the whole window goes back, and is reserved again.
    let own = reserve(&pen).await;
    assert!(matches!(
        pen.give_back(&track(), whole(&own)).await.unwrap(),
        GivenBack::Taken { count: 100, .. }
    ));
    let again = reserve(&pen).await;
    assert_eq!(again.block, own.block);

    let lent = lend(&pen).await;
    let own = reserve(&pen).await;
    assert_eq!(pen.give_back(&track(), whole(&own)).await.unwrap(), GivenBack::Burned);
    let next = reserve(&pen).await;
    assert!(next.block.start() >= own.block.end() && own.block.start() >= lent.block.end());
}

#[tokio::test]
async fn a_give_back_does_not_make_the_witness_forget_a_window_that_was_lent() {
    let dir = tempfile::tempdir().unwrap();
    let pen = pen(dir.path()).await;
    let own = reserve(&pen).await;
    let lent = lend(&pen).await;
    // Too late to go back, and not to be written down as gone back either.
    assert_eq!(pen.give_back(&track(), whole(&own)).await.unwrap(), GivenBack::Burned);
    drop(pen);
    let witness = Witness::open(&dir.path().join("witness"), &NodeName::parse("a").unwrap()).unwrap();
    assert_eq!(witness.end(&track()), lent.block.end());
}
