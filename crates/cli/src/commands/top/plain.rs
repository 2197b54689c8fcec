//! One snapshot as plain text: for pipes, tickets, and terminals that cannot be drawn on.

use keymill_api::{KeyspaceGlance, Snapshot};

use crate::output::{self, Table, say};

pub(super) fn print(snapshot: &Snapshot, filter: &str) {
    let ledger = &snapshot.ledger;
    say!(
        "node {} {}, ledger {} ({}), {}",
        snapshot.node,
        snapshot.version,
        ledger.store,
        ledger.grade,
        ledger.state
    );
    for reason in &snapshot.reasons {
        say!("{}: {}", reason.code.as_str(), reason.detail);
    }
    say!("");
    let mut keyspaces =
        Table::new(&["keyspace", "scheme", "level", "keys/s", "lasts", "stock here", "state"]);
    for keyspace in snapshot.keyspaces.iter().filter(|keyspace| keyspace.name.contains(filter)) {
        keyspaces.row(cells(keyspace));
    }
    keyspaces.print();
    say!("");
    let mut nodes = Table::new(&["node", "state", "stock", "keys/s", "version", "address", "last heard"]);
    for node in &snapshot.nodes {
        nodes.row([
            node.name.clone(),
            node.state.clone(),
            output::grouped(&node.stock),
            format!("{:.1}", node.rate),
            node.version.clone(),
            node.address.clone(),
            node.last_seen.clone(),
        ]);
    }
    nodes.print();
    for map in &snapshot.workers {
        let held = map.workers.iter().filter(|worker| worker.state == "live").count();
        say!("\n{}: {held} of {} workers held", map.keyspace, map.capacity);
    }
    for incident in &snapshot.incidents {
        say!("\n{}: {} (since {})", incident.severity, incident.summary, incident.since);
    }
}

fn cells(keyspace: &KeyspaceGlance) -> [String; 7] {
    let unknown = || "-".to_owned();
    [
        keyspace.name.clone(),
        keyspace.scheme.clone(),
        keyspace.level.as_deref().map_or_else(unknown, output::grouped),
        format!("{:.1}", keyspace.rate),
        keyspace.runway_seconds.map_or_else(unknown, output::spoken),
        output::grouped(&keyspace.stock),
        if keyspace.below { "below its mark".to_owned() } else { keyspace.state.clone() },
    ]
}
