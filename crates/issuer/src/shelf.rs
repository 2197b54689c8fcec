//! Keys that are spelled and ready, and the only code on the path of a take.
//!
//! A shelf has a *lane* per core (one, where keys must leave in order). A lane shows one *chunk*: a
//! slab of spelled keys and a counter. To take is to add to the counter of one's own lane's chunk, so
//! two cores write no line in common, nobody waits, and no key can be had twice: the counter hands
//! out each position once. Only when a chunk is used up is a lock taken, to show the next one.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use keymill_id::{Block, Number, Slab};

use crate::{
    haul::{Haul, Piece},
    padded::Padded,
    thread_lane,
};

/// Above any position: a chunk closed at this mark hands out nothing more.
const CLOSED: u64 = 1 << 62;

/// A slab, or the rest of one, and how much of it has been taken.
#[derive(Debug)]
pub struct Chunk {
    pub(crate) slab: Arc<Slab>,
    start: u32,
    end: u32,
    next: Padded<AtomicU64>,
}

impl Chunk {
    pub fn new(slab: Slab) -> Self {
        let to = slab.len();
        Self::of(Rest { slab: Arc::new(slab), from: 0, to })
    }

    fn of(Rest { slab, from, to }: Rest) -> Self {
        Self { slab, start: from, end: to, next: Padded(AtomicU64::new(u64::from(from))) }
    }

    /// Takes up to `count` positions: from, to.
    fn take(&self, count: u32) -> Option<(u32, u32)> {
        let from = self.next.0.fetch_add(u64::from(count), Ordering::Relaxed);
        let from = u32::try_from(from).ok().filter(|from| *from < self.end)?;
        Some((from, from.saturating_add(count).min(self.end)))
    }

    /// Takes `count` positions side by side, or none.
    fn take_run(&self, count: u32) -> Option<u32> {
        let mut from = self.next.0.load(Ordering::Relaxed);
        loop {
            let to = from + u64::from(count);
            if to > u64::from(self.end) {
                return None;
            }
            match self.next.0.compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return u32::try_from(from).ok(),
                Err(now) => from = now,
            }
        }
    }

    /// The numbers of the positions `from..to`, if every number of the slab has a key.
    fn block(&self, from: u32, to: u32) -> Option<Block> {
        let block = self.slab.block();
        let whole = u64::from(self.slab.len()) == block.count();
        let number = |position: u32| Number::new(block.start().get() + u64::from(position));
        if whole { Block::new(number(from)?, number(to)?) } else { None }
    }

    /// The first position nobody has taken.
    fn taken(&self) -> u32 {
        let next = self.next.0.load(Ordering::Relaxed);
        u32::try_from(next).map_or(self.end, |next| next.min(self.end))
    }

    fn left(&self) -> u64 {
        u64::from(self.end - self.taken())
    }

    fn issued(&self) -> u64 {
        u64::from(self.taken() - self.start)
    }

    /// Closes the chunk; what nobody had taken until then, nobody will.
    fn close(&self) -> Option<Rest> {
        let next = self.next.0.swap(CLOSED, Ordering::Relaxed);
        let from = u32::try_from(next).ok().filter(|from| *from < self.end)?;
        Some(Rest { slab: self.slab.clone(), from, to: self.end })
    }
}

/// Keys that nobody has taken: the end of a chunk, seen from outside.
#[derive(Debug)]
pub struct Rest {
    slab: Arc<Slab>,
    from: u32,
    to: u32,
}

impl Rest {
    /// The numbers these keys were spelled from, and those between them that are not spelled.
    /// `number_of` turns a key back into its number.
    pub fn numbers(&self, number_of: impl Fn(&[u8]) -> Number) -> Option<Block> {
        let block = self.slab.block();
        let start = if self.from == 0 { block.start() } else { number_of(self.slab.key(self.from)) };
        // What was put back may end before its slab does.
        let end = if self.to == self.slab.len() { block.end() } else { number_of(self.slab.key(self.to)) };
        Block::new(start, end)
    }
}

#[derive(Debug)]
struct Lane {
    chunk: ArcSwapOption<Chunk>,
}

impl Lane {
    /// Adds what this lane shows to `haul`; false when it shows nothing.
    #[inline]
    fn grab(&self, count: u32, haul: &mut Haul) -> bool {
        let shown = self.chunk.load();
        let Some(chunk) = shown.as_ref() else { return false };
        let Some((from, to)) = chunk.take(count - haul.count()) else { return false };
        haul.add(Piece::shelved(chunk.clone(), from, to));
        true
    }

