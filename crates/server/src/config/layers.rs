//! Defaults, then the file, then the environment, then flags: each layer covers the one below, and
//! every value remembers where it came from.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use keymill_ledger::masked;
use serde::Deserialize;
use toml::{Table, Value};

use super::Config;

/// The largest config file.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: io::Error },
    #[error("{} is not TOML: {message}", path.display())]
    NotToml { path: PathBuf, message: String },
    #[error("{setting} ({stated}): {problem}")]
    Wrong { setting: String, stated: Source, problem: String },
    #[error("{setting} {problem}")]
    Contradiction { setting: String, problem: String },
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One setting as it came out, for `serve --check`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    pub source: Source,
}

/// The layers so far.
#[derive(Debug)]
pub struct Layers {
    merged: Table,
    defaults: Table,
    sources: BTreeMap<String, Source>,
}

impl Default for Layers {
    fn default() -> Self {
        let defaults = Table::try_from(Config::default()).expect("the defaults are TOML");
        Self { merged: defaults.clone(), defaults, sources: BTreeMap::new() }
    }
}

impl Layers {
    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = read(path).map_err(|why| ConfigError::Unreadable { path: path.to_owned(), why })?;
        let table: Table = toml::from_str(&text).map_err(|error| {
            // Its own rendering quotes the line, which may be one with a password.
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let message = format!("line {line}: {}", error.message());
            ConfigError::NotToml { path: path.to_owned(), message }
        })?;
        let source = Source::File(path.to_owned());
        note_sources(&table, "", &source, &mut self.sources);
        cover(&mut self.merged, table);
        Ok(())
    }

    /// `KEYMILL_LIMITS__COUNT_MAX=5` sets `limits.count_max`. Names with one underscore only are left
    /// alone: Kubernetes puts `KEYMILL_PORT` and the like into every container beside a service.
    pub fn environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix("KEYMILL_") else { continue };
            if !rest.contains("__") {
                continue;
            }
            let path: Vec<String> = rest.split("__").map(str::to_ascii_lowercase).collect();
            self.set(&path.join("."), &value, Source::Environment(name));
        }
    }

    pub fn flag(&mut self, flag: &'static str, setting: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.set(setting, value, Source::Flag(flag));
        }
    }

    /// Sets one value from text, read as the type its default has.
    fn set(&mut self, setting: &str, text: &str, source: Source) {
        let path: Vec<&str> = setting.split('.').collect();
        let value = coerce(look_up(&self.defaults, &path), text);
        let mut layer = value;
        for key in path.iter().rev() {
            layer = Value::Table(Table::from_iter([((*key).to_owned(), layer)]));
        }
        if let Value::Table(table) = layer {
            cover(&mut self.merged, table);
        }
        self.sources.insert(setting.to_owned(), source);
    }

    /// The configuration, checked; an error names the setting and where its value came from.
    pub fn finish(self) -> Result<(Config, Vec<Setting>), ConfigError> {
        let settings = self.settings();
        let config = serde_path_to_error::deserialize(Value::Table(self.merged.clone()));
        let config: Config = config.map_err(|error: serde_path_to_error::Error<toml::de::Error>| {
            let path = error.path().to_string();
            let problem = error.inner().message().to_owned();
            // An unknown key is named by the message; find who said it.
            let named = problem.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
            let setting = match named {
                Some(name) if path == "." => name.to_owned(),
                Some(name) if !path.ends_with(name) => format!("{path}.{name}"),
                _ => path,
            };
            let stated = self.source_of(&setting);
            ConfigError::Wrong { setting, stated, problem }
        })?;
        config.check()?;
        Ok((config, settings))
    }

    fn source_of(&self, setting: &str) -> Source {
        let below = format!("{setting}.");
        let found = self.sources.iter().find(|(name, _)| *name == setting || name.starts_with(&below));
        found.map_or(Source::Default, |(_, source)| source.clone())
    }

    fn settings(&self) -> Vec<Setting> {
        let mut flat = Vec::new();
        flatten(&self.merged, "", &mut flat);
        let setting = |(name, value): (String, Value)| {
            let source = self.source_of(name.split('[').next().unwrap_or(&name));
            Setting { value: shown(&name, &value), name, source }
        };
        flat.into_iter().map(setting).collect()
    }
}

/// Whether a file's text is a table of ours is only known at the end; here it is just laid over.
fn cover(beneath: &mut Table, above: Table) {
    for (key, value) in above {
        match (beneath.get_mut(&key), value) {
            (Some(Value::Table(beneath)), Value::Table(above)) => cover(beneath, above),
            (_, value) => {
                beneath.insert(key, value);
            }
        }
    }
}

