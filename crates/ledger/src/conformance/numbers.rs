//! Numbers that a double, a signed column or a careless sum would get wrong.

use super::{Bench, TestNode, assert_refused, number};
use crate::{
    HoleKind, LedgerError,
    ops::{GivenBack, Withheld},
};

/// Doubles count by ones up to here, and by twos from here on.
const BEND: u64 = 1 << 53;
const LAST: u64 = keymill_id::NUMBER_MAX;

pub async fn blocks_are_exact_around_2_to_the_53<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let mut b = TestNode::start(bench.handle().await, "b").await;
    b.reserve_between("links", BEND - 3, 1, LAST).await.unwrap();
    for start in BEND - 2..BEND + 6 {
        let node = if start % 2 == 0 { &mut a } else { &mut b };
        let block = node.reserve("links", 1).await.unwrap().block;
        assert_eq!((block.start(), block.end()), (number(start), number(start + 1)));
        assert_eq!(a.row("links").await.cursor, number(start + 1));
        assert_eq!(a.claim("links", start).await.unwrap().start, number(start), "one claim each");
    }
}

pub async fn holes_are_exact_around_2_to_the_53<B: Bench>(bench: B) {
    holes_are_exact(bench, [BEND - 1, BEND, BEND + 1, BEND + 3]).await;
}

pub async fn holes_are_exact_near_the_largest_number<B: Bench>(bench: B) {
    holes_are_exact(bench, [LAST - 7, LAST - 6, LAST - 4, LAST - 1]).await;
}

async fn holes_are_exact<B: Bench>(bench: B, holes: [u64; 4]) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    a.reserve_between("links", holes[0] - 2, 1, LAST).await.unwrap();
    let made = a.withhold("links", &holes, HoleKind::Alias).await.unwrap();
    assert_eq!(made.outcomes, [Withheld::Made; 4]);
    for number in holes[0] - 1..=holes[3] {
        let expected = holes.contains(&number).then_some(HoleKind::Alias);
        assert_eq!(a.hole("links", number).await, expected, "at {number}");
        let reserved = a.reserve("links", 1).await.unwrap();
        assert_eq!(reserved.block.start().get(), number);
        assert_eq!(reserved.holes.contains(&reserved.block.start()), expected.is_some(), "at {number}");
        let late = a.withhold("links", &[number], HoleKind::Drawn).await.unwrap();
        let outcome = expected.map_or(Withheld::Passed, Withheld::AlreadyThere);
        assert_eq!(late.outcomes, [outcome], "at {number}");
    }
}

pub async fn a_give_back_is_exact_around_2_to_the_53<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let reserved = a.reserve_between("links", BEND - 2, 5, LAST).await.unwrap();
    let given = a.give_back("links", BEND + 1, reserved.revision).await.unwrap();
    assert_eq!(given, GivenBack::Taken { count: 2, revision: reserved.revision + 1 });
    assert_eq!(a.reserve("links", 1).await.unwrap().block.start(), number(BEND + 1));
    assert_eq!(a.row("links").await.reserved, 4);
}

pub async fn the_largest_number_ends_a_track_without_overflow<B: Bench>(bench: B) {
    let mut a = TestNode::with_links(bench.handle().await, "a").await;
    let block = a.reserve_between("links", LAST - 3, 2, LAST).await.unwrap().block;
    assert_eq!((block.start(), block.end()), (number(LAST - 3), number(LAST - 1)));
    let block = a.reserve("links", u64::MAX).await.unwrap().block;
    assert_eq!((block.start(), block.count()), (number(LAST - 1), 1), "short, not wrapped");
    for at_least in [0, LAST - 1, LAST] {
        for count in [1, u64::MAX] {
            let refused = a.reserve_between("links", at_least, count, LAST).await;
            assert_refused!(refused, LedgerError::Exhausted { .. });
        }
    }
    assert_eq!(a.row("links").await.cursor, number(LAST));

    let whole = a.reserve("links", 1).await;
    assert_refused!(whole, LedgerError::Exhausted { .. });
    a.create("tickets").await.unwrap();
    let reserved = a.reserve("tickets", u64::MAX).await.unwrap();
    assert_eq!(reserved.block.count(), LAST, "everything at once");
    let given = a.give_back("tickets", 1, reserved.revision).await.unwrap();
    assert!(matches!(given, GivenBack::Taken { count, .. } if count == LAST - 1));
}
