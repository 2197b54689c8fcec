//! Where the database is: one URL, of which the password is never shown.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions as _,
    mysql::{MySqlConnectOptions, MySqlSslMode},
    postgres::{PgConnectOptions, PgSslMode},
};

use crate::{Dialect, SqlError};

/// What tables are called when the URL does not say: `keymill_tracks` and so on.
pub(crate) const TABLE_PREFIX: &str = "keymill";
/// So that the longest table name fits any engine.
const TABLE_PREFIX_MAX: usize = 32;
/// What a URL may say after its `?`.
const PARAMETERS: [&str; 3] = ["sslmode", "ssl-mode", "application_name"];

/// A parsed URL, ready to connect.
#[derive(Clone)]
pub struct Address {
    pub(crate) driver: Driver,
    pub timeout: Duration,
    table_prefix: String,
    shown: String,
}

#[derive(Clone)]
pub(crate) enum Driver {
    Postgres(Box<PgConnectOptions>),
    MySql(Box<MySqlConnectOptions>),
}

/// PEM files. Whether TLS is used at all is the URL's to say (`sslmode`); to name an authority and no mode asks
/// for a server that it vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whom to trust, instead of the well-known authorities.
    pub ca: Option<PathBuf>,
    /// Who we are, for an engine that asks.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl Address {
    /// Parses `postgres://`, `postgresql://`, `mysql://` or `mariadb://`. Touches no network.
    pub fn parse(url: &str, tls: &Tls, timeout: Duration) -> Result<Self, SqlError> {
        let shown = masked(url);
        let wrong = |problem: &str| SqlError::Refused(format!("{shown} {problem}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("is not a URL"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(wrong(
                "holds an `@` after a `?`; in a password write ? as %3F, / as %2F, # as %23, @ as %40",
            ));
        }
        let mut table_prefix = TABLE_PREFIX.to_owned();
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("table_prefix", prefix) => prefix.clone_into(&mut table_prefix),
                (name, _) if PARAMETERS.contains(&name) => kept.push(pair),
                (name, _) => {
                    let known = PARAMETERS.join(", ");
                    return Err(wrong(&format!(
                        "has an unknown parameter `{name}`; known: table_prefix, {known}"
                    )));
                }
            }
        }
        check_prefix(&table_prefix).map_err(|problem| wrong(&problem))?;
        let says_mode = kept.iter().any(|pair| pair.starts_with("ssl"));
        let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
        // The driver's own complaint could quote the URL, password and all.
        let unreadable = |_| wrong("cannot be read; use SCHEME://USER:PASSWORD@HOST:PORT/DATABASE");
        let driver = match scheme {
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(&format!("postgres://{place}{query}"));
                Driver::Postgres(Box::new(with_postgres_tls(options.map_err(unreadable)?, tls, says_mode)))
            }
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(&format!("mysql://{place}{query}"));
                let options = options.map_err(unreadable)?;
                if options.get_database().is_none() {
                    return Err(wrong("names no database; use mysql://USER:PASSWORD@HOST:PORT/DATABASE"));
                }
                Driver::MySql(Box::new(with_mysql_tls(options, tls, says_mode)))
            }
            _ => return Err(wrong("is neither postgres:// nor mysql://")),
        };
        Ok(Self { driver, timeout, table_prefix, shown })
    }

    pub fn dialect(&self) -> Dialect {
        match self.driver {
            Driver::Postgres(_) => Dialect::Postgres,
            Driver::MySql(_) => Dialect::MySql,
        }
    }

    /// `?table_prefix=`, or `keymill`.
    pub fn table_prefix(&self) -> &str {
        &self.table_prefix
    }
}

/// Without its secrets.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

