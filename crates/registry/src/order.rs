//! Where a row of `names` lies.
//!
//! Rows lie by their place, then by name. The place of a key is its number: keys are issued in that order, so what is
//! bound together lies together, and a thousand links change a few pages of the file where rows in the order of their
//! shuffled texts change a thousand. Names that spell no number lie together, by name.
//!
//! A row is found by its name, so its place must be a function of the name that never changes. The definition that
//! first ordered a keyspace is therefore kept beside the rows, and goes on to order them whatever becomes of the
//! keyspace elsewhere: with another ledger keys would have other numbers, and every row would be lost.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use keymill_id::{Definition, Mint};
use keymill_sql::SqlError;

/// The place of names without a number, before all others.
pub(crate) const NO_NUMBER: i64 = -1;
/// What is kept of a keyspace whose rows lie by name alone.
pub(crate) const BY_NAME: &str = "";

/// How the rows of one keyspace lie. `None`: by name alone.
#[derive(Debug)]
pub(crate) struct Order(Option<Mint>);

impl Order {
    /// What is kept of an order by this definition.
    pub(crate) fn stored(definition: &Definition) -> String {
        match definition {
            Definition::Pool(_) | Definition::Sequence(_) => definition.to_stored_json(),
            Definition::Snowflake(_) | Definition::Digest(_) | Definition::Free(_) => BY_NAME.to_owned(),
        }
    }

    pub(crate) fn read(keyspace: &str, stored: &str) -> Result<Self, SqlError> {
        if stored == BY_NAME {
            return Ok(Self(None));
        }
        let unreadable =
            |said: &str| SqlError::Unexpected(format!("the order of `{keyspace}`'s names: {said}"));
        let definition =
            Definition::from_stored_json(stored).map_err(|error| unreadable(&error.to_string()))?;
        match definition {
            Definition::Pool(_) | Definition::Sequence(_) => Ok(Self(Some(Mint::compile(&definition)))),
            other => Err(unreadable(&format!("keys of a {} have no numbers", other.scheme()))),
        }
    }

    pub(crate) fn place(&self, name: &str) -> i64 {
        let number = self.0.as_ref().and_then(|mint| mint.number_of(name));
        number.map_or(NO_NUMBER, |number| i64::try_from(number.get()).expect("numbers fit a signed column"))
    }
}

/// The orders that this process has read. They never change, so what was read once is right for ever.
#[derive(Debug, Default)]
pub(crate) struct Orders(RwLock<HashMap<String, Arc<Order>>>);

impl Orders {
    pub(crate) fn get(&self, keyspace: &str) -> Option<Arc<Order>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(keyspace).cloned()
    }

    pub(crate) fn knows(&self, keyspace: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(keyspace)
    }

    /// `order` was read from what is committed.
    pub(crate) fn learn(&self, keyspace: &str, order: Order) {
        let mut orders = self.0.write().unwrap_or_else(PoisonError::into_inner);
        orders.insert(keyspace.to_owned(), Arc::new(order));
    }
}

#[cfg(test)]
mod tests {
    use keymill_id::{Number, Secret, Stated};
    use serde_json::json;

    use super::*;

    fn definition(stated: serde_json::Value, secret: u8) -> Definition {
        let stated: Stated = serde_json::from_value(stated).unwrap();
        Definition::resolve(&stated, Secret::from_bytes([secret; Secret::LENGTH])).unwrap()
    }

    #[test]
    fn keys_lie_by_number_and_other_names_before_them() {
        let pool = definition(json!({"scheme": "pool"}), 7);
        let order = Order::read("links", &Order::stored(&pool)).unwrap();
        let mint = Mint::compile(&pool);
        for number in [0, 1, 2, 1_000_000] {
            let key = mint.spell_one(Number::new(number).unwrap()).unwrap();
            assert_eq!(order.place(&key), i64::try_from(number).unwrap());
        }
        for other in ["", "a name", "summer-sale-2026", "é"] {
            assert_eq!(order.place(other), NO_NUMBER, "{other}");
        }
    }

    #[test]
    fn what_has_no_numbers_lies_by_name() {
        for scheme in ["snowflake", "digest", "uuid7"] {
            assert_eq!(Order::stored(&definition(json!({"scheme": scheme}), 7)), BY_NAME, "{scheme}");
        }
        assert_eq!(Order::read("links", BY_NAME).unwrap().place("abc"), NO_NUMBER);
        assert!(matches!(Order::read("links", "{}"), Err(SqlError::Unexpected(_))));
    }
}
