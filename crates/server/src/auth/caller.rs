//! Whoever asks, and what they may.

use std::{sync::Arc, time::Duration};

use keymill_api::{Code, RateLimit, Refusal, Scope};
use keymill_issuer::{
    IssueError, Node, Served,
    meter::{Exceeded, Meter},
};

use super::token::Token;

/// The holder of a token; or anyone, where nothing is guarded.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Option<Arc<Token>>);

impl Caller {
    pub(crate) const ANYONE: Self = Self(None);

    pub(super) fn holding(token: Arc<Token>) -> Self {
        Self(Some(token))
    }

    /// Which token it is; everyone without one is the same.
    pub(crate) fn id(&self) -> &str {
        self.0.as_ref().map_or("", |token| &token.id)
    }

    /// Refused, once the token was revoked or its time is over.
    pub(crate) fn refuse_unless_standing(&self) -> Result<(), Refusal> {
        if self.stands() { Ok(()) } else { Err(withdrawn()) }
    }

    pub(crate) fn stands(&self) -> bool {
        self.0.as_ref().is_none_or(|token| token.stands())
    }

    #[inline]
    pub(crate) fn refuse_unless(&self, scope: Scope) -> Result<(), Refusal> {
        if self.0.as_ref().is_none_or(|token| token.has(scope)) { Ok(()) } else { Err(lacks(scope)) }
    }

    /// What concerns all keyspaces needs a token for all of them: who could make tokens with one for a few
    /// could make one for the rest.
    pub(crate) fn refuse_unless_over_all(&self, scope: Scope) -> Result<(), Refusal> {
        self.refuse_unless(scope)?;
        if self.0.as_ref().is_none_or(|token| token.sees_everything()) {
            return Ok(());
        }
        let detail =
            "this concerns every keyspace, and the token is for some; use one whose keyspaces are `*`";
        Err(Refusal::new(Code::Forbidden, detail))
    }

    /// Whether a keyspace of that name may exist at all, as far as this caller is concerned.
    #[inline]
    pub(crate) fn sees(&self, keyspace: &str) -> bool {
        self.sees_bytes(keyspace.as_bytes())
    }

    #[inline]
    pub(crate) fn sees_bytes(&self, keyspace: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|token| token.sees(keyspace))
    }

    /// Whether no keyspace is hidden from this caller.
    pub(crate) fn sees_everything(&self) -> bool {
        self.0.as_ref().is_none_or(|token| token.sees_everything())
    }

    /// Says of a keyspace outside the token's patterns what is said of one that does not exist.
    #[inline]
    pub(crate) fn refuse_unless_seen(&self, keyspace: &str) -> Result<(), IssueError> {
        if self.sees(keyspace) { Ok(()) } else { Err(IssueError::KeyspaceNotFound) }
    }

    fn meter(&self) -> Option<&Meter> {
        self.0.as_ref().map(|token| &token.meter).filter(|meter| meter.rate().is_some())
    }

    /// Charges the token and the keyspace for `count` keys, both or neither. The time is asked for only where
    /// there is a limit.
    #[inline]
    pub(crate) fn charge(
        &self,
        served: &Served,
        count: u32,
        now: impl FnOnce() -> Duration,
    ) -> Result<(), TooFast> {
        let token = self.meter();
        if token.is_none() && served.meter.rate().is_none() {
            return Ok(());
        }
        charge(token, served, count, now())
    }

    /// Takes a charge back, for keys that could not be had.
    #[cold]
    pub(crate) fn refund(&self, served: &Served, count: u32) {
        self.meter().into_iter().chain([&served.meter]).for_each(|meter| meter.refund(count));
    }

    /// How many of `count` keys a stream should take at a time: a quarter of a second's worth, so that it flows,
    /// owes nothing for long, and leaves room for others.
    pub(crate) fn portion(&self, served: &Served, count: u32) -> u32 {
        let rates = [self.meter().and_then(Meter::rate), served.meter.rate()];
        let Some(rate) = rates.into_iter().flatten().min() else { return count };
        u32::try_from(rate.div_ceil(4)).map_or(count, |portion| portion.min(count))
    }

    /// Charges for a part of a stream, which is not refused but slowed down. Ends early when the token does.
    pub(crate) async fn pace(&self, node: &Node, served: &Served, count: u32) {
        const LOOK_EVERY: Duration = Duration::from_millis(250);
        while let Err(TooFast { exceeded, .. }) = self.charge(served, count, || node.elapsed()) {
            if !self.stands() || node.refuse_unless_serving().is_err() {
                return; // whoever takes next is told why
            }
            tokio::time::sleep(exceeded.wait.min(LOOK_EVERY)).await;
        }
    }
}

/// Which limit was met, and by how much.
#[derive(Debug)]
pub(crate) struct TooFast {
    whose: &'static str,
    exceeded: Exceeded,
}

fn charge(token: Option<&Meter>, served: &Served, count: u32, now: Duration) -> Result<(), TooFast> {
    let too_fast = |whose| move |exceeded| TooFast { whose, exceeded };
    if let Some(meter) = token {
        meter.charge(count, now).map_err(too_fast("the token's `rate`"))?;
    }
    served.meter.charge(count, now).map_err(|exceeded| {
        if let Some(meter) = token {
            meter.refund(count);
        }
        too_fast("the keyspace's `rate_limit`")(exceeded)
    })
}

impl From<TooFast> for Refusal {
    #[cold]
    fn from(TooFast { whose, exceeded }: TooFast) -> Self {
        let limit = RateLimit::from(exceeded);
        let (rate, seconds) = (limit.limit, limit.retry_after);
        let fewer = match limit.remaining {
            0 => String::new(),
            left => format!(", or ask for at most {left}"),
        };
        let detail = format!("{whose} is {rate} keys a second on each node; try again in {seconds} s{fewer}");
        Self { rate_limit: Some(limit), ..Self::new(Code::RateLimited, detail) }
    }
}

#[cold]
fn lacks(scope: Scope) -> Refusal {
    let scope = scope.as_str();
    let detail =
        format!("the token lacks the scope `{scope}`; make one with `keymill token create --scope {scope}`");
    Refusal::new(Code::Forbidden, detail)
}

#[cold]
fn withdrawn() -> Refusal {
    Refusal::new(Code::Unauthenticated, "the token was revoked or its time is over; ask for another")
}