    fn left(&self) -> u64 {
        self.chunk.load().as_ref().map_or(0, |chunk| chunk.left())
    }
}

#[derive(Debug)]
pub struct Shelf {
    lanes: Box<[Padded<Lane>]>,
    back: Mutex<Back>,
    /// Keys in `back`, for those who only want to know.
    waiting: AtomicU64,
    closed: AtomicBool,
}

/// Behind the lanes: chunks that wait their turn.
#[derive(Debug, Default)]
struct Back {
    chunks: VecDeque<Chunk>,
    /// Keys taken from chunks that are gone from the lanes.
    issued: u64,
    /// Keys of those that were put back.
    returned: u64,
}

impl Shelf {
    pub fn new(lanes: usize) -> Self {
        let lane = || Padded(Lane { chunk: ArcSwapOption::empty() });
        Self {
            lanes: (0..lanes.max(1)).map(|_| lane()).collect(),
            back: Mutex::default(),
            waiting: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Takes one key that this thread's lane shows and hands it to `use_it`: the shortest way there is.
    #[inline]
    pub fn with_one<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let lane = &self.lanes[thread_lane::of(self.lanes.len())].0;
        let shown = lane.chunk.load();
        let chunk = shown.as_ref()?;
        let (position, _) = chunk.take(1)?;
        Some(use_it(chunk.slab.key(position)))
    }

    /// Takes up to `count` keys that are ready; the haul may hold fewer.
    pub fn grab(&self, count: u32) -> Haul {
        let mut haul = Haul::default();
        self.grab_more(count, &mut haul);
        haul
    }

    /// Adds to a haul until it holds `count` keys or nothing is ready.
    pub fn grab_more(&self, count: u32, haul: &mut Haul) {
        let mine = thread_lane::of(self.lanes.len());
        let lane = &self.lanes[mine].0;
        while haul.count() < count {
            if !lane.grab(count, haul) && !self.show_next(lane) {
                return self.grab_elsewhere(count, haul, mine);
            }
        }
    }

    /// Other lanes may have some when ours and the back have none.
    fn grab_elsewhere(&self, count: u32, haul: &mut Haul, mine: usize) {
        for (_, lane) in self.lanes.iter().enumerate().filter(|(index, _)| *index != mine) {
            while haul.count() < count && lane.0.grab(count, haul) {}
        }
    }

    /// Shows the next chunk in `lane`; false when there is none.
    #[cold]
    fn show_next(&self, lane: &Lane) -> bool {
        let mut back = self.lock();
        if lane.left() > 0 {
            return true; // someone else was quicker
        }
        let Some(next) = back.chunks.pop_front() else { return false };
        self.waiting.fetch_sub(next.left(), Ordering::Relaxed);
        let old = lane.chunk.swap(Some(Arc::new(next)));
        back.issued += old.map_or(0, |old| old.issued());
        true
    }

    /// Puts a spelled chunk behind the others. False: the shelf is closed, and the chunk is burned.
    pub fn stack(&self, chunk: Chunk) -> bool {
        let mut back = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        self.waiting.fetch_add(chunk.left(), Ordering::Relaxed);
        back.chunks.push_back(chunk);
        true
    }

    /// Returns keys that never left the process: the haul could not be completed.
    pub fn put_back(&self, haul: Haul) {
        let mut back = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        for (chunk, from, to) in haul.into_shelved() {
            let rest = Chunk::of(Rest { slab: chunk.slab.clone(), from, to });
            back.returned += rest.left();
            self.waiting.fetch_add(rest.left(), Ordering::Relaxed);
            back.chunks.push_front(rest);
        }
    }

    /// Takes `count` numbers that follow one another, if the one lane of an ordered keyspace shows them.
    pub fn take_run(&self, count: u32) -> Option<Block> {
        let [Padded(lane)] = &*self.lanes else { return None };
        let shown = lane.chunk.load();
        let chunk = shown.as_ref()?;
        // Asked first: what was taken cannot be put back.
        chunk.block(chunk.start, chunk.end)?;
        let from = chunk.take_run(count)?;
        chunk.block(from, from + count)
    }

    /// Takes everything off the lanes, so that nobody takes anything until the value is dropped.
    pub fn hold(&self) -> Held<'_> {
        let mut back = self.lock();
        for lane in self.lanes.iter().rev() {
            let Some(chunk) = lane.0.chunk.swap(None) else { continue };
            let rest = chunk.close();
            back.issued += u64::from(rest.as_ref().map_or(chunk.end, |rest| rest.from) - chunk.start);
            if let Some(rest) = rest {
                let rest = Chunk::of(rest);
                self.waiting.fetch_add(rest.left(), Ordering::Relaxed);
                back.chunks.push_front(rest);
            }
        }
        Held { waiting: &self.waiting, back }
    }