/// It becomes part of statements, so it can hold nothing that means something in SQL.
fn check_prefix(prefix: &str) -> Result<(), String> {
    let symbol = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let valid = prefix.len() <= TABLE_PREFIX_MAX
        && prefix.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && prefix.bytes().all(symbol);
    if valid {
        return Ok(());
    }
    Err(format!(
        "has table_prefix `{}`, which is not 1 to {TABLE_PREFIX_MAX} of a-z 0-9 _, starting with a letter",
        prefix.escape_debug()
    ))
}

fn with_postgres_tls(mut options: PgConnectOptions, tls: &Tls, says_mode: bool) -> PgConnectOptions {
    if let Some(ca) = &tls.ca {
        options = options.ssl_root_cert(ca);
        if !says_mode {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
    }
    if let Some(cert) = &tls.cert {
        options = options.ssl_client_cert(cert);
    }
    if let Some(key) = &tls.key {
        options = options.ssl_client_key(key);
    }
    options.application_name("keymill").disable_statement_logging()
}

fn with_mysql_tls(mut options: MySqlConnectOptions, tls: &Tls, says_mode: bool) -> MySqlConnectOptions {
    if let Some(ca) = &tls.ca {
        options = options.ssl_ca(ca);
        if !says_mode {
            options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
        }
    }
    if let Some(cert) = &tls.cert {
        options = options.ssl_client_cert(cert);
    }
    if let Some(key) = &tls.key {
        options = options.ssl_client_key(key);
    }
    options.disable_statement_logging()
}

/// A URL as it may be shown: the password is `***`, and what follows `?` is left out. Whatever stands before
/// the last `@` may belong to a password, however badly that is spelled.
pub fn masked(url: &str) -> String {
    let without_query = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    let Some((scheme, rest)) = url.split_once("://") else { return without_query(url) };
    let Some((login, place)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{}", without_query(rest));
    };
    let login = match login.split_once(':') {
        Some((user, _)) if !user.contains(['/', '?', '@']) => format!("{user}:***"),
        // To Redis a lone word is a password by habit, if not by the book.
        None if !scheme.starts_with("redis") && !login.contains(['/', '?']) => login.to_owned(),
        _ => "***".to_owned(),
    };
    format!("{scheme}://{login}@{}", without_query(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, SqlError> {
        Address::parse(url, &Tls::default(), Duration::from_secs(1))
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://app:s3cret@db:5432/keys",
            "mysql://app:s3cret@db:3306/keys?table_prefix=mill",
            "redis://:s3cret@localhost:6379/0",
            "postgres://app:s3cr@et@db/keys?password=s3cret",
            "postgres://app:s3cret/x@db/keys",
            "postgres://app:s3cret?s3cret@db/keys",
            "mysql://s3cret?x@db/keys",
            "redis://s3cret@localhost/0",
        ] {
            let shown = masked(url);
            assert!(!shown.contains("s3cr") && shown.contains("***"), "{shown}");
            if let Ok(address) = parse(url) {
                assert!(!format!("{address:?} {address}").contains("s3cret"));
            } else if let Err(error) = parse(url) {
                assert!(!format!("{error:?} {error}").contains("s3cr"), "{error}");
            }
        }
        assert_eq!(masked("sqlite:/tmp/x.db"), "sqlite:/tmp/x.db");
        assert_eq!(masked("etcd://a:1,b:2/keymill"), "etcd://a:1,b:2/keymill");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, complaint) in [
            ("postgres://db/keys?table_prefix=a;b", "table_prefix"),
            ("postgres://db/keys?table_perfix=a", "table_perfix"),
            ("mysql://db", "names no database"),
            ("oracle://db/keys", "neither"),
            ("postgres://[/keys", "cannot be read"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(complaint), "{url}: {error}");
        }
    }

    #[test]
    fn tables_are_called_as_the_url_says() {
        assert_eq!(parse("postgres://db/keys").unwrap().table_prefix(), "keymill");
        assert_eq!(parse("mariadb://db/keys?table_prefix=mill_2").unwrap().table_prefix(), "mill_2");
    }
}
