//! Reads JSON bodies so that whoever sent a wrong one learns which field was wrong and why.

use serde::de::DeserializeOwned;

use crate::{Code, Refusal};

/// Reads a body; an empty one means `{}`.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Refusal::new(Code::InvalidRequest, format!("the body is not UTF-8: {error}")))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string().replace('.', "/");
        refuse(&error.into_inner(), &path)
    })?;
    reader.end().map_err(|error| refuse(&error, ""))?;
    Ok(value)
}

fn refuse(error: &serde_json::Error, path: &str) -> Refusal {
    if !error.is_data() {
        return Refusal::new(Code::InvalidRequest, format!("the body is not JSON: {error}"));
    }
    let message = error.to_string();
    // "unknown field `x`, expected …": the path stops above it, so the name is in the message alone.
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix)?.split('`').next());
    let parent = if path == "/" { "" } else { path };
    let pointer = match named {
        Some(name) if parent.is_empty() || parent.rsplit('/').next() == Some(name) => name.to_owned(),
        Some(name) => format!("{parent}/{name}"),
        None => parent.to_owned(),
    };
    Refusal::field(Code::InvalidField, &pointer, message)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        count: u32,
    }

    fn refused(body: &[u8]) -> (Code, Option<String>) {
        let refusal = parse::<Body>(body).unwrap_err();
        (refusal.code, refusal.errors.first().map(|error| error.pointer.clone()))
    }

    #[test]
    fn a_missing_body_is_an_empty_object() {
        assert_eq!(parse::<Body>(b"").unwrap().count, 0);
        assert_eq!(parse::<Body>(b" \n").unwrap().count, 0);
    }

    #[test]
    fn what_is_not_json_is_told_apart_from_a_wrong_field() {
        let pointer = |name: &str| Some(format!("#/{name}"));
        assert_eq!(refused(b"{"), (Code::InvalidRequest, None));
        assert_eq!(refused(b"{} {}"), (Code::InvalidRequest, None));
        assert_eq!(refused(&[0xff, 0xfe]), (Code::InvalidRequest, None));
        assert_eq!(refused(br#"{"count":"3"}"#), (Code::InvalidField, pointer("count")));
        assert_eq!(refused(br#"{"size":3}"#), (Code::InvalidField, pointer("size")));
        assert_eq!(refused(br#"{"count":1,"count":2}"#), (Code::InvalidField, pointer("count")));
    }
}
