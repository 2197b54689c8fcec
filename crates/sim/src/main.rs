//! The full run: every world to its end, then every control to its counter-example. An argument picks
//! the worlds and controls whose name has it in it.

use keymill_sim::{
    controls::{Guard, Guards},
    search::{Outcome, Verdict, explore},
    step::Rules,
    worlds,
};

/// More than this would not fit 6 GiB.
const STATES_MAX: usize = 40_000_000;

fn main() -> std::process::ExitCode {
    let only = std::env::args().nth(1).unwrap_or_default();
    let mut sound = true;
    println!("{:<58} {:>11} {:>6} {:>8}  verdict", "world", "states", "depth", "seconds");
    for bounds in worlds::ALL.iter().filter(|bounds| bounds.name.contains(&only)) {
        let Outcome { states, depth, took, verdict } =
            explore(&Rules { bounds: *bounds, guards: Guards::ALL, false_alarms: true }, STATES_MAX);
        let said = match &verdict {
            Verdict::Exhausted => "no violation, exhausted".to_owned(),
            Verdict::Violated(trace) => format!("{}\n{trace}", trace.violation),
            Verdict::TooLarge => "too large".to_owned(),
        };
        sound &= matches!(verdict, Verdict::Exhausted);
        println!("{:<58} {states:>11} {depth:>6} {:>8.1}  {said}", bounds.name, took.as_secs_f64());
    }
    println!("\n{:<58} {:>11} {:>6} {:>8}  counter-example", "guard off", "states", "steps", "seconds");
    for guard in Guard::ALL.iter().filter(|guard| format!("{guard:?} {guard}").contains(&only)) {
        let rules = guard.control();
        let Outcome { states, took, verdict, .. } = explore(&rules, STATES_MAX);
        let (steps, said) = match &verdict {
            Verdict::Violated(trace) => (trace.steps.len(), format!("{}\n{trace}", trace.violation)),
            _ => (0, "NONE FOUND".to_owned()),
        };
        sound &= matches!(verdict, Verdict::Violated(_));
        println!("{:<58} {states:>11} {steps:>6} {:>8.1}  {said}", guard.to_string(), took.as_secs_f64());
    }
    if sound { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
