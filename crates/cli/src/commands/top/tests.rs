//! What is drawn for a snapshot, as text.

use keymill_api::Snapshot;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};
use serde_json::json;

use super::{
    screen::{Pane, Screen, Wish},
    view,
};

const WIDTH: u16 = 110;
const HEIGHT: u16 = 12;

fn snapshot() -> Snapshot {
    let keyspace = |name: &str, level: &str, rate: f64, below: bool| {
        json!({"name": name, "scheme": "pool", "state": "active", "level": level, "stock": "1024", "rate": rate,
               "runway_seconds": 7200.0, "page_keys": 1000.0, "below": below})
    };
    let lease = json!({"keyspace": "events", "worker": 17, "holder": "a", "state": "live", "term": 3,
                       "expires_at": "2026-11-15T12:00:15.000Z"});
    serde_json::from_value(json!({
        "time": "2026-11-15T12:00:00.000Z", "node": "a", "version": "0.1.0",
        "ledger": {"store": "sqlite", "grade": "strict", "state": "ok"}, "reasons": [],
        "keyspaces": [keyspace("codes", "900", 12.0, true), keyspace("links", "3521614606208", 8450.0, false)],
        "nodes": [{"name": "a", "state": "live", "last_seen": "2026-11-15T12:00:00.000Z", "version": "0.1.0",
                   "address": "http://127.0.0.1:7070", "stock": "2048", "rate": 8462.0}],
        "workers": [{"keyspace": "events", "capacity": 1024, "window_seconds": 58.4, "clock_behind_ms": 0, "workers": [lease]}],
        "incidents": [{"id": 1, "state": "open", "keyspace": "codes", "kind": "below_page_mark", "severity": "critical",
                       "summary": "`codes` has 900 keys left", "since": "2026-11-15T11:59:00.000Z", "notified": false,
                       "dedup_key": "x"}],
        "refusals": {"exhausted": 3},
    }))
    .unwrap()
}

fn screen() -> Screen {
    let mut screen = Screen::new("http://127.0.0.1:7070", "");
    screen.show(snapshot());
    screen
}

fn drawn(screen: &Screen) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).unwrap();
    terminal.draw(|frame| view::draw(frame, screen)).unwrap();
    terminal
}

fn lines(screen: &Screen) -> Vec<String> {
    let terminal = drawn(screen);
    let cells: Vec<&str> = terminal.backend().buffer().content.iter().map(|cell| cell.symbol()).collect();
    cells.chunks(usize::from(WIDTH)).map(|row| row.concat().trim_end().to_owned()).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Wish {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE), view::page(HEIGHT))
}

#[test]
fn keyspaces_are_shown_with_level_rate_runway_and_marks() {
    let expected = [
        "Keymill a 0.1.0   ledger sqlite (strict) ok   8462 keys/s   2026-11-15T12:00:00.000Z",
        "● `codes` has 900 keys left",
        " Keyspaces 2 │ Nodes 1 │ Workers 1 │ Incidents 1",
        &"─".repeat(usize::from(WIDTH)),
        "keyspace scheme       level   keys/s       lasts    stock marks          while you watch",
        "codes    pool           900       12       2.0 h     1024 below its mark █",
        "links    pool          3.5T     8450       2.0 h     1024 3.5G × above   █",
    ];
    let lines = lines(&screen());
    assert_eq!(lines[..expected.len()], expected, "{}", lines.join("\n"));
    assert_eq!(lines.last().unwrap(), "q quit   Tab panes   ↑ ↓ PageUp PageDown scroll   / filter");
}

#[test]
fn what_is_below_its_mark_is_red() {
    let terminal = drawn(&screen());
    let colour = |row| terminal.backend().buffer()[(0, row)].fg;
    assert_eq!((colour(5), colour(6)), (Color::Red, Color::Reset));
}

#[test]
fn panes_follow_each_other() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Tab);
    assert!(lines(&screen)[5].starts_with("a (this one)"), "{:?}", lines(&screen));
    press(&mut screen, KeyCode::Tab);
    assert_eq!(lines(&screen)[4], "events 1 of 1024 held, time reserved 58 s ahead, clock well");
    assert!(lines(&screen)[5].contains("17 a, live, for the 3. time"), "{:?}", lines(&screen));
    press(&mut screen, KeyCode::Tab);
    assert!(lines(&screen)[4].starts_with("critical `codes` has 900 keys left"), "{:?}", lines(&screen));
    assert!(lines(&screen)[6].starts_with("refused exhausted"), "{:?}", lines(&screen));
    press(&mut screen, KeyCode::Tab);
    assert_eq!(screen.pane, Pane::Keyspaces);
    press(&mut screen, KeyCode::BackTab);
    assert_eq!(screen.pane, Pane::Incidents);
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut screen = screen();
    for key in ['/', 'l', 'i', 'q'] {
        assert_eq!(press(&mut screen, KeyCode::Char(key)), Wish::Stay, "q is a letter while one types");
    }
    press(&mut screen, KeyCode::Backspace);
    press(&mut screen, KeyCode::Enter);
    let shown = lines(&screen);
    assert!(shown[5].starts_with("links") && shown[6].is_empty(), "{shown:?}");
    assert!(shown.last().unwrap().starts_with("/li"), "{shown:?}");
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.keyspaces().count(), 2);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Wish::Leave);
}

#[test]
fn scrolling_keeps_the_last_row_in_sight() {
    let mut many = snapshot();
    many.keyspaces = (0..20)
        .map(|at| keymill_api::KeyspaceGlance { name: format!("k{at:02}"), ..many.keyspaces[0].clone() })
        .collect();
    let mut screen = Screen::new("", "");
    screen.show(many);
    press(&mut screen, KeyCode::End);
    let shown = lines(&screen);
    assert!(shown.iter().any(|line| line.starts_with("k19")) && shown[5].starts_with("k14"), "{shown:?}");
    press(&mut screen, KeyCode::PageUp);
    assert!(lines(&screen)[5].starts_with("k08"));
    press(&mut screen, KeyCode::Home);
    assert!(lines(&screen)[5].starts_with("k00"));
}

#[test]
fn a_server_that_is_gone_is_said_to_be_and_its_figures_stay() {
    let mut screen = screen();
    screen.trouble = Some("the server hung up".to_owned());
    let shown = lines(&screen);
    assert_eq!(shown[1], "● the server hung up; trying again…");
    assert!(shown[6].starts_with("links"));
    let waiting = lines(&Screen::new("http://keys", ""));
    assert_eq!(waiting[..2], ["Keymill http://keys", "● connecting…"]);
}

#[test]
fn the_smallest_terminal_does_not_break_it() {
    for (width, height) in [(1, 1), (10, 3), (40, 5), (300, 60)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for pane in Pane::ALL {
            let screen = Screen { pane, ..screen() };
            terminal.draw(|frame| view::draw(frame, &screen)).unwrap();
        }
    }
}