fn note_sources(table: &Table, prefix: &str, source: &Source, sources: &mut BTreeMap<String, Source>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                note_sources(inner, &format!("{name}."), source, sources)
            }
            _ => {
                sources.insert(name, source.clone());
            }
        }
    }
}

fn look_up<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    if rest.is_empty() { Some(value) } else { look_up(value.as_table()?, rest) }
}

fn coerce(default: Option<&Value>, text: &str) -> Value {
    let number = || i64::deserialize(Value::String(text.to_owned())).ok().or_else(|| text.parse().ok());
    let text_value = || Value::String(text.to_owned());
    match default {
        Some(Value::String(_)) => text_value(),
        Some(Value::Boolean(_)) => text.parse().map_or_else(|_| text_value(), Value::Boolean),
        Some(Value::Float(_)) => text.parse().map_or_else(|_| text_value(), Value::Float),
        Some(Value::Array(_)) => {
            Value::Array(text.split(',').map(|item| Value::String(item.trim().to_owned())).collect())
        }
        // Unset by default, or a number: digits are a number, the rest is for the reader to refuse.
        _ => number().map_or_else(text_value, Value::Integer),
    }
}

/// Every setting by its full name. A table without anything in it is nothing.
pub(super) fn flatten(table: &Table, prefix: &str, flat: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            Value::Table(inner) => flatten(inner, &format!("{name}."), flat),
            Value::Array(items) if items.iter().any(Value::is_table) => {
                for (index, item) in items.iter().enumerate() {
                    let item = Table::from_iter([(format!("{key}[{index}]"), item.clone())]);
                    flatten(&item, prefix, flat);
                }
            }
            other => flat.push((name, other.clone())),
        }
    }
}

/// What is in a config file. It is one, and of a size that people write: a pipe would keep us waiting for ever, and a
/// device would fill the memory.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let no = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(no("it is no file".to_owned()));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(no(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// A value as people may see it.
pub(super) fn shown(name: &str, value: &Value) -> String {
    match value {
        // It may hold the key of a pager.
        Value::String(_) if name.ends_with(".template") => "\"***\"".to_owned(),
        // Whoever knows such an address can call people, or keep them asleep.
        Value::String(text) if name.starts_with("watch.") && text.contains("://") => {
            let origin = text.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            Value::String(format!("{}/***", masked(&origin))).to_string()
        }
        // A URL may hold a password.
        Value::String(text) if text.contains("://") => Value::String(masked(text)).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_layer_covers_the_one_below_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.toml");
        fs::write(&path, "[listen]\nhttp = \"127.0.0.1:1\"\n[limits]\ncount_max = 7\n").unwrap();
        let mut layers = Layers::default();
        layers.file(&path).unwrap();
        layers.environment(env(&[("KEYMILL_LIMITS__COUNT_MAX", "8"), ("KEYMILL_PORT", "tcp://1.2.3.4")]));
        layers.flag("--http", "listen.http", Some("127.0.0.1:2"));
        let (config, settings) = layers.finish().unwrap();
        assert_eq!((config.limits.count_max, config.listen.http.as_str()), (8, "127.0.0.1:2"));
        let source = |name: &str| settings.iter().find(|s| s.name == name).unwrap().source.to_string();
        assert_eq!(source("listen.http"), "flag --http");
        assert_eq!(source("limits.count_max"), "environment KEYMILL_LIMITS__COUNT_MAX");
        assert_eq!(source("limits.keyspaces"), "default");
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_refused_by_name_and_place() {
        let refused = |pairs: &[(&str, &str)]| {
            let mut layers = Layers::default();
            layers.environment(env(pairs));
            layers.finish().unwrap_err().to_string()
        };
        let message = refused(&[("KEYMILL_LIMITS__COUNT_MAXX", "8")]);
        assert!(
            message.contains("limits.count_maxx") && message.contains("KEYMILL_LIMITS__COUNT_MAXX"),
            "{message}"
        );
        let message = refused(&[("KEYMILL_LIMITS__TAKE_TIMEOUT", "20M")]);
        assert!(message.contains("limits.take_timeout") && message.contains("not a time"), "{message}");
        let message = refused(&[("KEYMILL_NONSENSE__KEY", "1")]);
        assert!(message.contains("nonsense"), "{message}");
    }

    #[test]
    fn a_file_with_an_unknown_keyspace_field_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.toml");
        fs::write(&path, "[keyspaces.promo]\nscheme = \"pool\"\nlenght = 8\n").unwrap();
        let mut layers = Layers::default();
        layers.file(&path).unwrap();
        let message = layers.finish().unwrap_err().to_string();
        assert!(message.contains("keyspaces.promo") && message.contains("lenght"), "{message}");
    }
}
