//! A page in Prometheus' text format.

use std::fmt::{Display, Write};

use keymill_issuer::Durations;

#[derive(Debug, Default)]
pub(super) struct Page {
    pub text: String,
}

type Labels<'l> = [(&'l str, &'l str)];

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.bare_family(&format!("keymill_{name}"), kind, help);
    }

    /// Labels are names and words of ours; none needs escaping.
    pub(super) fn sample(&mut self, name: &str, labels: &Labels<'_>, value: &dyn Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "keymill_{name}{labels} {value}");
    }

    /// A family of one sample that has no label.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: &dyn Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The samples of a histogram, whose family was begun.
    pub(super) fn durations(&mut self, name: &str, labels: &Labels<'_>, durations: &Durations) {
        let mut bucket = |bound: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            self.sample(&format!("{name}_bucket"), &labels, &count);
        };
        durations.within().for_each(|(bound, count)| bucket(&bound.to_string(), count));
        bucket("+Inf", durations.count());
        self.sample(&format!("{name}_sum"), labels, &durations.seconds);
        self.sample(&format!("{name}_count"), labels, &durations.count());
    }

    /// One of those that every process has, under the name every process gives it.
    pub(super) fn process(&mut self, name: &str, kind: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            let name = format!("process_{name}");
            self.bare_family(&name, kind, help);
            let _ = writeln!(self.text, "{name} {value}");
        }
    }

    fn bare_family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}
