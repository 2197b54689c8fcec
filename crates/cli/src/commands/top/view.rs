//! Draws the screen. It reads the screen's state and nothing else.

use keymill_api::{KeyspaceGlance, Snapshot, WorkerMap};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row, Table, Tabs},
};

use super::screen::{Pane, Screen};
use crate::output;

const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const WARN: Color = Color::Yellow;
const QUIET: Color = Color::DarkGray;
const ACCENT: Color = Color::Cyan;
/// Head, tabs, the names of columns and the line of keys.
const LINES_AROUND: u16 = 6;

/// Rows that fit on a screen of that height.
pub(super) fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(LINES_AROUND)).max(1)
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let parts = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [head, tabs, body, keys] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(header(screen)), head);
    frame.render_widget(panes(screen), tabs);
    match (&screen.snapshot, screen.pane) {
        (None, _) => frame.render_widget(Paragraph::new("waiting for the first snapshot…").fg(QUIET), body),
        (Some(_), Pane::Keyspaces) => keyspaces(frame, body, screen),
        (Some(snapshot), Pane::Nodes) => nodes(frame, body, screen, snapshot),
        (Some(snapshot), Pane::Workers) => list(frame, body, screen, workers(snapshot)),
        (Some(snapshot), Pane::Incidents) => list(frame, body, screen, incidents(snapshot)),
    }
    frame.render_widget(Paragraph::new(footer(screen)), keys);
}

fn header(screen: &Screen) -> Vec<Line<'_>> {
    let Some(snapshot) = &screen.snapshot else {
        return vec![Line::from(vec!["Keymill ".bold(), screen.server.as_str().fg(QUIET)]), wrong(screen)];
    };
    let ledger = &snapshot.ledger;
    let rate: f64 = snapshot.keyspaces.iter().map(|keyspace| keyspace.rate).sum();
    let state = if ledger.state == "ok" { GOOD } else { BAD };
    let first = Line::from(vec![
        "Keymill ".bold(),
        format!("{} {}", snapshot.node, snapshot.version).into(),
        format!("   ledger {} ({}) ", ledger.store, ledger.grade).fg(QUIET),
        ledger.state.as_str().fg(state),
        "   ".into(),
        output::figure(rate).fg(ACCENT).bold(),
        " keys/s".fg(QUIET),
        format!("   {}", snapshot.time).fg(QUIET),
    ]);
    vec![first, wrong(screen)]
}

/// What is wrong, worst first: nothing comes, the node does not serve, something is low.
fn wrong(screen: &Screen) -> Line<'_> {
    if let Some(trouble) = &screen.trouble {
        return Line::from(format!("● {trouble}; trying again…")).fg(WARN);
    }
    let Some(snapshot) = &screen.snapshot else { return Line::from("● connecting…").fg(WARN) };
    let reasons =
        snapshot.reasons.iter().map(|reason| format!("{}: {}", reason.code.as_str(), reason.detail));
    let all: Vec<String> =
        reasons.chain(snapshot.incidents.iter().map(|incident| incident.summary.clone())).collect();
    if all.is_empty() {
        return Line::from("● live, nothing is wrong that is watched").fg(GOOD);
    }
    Line::from(format!("● {}", all.join(" · "))).fg(BAD).bold()
}

fn panes(screen: &Screen) -> Tabs<'_> {
    let snapshot = screen.snapshot.as_ref();
    let count = |pane: Pane| match (pane, snapshot) {
        (_, None) => 0,
        (Pane::Keyspaces, Some(snapshot)) => snapshot.keyspaces.len(),
        (Pane::Nodes, Some(snapshot)) => snapshot.nodes.len(),
        (Pane::Workers, Some(snapshot)) => snapshot.workers.iter().map(held).sum(),
        (Pane::Incidents, Some(snapshot)) => snapshot.incidents.len(),
    };
    let names = ["Keyspaces", "Nodes", "Workers", "Incidents"];
    let titles = names.into_iter().zip(Pane::ALL).map(|(name, pane)| format!("{name} {}", count(pane)));
    Tabs::new(titles)
        .select(screen.pane.index())
        .highlight_style(Style::new().fg(ACCENT).add_modifier(Modifier::BOLD | Modifier::UNDERLINED))
        .block(Block::new().borders(Borders::BOTTOM).border_style(QUIET))
}

fn footer(screen: &Screen) -> Line<'_> {
    if screen.is_typing || !screen.filter.is_empty() {
        let cursor = if screen.is_typing { "▏" } else { "" };
        return Line::from(vec![
            "/".fg(ACCENT),
            screen.filter.as_str().into(),
            cursor.fg(ACCENT),
            "   Esc clears".fg(QUIET),
        ]);
    }
    Line::from("q quit   Tab panes   ↑ ↓ PageUp PageDown scroll   / filter").fg(QUIET)
}

