//! UUIDs and ULIDs: made on the spot, unique by chance, tracked by nobody.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use keymill_id::{FreeScheme, UlidMonotonic, Uuid7, spell_ulid, spell_uuid, uuid4};

use crate::{
    clock::Clock,
    error::IssueError,
    haul::{Haul, Piece},
};

#[derive(Debug)]
pub(crate) struct Free {
    clock: Arc<dyn Clock>,
    source: Mutex<Source>,
    issued: AtomicU64,
    retired: Mutex<Option<IssueError>>,
}

#[derive(Debug)]
enum Source {
    Uuid4,
    Uuid7(Uuid7),
    Ulid(UlidMonotonic),
}

impl Free {
    pub(crate) fn new(scheme: FreeScheme, clock: Arc<dyn Clock>) -> Self {
        let source = match scheme {
            FreeScheme::Uuid4 => Source::Uuid4,
            FreeScheme::Uuid7 => Source::Uuid7(Uuid7::default()),
            FreeScheme::Ulid => Source::Ulid(UlidMonotonic::default()),
        };
        Self { clock, source: Mutex::new(source), issued: AtomicU64::new(0), retired: Mutex::default() }
    }

    pub(crate) fn take(&self, count: u32) -> Result<Haul, IssueError> {
        if let Some(error) = self.closed() {
            return Err(error);
        }
        let mut random = vec![0; 16 * count as usize];
        getrandom::fill(&mut random).map_err(|_| IssueError::Internal)?;
        let mut joined = Vec::with_capacity(40 * count as usize);
        let mut stride = 0;
        let now = self.clock.wall().0;
        let mut source = self.source.lock().expect("nothing panics while it holds the source");
        for random in random.chunks_exact(16) {
            let ten = || <[u8; 10]>::try_from(&random[..10]).expect("ten of sixteen bytes");
            let before = joined.len();
            match &mut *source {
                Source::Uuid4 => {
                    let bytes = uuid4(random.try_into().expect("sixteen bytes"));
                    joined.extend_from_slice(&spell_uuid(bytes));
                }
                Source::Uuid7(state) => joined.extend_from_slice(&spell_uuid(state.next(now, ten()))),
                Source::Ulid(state) => {
                    // Used up within a millisecond: 2^80 of them. Say so rather than repeat.
                    let bytes = state.next(now, ten()).ok_or(IssueError::OutOfStock)?;
                    joined.extend_from_slice(&spell_ulid(bytes));
                }
            }
            stride = joined.len() - before;
        }
        drop(source);
        self.issued.fetch_add(count.into(), Ordering::Relaxed);
        let mut haul = Haul::default();
        haul.add(Piece::made(joined, stride));
        Ok(haul)
    }

    pub(crate) fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self, why: IssueError) {
        self.retired.lock().expect("nothing panics while it holds this").get_or_insert(why);
    }

    pub(crate) fn closed(&self) -> Option<IssueError> {
        self.retired.lock().expect("nothing panics while it holds this").clone()
    }
}
