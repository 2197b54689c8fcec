//! Running cargo, and adding up what its many test binaries say.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use crate::packages;

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments);
    cargo
}

fn must(mut command: Command) -> anyhow::Result<()> {
    println!("xtask: {command:?}");
    let status = command.status().with_context(|| format!("{command:?} could not be started"))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

pub(crate) fn ci() -> anyhow::Result<()> {
    must(cargo(&["fmt", "--all", "--check"]))?;
    must(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    test(&[])
}

/// Everything, at smoke size. Further arguments go to `cargo test`.
pub(crate) fn test(arguments: &[String]) -> anyhow::Result<()> {
    packages::ensure(packages::FOR_TESTS)?;
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    tests.args(arguments);
    count(tests)
}

/// Everything at full size, or the parts named: `model`, or test files such as `storm`, `clock`, `disk`.
pub(crate) fn faults(parts: &[String]) -> anyhow::Result<()> {
    packages::ensure(packages::FOR_TESTS)?;
    let all = parts.is_empty();
    if all || parts.iter().any(|part| part == "model") {
        must(cargo(&["run", "--release", "--package", "keymill-sim"]))?;
    }
    let files: Vec<&String> = parts.iter().filter(|part| *part != "model").collect();
    if !all && files.is_empty() {
        return Ok(());
    }
    let mut storms = cargo(&["test", "--release", "--package", "keymill"]);
    files.iter().for_each(|file| {
        storms.args(["--test", file.as_str()]);
    });
    storms.args(["--", "--nocapture"]).env("KEYMILL_FULL", "1");
    count(storms)
}

pub(crate) fn bench(arguments: &[String]) -> anyhow::Result<()> {
    packages::ensure(packages::FOR_BENCH)?;
    must(cargo(&["build", "--release"]))?;
    let mut bench = cargo(&["run", "--release", "--quiet", "--package", "keymill-bench", "--"]);
    bench.args(arguments);
    must(bench)
}

/// Runs tests, shows what they print, and closes with one line for all of them.
fn count(mut tests: Command) -> anyhow::Result<()> {
    println!("xtask: {tests:?}");
    let mut child = tests.stdout(Stdio::piped()).spawn().context("cargo could not be started")?;
    let output = child.stdout.take().context("stdout was piped")?;
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        if let Some(sums) = line.strip_prefix("test result: ") {
            passed += figure(sums, "passed");
            failed += figure(sums, "failed");
        }
    }
    let status = child.wait()?;
    println!("\n{passed} passed, {failed} failed");
    if !status.success() || failed > 0 {
        bail!("tests failed");
    }
    if passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// The number before `word` in `ok. 20 passed; 0 failed; …`.
fn figure(sums: &str, word: &str) -> u64 {
    let mut words = sums.split([' ', ';']).filter(|word| !word.is_empty());
    let mut last = "";
    words.find(|now| {
        if *now == word {
            true
        } else {
            last = now;
            false
        }
    });
    last.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_stand_before_their_words() {
        let sums = "ok. 20 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s";
        assert_eq!((figure(sums, "passed"), figure(sums, "failed")), (20, 3));
    }
}
