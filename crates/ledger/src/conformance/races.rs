//! The promises again, with everybody at once.
//!
//! Nodes run as tasks on two handles. What they were granted is put together at the end, so that a
//! duplicate shows whichever way the race went.

use std::collections::BTreeSet;

use keymill_id::{Block, Number};
use tokio::task::JoinSet;

use super::{Bench, Dice, TestNode, assert_refused, name, number, numbers_once};
use crate::{
    HoleKind, LedgerError,
    ops::{GivenBack, Withheld},
};

/// Nodes that run at once.
const NODES: u64 = 16;
/// How often each of them does something.
const STEPS: u64 = 20;
/// How often two of them race for one thing.
const RACES: u64 = 60;

/// Node `n0` has made `links`; the rest are fresh. They share two handles.
async fn crowd<B: Bench>(bench: &B, nodes: u64) -> Vec<TestNode> {
    let handles = [bench.handle().await, bench.handle().await];
    let mut crowd = vec![TestNode::with_links(handles[0].clone(), "n0").await];
    for (node, handle) in (1..nodes).zip([1, 0].into_iter().cycle()) {
        crowd.push(TestNode::start(handles[handle].clone(), &format!("n{node}")).await);
    }
    crowd
}

pub async fn many_nodes_at_once_never_overlap<B: Bench>(bench: B) {
    let mut tasks = JoinSet::new();
    for (mut node, seed) in crowd(&bench, NODES).await.into_iter().zip(0..) {
        tasks.spawn(async move {
            let mut dice = Dice(seed);
            let mut blocks = Vec::new();
            for _ in 0..STEPS {
                blocks.push(node.reserve("links", 1 + dice.below(50)).await.unwrap().block);
            }
            blocks
        });
    }
    let blocks = tasks.join_all().await.concat();
    let granted: u64 = blocks.iter().map(|block| block.count()).sum();
    numbers_once(blocks);
    let after = TestNode::start(bench.handle().await, "after").await;
    assert_eq!(after.row("links").await.cursor, number(granted), "and none was lost");
}

pub async fn crossing_messages_of_one_node_never_overlap<B: Bench>(bench: B) {
    let handles = [bench.handle().await, bench.handle().await];
    let mut node = TestNode::with_links(handles[0].clone(), "a").await;
    let mut tasks = JoinSet::new();
    for (step, handle) in (0..NODES * STEPS).zip([0, 1].into_iter().cycle()) {
        let op = node.reserve_op("links", 1 + step % 7);
        let ledger = handles[handle].clone();
        tasks.spawn(async move { crate::Ledger::reserve(&*ledger, op).await });
    }
    let mut blocks = Vec::new();
    for answer in tasks.join_all().await {
        match answer {
            Ok(reserved) => blocks.push(reserved.block),
            Err(LedgerError::Overtaken { .. }) => {}
            Err(other) => panic!("a crossing is no more than overtaken: {other}"),
        }
    }
    assert!(!blocks.is_empty());
    numbers_once(blocks);
}

/// What one node did: numbers it issued, holes it made.
type Deeds = (Vec<Block>, Vec<Number>);

/// Reserves, issues some of it, gives the rest back or burns it, and withholds in between.
async fn live(mut node: TestNode, seed: u64) -> Deeds {
    let mut dice = Dice(seed);
    let (mut issued, mut made) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let reserved = node.reserve("links", 2 + dice.below(40)).await.unwrap();
        let (out, kept) = reserved.block.split_at(1 + dice.below(reserved.block.count()));
        let holes: BTreeSet<_> = reserved.holes.into_iter().collect();
        let one = |n: Number| Block::new(n, n.checked_add(1)?);
        issued.extend(out.numbers().filter(|n| !holes.contains(n)).filter_map(one));
        if dice.below(3) == 0 {
            let near = reserved.block.end().get() + dice.below(60);
            let held = node.withhold("links", &[near, near + 1], HoleKind::Drawn).await.unwrap();
            let outcomes = [near, near + 1].into_iter().zip(held.outcomes);
            made.extend(outcomes.filter(|(_, what)| *what == Withheld::Made).map(|(n, _)| number(n)));
        }
        if let Some(kept) = kept {
            let back = node.give_back("links", kept.start().get(), reserved.revision).await.unwrap();
            assert!(matches!(back, GivenBack::Burned | GivenBack::Taken { .. }));
        }
    }
    (issued, made)
}

pub async fn nothing_overlaps_while_others_give_back_and_withhold<B: Bench>(bench: B) {
    let mut tasks = JoinSet::new();
    for (node, seed) in crowd(&bench, NODES).await.into_iter().zip(100..) {
        tasks.spawn(live(node, seed));
    }
    let deeds = tasks.join_all().await;
    let granted = |n: &Number| Block::new(*n, n.checked_add(1).expect("far from the end"));
    let drawn = deeds.iter().flat_map(|(_, made)| made).filter_map(granted);
    // A drawn number is a key that went out, as much as an issued one.
    numbers_once(deeds.iter().flat_map(|(issued, _)| issued).copied().chain(drawn).collect());
}

