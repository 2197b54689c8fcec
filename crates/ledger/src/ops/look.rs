//! What may be read at any time, halted or not.

use keymill_id::{Block, KeyspaceName, Number};

use super::Operation;
use crate::{
    ClaimRow, Head, HoleKind, KeyspaceRow, LedgerError, NodeRow, Rows, Timestamp, TokenRow, Track, TrackRow,
};

/// Who the ledger is and how it fares.
#[derive(Debug, Clone)]
pub struct Survey {
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyAnswer {
    pub head: Head,
    /// The engine as it is now; differs from the head's after a failover that nobody has written since.
    pub incarnation: String,
    pub now: Timestamp,
}

impl Operation for Survey {
    type Answer = SurveyAnswer;
    const NAME: &'static str = "survey";
    const READS_ONLY: bool = true;

    async fn run<R: Rows>(&self, rows: &mut R) -> Result<SurveyAnswer, LedgerError> {
        let incarnation = rows.incarnation().await?;
        Ok(SurveyAnswer { head: rows.head().await?, incarnation, now: rows.clock(self.at).await? })
    }
}

/// An operation that reads one thing and says so.
macro_rules! look {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* }, $called:literal -> $answer:ty, |$this:ident, $rows:ident| $body:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name { $(pub $field: $type),* }

        impl Operation for $name {
            type Answer = $answer;
            const NAME: &'static str = $called;
            const READS_ONLY: bool = true;

            async fn run<R: Rows>(&self, $rows: &mut R) -> Result<$answer, LedgerError> {
                let $this = self;
                $body.await
            }
        }
    };
}

look!(Nodes {}, "nodes" -> Vec<NodeRow>, |_this, rows| rows.nodes());
look!(Tracks {}, "tracks" -> Vec<(Track, TrackRow)>, |_this, rows| rows.tracks());
look!(TrackAt { track: Track }, "track" -> Option<TrackRow>, |this, rows| rows.track(&this.track));
look!(HoleAt { track: Track, number: Number }, "hole" -> Option<HoleKind>, |this, rows| rows.hole(&this.track, this.number));
look!(
    /// The holes in a block, in order. Those of a block that was reserved are what its reserve named: none is
    /// made below the cursor.
    HolesIn { track: Track, block: Block }, "holes" -> Vec<Number>, |this, rows| rows.holes(&this.track, this.block)
);
look!(
    /// The claim that starts highest, at or below `number`; whether it reaches that far is for the reader to see.
    ClaimAt { track: Track, number: Number }, "claim" -> Option<ClaimRow>, |this, rows| rows.claim_at(&this.track, this.number)
);
look!(
    /// Claims from the newest numbers down.
    Claims { track: Track, before: Option<Number>, limit: usize }, "claims" -> Vec<ClaimRow>, |this, rows| rows.claims(&this.track, this.before, this.limit)
);
look!(Keyspace { name: KeyspaceName }, "keyspace" -> Option<KeyspaceRow>, |this, rows| rows.keyspace(&this.name));
look!(Keyspaces {}, "keyspaces" -> Vec<KeyspaceRow>, |_this, rows| rows.keyspaces());
look!(Tokens {}, "tokens" -> Vec<TokenRow>, |_this, rows| rows.tokens());
