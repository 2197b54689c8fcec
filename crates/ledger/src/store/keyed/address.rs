//! Where an engine is: `scheme://[user:password@]host[:port],…[/prefix]`.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::LedgerError;

/// Under what all keys stand, unless the URL says otherwise.
pub(in crate::store) const PREFIX: &str = "keymill";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Address {
    /// `host:port`
    pub(in crate::store) members: Vec<String>,
    pub(in crate::store) login: Option<Login>,
    pub(in crate::store) prefix: String,
}

#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Login {
    pub(in crate::store) user: String,
    pub(in crate::store) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

impl Address {
    /// Reads what follows `scheme://`. No error repeats the URL: it may hold a password.
    pub(in crate::store) fn parse(
        store: &'static str,
        rest: &str,
        default_port: u16,
    ) -> Result<Self, LedgerError> {
        let refused = |detail: String| LedgerError::Refused { store, detail };
        if rest.split_once(['/', '?', '#']).is_some_and(|(_, after)| after.contains('@')) {
            return Err(refused(
                "write / as %2F, ? as %3F and # as %23 in the password of ledger.url".to_owned(),
            ));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((login, hosts)) => (Some(Login::parse(login).map_err(refused)?), hosts),
        };
        let members: Vec<String> =
            hosts.split(',').map(|host| with_port(host, default_port)).collect::<Option<_>>().ok_or_else(
                || refused(format!("ledger.url must name its hosts as HOST:PORT,…, not `{hosts}`")),
            )?;
        let prefix = check_prefix(path).map_err(refused)?;
        Ok(Self { members, login, prefix })
    }
}

impl Login {
    fn parse(text: &str) -> Result<Self, String> {
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8();
            text.map(|text| text.into_owned()).map_err(|_| "the user in ledger.url is not UTF-8".to_owned())
        };
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { user: decoded(user)?, password: decoded(password)? })
    }
}

fn with_port(host: &str, default_port: u16) -> Option<String> {
    let is_bare = !host.contains(':') || host.ends_with(']');
    let member = if is_bare { format!("{host}:{default_port}") } else { host.to_owned() };
    let (name, port) = member.rsplit_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
    let is_good = !name.is_empty() && name.chars().all(plain) && port.parse::<u16>().is_ok();
    is_good.then_some(member)
}

/// A prefix is names between slashes, so that it can be a path wherever the engine has paths.
pub(in crate::store) fn check_prefix(path: &str) -> Result<String, String> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok(PREFIX.to_owned());
    }
    let symbol = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(symbol);
    if path.split('/').all(is_name) {
        Ok(path.to_owned())
    } else {
        Err(format!("`{path}` is not a prefix: names of A-Z a-z 0-9 _ - between slashes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_members_a_login_and_a_prefix() {
        let address = Address::parse("etcd", "app:p%40ss@one:1,two,[::1]:3/team/keys", 2379).unwrap();
        assert_eq!(address.members, ["one:1", "two:2379", "[::1]:3"]);
        assert_eq!(address.login.clone().unwrap().password, "p@ss");
        assert_eq!(address.prefix, "team/keys");
        assert!(!format!("{address:?}").contains("p@ss"), "a secret is not shown");
        assert_eq!(Address::parse("etcd", "one", 2379).unwrap().prefix, PREFIX);
    }

    #[test]
    fn a_url_that_makes_no_sense_is_refused_without_its_password() {
        for rest in [
            "",
            "one,,two",
            "u:secret@",
            "u:secret@one:port",
            "one/a//b",
            "one/../b",
            "o ne",
            "u:sec/secret@one",
        ] {
            let error = Address::parse("etcd", rest, 2379).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
