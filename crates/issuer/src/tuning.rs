//! What may change about a keyspace at any time: how much is held, not what a key looks like.

use serde::{Deserialize, Serialize};

use crate::quantity::{Count, Span};

/// Settings a node or the ledger states; what is absent falls through to the next in line:
/// the node's config, the ledger, the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// How long the stock lasts without the ledger, at the current rate. More: longer outages are
    /// survived. Less: less is burned by a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage_budget: Option<Span>,
    /// The least a node holds, however quiet it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock_min: Option<Count>,
    /// The most a node holds, however busy it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock_max: Option<Count>,
}

/// Tuning with every gap filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tuned {
    pub outage_budget: Span,
    pub stock_min: Count,
    pub stock_max: Count,
}

impl Default for Tuned {
    fn default() -> Self {
        Self { outage_budget: Span(60_000), stock_min: Count(1024), stock_max: Count(100_000_000) }
    }
}

impl Tuning {
    /// Why this cannot be meant, if it cannot.
    pub fn contradiction(&self) -> Option<(&'static str, String)> {
        let tuned = self.over(&Self::default());
        if tuned.stock_min == Count(0) {
            return Some(("stock_min", "`stock_min` must be at least 1".to_owned()));
        }
        if tuned.stock_min > tuned.stock_max {
            return Some((
                "stock_min",
                format!(
                    "`stock_min` ({}) must not exceed `stock_max` ({})",
                    tuned.stock_min, tuned.stock_max
                ),
            ));
        }
        None
    }

    /// This over `beneath` over the defaults.
    pub fn over(&self, beneath: &Self) -> Tuned {
        let Tuned { outage_budget, stock_min, stock_max } = Tuned::default();
        Tuned {
            outage_budget: self.outage_budget.or(beneath.outage_budget).unwrap_or(outage_budget),
            stock_min: self.stock_min.or(beneath.stock_min).unwrap_or(stock_min),
            stock_max: self.stock_max.or(beneath.stock_max).unwrap_or(stock_max),
        }
    }
}
