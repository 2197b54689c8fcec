//! Nodes: how they start, what they say of themselves, how they rest.

use super::{Bench, START, TestNode, assert_refused, name};
use crate::{
    KeyspaceReport, LedgerError, LedgerId, NodeReport,
    ops::{self, Remembered},
};

pub async fn a_start_raises_the_epoch_and_counts_apart<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    assert_eq!(a.epoch, 1);
    for _ in 0..5 {
        a.heartbeat(Vec::new()).await.unwrap();
    }
    let beat = a.acked;
    a.restart().await.unwrap();
    assert_eq!(a.epoch, 2);
    assert!(a.acked > beat + 1_000_000, "each life counts in a band of its own");
    a.heartbeat(Vec::new()).await.unwrap();
    assert_eq!(a.node_row().await.beat, a.acked);
    let b = TestNode::start(bench.handle().await, "b").await;
    assert_eq!((b.epoch, b.acked), (1, 0));
    assert_eq!(a.id, b.id, "one ledger, one id");
}

pub async fn a_heartbeat_keeps_the_report<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let report = NodeReport {
        version: "1.2.3".to_owned(),
        address: "127.0.0.1:7070".to_owned(),
        keyspaces: vec![KeyspaceReport { keyspace: name("links"), stock: u64::MAX, rate: 12.5 }],
    };
    a.at = START.after(5_000);
    let op = ops::Heartbeat { stamp: a.stamp(), report: report.clone(), progress: Vec::new() };
    let beat = op.stamp.next;
    let pulse = a.ledger.heartbeat(op).await;
    let pulse = a.note(beat, pulse).unwrap();
    assert_eq!(pulse.changes, a.head().await.changes);
    let row = a.node_row().await;
    assert_eq!(row.report, report);
    assert_eq!((row.started_at, row.last_seen), (START, START.after(5_000)));

    a.at = START;
    a.heartbeat(Vec::new()).await.unwrap();
    assert_eq!(a.node_row().await.last_seen, START.after(5_000), "a clock that went back hides nobody");
}

pub async fn a_clean_stop_leaves_the_node_at_rest<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.stop(Vec::new()).await.unwrap();
    assert!(a.node_row().await.stopped);
    // It should not, but if it writes again it is not at rest, and `advance` must wait for it.
    a.reserve("links", 10).await.unwrap();
    assert!(!a.node_row().await.stopped);
    a.stop(Vec::new()).await.unwrap();
    a.restart().await.unwrap();
    let row = a.node_row().await;
    assert_eq!((row.stopped, row.epoch), (false, 2));
}

pub async fn a_witness_of_another_ledger_is_refused<B: Bench>(bench: B) {
    let a = TestNode::start(bench.handle().await, "a").await;
    let before = a.ledger.nodes().await.unwrap();
    let elsewhere = Remembered { ledger: LedgerId("elsewhere".to_owned()), ..a.remembered() };
    let register = TestNode::register_op(&a.name, Some(elsewhere));
    let refused = a.ledger.register(register).await;
    assert_refused!(refused, LedgerError::ForeignLedger { remembered, .. } if remembered.0 == "elsewhere");
    assert_eq!(a.ledger.nodes().await.unwrap(), before);
    assert_eq!(a.head().await.halted, None, "a wrong address is no rewind");
}

pub async fn a_region_is_kept_for_ever<B: Bench>(bench: B) {
    let a = TestNode::start(bench.handle().await, "a").await;
    assert_eq!(a.head().await.region, None);
    let start = |node: &str, region| ops::Register {
        region,
        ..TestNode::register_op(&node.parse().expect("a good name"), None)
    };
    assert_eq!(a.ledger.register(start("b", Some(7))).await.unwrap().region, Some(7));
    assert_eq!(a.ledger.register(start("c", None)).await.unwrap().region, Some(7), "who says none reads it");
    let refused = a.ledger.register(start("d", Some(8))).await;
    assert_refused!(refused, LedgerError::RegionConflict { kept: 7, stated: 8 });
    assert_eq!(a.ledger.nodes().await.unwrap().len(), 3, "the refused one was not let in");
}

pub async fn node_names_compare_byte_by_byte<B: Bench>(bench: B) {
    let mut nodes = Vec::new();
    for node in ["Ab", "aB", "ab", "a", "a.b", "ab-"] {
        nodes.push(TestNode::start(bench.handle().await, node).await);
    }
    for node in &mut nodes {
        assert_eq!(node.epoch, 1, "`{}` is nobody else", node.name);
        node.heartbeat(Vec::new()).await.unwrap();
    }
    assert_eq!(nodes[0].ledger.nodes().await.unwrap().len(), 6);
}
