//! Keys that were popped and wait for callers, and when to pop more.
//!
//! A [`Tray`] decides and never does. It holds what the measured rate asks for and no more: what lies here when the
//! node dies is lost to everyone, and not every store takes it back when the node stops.

use std::collections::VecDeque;

use crate::{
    haul::{Haul, Piece},
    stock::Rate,
    tuning::Tuned,
};

/// A node never holds more than this share of what it and the rows have together: 1 / 16 …
const SHARE: u64 = 16;
/// … except for a few.
const LAST_FEW: u64 = 64;
/// More is popped when less than 9/16 of the target is held.
const LOW_WATER_16THS: u64 = 9;
/// Keys of one pop: enough to be cheap, and over quickly in a store that serves others meanwhile.
const POP_MAX: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Tray {
    batches: VecDeque<Batch>,
    held: u64,
    rate: Rate,
    /// Keys that callers who wait now lack.
    missing: u64,
    pub(super) issued: u64,
    observed: u64,
}

/// Keys one after the other, and where each ends.
#[derive(Debug, Default)]
struct Batch {
    joined: Vec<u8>,
    ends: Vec<usize>,
    taken: usize,
}

impl Batch {
    fn of<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Self {
        let mut batch = Self::default();
        for key in keys {
            batch.joined.extend_from_slice(key);
            batch.ends.push(batch.joined.len());
        }
        batch
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn key(&self, index: usize) -> &[u8] {
        &self.joined[self.start(index)..self.ends[index]]
    }

    fn left(&self) -> usize {
        self.ends.len() - self.taken
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (self.taken..self.ends.len()).map(|index| self.key(index))
    }

    /// The next keys of one width, `most` of them at most.
    fn piece(&mut self, most: usize) -> Piece {
        let width = self.key(self.taken).len();
        let same = self.keys().take(most).take_while(|key| key.len() == width).count();
        let start = self.start(self.taken);
        self.taken += same;
        Piece::made(self.joined[start..start + same * width].to_vec(), width)
    }
}

impl Tray {
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate.keys_per_second
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.batches.iter().flat_map(Batch::keys).any(|held| held == key)
    }

    pub(super) fn deposit(&mut self, keys: &[Vec<u8>]) {
        self.held += keys.len() as u64;
        self.batches.push_back(Batch::of(keys.iter().map(Vec::as_slice)));
    }

    /// Adds to a haul until it holds `count` keys or none are left.
    pub(super) fn grab_more(&mut self, count: u32, haul: &mut Haul) {
        while haul.count() < count {
            let Some(batch) = self.batches.front_mut() else { return };
            if batch.left() == 0 {
                self.batches.pop_front();
                continue;
            }
            let piece = batch.piece((count - haul.count()) as usize);
            self.held -= u64::from(piece.count());
            self.issued += u64::from(piece.count());
            haul.add(piece);
        }
    }

    /// Takes back what never left.
    pub(super) fn put_back(&mut self, haul: &Haul) {
        if haul.count() > 0 {
            self.held += u64::from(haul.count());
            self.issued -= u64::from(haul.count());
            self.batches.push_front(Batch::of(haul.keys()));
        }
    }

    /// Someone waits for so many more keys …
    pub(super) fn lack(&mut self, count: u32) {
        self.missing += u64::from(count);
    }

    /// … and no longer does.
    pub(super) fn lack_no_more(&mut self, count: u32) {
        self.missing -= u64::from(count);
    }

    /// How many keys to pop, with so many rows left as far as is known.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; clamped right after"
    )]
    pub(super) fn wish(&self, tuned: &Tuned, rows: Option<u64>) -> Option<u32> {
        let budget = (self.rate() * tuned.outage_budget.0 as f64 / 1000.0) as u64;
        let share = (rows.unwrap_or(0).saturating_add(self.held) / SHARE).max(LAST_FEW);
        // Whoever waits holds what it has got; what it lacks comes on top.
        let target = budget.min(tuned.stock_max.0).min(share).max(self.missing);
        let low = self.held * 16 < target * LOW_WATER_16THS;
        let wish = target.saturating_sub(self.held).min(POP_MAX);
        (low && wish > 0).then(|| u32::try_from(wish).expect("POP_MAX fits"))
    }

    pub(super) fn observe(&mut self, seconds: f64) {
        // Keys that went back were counted before, and may leave less than was seen.
        let issued = self.issued.saturating_sub(self.observed);
        self.observed = self.issued;
        self.rate.observe(issued, seconds);
    }

    /// Empties it. These keys never left.
    pub(super) fn empty(&mut self) -> Vec<Vec<u8>> {
        self.held = 0;
        let batches = std::mem::take(&mut self.batches);
        batches.iter().flat_map(Batch::keys).map(<[u8]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Count;

    fn keys(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        range.map(|key| key.to_string().into_bytes()).collect()
    }

    fn texts(haul: &Haul) -> Vec<String> {
        haul.keys().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn keys_of_any_width_leave_in_order_and_once() {
        let mut tray = Tray::default();
        tray.deposit(&keys(8..12));
        tray.deposit(&keys(98..103));
        let mut haul = Haul::default();
        tray.grab_more(6, &mut haul);
        assert_eq!(texts(&haul), ["8", "9", "10", "11", "98", "99"]);
        assert_eq!((tray.held(), tray.issued), (3, 6));
        tray.put_back(&haul);
        assert!(tray.contains(b"10") && !tray.contains(b"0"));
        let mut all = Haul::default();
        tray.grab_more(100, &mut all);
        assert_eq!(texts(&all), ["8", "9", "10", "11", "98", "99", "100", "101", "102"]);
        assert_eq!((tray.held(), tray.issued), (0, 9));
    }

    #[test]
    fn pops_nothing_while_quiet_and_what_is_missing_when_someone_waits() {
        let (mut tray, tuned) = (Tray::default(), Tuned::default());
        assert_eq!(tray.wish(&tuned, Some(1_000_000)), None);
        tray.lack(300);
        assert_eq!(tray.wish(&tuned, None), Some(300), "whatever the share");
        tray.deposit(&keys(0..300));
        assert_eq!(tray.wish(&tuned, None), None);
        tray.lack_no_more(300);
        assert_eq!((tray.empty(), tray.held()), (keys(0..300), 0));
    }

    #[test]
    fn holds_its_budget_within_its_share_of_the_rows() {
        let mut tray = Tray::default();
        for _ in 0..40 {
            tray.issued += 250;
            tray.observe(0.25);
        }
        let tuned = Tuned { stock_max: Count(20_000), ..Tuned::default() };
        assert_eq!(tray.wish(&tuned, Some(1_000_000)), Some(10_000), "a pop at a time");
        tray.deposit(&keys(0..10_000));
        assert_eq!(tray.wish(&tuned, Some(1_000_000)), Some(10_000), "up to stock_max");
        assert_eq!(tray.wish(&tuned, Some(0)), None, "not the last rows of others");
        tray.empty();
        assert_eq!(tray.wish(&tuned, Some(3_200)), Some(200));
    }
}
