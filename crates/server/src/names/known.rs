//! All that is known of a key: what the ledger says of it, where it leads, what refers to it.

use keymill_api::{KeyView, Refusal};
use keymill_issuer::{Inspection, KeyState, Served};
use keymill_registry::Kind;

use super::{Names, is_name, refuse};

impl Names {
    /// `found` is what the ledger says. `None`: nobody knows the text.
    pub(crate) async fn known_as(
        &self,
        served: &Served,
        text: &str,
        found: Option<Inspection>,
    ) -> Result<Option<KeyView>, Refusal> {
        let keyspace = served.name.as_str();
        let view = |found: &Inspection| KeyView::new(keyspace, text, found);
        let name = self.name_of(served, text);
        if self.registry.is_none() || !is_name(&name) {
            return Ok(found.as_ref().map(view));
        }
        let entry = self.registry_of(served).await?.entry(keyspace, &name).await.map_err(refuse)?;
        let mut view = match (&found, &entry) {
            (Some(found), _) => view(found),
            (None, Some(entry)) => {
                let state = match entry.kind {
                    Kind::Alias => KeyState::Alias,
                    Kind::Issued => KeyState::Issued,
                    Kind::Used => KeyState::Withheld,
                };
                KeyView::new(keyspace, text, &Inspection::bare(None, state))
            }
            (None, None) => return Ok(None),
        };
        let alive = entry.filter(|entry| entry.is_live_link(self.now_ms()));
        view.link = alive.map(|entry| self.view(served, &entry));
        view.refs = self.references_to(served, &name).await?;
        Ok(Some(view))
    }
}
