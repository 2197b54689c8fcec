//! What a person sees and has chosen: the last snapshot, which pane, how far it is scrolled, what is looked for.
//!
//! It decides and never draws: `view` shows it, `mod` feeds it with keys and snapshots.

use keymill_api::{KeyspaceGlance, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history::History;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Keyspaces,
    Nodes,
    Workers,
    Incidents,
}

impl Pane {
    pub(super) const ALL: [Self; 4] = [Self::Keyspaces, Self::Nodes, Self::Workers, Self::Incidents];

    pub(super) fn index(self) -> usize {
        Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0)
    }

    fn step(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }
}

#[derive(Debug)]
pub(super) struct Screen {
    pub server: String,
    pub snapshot: Option<Snapshot>,
    pub history: History,
    /// Why nothing new comes, if nothing does.
    pub trouble: Option<String>,
    pub pane: Pane,
    /// Rows above the first one that is shown.
    pub scrolled: usize,
    pub filter: String,
    /// Whether keys go into the filter.
    pub is_typing: bool,
}

/// What a key asks for beyond the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stay,
    Leave,
}

impl Screen {
    pub(super) fn new(server: &str, filter: &str) -> Self {
        Self {
            server: server.to_owned(),
            snapshot: None,
            history: History::default(),
            trouble: None,
            pane: Pane::Keyspaces,
            scrolled: 0,
            filter: filter.to_owned(),
            is_typing: false,
        }
    }

    pub(super) fn show(&mut self, snapshot: Snapshot) {
        self.history.push(&snapshot);
        self.snapshot = Some(snapshot);
        self.trouble = None;
        self.scrolled = self.scrolled.min(self.rows().saturating_sub(1));
    }

    pub(super) fn keyspaces(&self) -> impl Iterator<Item = &KeyspaceGlance> {
        let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.keyspaces);
        all.filter(|keyspace| keyspace.name.contains(&self.filter))
    }

    /// Rows of the pane that is shown.
    fn rows(&self) -> usize {
        let Some(snapshot) = &self.snapshot else { return 0 };
        match self.pane {
            Pane::Keyspaces => self.keyspaces().count(),
            Pane::Nodes => snapshot.nodes.len(),
            Pane::Workers => snapshot.workers.iter().map(|map| map.workers.len() + 1).sum(),
            Pane::Incidents => snapshot.incidents.len() + snapshot.refusals.len(),
        }
    }

    /// `page`: rows that fit on the screen.
    pub(super) fn press(&mut self, key: KeyEvent, page: usize) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Leave;
        }
        if self.is_typing {
            self.type_key(key.code);
            return Wish::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Leave,
            KeyCode::Char('/') => {
                (self.pane, self.is_typing) = (Pane::Keyspaces, true);
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.pane.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.pane.step(Pane::ALL.len() - 1)),
            code => self.scroll(code, page),
        }
        Wish::Stay
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(symbol) => self.filter.push(symbol),
            _ => {}
        }
        self.scrolled = 0;
    }

    fn turn_to(&mut self, pane: Pane) {
        (self.pane, self.scrolled) = (pane, 0);
    }

    fn scroll(&mut self, code: KeyCode, page: usize) {
        let to = match code {
            KeyCode::Up => self.scrolled.saturating_sub(1),
            KeyCode::Down => self.scrolled + 1,
            KeyCode::PageUp => self.scrolled.saturating_sub(page),
            KeyCode::PageDown => self.scrolled + page,
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => self.scrolled,
        };
        // The last row stays in sight.
        self.scrolled = to.min(self.rows().saturating_sub(page.max(1)));
    }
}
