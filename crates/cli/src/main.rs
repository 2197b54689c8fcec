//! The `keymill` command: the server, and everything one asks of it from a shell.
//!
//! Answers go to stdout, everything else to stderr. Exit 0: done. 1: refused or failed. 2: misused.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod bulk;
mod client;
mod commands;
mod fill_args;
mod import_args;
mod keyspace_args;
mod output;
mod watch_args;

/// It keeps what threads free in their own pools, which suits many small answers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let json = cli.global.json;
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our answer stopped reading: `keymill take links -n 100000 | head`.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::failure(&error, json);
            ExitCode::FAILURE
        }
    }
}