    /// Keys ready to be taken.
    pub fn ready(&self) -> u64 {
        let shown: u64 = self.lanes.iter().map(|lane| lane.0.left()).sum();
        shown + self.waiting.load(Ordering::Relaxed)
    }

    /// Keys taken since the beginning.
    pub fn issued(&self) -> u64 {
        let back = self.lock();
        let shown =
            self.lanes.iter().filter_map(|lane| lane.0.chunk.load().as_ref().map(|chunk| chunk.issued()));
        back.issued + shown.sum::<u64>() - back.returned
    }

    /// Keys that wait behind the lanes.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Closes the shelf for good: every key is from now on taken or in what this returns, never both.
    pub fn close(&self) -> Vec<Rest> {
        let mut back = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        let mut left: Vec<Rest> = Vec::new();
        for lane in &self.lanes {
            let Some(chunk) = lane.0.chunk.swap(None) else { continue };
            let rest = chunk.close();
            back.issued += u64::from(rest.as_ref().map_or(chunk.end, |rest| rest.from) - chunk.start);
            left.extend(rest);
        }
        left.extend(mem::take(&mut back.chunks).iter().filter_map(Chunk::close));
        left
    }

    /// What is left of every chunk.
    pub fn rests(&self) -> Vec<Rest> {
        let back = self.lock();
        let rest = |chunk: &Chunk| {
            let from = chunk.taken();
            (from < chunk.end).then(|| Rest { slab: chunk.slab.clone(), from, to: chunk.end })
        };
        let shown =
            self.lanes.iter().filter_map(|lane| lane.0.chunk.load().as_ref().and_then(|chunk| rest(chunk)));
        shown.chain(back.chunks.iter().filter_map(rest)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Back> {
        self.back.lock().expect("nothing panics while it holds the shelf")
    }
}

/// A shelf that is held: all its keys lie in order, and nobody else sees them.
#[derive(Debug)]
pub struct Held<'s> {
    waiting: &'s AtomicU64,
    back: MutexGuard<'s, Back>,
}

impl Held<'_> {
    /// The numbers on the shelf in order; `None` if some number among them has no key.
    pub fn blocks(&self) -> Option<Vec<Block>> {
        self.back.chunks.iter().map(|chunk| chunk.block(chunk.start, chunk.end)).collect()
    }

    /// Takes the first `count` keys off, or as many as there are, and says how many that were.
    pub fn cut(&mut self, count: u64) -> u64 {
        let mut left = count;
        while left > 0 {
            let Some(first) = self.back.chunks.pop_front() else { break };
            let keys = first.left().min(left);
            left -= keys;
            let from = first.start + u32::try_from(keys).expect("a chunk's keys have 32 bits");
            if from < first.end {
                let rest = Rest { slab: first.slab, from, to: first.end };
                self.back.chunks.push_front(Chunk::of(rest));
            }
        }
        self.waiting.fetch_sub(count - left, Ordering::Relaxed);
        count - left
    }

