//! Debian packages that tests and benchmarks call on.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, bail};

/// A program and the package that brings it.
type Need = (&'static str, &'static str);

/// What tests start and call on.
pub(crate) const FOR_TESTS: &[Need] = &[
    // Fails the n-th sync of a real server, steps its clock, runs the documents' examples.
    ("strace", "strace"),
    ("faketime", "faketime"),
    ("curl", "curl"),
    // Engines for shared ledgers, and what makes their certificates. Debian wraps PostgreSQL's programs;
    // this wrapper comes with the server.
    ("pg_createcluster", "postgresql"),
    ("mariadbd", "mariadb-server"),
    ("redis-server", "redis-server"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("zookeeper.jar", "zookeeper"),
    ("openssl", "openssl"),
    // Takes a member of a cluster off the network.
    ("iptables", "iptables"),
    // Checks and tries out the alerts, and scrapes as a deployment would.
    ("promtool", "prometheus"),
    // Reads the compose file; checks the unit.
    ("docker-compose", "docker-compose"),
    ("systemd-analyze", "systemd"),
    // Shows the dashboard, and gives `top` a terminal.
    ("chromium", "chromium"),
    ("script", "bsdutils"),
    // Clients, and what installs them.
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
    ("node", "nodejs"),
    ("npm", "npm"),
];
/// Load a server over HTTP and over the Redis protocol; and the Redis it is compared with.
pub(crate) const FOR_BENCH: &[Need] = &[
    ("wrk", "wrk"),
    ("redis-benchmark", "redis-tools"),
    ("redis-server", "redis-server"),
    ("pg_createcluster", "postgresql"),
];

/// Installs what is missing. A missing program fails the run: nothing is skipped in silence.
pub(crate) fn ensure(needs: &[Need]) -> anyhow::Result<()> {
    let missing: Vec<&str> =
        needs.iter().filter(|(program, _)| !on_path(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("install them by hand: apt-get install {}", missing.join(" "));
    if !on_path("apt-get") {
        bail!("missing: {}; this is not Debian, {by_hand}", missing.join(", "));
    }
    println!("xtask: installing {}", missing.join(", "));
    let apt = |arguments: &[&str]| -> anyhow::Result<()> {
        let status = Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-o", "DPkg::Lock::Timeout=300", "-qq"])
            .args(arguments)
            .status()
            .context("apt-get could not be started")?;
        if !status.success() {
            bail!("apt-get failed (are you root?); {by_hand}");
        }
        Ok(())
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // What only root runs, and what only Java runs.
        .chain(["/usr/sbin", "/usr/share/java"].map(PathBuf::from))
        .any(|dir| dir.join(program).exists())
}
