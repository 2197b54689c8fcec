//! Which hosts are no public ones, as far as their address or name tells.
//!
//! A public name may still resolve to a private address; only who looks it up can tell, and this service
//! looks up nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::Host;

/// Names that are never public: RFC 6761, RFC 6762, RFC 8375, and ICANN's `internal`.
const PRIVATE_SUFFIXES: &[&str] = &["localhost", "local", "internal", "home.arpa"];

pub(super) fn is_private(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_private_name(name),
        Host::Ipv4(address) => is_private_v4(*address),
        Host::Ipv6(address) => is_private_v6(*address),
    }
}

/// A name without a dot is looked up in one's own network.
fn is_private_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let below =
        |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.contains('.') || PRIVATE_SUFFIXES.iter().any(below)
}

/// Whatever IANA's registry of special-purpose addresses does not call globally reachable.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local() // 169.254.169.254 tells a cloud machine's secrets
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a == 100 && (64..128).contains(&b)
        || (a, b, c) == (192, 0, 0)
        || a == 198 && (18..20).contains(&b)
        || a >= 240
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [a, b, ..] = segments;
    embedded_v4(segments).is_some_and(is_private_v4)
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || a & 0xffc0 == 0xfec0 // site-local, as it was once
        || (a, b) == (0x2001, 0x0db8) // documentation
        || (a, b) == (0x0100, 0x0000) // discard-only
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated (RFC 6052), 6to4.
fn embedded_v4(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(host: &str) -> bool {
        let host = Host::parse(host).unwrap();
        is_private(&match &host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        })
    }

    #[test]
    fn what_only_ones_own_network_can_reach_is_private() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "db.localhost",
            "printer.local",
            "intranet",
            "metadata.google.internal",
            "nas.home.arpa",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "0xa9fea9fe",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "203.0.113.9",
            "[::1]",
            "[::]",
            "[fc00::1]",
            "[fd12:3456::1]",
            "[fe80::1]",
            "[fec0::1]",
            "[ff02::1]",
            "[2001:db8::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[::127.0.0.1]",
            "[64:ff9b::10.0.0.1]",
            "[2002:7f00:1::]",
        ] {
            assert!(private(host), "{host}");
        }
    }

    #[test]
    fn what_everybody_can_reach_is_public() {
        for host in [
            "example.com",
            "example.com.",
            "local.example",
            "internal.example.com",
            "notlocalhost.com",
            "xn--bcher-kva.example",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "[2606:4700::1111]",
            "[::ffff:8.8.8.8]",
            "[2002:808:808::]",
            "[64:ff9b::8.8.8.8]",
        ] {
            assert!(!private(host), "{host}");
        }
    }
}
