//! The numbers a node holds in memory, and when it should ask for more.
//!
//! A [`Stock`] decides and never does: no clock, task or ledger call lives here; `refill` carries out
//! its wishes. What is in stock when the process dies is burned, and that is at most [`Stock::bound`].

use std::{collections::VecDeque, num::NonZeroU64};

use keymill_id::{Block, Number};
use keymill_ledger::ops::Reserved;

use crate::tuning::Tuned;

/// A node never holds more than this share of what is left of a space: 1 / 16 …
const SHARE: u64 = 16;
/// … except for the last few, which one reserve may take whole.
const LAST_FEW: u64 = 64;
/// A refill is wished for when the stock falls below 9/16 of its target: "well before half is gone",
/// and still only one reserve per half outage budget.
const LOW_WATER_16THS: u64 = 9;
/// Keys on the shelf are for about this long.
const SHELF_SECONDS: f64 = 1.0;
/// The least on the shelf, and the least in a chunk.
const CHUNK_MIN: u64 = 64;
/// The most in a chunk. More: the shelf's lock is taken less often. Fewer: lanes share more evenly.
pub const CHUNK_MAX: u64 = 4096;

/// Reserved numbers that nobody has seen, in order, and what is known of the track.
#[derive(Debug)]
pub struct Stock {
    tuned: Tuned,
    /// The first number the space does not have.
    ceiling: Number,
    runs: VecDeque<Run>,
    in_runs: u64,
    in_flight: bool,
    exhausted: bool,
    rate: Rate,
    /// Raised each time callers had to wait, halved for each moment in which none did.
    boost: u64,
    /// The end of the last block, and what is needed to give back from there.
    tail: Option<Tail>,
}

/// A reserved block or what is left of it, with the numbers in it that must not be issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub block: Block,
    pub holes: Vec<Number>,
}

/// The last blocks of ours that lie end to end.
#[derive(Debug, Clone, Copy)]
struct Tail {
    start: Number,
    end: Number,
    revision: u64,
}

/// What to send to give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    pub from: Number,
    pub revision: u64,
}

impl Stock {
    /// `ceiling` is the first number the space does not have.
    pub fn new(tuned: Tuned, ceiling: Number) -> Self {
        Self {
            tuned,
            ceiling,
            runs: VecDeque::new(),
            in_runs: 0,
            in_flight: false,
            exhausted: false,
            rate: Rate::default(),
            boost: 0,
            tail: None,
        }
    }

    pub fn tune(&mut self, tuned: Tuned) {
        self.tuned = tuned;
    }

    /// Numbers held here; those already spelled are on the shelf.
    pub fn held(&self) -> u64 {
        self.in_runs
    }

    pub fn rate(&self) -> f64 {
        self.rate.keys_per_second
    }

    /// Nothing can ever refill it, and nothing is on its way.
    pub fn is_dry(&self) -> bool {
        self.exhausted && self.in_runs == 0 && !self.in_flight
    }

    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub fn is_refilling(&self) -> bool {
        self.in_flight
    }

    /// The first number held here.
    pub fn first(&self) -> Option<Number> {
        self.runs.front().map(|run| run.block.start())
    }

    /// Where our last block ended.
    pub fn end(&self) -> Option<Number> {
        self.tail.map(|tail| tail.end)
    }

    pub fn contains(&self, number: Number) -> bool {
        self.runs.iter().any(|run| run.block.contains(number))
    }

    /// The most that a crash can burn: one full target, in stock or on its way.
    pub fn bound(&self) -> u64 {
        self.target()
    }