    /// Counts keys as issued that were cut, or that were never on the shelf.
    pub fn count_issued(&mut self, count: u64) {
        self.back.issued += count;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use keymill_id::{Definition, Mint, Number, Scratch, Secret, Stated};

    use super::*;

    fn mint() -> Mint {
        let stated: Stated = serde_json::from_str(r#"{"scheme":"pool","order":"sequential"}"#).unwrap();
        Mint::compile(&Definition::resolve(&stated, Secret::from_bytes([7; 32])).unwrap())
    }

    fn chunk(mint: &Mint, start: u64, end: u64) -> Chunk {
        let block = Block::new(Number::new(start).unwrap(), Number::new(end).unwrap()).unwrap();
        Chunk::new(mint.spell_block(block, &[], &mut Scratch::default()))
    }

    fn texts(haul: &Haul) -> Vec<String> {
        haul.keys().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn hands_out_across_chunks_in_order_and_no_more_than_there_is() {
        let mint = mint();
        let shelf = Shelf::new(1);
        shelf.stack(chunk(&mint, 0, 3));
        shelf.stack(chunk(&mint, 3, 5));
        assert_eq!(shelf.ready(), 5);
        assert_eq!(texts(&shelf.grab(4)), ["0000000", "0000001", "0000002", "0000003"]);
        assert_eq!(texts(&shelf.grab(4)), ["0000004"]);
        assert_eq!((shelf.grab(1).count(), shelf.ready(), shelf.issued()), (0, 0, 5));
    }

    #[test]
    fn what_is_put_back_comes_again_first() {
        let mint = mint();
        let shelf = Shelf::new(2);
        shelf.stack(chunk(&mint, 0, 3));
        shelf.stack(chunk(&mint, 3, 6));
        let haul = shelf.grab(5);
        assert_eq!(shelf.issued(), 5);
        shelf.put_back(haul);
        assert_eq!((shelf.issued(), shelf.ready()), (0, 6));
        assert_eq!(texts(&shelf.grab(9)).into_iter().collect::<HashSet<_>>().len(), 6);
    }

    #[test]
    fn a_held_shelf_is_cut_from_the_front_and_goes_on_behind_the_cut() {
        let mint = mint();
        let shelf = Shelf::new(1);
        shelf.stack(chunk(&mint, 0, 4));
        shelf.stack(chunk(&mint, 4, 8));
        assert_eq!(shelf.grab(1).count(), 1);
        assert_eq!(shelf.take_run(4), None, "three are left in the chunk that is shown");
        let first = shelf.take_run(2).unwrap();
        assert_eq!((first.start().get(), first.count()), (1, 2));
        let mut held = shelf.hold();
        let blocks: Vec<_> =
            held.blocks().unwrap().iter().map(|b| (b.start().get(), b.end().get())).collect();
        assert_eq!(blocks, [(3, 4), (4, 8)]);
        assert_eq!(held.cut(3), 3);
        held.count_issued(3);
        drop(held);
        assert_eq!((shelf.ready(), shelf.issued()), (2, 6));
        assert_eq!(texts(&shelf.grab(9)), ["0000006", "0000007"]);
        assert_eq!((shelf.issued(), shelf.hold().cut(9)), (8, 0));
    }

    #[test]
    fn other_lanes_help_out_when_ones_own_is_dry() {
        let mint = mint();
        let shelf = Shelf::new(8);
        shelf.stack(chunk(&mint, 0, 100));
        assert_eq!(shelf.grab(1).count(), 1);
        let shelf = &shelf;
        let taken: u32 = thread::scope(|scope| {
            (0..16).map(|_| scope.spawn(|| shelf.grab(7).count()).join().unwrap()).sum()
        });
        assert_eq!(taken, 99);
    }

    #[test]
    fn after_closing_every_key_was_taken_or_is_left_over_but_not_both() {
        let mint = mint();
        for round in 0..50 {
            let shelf = Shelf::new(2);
            for start in 0..20 {
                shelf.stack(chunk(&mint, start * 64, start * 64 + 64));
            }
            let (taken, left) = thread::scope(|scope| {
                let takers: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut keys = Vec::new();
                            for count in 1..100 {
                                keys.extend(texts(&shelf.grab(count % 9 + 1)));
                            }
                            keys
                        })
                    })
                    .collect();
                for _ in 0..round * 20 {
                    std::hint::spin_loop();
                }
                let left = shelf.close();
                let taken: Vec<_> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
                (taken, left)
            });
            let number_of = |key: &[u8]| mint.number_of(std::str::from_utf8(key).unwrap()).unwrap();
            let unissued: Vec<_> = left.iter().filter_map(|piece| piece.numbers(number_of)).collect();
            let mut numbers: Vec<u64> = taken.iter().map(|key| mint.number_of(key).unwrap().get()).collect();
            assert_eq!(shelf.issued(), numbers.len() as u64);
            numbers.extend(unissued.iter().flat_map(|block| block.numbers().map(Number::get)));
            numbers.sort_unstable();
            assert_eq!(numbers, (0..1280).collect::<Vec<_>>());
            assert_eq!(shelf.grab(1).count(), 0);
            assert!(!shelf.stack(chunk(&mint, 2000, 2001)));
        }
    }
}
