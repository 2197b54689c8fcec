//! What can be done to a ledger: a file per operation, all of one shape.
//!
//! An operation is data plus one function over [`Rows`]; a store runs it in one transaction, as often
//! as it has to. Because it is data, a test can send it late, or twice. The decisions themselves are
//! small pure functions on rows, so that the model explores the very code that runs.

use std::{fmt, future::Future};

use crate::{LedgerError, Rows};

mod advance;
mod give_back;
mod heartbeat;
mod keyspace;
mod lease;
mod look;
mod register;
mod reserve;
mod stamp;
mod stop;
mod token;
mod withhold;

pub use advance::{Advance, Advanced, ReportWitness, lift, missing};
pub use give_back::{GiveBack, GivenBack};
pub use heartbeat::{Heartbeat, Progress, Pulse};
pub use keyspace::{CreateKeyspace, CreatedKeyspace, RetireKeyspace, TuneKeyspace};
pub use lease::{Lease, LeaseWorker, ReleaseWorker, RenewWorker, Workers};
pub use look::{
    ClaimAt, Claims, HoleAt, HolesIn, Keyspace, Keyspaces, Nodes, Survey, SurveyAnswer, Tokens, TrackAt,
    Tracks,
};
pub use register::{Register, Registration, Remembered};
pub use reserve::{CLAIM_SPAN_MS, Reserve, Reserved};
pub use stamp::{Stamp, Verdict, judge};
pub use stop::{Settlement, Stop};
pub use token::{PutToken, RevokeToken};
pub use withhold::{Withheld, Withhold, Withholding};

/// Something to do in one transaction.
pub trait Operation: fmt::Debug + Clone + Send + Sync + 'static {
    type Answer: fmt::Debug + Send + 'static;
    /// How errors and metrics call it.
    const NAME: &'static str;
    /// It changes nothing, so a store may run it beside a writer.
    const READS_ONLY: bool = false;

    fn run<R: Rows>(&self, rows: &mut R) -> impl Future<Output = Result<Self::Answer, LedgerError>> + Send;
}
