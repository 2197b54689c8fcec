//! What one configuration says otherwise than another.

use std::{collections::BTreeMap, fmt};

use toml::{Table, Value};

use super::{
    Config,
    layers::{flatten, shown},
};

/// One setting, as people may see it before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub setting: String,
    pub from: String,
    pub to: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.setting, self.from, self.to)
    }
}

impl Config {
    /// What `later` says otherwise, by name. A password that changed is a change, and is not shown.
    pub fn changes(&self, later: &Self) -> Vec<Change> {
        let (before, after) = (self.flat(), later.flat());
        let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let differs = |name: &&&String| before.get(**name) != after.get(**name);
        let change = |name: &String| {
            let shown = |value: Option<&Value>| value.map_or("unset".to_owned(), |value| shown(name, value));
            Change { setting: name.clone(), from: shown(before.get(name)), to: shown(after.get(name)) }
        };
        names.iter().filter(differs).map(|name| change(name)).collect()
    }

    fn flat(&self) -> BTreeMap<String, Value> {
        let mut flat = Vec::new();
        flatten(&Table::try_from(self).expect("a configuration is TOML"), "", &mut flat);
        flat.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledgers::StoreUrl;

    #[test]
    fn changes_are_named_with_both_values_and_secrets_are_not_shown() {
        let mut before = Config::default();
        before.ledger.url = StoreUrl::new("postgres://app:first@db/keys");
        let mut after = before.clone();
        assert_eq!(before.changes(&after), []);
        after.ledger.url = StoreUrl::new("postgres://app:second@db/keys");
        after.log.level = "debug".to_owned();
        after.ledger.region = Some(7);
        after.keyspaces = toml::from_str("[promo]\nscheme = \"pool\"").unwrap();
        let changes = before.changes(&after);
        let said: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(
            [&said[0], &said[1], &said[3]],
            [
                "keyspaces.promo.scheme: unset → \"pool\"",
                "ledger.region: unset → 7",
                "log.level: \"info\" → \"debug\""
            ]
        );
        assert!(said[2].starts_with("ledger.url: "), "{said:?}");
        assert!(!said.concat().contains("first") && !said.concat().contains("second"), "{said:?}");
    }
}
