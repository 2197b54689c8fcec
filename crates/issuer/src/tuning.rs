//! What may change about a keyspace at any time: how much is held and how it behaves, not what a key
//! looks like.

use serde::{Deserialize, Serialize};

use crate::{
    meter::RATE_MAX,
    quantity::{Count, Span},
};

/// When the clock is behind what was already embedded in IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRollback {
    /// Wait for it, `rollback_wait` at most; then say "try again".
    Wait,
    /// Keep counting inside the reserved window; the offset can be seen.
    Logical,
    /// Refuse at once, and be ready again when the clock is.
    Fail,
}

/// When a tick's sequence is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOverflow {
    /// Wait for the next tick.
    Wait,
    /// Take ticks ahead of the clock, inside the reserved window.
    Borrow,
}

macro_rules! tuning {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr;)*) => {
        /// Settings a node or the ledger states; what is absent falls through to the next in line: the
        /// node's config, the ledger, the default.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Tuning {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            /// Keys a second that each node lets out; no limit unless it is said.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rate_limit: Option<Count>,
            /// A static worker id: this one or none. Only a node's own config may say it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub worker: Option<u16>,
        }

        /// Tuning with every gap filled.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub struct Tuned {
            $(pub $field: $type,)*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rate_limit: Option<Count>,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub worker: Option<u16>,
        }

        impl Default for Tuned {
            fn default() -> Self {
                Self { $($field: $default,)* rate_limit: None, worker: None }
            }
        }

        impl Tuning {
            /// The names, as requests and configs spell them.
            pub const NAMES: &[&str] = &[$(stringify!($field),)* "rate_limit", "worker"];

            /// This over `beneath` over the defaults.
            pub fn over(&self, beneath: &Self) -> Tuned {
                let default = Tuned::default();
                Tuned {
                    $($field: self.$field.or(beneath.$field).unwrap_or(default.$field),)*
                    rate_limit: self.rate_limit.or(beneath.rate_limit),
                    worker: self.worker,
                }
            }
        }
    };
}

tuning! {
    /// How long the stock lasts without the ledger, at the current rate. More: longer outages are
    /// survived. Less: less is burned by a crash.
    outage_budget: Span = Span(60_000);
    /// The least a node holds, however quiet it is.
    stock_min: Count = Count(1024);
    /// The most a node holds, however busy it is.
    stock_max: Count = Count(100_000_000);
    /// Worker ids a node holds at a time. More: more IDs a tick. Fewer: workers last longer.
    workers: u16 = 1;
    on_rollback: OnRollback = OnRollback::Wait;
    rollback_wait: Span = Span(2_000);
    on_overflow: OnOverflow = OnOverflow::Wait;
    /// A tick's sequence starts in 0..=this, so that few IDs a tick are not all even.
    sequence_start: u32 = 1;
    /// How long a worker stays ours without a word.
    lease_ttl: Span = Span(15_000);
    /// How long a worker rests after its last window before another node may have it.
    recycle_delay: Span = Span(60_000);
    /// How far the clock may jump ahead before IDs are refused.
    forward_max: Span = Span(60_000);
}

/// A crash burns a budget's worth of numbers, or of a worker's time.
const OUTAGE_BUDGET_MAX: Span = Span(24 * 3_600_000);
const STOCK_MIN_MAX: Count = Count(1_000_000_000);
const STOCK_MAX_MAX: Count = Count(10_000_000_000);

impl Tuning {
    /// Why this cannot be meant, if it cannot.
    pub fn contradiction(&self) -> Option<(&'static str, String)> {
        let tuned = self.over(&Self::default());
        let Tuned { outage_budget, stock_min, stock_max, workers, lease_ttl, .. } = tuned;
        let too_much = |field, value: String, most: String| {
            Some((field, format!("`{field}` ({value}) must not exceed {most}: a crash would burn that much")))
        };
        if outage_budget > OUTAGE_BUDGET_MAX {
            return too_much("outage_budget", outage_budget.to_string(), OUTAGE_BUDGET_MAX.to_string());
        }
        if stock_min > STOCK_MIN_MAX {
            return too_much("stock_min", stock_min.to_string(), STOCK_MIN_MAX.to_string());
        }
        if stock_max > STOCK_MAX_MAX {
            return too_much("stock_max", stock_max.to_string(), STOCK_MAX_MAX.to_string());
        }
        if stock_min == Count(0) {
            return Some(("stock_min", "`stock_min` must be at least 1".to_owned()));
        }
        if stock_min > stock_max {
            let message = format!("`stock_min` ({stock_min}) must not exceed `stock_max` ({stock_max})");
            return Some(("stock_min", message));
        }
        if let Some(rate) = self.rate_limit
            && !(1..=RATE_MAX).contains(&rate.0)
        {
            let most = Count(RATE_MAX);
            let message = format!(
                "`rate_limit` ({rate}) must be from 1 to {most} keys a second; leave it out for none"
            );
            return Some(("rate_limit", message));
        }
        if workers == 0 {
            return Some(("workers", "`workers` must be at least 1".to_owned()));
        }
        if lease_ttl < Span(1_000) {
            return Some(("lease_ttl", format!("`lease_ttl` ({lease_ttl}) must be at least 1s")));
        }
        if self.worker.is_some() && workers > 1 {
            let message = format!("`worker` names one worker, and `workers` asks for {workers}");
            return Some(("worker", message));
        }
        None
    }
}
