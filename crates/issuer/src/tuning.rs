//! What may change about a keyspace at any time: how much is held and how it behaves, not what a key
//! looks like.

use std::sync::Arc;

use keymill_ledger::masked;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    meter::RATE_MAX,
    quantity::{Count, Mark, Span},
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

/// When a pool of rows is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEmpty {
    /// Wait for the filler, as long as the caller does.
    Wait,
    /// Say at once that there is nothing.
    Refuse,
    /// Draw a number and withhold it; draw again if it was taken.
    Random,
}

/// How finely it is recorded what was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audit {
    /// By ranges of numbers.
    Claim,
    /// By a row for each key too, written before it leaves.
    Key,
}

macro_rules! tuning {
    (always { $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr;)* }
     perhaps { $($(#[$maybe_doc:meta])* $maybe:ident: $maybe_type:ty;)* }
     places { $($(#[$text_doc:meta])* $text:ident;)* }) => {
        /// Settings a node or the ledger states; what is absent falls through to the next in line: the
        /// node's config, the ledger, the default.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Tuning {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            $($(#[$maybe_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $maybe: Option<$maybe_type>,)*
            $($(#[$text_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $text: Option<String>,)*
            /// A static worker id: this one or none. Only a node's own config may say it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub worker: Option<u16>,
        }

        /// Tuning with every gap filled.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub struct Tuned {
            $(pub $field: $type,)*
            $(#[serde(skip_serializing_if = "Option::is_none")] pub $maybe: Option<$maybe_type>,)*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub worker: Option<u16>,
        }

        /// The URLs among it. They are shown without their passwords.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
        pub struct Places {
            $(
                #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
                pub $text: Option<Arc<str>>,
            )*
        }

        impl Default for Tuned {
            fn default() -> Self {
                Self { $($field: $default,)* $($maybe: None,)* worker: None }
            }
        }

        impl Tuning {
            /// The names, as requests and configs spell them.
            pub const NAMES: &[&str] = &[
                $(stringify!($field),)* $(stringify!($maybe),)* $(stringify!($text),)* "worker",
            ];

            /// This over `beneath` over the defaults.
            pub fn over(&self, beneath: &Self) -> Tuned {
                let default = Tuned::default();
                Tuned {
                    $($field: self.$field.or(beneath.$field).unwrap_or(default.$field),)*
                    $($maybe: self.$maybe.or(beneath.$maybe),)*
                    worker: self.worker,
                }
            }

            /// As [`over`](Self::over), for the URLs.
            pub fn places_over(&self, beneath: &Self) -> Places {
                Places { $($text: self.$text.as_deref().or(beneath.$text.as_deref()).map(Arc::from),)* }
            }
        }
    };
}

tuning! {
    always {
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
        on_empty: OnEmpty = OnEmpty::Wait;
        /// How many keys the filler keeps in a pool of rows.
        capacity: Count = Count(1_000_000);
        audit: Audit = Audit::Claim;
        /// The longest name that people may choose.
        alias_length_max: u8 = 16;
        /// Refuse names that look like one that is there.
        confusable_guard: bool = false;
        /// How links answer: 301, 302, 307 or 308.
        redirect: u16 = 302;
        /// Refuse links into private networks.
        deny_private_targets: bool = false;
    }
    perhaps {
        /// Keys a second that each node lets out; no limit unless it is said.
        rate_limit: Count;
        /// Below this level the filler is started anew.
        restart_below: Mark;
        /// Below this level a human is told.
        page_below: Mark;
        /// How long links and names last, unless their maker says; for ever unless it is said.
        expires_in: Span;
    }
    places {
        /// Where those go who ask for a key that is not there; they are told `404` unless it is said.
        not_found_url;
        /// The Redis that holds a pool of rows.
        redis_url;
    }
}

fn shown<S: Serializer>(url: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(masked).serialize(serializer)
}

/// A crash burns a budget's worth of numbers, or of a worker's time.
const OUTAGE_BUDGET_MAX: Span = Span(24 * 3_600_000);
const STOCK_MIN_MAX: Count = Count(1_000_000_000);
const STOCK_MAX_MAX: Count = Count(10_000_000_000);
/// What a name may be made to hold: longer ones are no longer short.
const ALIAS_LENGTH_MAX_MAX: u8 = 64;
/// Rows that one keyspace may be asked to keep.
const CAPACITY_MAX: Count = Count(10_000_000_000);

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
        if let (Some(restart), Some(page)) = (self.restart_below, self.page_below)
            && page.is_above(restart)
        {
            let message = format!(
                "`page_below` ({page}) must not be above `restart_below` ({restart}): a human would be called before \
                 the filler had its chance"
            );
            return Some(("page_below", message));
        }
        for (field, mark) in [("restart_below", self.restart_below), ("page_below", self.page_below)] {
            if let (Some(Mark::Keys(mark)), Some(capacity)) = (mark, self.capacity)
                && mark > capacity
            {
                let message = format!(
                    "`{field}` ({mark}) must not be above `capacity` ({capacity}): the pool is never that full"
                );
                return Some((field, message));
            }
        }
        self.names_contradiction(&tuned)
    }

    /// As [`contradiction`](Self::contradiction), of what is said about names, links and rows.
    fn names_contradiction(&self, tuned: &Tuned) -> Option<(&'static str, String)> {
        let Tuned { alias_length_max, redirect, capacity, expires_in, .. } = *tuned;
        if !(1..=ALIAS_LENGTH_MAX_MAX).contains(&alias_length_max) {
            let message =
                format!("`alias_length_max` ({alias_length_max}) must be from 1 to {ALIAS_LENGTH_MAX_MAX}");
            return Some(("alias_length_max", message));
        }
        if ![301, 302, 307, 308].contains(&redirect) {
            return Some(("redirect", format!("`redirect` ({redirect}) must be 301, 302, 307 or 308")));
        }
        if !(1..=CAPACITY_MAX.0).contains(&capacity.0) {
            return Some(("capacity", format!("`capacity` ({capacity}) must be from 1 to {CAPACITY_MAX}")));
        }
        if expires_in.is_some_and(|span| span < Span(1_000)) {
            return Some((
                "expires_in",
                "`expires_in` must be at least 1s; leave it out for never".to_owned(),
            ));
        }
        let schemes: [(_, &Option<String>, &[&str]); 2] = [
            ("not_found_url", &self.not_found_url, &["http://", "https://"]),
            ("redis_url", &self.redis_url, &["redis://", "rediss://"]),
        ];
        for (field, url, schemes) in schemes {
            if let Some(url) = url
                && !schemes.iter().any(|scheme| url.starts_with(scheme) && url.len() > scheme.len())
            {
                return Some((field, format!("`{field}` must start with {}", schemes.join(" or "))));
            }
        }
        None
    }
}
