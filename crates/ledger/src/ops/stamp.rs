//! The stamp on every write of a node, and how a ledger that went back in time is found out by it.
//!
//! A node counts its writes. Each carries the last count the ledger acknowledged and the next one. A
//! ledger whose row is *behind* what it once acknowledged has forgotten something: a failover to a
//! lagging standby, a restored copy. That is found before anything is changed, and halts the ledger.
//! A row *ahead* of the next count means the message is late or came twice: it is dropped.

use serde::{Deserialize, Serialize};

use crate::{Head, LedgerError, NodeName, NodeRow, Rows, Timestamp, rows::Halt};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub node: NodeName,
    pub epoch: u64,
    /// The highest beat of this node that the ledger acknowledged.
    pub acked: u64,
    /// The beat of this write: above every one this node ever sent, answered or not.
    pub next: u64,
    /// The node's clock.
    pub at: Timestamp,
}

/// What a ledger makes of a stamp.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Go on, and keep this row.
    Go(NodeRow),
    /// The ledger went back in time.
    Halt(String),
    Fenced {
        newer: u64,
    },
    Overtaken {
        ledger: u64,
    },
}

pub fn judge(row: Option<NodeRow>, stamp: &Stamp) -> Verdict {
    let Stamp { node, epoch, acked, next, at } = stamp;
    assert!(acked < next, "a beat is sent once: acknowledged {acked}, next {next}");
    let Some(mut row) = row else {
        return Verdict::Halt(format!("it does not know node `{node}`, whose write {acked} it acknowledged"));
    };
    if row.epoch > *epoch {
        return Verdict::Fenced { newer: row.epoch };
    }
    if row.epoch < *epoch {
        return Verdict::Halt(format!(
            "it went back in time: it knows start {} of node `{node}`, which is at start {epoch}",
            row.epoch
        ));
    }
    if row.beat < *acked {
        return Verdict::Halt(format!(
            "it went back in time: it acknowledged write {acked} of node `{node}`, and now knows only {}",
            row.beat
        ));
    }
    if row.beat >= *next {
        return Verdict::Overtaken { ledger: row.beat };
    }
    row.beat = *next;
    row.last_seen = (*at).max(row.last_seen);
    // Whoever writes is not at rest, whatever was said before: `advance` must wait for it.
    row.stopped = false;
    Verdict::Go(row)
}

impl Stamp {
    /// Judges the stamp and keeps the new beat. Every stamped operation calls this before it changes
    /// anything.
    pub(crate) async fn check<R: Rows>(&self, rows: &mut R) -> Result<(Head, NodeRow), LedgerError> {
        let (head, node) = self.admit(rows).await?;
        rows.put_node(&node).await?;
        Ok((head, node))
    }

    /// Judges the stamp, and leaves it to the caller to keep the row: for one that has more to doubt,
    /// because what is written before a halt is committed with it.
    pub(crate) async fn admit<R: Rows>(&self, rows: &mut R) -> Result<(Head, NodeRow), LedgerError> {
        let head = open_head(rows, self.at).await?;
        match judge(rows.node(&self.node).await?, self) {
            Verdict::Go(node) => Ok((head, node)),
            Verdict::Halt(reason) => Err(halt(rows, head, reason, self.at).await?),
            Verdict::Fenced { newer } => {
                Err(LedgerError::Fenced { node: self.node.clone(), epoch: self.epoch, newer })
            }
            Verdict::Overtaken { ledger } => {
                Err(LedgerError::Overtaken { node: self.node.clone(), beat: self.next, ledger })
            }
        }
    }
}

/// The head of a ledger that may be written: not halted, and on the engine that it remembers.
pub(crate) async fn open_head<R: Rows>(rows: &mut R, at: Timestamp) -> Result<Head, LedgerError> {
    let head = rows.head().await?;
    if let Some(halt) = &head.halted {
        return Err(LedgerError::Halted { reason: halt.reason.clone() });
    }
    let incarnation = rows.incarnation().await?;
    if incarnation != head.incarnation {
        let reason = format!(
            "the engine is `{incarnation}`, but the ledger was written on `{}`: a failover or a restored copy",
            head.incarnation
        );
        return Err(halt(rows, head, reason, at).await?);
    }
    Ok(head)
}

/// Marks the ledger halted; the error that says so is committed with the mark.
pub(crate) async fn halt<R: Rows>(
    rows: &mut R,
    mut head: Head,
    reason: String,
    since: Timestamp,
) -> Result<LedgerError, LedgerError> {
    head.halted = Some(Halt { reason: reason.clone(), since });
    rows.put_head(&head).await?;
    Ok(LedgerError::Halted { reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeReport;

    fn row(epoch: u64, beat: u64) -> NodeRow {
        NodeRow {
            name: NodeName::parse("a").unwrap(),
            epoch,
            beat,
            started_at: Timestamp(0),
            last_seen: Timestamp(0),
            stopped: false,
            report: NodeReport::default(),
        }
    }

    fn stamp(epoch: u64, acked: u64, next: u64) -> Stamp {
        Stamp { node: NodeName::parse("a").unwrap(), epoch, acked, next, at: Timestamp(7) }
    }

    #[test]
    fn a_lost_reply_does_not_look_like_a_rewind() {
        // Write 5 took effect and its answer was lost: the node still says 4, and sends 6.
        assert!(matches!(judge(Some(row(1, 5)), &stamp(1, 4, 6)), Verdict::Go(row) if row.beat == 6));
    }

    #[test]
    fn a_rewind_behind_a_lost_reply_is_still_seen() {
        // 5 was lost on the way back, 6 was acknowledged; the ledger returns to 5.
        assert!(matches!(judge(Some(row(1, 5)), &stamp(1, 6, 7)), Verdict::Halt(_)));
    }

    #[test]
    fn a_message_that_was_overtaken_is_dropped() {
        assert_eq!(judge(Some(row(1, 6)), &stamp(1, 4, 5)), Verdict::Overtaken { ledger: 6 });
        assert_eq!(judge(Some(row(1, 5)), &stamp(1, 4, 5)), Verdict::Overtaken { ledger: 5 }, "came twice");
    }

    #[test]
    fn an_older_process_is_fenced_and_a_forgotten_start_halts() {
        assert_eq!(judge(Some(row(3, 9)), &stamp(2, 8, 10)), Verdict::Fenced { newer: 3 });
        assert!(matches!(judge(Some(row(1, 9)), &stamp(2, 8, 10)), Verdict::Halt(_)));
        assert!(matches!(judge(None, &stamp(2, 8, 10)), Verdict::Halt(_)));
    }
}