/// Runs `deed` for two nodes at once, and gives back what each of them saw.
async fn both<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    [a, b]: [TestNode; 2],
    deed: impl Fn(TestNode) -> F,
) -> [T; 2] {
    let (a, b) = (tokio::spawn(deed(a)), tokio::spawn(deed(b)));
    [a.await.expect("no panic"), b.await.expect("no panic")]
}

async fn pair<B: Bench>(bench: &B) -> [TestNode; 2] {
    crowd(bench, 2).await.try_into().expect("two of them")
}

pub async fn a_hole_is_either_named_by_its_block_or_not_made<B: Bench>(bench: B) {
    let [mut a, mut b] = pair(&bench).await;
    let reserving = tokio::spawn(async move {
        let mut named = BTreeSet::new();
        for _ in 0..RACES {
            named.extend(a.reserve("links", 8).await.unwrap().holes);
        }
        (a, named)
    });
    let (mut made, mut passed, mut dice) = (BTreeSet::new(), BTreeSet::new(), Dice(7));
    for _ in 0..RACES {
        // Right where the next block begins, and in the one after that.
        let cursor = b.row("links").await.cursor.get();
        let wanted = [cursor + dice.below(8), cursor + 8 + dice.below(8)];
        let held = b.withhold("links", &wanted, HoleKind::Alias).await.unwrap();
        for (wanted, outcome) in wanted.map(number).into_iter().zip(held.outcomes) {
            let news = match outcome {
                Withheld::Made => made.insert(wanted),
                Withheld::Passed => passed.insert(wanted) || !made.contains(&wanted),
                Withheld::AlreadyThere(_) => made.contains(&wanted),
            };
            assert!(news, "{wanted} is {outcome:?}, which contradicts what was said before");
        }
    }
    let (mut a, mut named) = reserving.await.expect("no panic");
    named.extend(a.reserve("links", 1_000).await.unwrap().holes);
    assert_eq!(named, made, "every hole that was made was named, and no other number");
    assert!(made.is_disjoint(&passed));
}

pub async fn one_of_two_withholds_makes_the_hole<B: Bench>(bench: B) {
    let made = both(pair(&bench).await, async |mut node: TestNode| {
        let mut made = BTreeSet::new();
        for at in 0..RACES {
            let held = node.withhold("links", &[at], HoleKind::Drawn).await.unwrap();
            made.extend((held.outcomes[0] == Withheld::Made).then_some(at));
        }
        made
    })
    .await;
    let [a, b] = made;
    assert!(a.is_disjoint(&b), "{a:?} and {b:?}");
    assert_eq!(a.len() + b.len(), usize::try_from(RACES).unwrap(), "and each was made by one of them");
}

pub async fn two_first_starts_agree_on_a_keyspace<B: Bench>(bench: B) {
    let nodes = pair(&bench).await;
    let reader = nodes[0].clone();
    let answers = both(nodes, async |mut node: TestNode| {
        let mut answers = Vec::new();
        for round in 0..10 {
            answers.push(node.create(&format!("race-{round}")).await.unwrap());
        }
        answers
    })
    .await;
    for (of_a, of_b) in answers[0].iter().zip(&answers[1]) {
        assert_eq!(of_a.row, of_b.row, "both use what they read back");
        assert!(of_a.created != of_b.created, "and one of them wrote it");
        assert_eq!(reader.keyspace(of_a.row.name.as_str()).await.as_ref(), Some(&of_a.row));
    }
    assert_eq!(reader.head().await.keyspaces, 11);
}

pub async fn two_roots_cannot_both_be_first<B: Bench>(bench: B) {
    let nodes = pair(&bench).await;
    let reader = nodes[0].clone();
    let [of_a, of_b] = both(nodes, async |mut node: TestNode| {
        let mut op = node.create_op(node.name.clone().as_str());
        op.root = true;
        node.send_create(op).await
    })
    .await;
    let (root, refused) = if of_a.is_ok() { ("n0", of_b) } else { ("n1", of_a) };
    assert_refused!(refused, LedgerError::RootTaken { .. });
    assert_eq!(reader.head().await.root, Some(name(root)));
}

pub async fn nodes_that_lease_at_once_get_different_workers<B: Bench>(bench: B) {
    let mut tasks = JoinSet::new();
    for mut node in crowd(&bench, NODES).await {
        tasks.spawn(async move {
            let holder = node.name.to_string();
            let mut op = node.lease_op(&holder);
            op.capacity = 16;
            op.ttl_ms = 60_000;
            node.send_lease(op).await.unwrap().worker
        });
    }
    let workers: BTreeSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(workers.len(), 16);
}
