//! The JSON body of a webhook, with places for what is told.
//!
//! `{{name}}` stands for a value, escaped as JSON asks for; texts belong between quotes, numbers (`level`,
//! `runway_seconds`) may stand alone and are `null` where they are not known. A template is checked before it
//! is used: with the worst values there can be, it has to be JSON.

use crate::{moment::rfc3339, notice::Notice};

/// The longest template.
const BYTES_MAX: usize = 64 << 10;

/// What a webhook without a template is sent.
pub(super) const PLAIN: &str = r#"{
  "status": "{{status}}", "keyspace": "{{keyspace}}", "kind": "{{kind}}", "severity": "{{severity}}",
  "summary": "{{summary}}", "level": {{level}}, "runway_seconds": {{runway_seconds}},
  "dedup_key": "{{dedup_key}}", "since": "{{since}}", "time": "{{time}}"
}"#;

type Read = fn(&Notice) -> Filled;

/// A value, unescaped.
#[derive(Debug)]
enum Filled {
    Text(String),
    Number(Option<String>),
}

const PLACES: [(&str, Read); 11] = [
    ("status", |notice| text(notice.status.as_str())),
    ("event_action", |notice| text(notice.status.event_action())),
    ("keyspace", |notice| Filled::Text(notice.subject.to_string())),
    ("kind", |notice| text(notice.kind.as_str())),
    ("severity", |notice| text(notice.severity.as_str())),
    ("summary", |notice| text(&notice.summary)),
    ("level", |notice| Filled::Number(notice.level.map(|level| level.to_string()))),
    ("runway_seconds", |notice| {
        Filled::Number(notice.runway_seconds.filter(|seconds| seconds.is_finite()).map(|s| format!("{s:.1}")))
    }),
    ("dedup_key", |notice| text(&notice.dedup_key)),
    ("since", |notice| Filled::Text(rfc3339(notice.since))),
    ("time", |notice| Filled::Text(rfc3339(notice.at))),
];

fn text(text: &str) -> Filled {
    Filled::Text(text.to_owned())
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("has {{{{{name}}}}}, which stands for nothing; there is {}", names())]
    Unknown { name: String },
    #[error("has a {{{{ without its }}}}")]
    Unclosed,
    #[error("is not JSON once it is filled in (texts belong between quotes): {0}")]
    NotJson(String),
    #[error("is longer than {BYTES_MAX} bytes")]
    TooLong,
}

fn names() -> String {
    PLACES.map(|(name, _)| name).join(", ")
}

/// A template that was checked.
#[derive(Debug, Clone)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Written(String),
    /// An index into [`PLACES`].
    Place(usize),
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > BYTES_MAX {
            return Err(TemplateError::TooLong);
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (name, after) = behind.split_once("}}").ok_or(TemplateError::Unclosed)?;
            let name = name.trim();
            let place = PLACES.iter().position(|(known, _)| *known == name);
            pieces.push(Piece::Written(before.to_owned()));
            pieces.push(Piece::Place(place.ok_or_else(|| TemplateError::Unknown { name: name.to_owned() })?));
            rest = after;
        }
        pieces.push(Piece::Written(rest.to_owned()));
        let template = Self { pieces };
        template.check()?;
        Ok(template)
    }

    /// Texts that would break out of their quotes, and numbers that are not known.
    fn check(&self) -> Result<(), TemplateError> {
        let hostile = "\"\\{}[],:\u{8}\n\t\u{1}é";
        for number in [None, Some("1".to_owned())] {
            let filled = self.fill_with(|place| match place.1(&some_notice()) {
                Filled::Text(_) => text(hostile),
                Filled::Number(_) => Filled::Number(number.clone()),
            });
            serde_json::from_str::<serde_json::Value>(&filled)
                .map_err(|error| TemplateError::NotJson(error.to_string()))?;
        }
        Ok(())
    }

    pub fn fill(&self, notice: &Notice) -> String {
        self.fill_with(|place| place.1(notice))
    }

    fn fill_with(&self, mut value: impl FnMut(&(&str, Read)) -> Filled) -> String {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Written(written) => filled.push_str(written),
                Piece::Place(place) => match value(&PLACES[*place]) {
                    Filled::Text(text) => filled.push_str(&escaped(&text)),
                    Filled::Number(number) => filled.push_str(number.as_deref().unwrap_or("null")),
                },
            }
        }
        filled
    }
}

/// As it stands between quotes.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Any notice: what kind of value each place has does not depend on it.
fn some_notice() -> Notice {
    use crate::{
        finding::{Kind, Severity, Subject},
        notice::Status,
    };
    Notice {
        incident: 1,
        status: Status::Firing,
        subject: Subject::Ground("ledger"),
        kind: Kind::Blind,
        severity: Severity::Critical,
        summary: String::new(),
        level: None,
        runway_seconds: None,
        since: std::time::SystemTime::UNIX_EPOCH,
        at: std::time::SystemTime::UNIX_EPOCH,
        dedup_key: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::finding::Subject;

    #[test]
    fn what_is_wrong_with_a_template_is_named() {
        for (template, complaint) in [
            ("{\"a\": \"{{sumary}}\"}", "{{sumary}}, which stands for nothing; there is status"),
            ("{\"a\": \"{{summary\"}", "without its }}"),
            ("{\"a\": {{summary}}}", "not JSON once it is filled in"),
            ("status={{status}}", "not JSON"),
            ("", "not JSON"),
        ] {
            let error = Template::parse(template).unwrap_err().to_string();
            assert!(error.contains(complaint), "{template}: {error}");
        }
        assert_eq!(Template::parse(&" ".repeat(BYTES_MAX + 1)).unwrap_err(), TemplateError::TooLong);
    }

    #[test]
    fn numbers_may_stand_alone_and_are_null_where_they_are_not_known() {
        let template = Template::parse("{\"level\": {{level}}, \"text\": \"{{ level }} left\"}").unwrap();
        assert_eq!(template.fill(&some_notice()), "{\"level\": null, \"text\": \"null left\"}");
        let notice = Notice { level: Some(u64::MAX), ..some_notice() };
        assert_eq!(
            template.fill(&notice),
            "{\"level\": 18446744073709551615, \"text\": \"18446744073709551615 left\"}"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_told_stays_between_its_quotes(summary in any::<String>(), keyspace in any::<String>()) {
            let subject = Subject::Keyspace(keyspace.clone());
            let notice = Notice { summary: summary.clone(), subject, ..some_notice() };
            let filled = Template::parse(PLAIN).unwrap().fill(&notice);
            let told: serde_json::Value = serde_json::from_str(&filled).unwrap();
            prop_assert_eq!(told["summary"].as_str(), Some(summary.as_str()));
            prop_assert_eq!(told["keyspace"].as_str(), Some(keyspace.as_str()));
            prop_assert_eq!(told.as_object().unwrap().len(), 10);
        }
    }
}