    /// How much to hold at this rate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; clamped right after"
    )]
    fn target(&self) -> u64 {
        let Tuned { outage_budget, stock_min, stock_max, .. } = self.tuned;
        let budget = (self.rate.keys_per_second * outage_budget.0 as f64 / 1000.0) as u64;
        let wanted = budget.max(stock_min.0).max(self.boost).min(stock_max.0);
        let cursor = self.tail.map_or(0, |tail| tail.end.get());
        let left = self.ceiling.get().saturating_sub(cursor) + self.in_runs;
        wanted.min((left / SHARE).max(LAST_FEW)).max(1)
    }

    /// How many numbers to reserve now, if any; a wish is out until it is answered or fails.
    pub fn wish(&mut self, on_shelf: u64, starved: bool) -> Option<NonZeroU64> {
        if self.in_flight || self.exhausted {
            return None;
        }
        let held = self.in_runs + on_shelf;
        if held * 16 >= self.target() * LOW_WATER_16THS && held > 0 {
            return None;
        }
        if starved {
            // Once is a start; again is a burst that the rate has not caught up with.
            let more = if self.boost == 0 { self.tuned.stock_min.0 * 2 } else { self.boost * 8 };
            self.boost = more.min(self.tuned.stock_max.0);
        }
        let target = self.target();
        let wish = NonZeroU64::new(target.saturating_sub(held))?;
        self.in_flight = true;
        Some(wish)
    }

    /// Someone wants so many numbers that follow one another: hold that many, for a while.
    pub fn want_run(&mut self, count: u64) {
        // Twice, because a refill is wished for only below 9/16.
        self.boost = self.boost.max(count.saturating_mul(2)).min(self.tuned.stock_max.0);
    }

    /// The wish was granted.
    pub fn deposit(&mut self, Reserved { block, holes, revision }: Reserved) {
        let start = match self.tail {
            Some(tail) if tail.end == block.start() => tail.start,
            other => {
                // Stopping beats a duplicate: whatever is granted lies above all we were granted before.
                assert!(other.is_none_or(|tail| tail.end < block.start()), "a block below our own: {block}");
                block.start()
            }
        };
        self.tail = Some(Tail { start, end: block.end(), revision });
        self.in_flight = false;
        self.exhausted = block.end() >= self.ceiling;
        self.in_runs += block.count();
        self.runs.push_back(Run { block, holes });
    }

    /// The wish was not granted, or nobody knows: a later one reserves other numbers.
    pub fn disappointed(&mut self, exhausted: bool) {
        self.in_flight = false;
        self.exhausted |= exhausted;
    }

    /// A hole above the cursor moved the track's revision from `before`: our run is none the worse.
    pub fn revised(&mut self, before: u64, after: u64) {
        if let Some(tail) = &mut self.tail
            && tail.revision == before
        {
            tail.revision = after;
        }
    }

    /// The next numbers to spell: at most `count`, of one width (`segment_end` tells where it changes).
    pub fn withdraw(&mut self, count: u64, segment_end: impl Fn(Number) -> Number) -> Option<Run> {
        let mut run = self.runs.pop_front()?;
        let to_edge = segment_end(run.block.start()).get() - run.block.start().get();
        let (first, rest) = run.block.split_at(count.min(to_edge).max(1));
        if let Some(rest) = rest {
            let holes = run.holes.split_off(run.holes.partition_point(|hole| *hole < rest.start()));
            self.runs.push_front(Run { block: rest, holes });
        }
        self.in_runs -= first.count();
        Some(Run { block: first, holes: run.holes })
    }

    /// The blocks held here, in order; `None` if a number in them may not be issued.
    pub fn blocks(&self) -> Option<impl Iterator<Item = Block>> {
        let whole = self.runs.iter().all(|run| run.holes.is_empty());
        whole.then(|| self.runs.iter().map(|run| run.block))
    }

    /// How many keys should lie spelled on the shelf, given `most` that fit there.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, clamped")]
    pub fn shelf_target(&self, most: u64) -> u64 {
        let wanted = (self.rate.keys_per_second * SHELF_SECONDS) as u64;
        wanted.max(self.boost).clamp(CHUNK_MIN, most.max(CHUNK_MIN))
    }

    /// How many keys make a chunk: small when quiet, so that little memory is held for nothing.
    pub fn chunk(&self, most: u64) -> u64 {
        (self.shelf_target(most) / 8).clamp(CHUNK_MIN, CHUNK_MAX)
    }

    /// `issued` keys left in `seconds`; `starved` if someone had to wait in them.
    pub fn observe(&mut self, issued: u64, seconds: f64, starved: bool) {
        self.rate.observe(issued, seconds);
        if !starved {
            self.boost /= 2;
        }
    }

    /// Empties the stock: what it held, in order.
    pub fn drain(&mut self) -> Vec<Block> {
        self.in_runs = 0;
        self.runs.drain(..).map(|run| run.block).collect()
    }

    /// What may be given back of `unissued`: the run of our own numbers that ends at the last block's
    /// end. Never across another node's block, and never across a gap: the run starts no lower than
    /// our last blocks that lie end to end.
    pub fn offer(&self, unissued: &[Block]) -> Option<Offer> {
        let Tail { start, end, revision } = self.tail?;
        let mut sorted = unissued.to_vec();
        sorted.sort_by_key(|block| block.start());
        let mut from = end;
        for block in sorted.iter().rev() {
            if block.end() < from {
                break;
            }
            // Two lots of the same numbers would be a duplicate in the making.
            assert!(block.end() == from, "{block} overlaps what is unissued from {from}");
            from = block.start();
        }
        let from = from.max(start);
        (from < end).then_some(Offer { from, revision })
    }
}

