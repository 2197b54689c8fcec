//! Promise 13: a worker has one holder at a time, and only the holder's term renews.

use super::{Bench, TestNode, assert_refused, name, number};
use crate::{LedgerError, WorkerId};

/// A tick that no window of these tests reaches.
const LATE: u64 = 1 << 40;

/// Lets leases of 200 ms run out, on the store's clock and on the node's.
async fn outlast<B: Bench>(bench: &B, node: &mut TestNode) {
    bench.pass(300).await;
    node.at = node.at.after(300);
}

pub async fn workers_are_leased_one_to_a_holder<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let mut workers = Vec::new();
    for (node, holder) in [(&mut a, "a"), (&mut b, "b")] {
        for _ in 0..2 {
            let mut op = node.lease_op(holder);
            op.ttl_ms = 60_000;
            workers.push(node.send_lease(op).await.unwrap().worker.0);
        }
    }
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2, 3], "each a fresh one, for one holder too");
    assert_refused!(a.lease("a").await, LedgerError::NoWorker { capacity: 4, .. });
    let leases = a.leases("events").await;
    assert_eq!(leases.len(), 4);
    assert!(leases.iter().all(|lease| lease.term == 1 && !lease.released));
}

pub async fn a_static_worker_that_is_held_is_refused<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    let static_lease = |node: &mut TestNode, holder: &str| {
        let mut op = node.lease_op(holder);
        op.wanted = Some(WorkerId(3));
        op
    };
    let op = static_lease(&mut a, "a");
    assert_eq!(a.send_lease(op).await.unwrap().worker, WorkerId(3));
    let op = static_lease(&mut b, "b");
    let refused = b.send_lease(op).await;
    assert_refused!(refused, LedgerError::WorkerTaken { holder, .. } if holder == "a");
    let op = static_lease(&mut a, "a");
    assert_eq!(a.send_lease(op).await.unwrap().term, 2, "its holder may have it anew");
    outlast(&bench, &mut b).await;
    let op = static_lease(&mut b, "b");
    assert_eq!(b.send_lease(op).await.unwrap().term, 3, "and anybody once it has run out");
}

pub async fn a_static_worker_leaves_the_others_free<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut op = a.lease_op("static");
    op.wanted = Some(WorkerId(3));
    a.send_lease(op).await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(a.lease("a").await.unwrap().worker.0);
    }
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2], "the highest one being held says nothing of the rest");
    assert_refused!(a.lease("a").await, LedgerError::NoWorker { .. });
}

pub async fn an_expired_lease_is_free_once_its_window_is_past<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    for tick in [4_000, 1_000, 3_000, 2_000] {
        let worker = a.lease("a").await.unwrap().worker;
        a.reserve_between(&format!("events/{worker}"), tick, 100, LATE).await.unwrap();
    }
    let free_below = |node: &mut TestNode, tick| {
        let mut op = node.lease_op("b");
        op.free_below = number(tick);
        op
    };
    let op = free_below(&mut a, LATE);
    assert_refused!(a.send_lease(op).await, LedgerError::NoWorker { .. });
    outlast(&bench, &mut a).await;
    let op = free_below(&mut a, 1_099);
    assert_refused!(a.send_lease(op).await, LedgerError::NoWorker { .. });
    let op = free_below(&mut a, 1_100);
    let lease = a.send_lease(op).await.unwrap();
    assert_eq!((lease.worker, lease.term), (WorkerId(1), 2), "its window is past, the others' are not");
    let op = free_below(&mut a, LATE);
    assert_eq!(a.send_lease(op).await.unwrap().worker, WorkerId(3), "the one at rest for longest");
}

pub async fn a_lease_is_renewed_only_by_its_term<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let first = a.lease("a").await.unwrap();
    outlast(&bench, &mut a).await;
    let renewed = a.renew(first.worker, first.term).await.expect("late, but nobody has taken it");
    assert_eq!(renewed.term, first.term);
    assert!(renewed.expires_at.since(first.expires_at) >= 250, "from now on, for as long as asked");
    for term in [0, first.term + 1] {
        assert_refused!(a.renew(first.worker, term).await, LedgerError::LeaseLost { .. });
    }
    assert_refused!(a.renew(WorkerId(9), 1).await, LedgerError::LeaseLost { .. });

    outlast(&bench, &mut a).await;
    let mut op = a.lease_op("b");
    op.wanted = Some(first.worker);
    let second = a.send_lease(op).await.unwrap();
    assert!(second.term > first.term);
    assert_refused!(a.renew(first.worker, first.term).await, LedgerError::LeaseLost { .. });
    assert_refused!(a.release(first.worker, first.term).await, LedgerError::LeaseLost { .. });
    a.renew(second.worker, second.term).await.expect("and the new holder is not disturbed");
}

pub async fn a_renewal_never_shortens_a_lease<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut op = a.lease_op("a");
    op.ttl_ms = 60_000;
    let lease = a.send_lease(op).await.unwrap();
    let renewed = a.renew(lease.worker, lease.term).await.unwrap();
    assert_eq!(renewed, lease, "200 ms more are less than what it has");
}

pub async fn a_released_worker_is_leased_again<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let mut last = None;
    for _ in 0..4 {
        last = Some(a.lease("a").await.unwrap());
    }
    let last = last.unwrap();
    a.release(last.worker, last.term).await.unwrap();
    assert_refused!(a.renew(last.worker, last.term).await, LedgerError::LeaseLost { .. });
    assert_refused!(a.release(last.worker, last.term).await, LedgerError::LeaseLost { .. });
    let again = a.lease("b").await.unwrap();
    assert_eq!((again.worker, again.term), (last.worker, last.term + 1));
}

pub async fn a_restart_releases_its_own_workers_and_no_others<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    let own = a.lease("a").await.unwrap();
    let lent = a.lease("sdk of a").await.unwrap();
    a.restart().await.unwrap();
    let released = |leases: Vec<crate::LeaseRow>| leases.iter().map(|l| l.released).collect::<Vec<_>>();
    assert_eq!(released(a.leases("events").await), [true, false]);
    assert_refused!(a.renew(own.worker, own.term).await, LedgerError::LeaseLost { .. });
    a.renew(lent.worker, lent.term).await.expect("whom it lent a worker to is still at work");

    let mut op = a.lease_op("a");
    op.wanted = Some(own.worker);
    a.send_lease(op).await.unwrap();
    a.stop(Vec::new()).await.unwrap();
    assert_eq!(released(a.leases("events").await), [true, false], "so does a clean stop");
}

pub async fn workers_of_other_keyspaces_are_untouched<B: Bench>(bench: B) {
    let mut a = TestNode::start(bench.handle().await, "a").await;
    for keyspace in ["a", "a0", "a-b", "aa"] {
        let mut op = a.lease_op("a");
        op.keyspace = name(keyspace);
        assert_eq!(a.send_lease(op).await.unwrap().worker, WorkerId(0), "`{keyspace}`");
        assert_eq!(a.leases(keyspace).await.len(), 1);
    }
    for _ in 0..11 {
        let mut op = a.lease_op("a");
        op.capacity = 1_024;
        a.send_lease(op).await.unwrap();
    }
    let workers: Vec<u16> = a.leases("events").await.iter().map(|lease| lease.worker.0).collect();
    assert_eq!(workers, (0..11).collect::<Vec<_>>(), "ten follows nine, not one");
}
