//! What developers run. `cargo xtask test` is all that a change has to pass; `faults` and `bench` give
//! the full figures.

use std::process::ExitCode;

mod packages;
mod run;

const USAGE: &str = "\
cargo xtask test      install what the tests need, run everything at smoke size
cargo xtask faults    the model and the storms at full size; or some: faults model storm shared clock disk
cargo xtask bench     ratios against an atomic, a bare handler and others, from one run
cargo xtask ci        what .ci/run does: fmt, clippy, test";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match command.as_str() {
        "test" => run::test(rest),
        "faults" => run::faults(rest),
        "bench" => run::bench(rest),
        "ci" => run::ci(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
