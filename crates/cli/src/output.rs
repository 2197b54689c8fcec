//! How answers and failures look.

use keymill_api::{Code, Problem};
use serde::Serialize;

/// The server said no, and why.
#[derive(Debug)]
pub(crate) struct Refused(pub Problem);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.detail)?;
        match self.0.code {
            Code::Unauthenticated => f.write_str("; show it with --token-file FILE or KEYMILL_TOKEN"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

/// Prints a line of the answer. Whoever reads may stop reading (`| head`): then we are done, too.
macro_rules! say {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}
pub(crate) use say;

pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

pub(crate) fn json(value: &impl Serialize) {
    say!("{}", serde_json::to_string_pretty(value).expect("answers are plain data"));
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// To stderr for people; with `--json` the problem goes to stdout, as an answer would.
pub(crate) fn failure(error: &anyhow::Error, as_json: bool) {
    match error.downcast_ref::<Refused>() {
        Some(Refused(problem)) if as_json => json(problem),
        _ if as_json => {
            json(&serde_json::json!({ "title": "The command failed", "detail": format!("{error:#}") }))
        }
        _ => eprintln!("keymill: {error:#}"),
    }
}

/// A name and a value on each line, aligned.
pub(crate) fn facts(facts: &[(&str, String)]) {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in facts {
        say!("{name:<width$}  {value}");
    }
}

/// Columns as wide as their widest cell; the last one is left as it is.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|name| (*name).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn print(&self) {
        let wide = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let width = if column + 1 == row.len() { 0 } else { wide(column) };
                format!("{cell:<width$}")
            });
            say!("{}", cells.collect::<Vec<_>>().join("  "));
        }
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A figure in few symbols: 950, 8450, 12.3K, 3.5T.
pub(crate) fn figure(value: f64) -> String {
    const UNITS: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")];
    // Four digits are read as they are.
    if value < 10_000.0 {
        let rounded = (value * 10.0).round() / 10.0;
        return if rounded.fract() == 0.0 { format!("{rounded:.0}") } else { format!("{rounded:.1}") };
    }
    let (size, unit) = UNITS.into_iter().find(|(size, _)| value >= *size).unwrap_or((1.0, ""));
    format!("{:.1}{unit}", value / size)
}

/// Seconds in few symbols, as [`spoken`] where that is short.
pub(crate) fn roughly(seconds: f64) -> String {
    const YEAR: f64 = 31_557_600.0;
    if seconds < 1000.0 * YEAR {
        spoken(seconds)
    } else {
        format!("{} years", figure((seconds / YEAR).round()))
    }
}

/// Seconds, as a person would say them: 83 min rather than 1.4 h, 27.8 h rather than 1.2 days.
pub(crate) fn spoken(seconds: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(31_557_600.0, "years"), (86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s")];
    let (size, unit) = UNITS.into_iter().find(|(size, _)| seconds >= 2.0 * size).unwrap_or((1.0, "s"));
    let value = seconds / size;
    match unit {
        "min" => format!("{value:.0} {unit}"),
        _ if value >= 1000.0 => format!("{} {unit}", grouped(&format!("{value:.0}"))),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        assert_eq!(spoken(100_000.0), "27.8 h");
        assert_eq!(spoken(5_000.0), "83 min");
        assert_eq!(spoken(20_000.0), "5.6 h");
        assert_eq!(spoken(10_000.0), "2.8 h");
        assert_eq!(spoken(31_557_600.0 * 111.6), "111.6 years");
        assert_eq!(spoken(12.0), "12.0 s");
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.0, 0.25, 950.0, 8450.0, 12_345.0, 3_521_614_606_208.0, 9.2e18].map(figure);
        assert_eq!(shown, ["0", "0.3", "950", "8450", "12.3K", "3.5T", "9.2E"]);
        assert_eq!(roughly(31_557_600.0 * 4_388_578_870.0), "4.4G years");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([grouped("1"), grouped("123"), grouped("1234567")], ["1", "123", "1,234,567"]);
    }
}
