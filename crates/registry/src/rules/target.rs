//! Where a link may lead: to `http` and `https` URLs with a host, and nowhere else.
//!
//! The rules are asked twice, when a link is made and when it is followed, because they may have become
//! stricter in between. What is kept is the *parsed* form: visible ASCII that holds no line break, so that a
//! target cannot end the header it is sent in. The raw text is judged first, since a parser that follows the
//! URL standard drops tabs, line breaks, outer blanks and userinfo marks without a word. Nothing here looks
//! up a name or opens a connection.

use thiserror::Error;
use url::{Host, Url};

use super::{network, script, shown};

/// Bytes of a target, as it is given and as it is kept.
pub const TARGET_LENGTH_MAX: usize = 2_048;

/// A URL that a link may lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Url);

/// What is allowed here beyond what is allowed anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct TargetRules<'a> {
    /// Refuse hosts that are no public ones by their address or name.
    pub deny_private: bool,
    /// Where links of this service are followed: a link there would lead back here.
    pub own_hosts: &'a [OwnHost],
}

/// A host and port that links of this service are followed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnHost {
    host: String,
    port: u16,
}

/// Which rule a target breaks, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error("the target is empty: give a URL such as https://example.com/")]
    Empty,
    #[error("the target has {bytes} bytes and may have {TARGET_LENGTH_MAX}: shorten it")]
    TooLong { bytes: usize },
    #[error("the target contains {character}: encode it as {encoded}, or leave it out")]
    Character { character: String, encoded: String },
    #[error("the target contains a backslash: write `/`, or encode it as %5C")]
    Backslash,
    #[error("the target contains `{shown}`, which is no percent-encoding: write a plain % as %25")]
    Percent { shown: String },
    #[error("the target begins with `{shown}`: it must begin with http:// or https://")]
    Scheme { shown: String },
    #[error("the target names no host: write one after ://, as in https://example.com/")]
    NoHost,
    #[error("the target carries a user name or password before @: leave it out")]
    Userinfo,
    #[error("the target cannot be read as a URL: {reason}")]
    Malformed { reason: String },
    /// `redirect_loop`, where the others are `invalid_target`.
    #[error(
        "the target leads to `{host}`, which is this service: give the place it should lead to in the end"
    )]
    Loop { host: String },
    #[error("the target leads to `{host}`, which is no public host, and `deny_private_targets` is on")]
    Private { host: String },
}

impl Target {
    /// Reads a target that someone states.
    pub fn parse(text: &str, rules: &TargetRules<'_>) -> Result<Self, TargetError> {
        refuse_raw(text)?;
        refuse_authority(authority(text)?)?;
        let url = Url::parse(text).map_err(|error| TargetError::Malformed { reason: error.to_string() })?;
        if url.as_str().len() > TARGET_LENGTH_MAX {
            return Err(TargetError::TooLong { bytes: url.as_str().len() });
        }
        // The parser owes all of this by now; a header is no place to find out otherwise.
        let sound =
            matches!(url.scheme(), "http" | "https") && url.as_str().bytes().all(|b| b.is_ascii_graphic());
        if !sound {
            return Err(TargetError::Malformed { reason: "it has no plain form".to_owned() });
        }
        let target = Self(url);
        target.refuse_host(rules)?;
        Ok(target)
    }

    /// The form that is kept and sent: visible ASCII.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The host as it is looked up: lower case, punycode, or an address.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Whether some label of the host mixes scripts that are not written together, as in `pаypal` with a
    /// Cyrillic а. People should be told. A host in one foreign script can still look like another one.
    pub fn is_mixed_script(&self) -> bool {
        self.0.domain().is_some_and(script::is_mixed)
    }

    fn refuse_host(&self, rules: &TargetRules<'_>) -> Result<(), TargetError> {
        let host = self.0.host().ok_or(TargetError::NoHost)?;
        if matches!(host, Host::Domain(name) if name.trim_matches('.').is_empty()) {
            return Err(TargetError::NoHost);
        }
        if OwnHost::at(&self.0).is_some_and(|here| rules.own_hosts.iter().any(|own| own.answers(&here))) {
            return Err(TargetError::Loop { host: self.host().to_owned() });
        }
        if rules.deny_private && network::is_private(&host) {
            return Err(TargetError::Private { host: self.host().to_owned() });
        }
        Ok(())
    }
}

impl TargetError {
    /// Whether it is a way back here, rather than no target at all.
    pub fn is_loop(&self) -> bool {
        matches!(self, Self::Loop { .. })
    }
}

impl OwnHost {
    /// The host of a URL that links are given out under. `None` if it is no such URL.
    pub fn of(public_url: &str) -> Option<Self> {
        Self::at(&Url::parse(public_url).ok()?)
    }

    fn at(url: &Url) -> Option<Self> {
        let host = url.host_str()?.trim_end_matches('.').to_owned();
        Some(Self { host, port: url.port_or_known_default()? })
    }

    /// Ports 80 and 443 of one host are one place: the first sends everybody to the second.
    fn answers(&self, other: &Self) -> bool {
        let web = |port| matches!(port, 80 | 443);
        self.host == other.host && (self.port == other.port || web(self.port) && web(other.port))
    }
}

/// Asks of a target that is kept whether it would be accepted now, and unchanged.
pub fn check_again(kept: &str, rules: &TargetRules<'_>) -> Result<(), TargetError> {
    let target = Target::parse(kept, rules)?;
    if target.as_str() == kept {
        return Ok(());
    }
    Err(TargetError::Malformed { reason: "it is not in the form in which targets are kept".to_owned() })
}

/// What no part of a target may hold.
fn refuse_raw(text: &str) -> Result<(), TargetError> {
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if text.len() > TARGET_LENGTH_MAX {
        return Err(TargetError::TooLong { bytes: text.len() });
    }
    if let Some(character) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
        let encoded = character.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        let character =
            if character == ' ' { "a blank".to_owned() } else { character.escape_unicode().to_string() };
        return Err(TargetError::Character { character, encoded });
    }
    if text.contains('\\') {
        return Err(TargetError::Backslash);
    }
    let mut sequences = text.split('%').skip(1);
    let is_bad =
        |rest: &&str| !rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    match sequences.find(is_bad) {
        Some(rest) => Err(TargetError::Percent {
            shown: shown(&format!("%{}", rest.chars().take(2).collect::<String>())),
        }),
        None => Ok(()),
    }
}

/// What is between `://` and the path. The parser would also take `https:example.com` and `https:///x`.
fn authority(text: &str) -> Result<&str, TargetError> {
    let after = ["http://", "https://"].iter().find_map(|scheme| {
        let (head, rest) = text.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(after) = after else {
        let end = text.find(':').map_or(text.len(), |colon| colon + 1);
        return Err(TargetError::Scheme { shown: shown(&text[..end]) });
    };
    Ok(after.split(['/', '?', '#']).next().unwrap_or_default())
}

fn refuse_authority(authority: &str) -> Result<(), TargetError> {
    if authority.contains('@') {
        return Err(TargetError::Userinfo);
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(TargetError::NoHost);
    }
    Ok(())
}
