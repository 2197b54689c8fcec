//! Reads JSON bodies so that whoever sent a wrong one learns which field was wrong and why.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Code, Refusal};

/// Reads a body; an empty one means `{}`.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Refusal::new(Code::InvalidRequest, format!("the body is not UTF-8: {error}")))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    if !text.trim_start().starts_with('{') {
        // serde would fill a struct from a list as well, and `[5]` would be a count of five.
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| refuse(&error, ""))?;
        return Err(Refusal::new(Code::InvalidField, "the body must be a JSON object, in braces"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string().replace('.', "/");
        refuse(&error.into_inner(), &path)
    })?;
    reader.end().map_err(|error| refuse(&error, ""))?;
    Ok(value)
}

/// Reads what was read as an object before: its fields are named, and its lines are no longer known.
pub(crate) fn from_object<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string().replace('.', "/");
        refuse(&error.into_inner(), &path)
    })
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

    #[test]
    fn a_list_is_not_taken_for_the_fields_in_their_order() {
        for body in ["[]", "[5]", " [5]", "5", "null", "\"{}\""] {
            assert_eq!(refused(body.as_bytes()), (Code::InvalidField, None), "{body}");
        }
        assert_eq!(refused(b"[5"), (Code::InvalidRequest, None));
        assert_eq!(refused(b"count=5"), (Code::InvalidRequest, None));
    }
}
