//! Room for bytes, lent to a connection while it has something to say.
//!
//! A connection that is idle holds none, so that ten thousand of them cost what their sockets cost; and the
//! few that a thread uses stay in its cache.

use std::cell::RefCell;

use super::frame::Parser;

/// Read at a time.
pub(crate) const READ_BYTES: usize = 16 << 10;
/// Kept by a thread for the next connection.
const SPARE_MAX: usize = 16;
/// One that grew beyond this is not kept.
const SPARE_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Buffers {
    /// What has arrived and is not understood yet.
    pub input: Vec<u8>,
    /// What is answered and not sent yet.
    pub output: Vec<u8>,
    pub parser: Parser,
}

thread_local! {
    static SPARE: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    pub(crate) fn borrow(frame_bytes: usize) -> Self {
        let new = || Self { input: Vec::new(), output: Vec::new(), parser: Parser::new(frame_bytes) };
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(new)
    }

    /// Whether nothing would be lost if it were given back.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }

    pub(crate) fn give_back(self) {
        assert!(
            self.is_empty() && self.parser.is_fresh(),
            "the next connection must not see this one's bytes"
        );
        if self.input.capacity() + self.output.capacity() <= SPARE_BYTES_MAX {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push(self);
                }
            });
        }
    }
}
