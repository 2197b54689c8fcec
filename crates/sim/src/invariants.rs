//! What must never happen, each by its name.
//!
//! # What a rewind may do
//! design.md does not promise anything for "a rewind that keeps the engine's incarnation and loses only
//! writes of nodes that are gone, cut off or silent since": a store that went back and hears only from
//! nodes that lost nothing cannot know. The model takes that at its word, and no further:
//!
//! - A node is *robbed* when it was told of a grant – numbers, or a hole – that the rewind took. It
//!   stays so until it writes again, which must halt the ledger before anything is changed.
//! - While some node is robbed and none has written, the store is *blind*. What is reserved or withheld
//!   on its word in that time may be given out twice: by the robbed node and on the blind store's word.
//!   Such a pair, and nothing else, is not counted.
//! - It ends with the halt. If the first write of a robbed node after the rewind were let through,
//!   nothing would be excused for that node's sake any more. A message that was on its way since before
//!   the rewind is not such a write.
//! - It is excused only among blocks from before the advance. Whatever is given out of a block reserved
//!   after an advance must be new, whoever gave out the other one, and on whose word.
//! - A name that was granted in the lost part is lost with it: the registry lives in the same store,
//!   and may bind that name again. The pool must not issue it all the same.
//!
//! Two things are assumed besides, each a guard that a control takes away, because the code cannot know:
//! a request that the lost engine carried out does not reach the one after it a second time
//! ([`NoReplay`](crate::controls::Guard::NoReplay); its connections died with it), and the operator
//! waits for nodes that started in the lost part, of which the rewound ledger knows nothing or that they
//! stopped ([`OperatorKnowsTheStarted`](crate::controls::Guard::OperatorKnowsTheStarted)).
//!
//! Otherwise a rewind may come at any moment, to any earlier one, once; nodes may be up or down, with
//! requests and answers on their way.

use std::fmt;

use crate::world::{Ghost, Node, When, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    IssuedTwice,
    /// A name was granted, and the pool issued it, before or after.
    NameIssued,
    /// A drawn key was granted, and the pool issued it, before or after.
    DrawIssued,
    DrawnTwice,
    NamedAndDrawn,
    /// The ledger halted though it never went back.
    FalseAlarm,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IssuedTwice => "a number was issued twice",
            Self::NameIssued => "a granted name was issued by the pool",
            Self::DrawIssued => "a granted draw was issued by the pool",
            Self::DrawnTwice => "a draw was granted twice",
            Self::NamedAndDrawn => "a number was granted as a name and as a draw",
            Self::FalseAlarm => "a ledger that never went back was halted",
        })
    }
}

impl Ghost {
    pub(crate) fn issue(&mut self, number: u8, node: &Node) {
        let when = When { blind: node.blind & 1 << number != 0, fresh: node.fresh };
        let clashes = [
            (self.issued, Violation::IssuedTwice),
            (self.named, Violation::NameIssued),
            (self.drawn, Violation::DrawIssued),
        ];
        self.give_out(number, when, &clashes);
        self.issued |= 1 << number;
    }

    pub(crate) fn draw(&mut self, number: u8, when: When) {
        let clashes = [
            (self.issued, Violation::DrawIssued),
            (self.named, Violation::NamedAndDrawn),
            (self.drawn, Violation::DrawnTwice),
        ];
        self.give_out(number, when, &clashes);
        self.drawn |= 1 << number;
    }

    pub(crate) fn name(&mut self, number: u8, when: When) {
        // Named twice is for the registry to refuse, unless it went back with the store.
        let clashes = [(self.issued, Violation::NameIssued), (self.drawn, Violation::NamedAndDrawn)];
        self.give_out(number, when, &clashes);
        self.named |= 1 << number;
    }

    fn give_out(&mut self, number: u8, when: When, clashes: &[(u8, Violation)]) {
        let bit = 1 << number;
        let excused = !when.fresh && (when.blind || self.blind & bit != 0);
        if let Some((_, violation)) = clashes.iter().find(|(given, _)| !excused && given & bit != 0) {
            self.violation.get_or_insert(*violation);
        }
        if when.blind {
            self.blind |= bit;
        }
    }
}

/// A halt needs a reason.
pub(crate) fn halted(world: &mut World, false_alarms: bool) {
    if world.ghost.rewound {
        world.ghost.caught = true;
    } else if false_alarms {
        world.ghost.violation.get_or_insert(Violation::FalseAlarm);
    }
}
