//! `cargo xtask bench`: every figure next to what it is compared with, from one run.
//!
//! Machines are noisy, so ratios are printed and the steady figure is CPU per request; nothing here is
//! a test. Name sections to run only those: `cargo xtask bench take http`.

mod access;
mod grpc;
mod http;
mod ids;
mod ledger;
mod links;
mod memory;
mod moves;
mod process;
mod resp;
mod rows;
mod sdk;
mod shared;
mod spell;
mod take;
mod watched;

/// As the server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Section = fn() -> anyhow::Result<()>;

const SECTIONS: &[(&str, Section)] = &[
    ("take", take::run),
    ("spell", spell::run),
    ("ids", ids::run),
    ("http", http::run),
    ("grpc", grpc::run),
    ("resp", resp::run),
    ("access", access::run),
    ("watched", watched::run),
    ("sdk", sdk::run),
    ("links", links::run),
    ("ledger", ledger::run),
    ("shared", shared::run),
    ("rows", rows::run),
    ("moves", moves::run),
    ("memory", memory::run),
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("bare-axum") => return http::bare_axum(),
        Some("bare-tonic") => return grpc::bare_tonic(),
        _ => {}
    }
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    for (name, section) in SECTIONS {
        if names.is_empty() || names.iter().any(|wanted| *wanted == name) {
            println!("\n## {name}");
            section()?;
        }
    }
    Ok(())
}

/// One figure, what it is measured against, and the goal.
fn compare(what: &str, figure: f64, unit: &str, against: &str, ratio: f64, goal: &str) {
    println!("{what:<44} {figure:>10.2} {unit:<8} {ratio:>7.2}x {against:<28} goal {goal}");
}

/// The best of several runs: the least disturbed one.
fn best(runs: usize, mut run: impl FnMut() -> f64) -> f64 {
    (0..runs).map(|_| run()).fold(f64::INFINITY, f64::min)
}