fn heading(names: &[&'static str]) -> Row<'static> {
    Row::new(names.iter().map(|name| Cell::from(*name))).style(Style::new().fg(QUIET))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn keyspaces(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    const FIXED: [u16; 6] = [9, 8, 8, 11, 8, 14];
    let widest = screen.keyspaces().map(|keyspace| keyspace.name.len()).max().unwrap_or(0).clamp(8, 32);
    let name = u16::try_from(widest).unwrap_or(32);
    let taken = name + FIXED.iter().sum::<u16>() + 7;
    let wide = usize::from(area.width.saturating_sub(taken));
    let rows = screen.keyspaces().skip(screen.scrolled).map(|keyspace| {
        let bars = screen.history.bars(&keyspace.name, wide);
        keyspace_row(keyspace, bars)
    });
    let widths = [name].into_iter().chain(FIXED).map(Constraint::Length).chain([Constraint::Min(0)]);
    let table = Table::new(rows, widths).header(heading(&[
        "keyspace",
        "scheme",
        "   level",
        "  keys/s",
        "      lasts",
        "   stock",
        "marks",
        "while you watch",
    ]));
    frame.render_widget(table, area);
}

fn keyspace_row(keyspace: &KeyspaceGlance, bars: String) -> Row<'static> {
    let known = |text: &Option<String>| {
        text.as_deref().and_then(|text| text.parse().ok()).map_or_else(dash, output::figure)
    };
    let (mark, colour) = match (keyspace.below, keyspace.state.as_str()) {
        (true, _) => ("below its mark", BAD),
        (false, "active") => ("", GOOD),
        (false, _) => ("retired", QUIET),
    };
    let style = if keyspace.below { Style::new().fg(BAD) } else { Style::new() };
    Row::new([
        Cell::from(keyspace.name.clone()).style(style.add_modifier(Modifier::BOLD)),
        Cell::from(keyspace.scheme.clone()).style(Style::new().fg(QUIET)),
        right(known(&keyspace.level)).style(style),
        right(output::figure(keyspace.rate)),
        right(keyspace.runway_seconds.map_or_else(dash, output::roughly)).style(style),
        right(known(&Some(keyspace.stock.clone()))),
        Cell::from(if mark.is_empty() { marks(keyspace) } else { mark.to_owned() })
            .style(Style::new().fg(colour)),
        Cell::from(bars).style(Style::new().fg(ACCENT)),
    ])
}

fn dash() -> String {
    "–".to_owned()
}

/// How far the level is above its page mark.
fn marks(keyspace: &KeyspaceGlance) -> String {
    let level: Option<f64> = keyspace.level.as_deref().and_then(|level| level.parse().ok());
    match (level, keyspace.page_keys.or(keyspace.restart_keys)) {
        (Some(level), Some(mark)) if mark > 0.0 => format!("{} × above", output::figure(level / mark)),
        _ => String::new(),
    }
}

fn nodes(frame: &mut Frame<'_>, area: Rect, screen: &Screen, snapshot: &Snapshot) {
    let rows = snapshot.nodes.iter().skip(screen.scrolled).map(|node| {
        let colour = match node.state.as_str() {
            "live" => GOOD,
            "silent" => BAD,
            _ => QUIET,
        };
        let me = if node.name == snapshot.node { " (this one)" } else { "" };
        Row::new([
            Cell::from(format!("{}{me}", node.name)).style(Style::new().add_modifier(Modifier::BOLD)),
            Cell::from(node.state.clone()).style(Style::new().fg(colour)),
            right(output::figure(node.rate)),
            right(node.stock.parse().map_or_else(|_| dash(), output::figure)),
            Cell::from(node.version.clone()),
            Cell::from(node.address.clone()),
            Cell::from(node.last_seen.clone()).style(Style::new().fg(QUIET)),
        ])
    });
    let widths = [28, 8, 8, 8, 8, 26, 24].map(Constraint::Length);
    let names = ["node", "state", "  keys/s", "   stock", "version", "address", "last heard"];
    frame.render_widget(Table::new(rows, widths).header(heading(&names)), area);
}

fn list(frame: &mut Frame<'_>, area: Rect, screen: &Screen, lines: Vec<Line<'_>>) {
    let shown: Vec<Line<'_>> = lines.into_iter().skip(screen.scrolled).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

fn held(map: &WorkerMap) -> usize {
    map.workers.iter().filter(|worker| worker.state == "live").count()
}

fn workers(snapshot: &Snapshot) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for map in &snapshot.workers {
        let window = map
            .window_seconds
            .map_or_else(String::new, |ahead| format!(", time reserved {ahead:.0} s ahead"));
        let clock = match map.clock_behind_ms {
            0 => Span::from(", clock well").fg(GOOD),
            behind => Span::from(format!(", the clock is {behind} ms behind")).fg(BAD),
        };
        let said = format!(" {} of {} held{window}", held(map), map.capacity);
        lines.push(Line::from(vec![map.keyspace.as_str().bold(), said.into(), clock]));
        lines.extend(map.workers.iter().map(|worker| {
            let colour = match worker.state.as_str() {
                "live" => ACCENT,
                "released" => WARN,
                _ => BAD,
            };
            let square = Span::from(format!("  ■ {:>5} ", worker.worker)).fg(colour);
            let said = format!(
                "{}, {}, for the {}. time, until {}",
                worker.holder, worker.state, worker.term, worker.expires_at
            );
            Line::from(vec![square, said.into()])
        }));
    }
    if lines.is_empty() {
        lines.push(Line::from("No keyspace makes time-ordered IDs.").fg(QUIET));
    }
    lines
}

fn incidents(snapshot: &Snapshot) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = snapshot
        .incidents
        .iter()
        .map(|incident| {
            let colour = if incident.severity == "critical" { BAD } else { WARN };
            let since = format!(" (since {})", incident.since);
            Line::from(vec![
                format!("{:<9}", incident.severity).fg(colour).bold(),
                incident.summary.as_str().into(),
                since.fg(QUIET),
            ])
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::from("Nothing is wrong that is watched.").fg(GOOD));
    }
    lines.push(Line::from(""));
    let refused = snapshot.refusals.iter().map(|(code, count)| {
        Line::from(vec!["refused ".fg(QUIET), format!("{code:<24}").into(), format!("{count:>10}").fg(WARN)])
    });
    lines.extend(refused);
    lines
}
