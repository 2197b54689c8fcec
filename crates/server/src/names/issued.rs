//! What was written down of a keyspace's keys.

use keymill_api::{IssuedList, IssuedView, Refusal};
use keymill_issuer::Served;
use keymill_registry::Recorded;

use super::{Names, moment, page_after, refuse};

impl Names {
    /// `GET /v1/keyspaces/{ks}/issued`
    pub(crate) async fn issued(
        &self,
        served: &Served,
        after: Option<String>,
        limit: usize,
    ) -> Result<IssuedList, Refusal> {
        let most = u32::try_from(limit + 1).expect("a page is small");
        let (keyspace, after) = (served.name.as_str(), page_after(after)?);
        let registry = self.registry_of(served).await?;
        let mut found = registry.recorded(keyspace, after.as_deref(), most).await.map_err(refuse)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(|last| last.key.clone());
        let view =
            |found: Recorded| IssuedView { key: found.key, node: found.node, issued_at: moment(found.at_ms) };
        Ok(IssuedList { issued: found.into_iter().map(view).collect(), next_cursor })
    }
}
