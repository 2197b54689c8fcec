//! Keys as they came from a server, and a counter that hands out each of them once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use keymill_wire::grpc::{KeyBatch, Numbers, Run, Text, key_batch};

/// Above any position: a chunk closed at this mark hands out nothing more.
const CLOSED: u64 = 1 << 62;

/// Its own cache line (two, where the processor fetches lines in pairs): the counter is written by every take,
/// and what lies beside it is read by every take.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Debug)]
pub(crate) struct Chunk {
    keys: Keys,
    count: u32,
    /// Whoever takes this position is to tell that few are left.
    mark: u32,
    next: Padded<AtomicU64>,
}

/// Keys in the form they travelled in.
#[derive(Debug)]
enum Keys {
    /// ASCII, side by side.
    Text {
        joined: Bytes,
        stride: usize,
    },
    Numbers(Box<[u64]>),
    Run {
        first: u64,
        step: u64,
    },
}

/// Positions of a chunk, `from` included and `to` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub from: u32,
    pub to: u32,
    /// Few are left: time to ask for more.
    pub low: bool,
}

impl Chunk {
    /// Reads a batch; why it makes no sense, if it does not.
    pub(crate) fn read(batch: KeyBatch) -> Result<Self, &'static str> {
        match batch.keys.ok_or("a batch without keys")? {
            key_batch::Keys::Text(text) => Self::text(text),
            key_batch::Keys::Numbers(Numbers { values }) => {
                let count = u32::try_from(values.len()).map_err(|_| "a batch too long to count")?;
                Self::new(Keys::Numbers(values.into()), count)
            }
            key_batch::Keys::Run(Run { first, step, count }) => {
                let last = u64::from(count).checked_sub(1).and_then(|steps| steps.checked_mul(step));
                last.and_then(|last| first.checked_add(last)).ok_or("a run beyond 64 bits")?;
                if step == 0 && count > 1 {
                    return Err("a run that stands still");
                }
                Self::new(Keys::Run { first, step }, count)
            }
        }
    }

    fn text(Text { joined, stride }: Text) -> Result<Self, &'static str> {
        let stride = stride as usize;
        if stride == 0 || !joined.len().is_multiple_of(stride) {
            return Err("text that does not divide into keys");
        }
        if !joined.is_ascii() {
            return Err("keys that are not ASCII");
        }
        let count = u32::try_from(joined.len() / stride).map_err(|_| "a batch too long to count")?;
        Self::new(Keys::Text { joined, stride }, count)
    }

    fn new(keys: Keys, count: u32) -> Result<Self, &'static str> {
        if count == 0 {
            return Err("a batch without keys");
        }
        Ok(Self { keys, count, mark: u32::MAX, next: Padded(AtomicU64::new(0)) })
    }

    /// Prepares it to be shown: whoever takes the key at `mark` is to tell.
    pub(crate) fn shown(mut self, mark: Option<u64>) -> Arc<Self> {
        self.mark = mark.and_then(|mark| u32::try_from(mark).ok()).unwrap_or(u32::MAX);
        Arc::new(self)
    }

    /// Takes up to `count` positions, at least one.
    #[inline]
    pub(crate) fn take(&self, count: u32) -> Option<Taken> {
        let from = self.next.0.fetch_add(u64::from(count), Ordering::Relaxed);
        let from = u32::try_from(from).ok().filter(|from| *from < self.count)?;
        let to = from.saturating_add(count).min(self.count);
        Some(Taken { from, to, low: from <= self.mark && self.mark < to })
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn taken(&self) -> u32 {
        u32::try_from(self.next.0.load(Ordering::Relaxed)).map_or(self.count, |next| next.min(self.count))
    }

    pub(crate) fn left(&self) -> u64 {
        u64::from(self.count - self.taken())
    }

    /// Nobody takes anything after this; how many keys nobody had taken.
    pub(crate) fn close(&self) -> u64 {
        let next = self.next.0.swap(CLOSED, Ordering::Relaxed);
        u64::from(self.count).saturating_sub(next)
    }

    /// The key at a position that was taken, as text.
    #[inline]
    pub(crate) fn with_key<R>(&self, at: u32, use_it: impl FnOnce(&[u8]) -> R) -> R {
        match &self.keys {
            Keys::Text { joined, stride } => {
                let start = at as usize * stride;
                use_it(&joined[start..start + stride])
            }
            _ => use_it(itoa::Buffer::new().format(self.number(at).unwrap_or_default()).as_bytes()),
        }
    }

    pub(crate) fn is_numbers(&self) -> bool {
        !matches!(self.keys, Keys::Text { .. })
    }

    /// The key at a position that was taken, if keys are numbers here.
    #[inline]
    pub(crate) fn number(&self, at: u32) -> Option<u64> {
        match &self.keys {
            Keys::Text { .. } => None,
            Keys::Numbers(values) => Some(values[at as usize]),
            Keys::Run { first, step } => Some(first + step * u64::from(at)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(first: u64, count: u32) -> Chunk {
        read(key_batch::Keys::Run(Run { first, step: 1, count })).unwrap()
    }

    fn read(keys: key_batch::Keys) -> Result<Chunk, &'static str> {
        Chunk::read(KeyBatch { keys: Some(keys) })
    }

    fn text(joined: &'static [u8], stride: u32) -> Result<Chunk, &'static str> {
        read(key_batch::Keys::Text(Text { joined: Bytes::from_static(joined), stride }))
    }

    fn keys(chunk: &Chunk) -> Vec<String> {
        let spelled = |at| chunk.with_key(at, |key| String::from_utf8(key.to_vec()).unwrap());
        (0..chunk.count()).map(spelled).collect()
    }

    #[test]
    fn keys_are_read_in_every_form_they_travel_in() {
        assert_eq!(keys(&text(b"aabbcc", 2).unwrap()), ["aa", "bb", "cc"]);
        assert_eq!(
            keys(&read(key_batch::Keys::Numbers(Numbers { values: vec![7, 42] })).unwrap()),
            ["7", "42"]
        );
        let run = read(key_batch::Keys::Run(Run { first: 5, step: 10, count: 3 })).unwrap();
        assert_eq!(keys(&run), ["5", "15", "25"]);
        assert_eq!(run.number(2), Some(25));
    }

    #[test]
    fn a_batch_that_makes_no_sense_is_refused() {
        for wrong in [text(b"aabbc", 2), text(b"aa", 0), text(b"", 2), text("éé".as_bytes(), 2)] {
            wrong.unwrap_err();
        }
        for (first, step, count) in [(1, 1, 0), (1, 0, 2), (u64::MAX, 1, 2), (1, u64::MAX, 3)] {
            read(key_batch::Keys::Run(Run { first, step, count })).unwrap_err();
        }
        read(key_batch::Keys::Numbers(Numbers { values: vec![] })).unwrap_err();
        Chunk::read(KeyBatch { keys: None }).unwrap_err();
    }

    #[test]
    fn each_position_is_taken_once_and_the_mark_is_told_once() {
        let chunk = run(0, 10).shown(Some(4));
        assert_eq!(chunk.take(4), Some(Taken { from: 0, to: 4, low: false }));
        assert_eq!(chunk.take(3), Some(Taken { from: 4, to: 7, low: true }));
        assert_eq!(chunk.take(9), Some(Taken { from: 7, to: 10, low: false }));
        assert_eq!((chunk.take(1), chunk.left(), chunk.taken()), (None, 0, 10));
    }

    #[test]
    fn what_is_closed_away_nobody_takes() {
        let chunk = run(0, 10);
        chunk.take(4).unwrap();
        assert_eq!(chunk.close(), 6);
        assert_eq!((chunk.take(1), chunk.close()), (None, 0));
    }
}
