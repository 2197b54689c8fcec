//! Names in a path. One that is not UTF-8 is refused as everything else is: as a problem, with a code.

use axum::{extract::FromRequestParts, http::request::Parts};
use keymill_api::{Code, Refusal};
use serde::de::DeserializeOwned;

use super::answer::Refused;

#[derive(Debug)]
pub(crate) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(names)) => Ok(Self(names)),
            Err(error) => Err(Refused(Refusal::new(Code::InvalidRequest, error.body_text()))),
        }
    }
}
