//! What a URL asks for behind its `?`. What cannot be read is refused as everything else is: as a problem, with a
//! code and, where one is to blame, the field.

use axum::{extract::FromRequestParts, http::request::Parts};
use keymill_api::{Code, Refusal};
use serde::de::DeserializeOwned;

use super::answer::Refused;

#[derive(Debug)]
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Refused(unreadable(&error.body_text()))),
        }
    }
}

/// `said` is axum's: `Failed to deserialize query string: limit: invalid digit found in string`.
fn unreadable(said: &str) -> Refusal {
    let why = said.split_once("query string: ").map_or(said, |(_, why)| why);
    match why.split_once(": ") {
        Some((field, why)) if field.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
            Refusal::field(Code::InvalidField, field, format!("`{field}` cannot be read: {why}"))
        }
        _ => {
            Refusal::new(Code::InvalidField, format!("the part of the URL behind `?` cannot be read: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_named_where_one_is_to_blame() {
        let refusal = unreadable("Failed to deserialize query string: limit: invalid digit found in string");
        assert_eq!(refusal.detail, "`limit` cannot be read: invalid digit found in string");
        assert_eq!(refusal.errors[0].pointer, "#/limit");
        let refusal = unreadable("Failed to deserialize query string: missing field `keyspace`");
        assert_eq!(refusal.detail, "the part of the URL behind `?` cannot be read: missing field `keyspace`");
    }
}
