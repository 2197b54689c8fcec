//! What the kernel counts of this process; nothing where there is no /proc.

use std::fs;

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use super::page::Page;

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn render(page: &mut Page) {
    let stat = Stat::read();
    let stat = |value: fn(&Stat) -> f64| stat.as_ref().map(value);
    page.process("cpu_seconds_total", "counter", "CPU time, user and system.", stat(|stat| stat.cpu_seconds));
    page.process("resident_memory_bytes", "gauge", "Memory in use.", stat(|stat| stat.resident_bytes));
    page.process("virtual_memory_bytes", "gauge", "Memory mapped.", stat(|stat| stat.virtual_bytes));
    page.process("threads", "gauge", "Threads.", stat(|stat| stat.threads));
    page.process(
        "start_time_seconds",
        "gauge",
        "When the process began, since 1970.",
        stat(|stat| stat.began_ticks).zip(boot_time()).map(|(ticks, boot)| boot + ticks / hertz()),
    );
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    page.process("open_fds", "gauge", "Files and sockets that are open.", open);
    let limit = getrlimit(Resource::Nofile).current;
    page.process("max_fds", "gauge", "Files and sockets that may be open.", limit.map(|limit| limit as f64));
}

#[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
fn hertz() -> f64 {
    clock_ticks_per_second() as f64
}

struct Stat {
    cpu_seconds: f64,
    threads: f64,
    began_ticks: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        // The command's name is in parentheses and may hold spaces; the third field follows it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / hertz(),
            threads: field(20)?,
            began_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as f64,
        })
    }
}

/// When the machine was started, since 1970.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
