//! What keeps the promise, guard by guard, and what happens without each.
//!
//! A control is a search with one guard off. It must find a counter-example; one that finds none is
//! blind, or the guard is idle.

use std::fmt;

use crate::{
    step::Rules,
    worlds::{Bounds, HOLES, REWIND, REWIND_HOLES, REWIND_LIVES, REWIND_STOP, REWIND_TWICE, STOCK},
};

macro_rules! guards {
    ($($(#[$doc:meta])* $guard:ident: $off:literal,)*) => {
        /// One thing that is done right.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Guard { $($(#[$doc])* $guard,)* }

        impl Guard {
            pub const ALL: &[Self] = &[$(Self::$guard,)*];
        }

        /// What is done instead.
        impl fmt::Display for Guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$guard => $off,)* })
            }
        }
    };
}

guards! {
    /// A give-back compares the track's revision.
    RevisionNotCursor: "comparing the cursor instead of the revision",
    /// An offer ends where our own blocks end.
    OwnBlocksOnly: "giving back across another node's block",
    /// A reserve takes the track, then reads the holes.
    HolesAfterTrack: "a hole read before the track is locked",
    /// What was offered is never issued here.
    DeadOnceSent: "stock kept until a give-back is answered",
    /// A stamp is judged before anything is changed.
    BeatBeforeChange: "the beat compared after the change",
    /// A give-back carries a stamp like every write.
    GiveBackHasABeat: "a give-back without a beat",
    /// An advance refuses while a node it knows has not reported.
    AdvanceAwaitsAnswers: "`advance` before the nodes answered",
    /// A draw is granted by *made* alone.
    DrawOnlyOnMade: "a random draw granted by an idempotent withhold",

    // From here on: found by this model. What the crates do not do themselves is done for them in
    // `desk` and `step`, behind the guard's name.

    /// A give-back of whole blocks lowers the witness to where the blocks before them ended. In `step`.
    WitnessForgetsWhatWentBack: "a witness that keeps the start of blocks that went back whole",
    /// Whoever grants a name over a hole that was there has it in the witness too. In `step`.
    GrantedNamesWitnessed: "a name granted over a hole that no witness has",
    /// After an advance, a name below the cursor that is not bound yet is never granted. In `desk`.
    LeaptNamesAreSpent: "a name granted below a cursor that `advance` lifted",
    /// The beats of one life are not those of another, whatever arrives late. In `desk`.
    LivesCountApart: "beats that go on from one life to the next",
    /// What the lost engine carried out does not reach the one after it a second time. An assumption.
    NoReplay: "a request of the lost part that is carried out again",
    /// The operator waits for nodes that started in the lost part, of which the ledger does not know. An
    /// assumption.
    OperatorKnowsTheStarted: "`advance` without a node that started in the lost part",
}

/// Which guards are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guards(u16);

impl Guards {
    pub const ALL: Self = Self(u16::MAX);

    #[must_use]
    pub fn without(self, guard: Guard) -> Self {
        Self(self.0 & !(1 << guard as u16))
    }

    pub fn on(self, guard: Guard) -> bool {
        self.0 & 1 << guard as u16 != 0
    }
}

impl Guard {
    /// The search that must find a counter-example.
    pub fn control(self) -> Rules {
        // What is asked of the others is that somebody is given what another has.
        let false_alarms = self == Self::WitnessForgetsWhatWentBack;
        Rules { bounds: self.world(), guards: Guards::ALL.without(self), false_alarms }
    }

    /// A small world that shows what this guard is for. Where it can be, it is one of one-number blocks.
    fn world(self) -> Bounds {
        let one = |bounds: Bounds| Bounds { block: 1, ceiling: 1, ..bounds };
        match self {
            Self::OwnBlocksOnly => Bounds { crashes: false, duplicates: 0, ..STOCK },
            Self::DeadOnceSent => one(STOCK),
            Self::WitnessForgetsWhatWentBack => {
                Bounds { block: 1, ceiling: 2, crashes: false, duplicates: 0, ..STOCK }
            }
            Self::HolesAfterTrack | Self::DrawOnlyOnMade => HOLES,
            Self::RevisionNotCursor
            | Self::BeatBeforeChange
            | Self::GiveBackHasABeat
            | Self::OperatorKnowsTheStarted => one(REWIND_STOP),
            Self::AdvanceAwaitsAnswers => one(REWIND),
            Self::GrantedNamesWitnessed | Self::LeaptNamesAreSpent => {
                one(Bounds { draws: &[], registers: 1, ..REWIND_HOLES })
            }
            Self::LivesCountApart => one(REWIND_LIVES),
            Self::NoReplay => Bounds { block: 1, ceiling: 2, ..REWIND_TWICE },
        }
    }
}
