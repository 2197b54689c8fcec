//! `keymill plan`: how long must keys be?

use anyhow::bail;
use keymill_id::Alphabet;
use serde::Serialize;

use crate::{
    args,
    output::{self, grouped, spoken},
};

const YEAR_SECONDS: f64 = 31_557_600.0;
/// A pool's numbers fit a signed 64-bit column.
const SPACE_MAX: u128 = (1 << 63) - 1;
/// How full a space is when one draws at random; the figures people meet in practice.
const FILLS: [f64; 7] = [0.000_18, 0.10, 0.50, 0.71, 0.90, 0.946, 0.99];
/// Pool levels for the runway table.
const LEVELS: [u64; 4] = [100_000_000, 20_000_000, 10_000_000, 5_000_000];

#[derive(Debug, Serialize)]
struct Report {
    alphabet: String,
    rate: f64,
    years: f64,
    keys_needed: f64,
    /// The length planned for: the one asked for, or the one needed.
    length: Option<u32>,
    /// The shortest that lasts.
    needed_length: Option<u32>,
    lengths: Vec<Length>,
    collisions: Vec<Collision>,
    runways: Vec<Runway>,
}

#[derive(Debug, Serialize)]
struct Length {
    length: u32,
    keys: String,
    lasts_seconds: f64,
    /// One guess in so many meets a live key once the needed keys are issued (or the space is full).
    one_guess_in: f64,
}

#[derive(Debug, Serialize)]
struct Collision {
    fill: f64,
    collision_rate: f64,
    attempts_per_key: f64,
}

#[derive(Debug, Serialize)]
struct Runway {
    keys: u64,
    seconds: f64,
}

pub(crate) fn run(args: &args::Plan, json: bool) -> anyhow::Result<()> {
    let report = plan(args)?;
    if json {
        output::json(&report);
    } else {
        print(&report);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "planning figures")]
fn plan(args: &args::Plan) -> anyhow::Result<Report> {
    let alphabet = Alphabet::parse(&args.alphabet)?;
    if !(args.rate > 0.0 && args.rate.is_finite() && args.years > 0.0 && args.years.is_finite()) {
        bail!("--rate and --years must be above 0");
    }
    let needed = args.rate * args.years * YEAR_SECONDS;
    let space =
        |length: u32| u128::from(alphabet.radix()).checked_pow(length).filter(|keys| *keys <= SPACE_MAX);
    let longest = (1..=63).take_while(|length| space(*length).is_some()).last().unwrap_or(1);
    let fits = (1..=longest).find(|length| space(*length).is_some_and(|keys| keys as f64 >= needed));
    if args.length.is_some_and(|length| length == 0 || length > longest) {
        bail!("--length must be from 1 to {longest} for {alphabet}: longer keys do not fit 63 bits");
    }
    let chosen = args.length.or(fits);
    let around = chosen.unwrap_or(longest);
    let shown = around.saturating_sub(2).max(1)..=(around + 2).min(longest);
    let lengths = shown.filter_map(|length| {
        let keys = space(length)?;
        let live = needed.min(keys as f64);
        Some(Length {
            length,
            keys: keys.to_string(),
            lasts_seconds: keys as f64 / args.rate,
            one_guess_in: keys as f64 / live,
        })
    });
    let collision =
        |fill: &f64| Collision { fill: *fill, collision_rate: *fill, attempts_per_key: 1.0 / (1.0 - fill) };
    let runway = |keys: &u64| Runway { keys: *keys, seconds: *keys as f64 / args.rate };
    Ok(Report {
        alphabet: alphabet.to_string(),
        rate: args.rate,
        years: args.years,
        keys_needed: needed,
        length: chosen,
        needed_length: fits,
        lengths: lengths.collect(),
        collisions: FILLS.iter().map(collision).collect(),
        runways: LEVELS.iter().map(runway).collect(),
    })
}

fn print(report: &Report) {
    let Report { alphabet, rate, years, keys_needed, .. } = report;
    output::say!(
        "{rate} keys a second for {years} years are {} keys.",
        grouped(&format!("{keys_needed:.0}"))
    );
    let lasting =
        |length: u32| report.lengths.iter().find(|row| row.length == length).map(|row| row.lasts_seconds);
    match (report.length, report.needed_length) {
        (Some(length), Some(needed)) if length < needed => {
            let lasts = lasting(length)
                .map_or_else(String::new, |seconds| format!(", they last {}", spoken(seconds)));
            output::say!("{alphabet} keys of {length} characters will not do{lasts}: {needed} are needed.\n");
        }
        (Some(length), Some(_)) => output::say!("{alphabet} keys of {length} characters will do.\n"),
        _ => output::say!(
            "No {alphabet} length that fits 63 bits will do: use a larger alphabet or several keyspaces.\n"
        ),
    }
    let mut table =
        output::Table::new(&["length", "keys", "last, at this rate", "one guess hits a live key in"]);
    for row in &report.lengths {
        table.row([
            row.length.to_string(),
            grouped(&row.keys),
            spoken(row.lasts_seconds),
            grouped(&format!("{:.0}", row.one_guess_in)),
        ]);
    }
    table.print();
    output::say!(
        "Short keys are public by definition: \"unlisted\" needs 11 random base62 characters, secrets need a login.\n"
    );

    let mut table = output::Table::new(&["space filled", "a random draw collides", "draws a key"]);
    for row in &report.collisions {
        let digits = if row.fill < 0.001 { 3 } else { 1 };
        table.row([
            format!("{:.digits$} %", row.fill * 100.0),
            format!("{:.digits$} %", row.collision_rate * 100.0),
            format!("{:.1}", row.attempts_per_key),
        ]);
    }
    table.print();
    output::say!(
        "A Keymill pool draws nothing: it walks a shuffled space once, at one attempt a key until the last.\n"
    );

    let mut table = output::Table::new(&["pool level", "runway at this rate"]);
    for row in &report.runways {
        table.row([format!("{} M", row.keys / 1_000_000), spoken(row.seconds)]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(rate: f64, years: f64, length: Option<u32>) -> Report {
        plan(&args::Plan { rate, years, alphabet: "base62".to_owned(), length }).unwrap()
    }

    #[test]
    fn a_thousand_a_second_for_ten_years_need_seven_base62_characters() {
        assert_eq!(planned(1000.0, 10.0, None).length, Some(7));
        assert_eq!(planned(1000.0, 1.0, None).length, Some(6));
    }

    #[test]
    fn runways_are_those_of_the_seed() {
        let runways = planned(1000.0, 10.0, None).runways;
        let spoken: Vec<String> = runways.iter().map(|runway| spoken(runway.seconds)).collect();
        assert_eq!(spoken, ["27.8 h", "5.6 h", "2.8 h", "83 min"]);
    }

    #[test]
    fn random_drawing_costs_what_the_seed_says() {
        let collisions = planned(1000.0, 10.0, None).collisions;
        let attempts: Vec<String> =
            collisions.iter().map(|row| format!("{:.1}", row.attempts_per_key)).collect();
        assert_eq!(attempts, ["1.0", "1.1", "2.0", "3.4", "10.0", "18.5", "100.0"]);
    }

    #[test]
    fn a_length_that_is_too_short_is_told_apart() {
        let report = planned(1000.0, 10.0, Some(6));
        assert_eq!((report.length, report.needed_length), (Some(6), Some(7)));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(planned(1e15, 1000.0, None).length, None);
        let args = args::Plan { rate: 1.0, years: 1.0, alphabet: "base62".to_owned(), length: Some(11) };
        assert!(plan(&args).unwrap_err().to_string().contains("1 to 10"));
    }
}
