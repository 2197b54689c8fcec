//! What a take brings: keys that nobody else has.

use std::sync::Arc;

use crate::shelf::Chunk;

/// Keys of one width. Those from a shelf stay in their chunk, which is kept by its count of holders: that
/// count lies on the chunk's own line, where the slab's might share one with another lane's.
#[derive(Debug)]
pub struct Piece {
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    /// Positions of a chunk.
    Shelved { chunk: Arc<Chunk>, from: u32, to: u32 },
    /// Made when they were asked for, one after the other.
    Made { joined: Vec<u8>, stride: usize },
}

impl Piece {
    pub(crate) fn shelved(chunk: Arc<Chunk>, from: u32, to: u32) -> Self {
        Self { keys: Keys::Shelved { chunk, from, to } }
    }

    pub(crate) fn made(joined: Vec<u8>, stride: usize) -> Self {
        assert!(stride > 0 && joined.len().is_multiple_of(stride), "keys of one width");
        Self { keys: Keys::Made { joined, stride } }
    }

    pub fn count(&self) -> u32 {
        match &self.keys {
            Keys::Shelved { from, to, .. } => to - from,
            Keys::Made { joined, stride } => u32::try_from(joined.len() / stride).expect("a count fits"),
        }
    }

    /// Bytes a key takes.
    pub fn stride(&self) -> usize {
        match &self.keys {
            Keys::Shelved { chunk, .. } => chunk.slab.stride(),
            Keys::Made { stride, .. } => *stride,
        }
    }

    /// The keys one after the other, each of [`stride`](Self::stride) bytes.
    pub fn joined(&self) -> &[u8] {
        match &self.keys {
            Keys::Shelved { chunk, from, to } => chunk.slab.joined(*from, *to),
            Keys::Made { joined, .. } => joined,
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.joined().chunks_exact(self.stride())
    }
}

/// What a take brought: one piece nearly always, more when it crossed chunks or widths.
#[derive(Debug, Default)]
pub struct Haul {
    first: Option<Piece>,
    more: Vec<Piece>,
    count: u32,
}

impl Haul {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.first.iter().chain(&self.more)
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces().flat_map(Piece::keys)
    }

    pub(crate) fn add(&mut self, piece: Piece) {
        self.count += piece.count();
        match &self.first {
            None => self.first = Some(piece),
            Some(_) => self.more.push(piece),
        }
    }

    /// What came from a shelf, last piece first.
    pub(crate) fn into_shelved(self) -> impl Iterator<Item = (Arc<Chunk>, u32, u32)> {
        self.more.into_iter().rev().chain(self.first).filter_map(|piece| match piece.keys {
            Keys::Shelved { chunk, from, to } => Some((chunk, from, to)),
            Keys::Made { .. } => None,
        })
    }
}
