//! Flickr's scheme: two servers with ledgers of their own, one odd, one even. Never the same ticket, and
//! either may die.

use std::{collections::HashSet, path::Path};

use crate::harness::{Home, Launch};

/// The example as it is shipped; the harness gives it free ports.
fn launch(home: &Home, name: &str) -> Launch {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/examples").join(name);
    home.server().arguments(&["--config", file.to_str().unwrap(), "--data-dir", "keymill-data"])
}

#[test]
fn two_ticket_servers_never_give_the_same_ticket_and_either_may_die() {
    let (one, two) = (Home::new(), Home::new());
    let (odd, even) = (launch(&one, "flickr-odd.toml"), launch(&two, "flickr-even.toml"));
    let mut seen = HashSet::new();
    let (mut left, mut right) = (odd.start(), even.start());
    for round in 0..4 {
        for (server, parity) in [(&left, 1), (&right, 0)] {
            for ticket in server.take("tickets", 3_000) {
                let number: u64 = ticket.parse().unwrap();
                assert_eq!(number % 2, parity, "{number}");
                assert!(seen.insert(number), "ticket {number} came again");
            }
        }
        if round % 2 == 0 {
            left.kill();
            seen.extend(right.take("tickets", 10).iter().map(|ticket| ticket.parse::<u64>().unwrap()));
            left = odd.start();
        } else {
            right.kill();
            seen.extend(left.take("tickets", 10).iter().map(|ticket| ticket.parse::<u64>().unwrap()));
            right = even.start();
        }
    }
    assert_eq!(seen.len(), 4 * 6_000 + 4 * 10, "none came twice while one was alone");
}
