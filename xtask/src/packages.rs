//! Debian packages that tests and benchmarks call on.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

/// A program and the package that brings it.
type Need = (&'static str, &'static str);

/// strace fails the n-th sync of a real server, faketime steps its clock, curl runs the documents' examples.
pub(crate) const FOR_TESTS: &[Need] = &[("strace", "strace"), ("faketime", "faketime"), ("curl", "curl")];
/// Loads a server over HTTP.
pub(crate) const FOR_BENCH: &[Need] = &[("wrk", "wrk"), ("redis-server", "redis-server")];

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
        .chain([Path::new("/usr/sbin").to_owned()])
        .any(|dir| dir.join(program).exists())
}