/// Keys a second: up within a second of a burst, down over some ten.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    pub(crate) keys_per_second: f64,
}

impl Rate {
    const RISE_SECONDS: f64 = 0.5;
    const FALL_SECONDS: f64 = 10.0;

    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub(crate) fn observe(&mut self, issued: u64, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let now = issued as f64 / seconds;
        let constant = if now > self.keys_per_second { Self::RISE_SECONDS } else { Self::FALL_SECONDS };
        let weight = 1.0 - (-seconds / constant).exp();
        self.keys_per_second += (now - self.keys_per_second) * weight;
        if self.keys_per_second < 0.001 {
            self.keys_per_second = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantity::{Count, Span};

    fn number(value: u64) -> Number {
        Number::new(value).unwrap()
    }

    fn block(start: u64, end: u64) -> Block {
        Block::new(number(start), number(end)).unwrap()
    }

    fn reserved(start: u64, end: u64, revision: u64) -> Reserved {
        Reserved { block: block(start, end), holes: Vec::new(), revision }
    }

    fn stock(min: u64, ceiling: u64) -> Stock {
        let tuned = Tuned {
            outage_budget: Span(60_000),
            stock_min: Count(min),
            stock_max: Count(1_000_000),
            ..Tuned::default()
        };
        Stock::new(tuned, number(ceiling))
    }

    #[test]
    fn wishes_for_one_refill_when_it_reaches_low_water() {
        let mut stock = stock(1000, 1 << 40);
        assert_eq!(stock.wish(0, false).unwrap().get(), 1000);
        assert_eq!(stock.wish(0, true), None, "one refill under way is enough");
        stock.deposit(reserved(0, 1000, 1));
        assert_eq!(stock.wish(0, false), None);
        stock.withdraw(437, |_| number(1 << 40)).unwrap();
        assert_eq!(stock.wish(0, false), None, "563 of 1000 is above 9/16");
        stock.withdraw(1, |_| number(1 << 40)).unwrap();
        assert_eq!(stock.wish(0, false).unwrap().get(), 438);
    }

    #[test]
    fn holds_its_outage_budget_within_seconds_of_a_burst_and_less_when_quiet() {
        let mut stock = stock(1000, 1 << 60);
        stock.tuned.stock_max = Count(100_000_000);
        for _ in 0..8 {
            stock.observe(25_000, 0.25, false);
        }
        let busy = stock.target();
        assert!(busy > 5_000_000, "100 000 keys a second for 60 s, seen for 2 s: {busy}");
        for _ in 0..240 {
            stock.observe(0, 0.25, false);
        }
        assert!(stock.target() < busy / 100);
    }

    #[test]
    fn starving_callers_raise_what_is_asked_for() {
        let mut stock = stock(100, 1 << 40);
        let mut wishes = Vec::new();
        let mut start = 0;
        for _ in 0..4 {
            let wish = stock.wish(0, true).unwrap().get();
            wishes.push(wish);
            stock.deposit(reserved(start, start + wish, 1));
            start += wish;
            stock.drain();
        }
        assert_eq!(wishes, [200, 1600, 12_800, 102_400]);
    }

    #[test]
    fn takes_a_small_share_of_what_is_left_and_the_last_few_whole() {
        let mut stock = stock(100_000, 1296);
        assert_eq!(stock.wish(0, false).unwrap().get(), 81);
        stock.deposit(reserved(0, 1250, 1));
        stock.drain();
        assert_eq!(stock.wish(0, false).unwrap().get(), 64);
        stock.deposit(reserved(1250, 1296, 2));
        assert!(stock.is_exhausted() && !stock.is_dry());
        stock.drain();
        assert!(stock.is_dry());
        assert_eq!(stock.wish(0, true), None);
    }

    #[test]
    fn withdraws_in_order_up_to_the_edge_of_a_width_and_keeps_holes_with_their_numbers() {
        let mut stock = stock(100, 1 << 40);
        let holes = [3, 9, 10, 15].map(number).to_vec();
        stock.deposit(Reserved { block: block(0, 20), holes, revision: 1 });
        let edge = |n: Number| if n < number(10) { number(10) } else { number(100) };
        let first = stock.withdraw(64, edge).unwrap();
        assert_eq!(first, Run { block: block(0, 10), holes: vec![number(3), number(9)] });
        let second = stock.withdraw(4, edge).unwrap();
        assert_eq!(second, Run { block: block(10, 14), holes: vec![number(10)] });
        assert_eq!(stock.held(), 6);
    }

    #[test]
    fn offers_the_unissued_run_at_the_end_of_its_own_blocks() {
        let mut stock = stock(100, 1 << 40);
        stock.deposit(reserved(0, 100, 1));
        stock.deposit(reserved(100, 200, 2));
        let offer = |unissued: &[Block]| stock.offer(unissued);
        assert_eq!(
            offer(&[block(150, 200), block(120, 150)]),
            Some(Offer { from: number(120), revision: 2 })
        );
        assert_eq!(
            offer(&[block(120, 140), block(150, 200)]).unwrap().from,
            number(150),
            "140..150 was issued"
        );
        assert_eq!(offer(&[block(120, 140)]), None, "the end was issued");
        assert_eq!(offer(&[]), None);
    }

    #[test]
    fn never_offers_across_another_nodes_block() {
        let mut stock = stock(100, 1 << 40);
        stock.deposit(reserved(0, 100, 1));
        stock.deposit(reserved(200, 300, 3)); // someone else has 100..200
        assert_eq!(stock.offer(&[block(50, 100), block(200, 300)]).unwrap().from, number(200));
    }

    #[test]
    #[should_panic(expected = "a block below our own")]
    fn a_block_below_our_own_stops_the_process() {
        let mut stock = stock(100, 1 << 40);
        stock.deposit(reserved(100, 200, 1));
        stock.deposit(reserved(150, 250, 2));
    }

    proptest! {
        #[test]
        fn every_number_that_goes_in_comes_out_once(
            sizes in prop::collection::vec(1u64..5000, 1..20),
            gaps in prop::collection::vec(0u64..3, 20),
            bites in prop::collection::vec(1u64..700, 1..400),
        ) {
            let mut stock = stock(100, 1 << 40);
            let (mut start, mut expected) = (0, Vec::new());
            for (size, gap) in sizes.iter().zip(&gaps) {
                start += gap;
                stock.deposit(reserved(start, start + size, 1));
                expected.extend(start..start + size);
                start += size;
            }
            let mut seen = Vec::new();
            for bite in bites {
                let edge = |n: Number| number((n.get() / 1000 + 1) * 1000);
                let Some(run) = stock.withdraw(bite, edge) else { break };
                seen.extend(run.block.numbers().map(Number::get));
            }
            for block in stock.drain() {
                seen.extend(block.numbers().map(Number::get));
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
