//! The full run: every world to its end, then every control to its counter-example. An argument picks
//! the worlds and controls whose name has it in it.

use keymill_sim::{
    controls::{Guard, Guards},
    search::{Model, Outcome, Verdict, explore},
    step::Rules,
    windows, worlds,
};

/// More than this would not fit 6 GiB.
const STATES_MAX: usize = 40_000_000;

fn main() -> std::process::ExitCode {
    let only = std::env::args().nth(1).unwrap_or_default();
    let mut sound = true;
    println!("{:<58} {:>11} {:>6} {:>8}  verdict", "world", "states", "depth", "seconds");
    for bounds in worlds::ALL.iter().filter(|bounds| bounds.name.contains(&only)) {
        let rules = Rules { bounds: *bounds, guards: Guards::ALL, false_alarms: true };
        sound &= holds(bounds.name, &rules);
    }
    for world in windows::ALL.iter().filter(|world| world.name.contains(&only)) {
        sound &= holds(world.name, world);
    }
    println!("\n{:<58} {:>11} {:>6} {:>8}  counter-example", "guard off", "states", "steps", "seconds");
    for guard in Guard::ALL.iter().filter(|guard| format!("{guard:?} {guard}").contains(&only)) {
        sound &= breaks(&guard.to_string(), &guard.control());
    }
    for guard in windows::Guard::ALL.iter().filter(|guard| format!("{guard:?} {guard}").contains(&only)) {
        sound &= breaks(&guard.to_string(), &guard.control());
    }
    if sound { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

/// Explores a world to its end, and says whether nothing was wrong in it.
fn holds(name: &str, model: &impl Model) -> bool {
    let Outcome { states, depth, took, verdict } = explore(model, STATES_MAX);
    let said = match &verdict {
        Verdict::Exhausted => "no violation, exhausted".to_owned(),
        Verdict::Violated(trace) => format!("{}\n{trace}", trace.violation),
        Verdict::TooLarge => "too large".to_owned(),
    };
    println!("{name:<58} {states:>11} {depth:>6} {:>8.1}  {said}", took.as_secs_f64());
    matches!(verdict, Verdict::Exhausted)
}

/// Explores a world without one of its guards, and says whether that was noticed.
fn breaks(name: &str, model: &impl Model) -> bool {
    let Outcome { states, took, verdict, .. } = explore(model, STATES_MAX);
    let (steps, said) = match &verdict {
        Verdict::Violated(trace) => (trace.steps.len(), format!("{}\n{trace}", trace.violation)),
        _ => (0, "NONE FOUND".to_owned()),
    };
    println!("{name:<58} {states:>11} {steps:>6} {:>8.1}  {said}", took.as_secs_f64());
    matches!(verdict, Verdict::Violated(_))
}
