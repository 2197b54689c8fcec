//! `keymill top`: what the dashboard shows, in a terminal.

use std::{io::IsTerminal, time::Duration};

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

use crate::{args, client::Client, output};

mod feed;
mod history;
mod plain;
mod screen;
mod view;

use feed::Feed;
use screen::{Screen, Wish};

/// Between two tries to reach the server.
const PAUSE: Duration = Duration::from_secs(1);
/// How soon a reader of keys sees that nobody wants them any more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What may change the screen.
#[derive(Debug)]
enum Change {
    Key(KeyEvent),
    Resized,
}

pub(crate) async fn run(client: &Client, args: &args::Top, json: bool) -> anyhow::Result<()> {
    if args.once || json || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return print_once(client, &args.filter, json).await;
    }
    // A server that refuses us is no reason to draw anything.
    let feed = Feed::open(client).await?;
    // It leaves the terminal as it was, even if we panic.
    let mut terminal = ratatui::try_init()?;
    let ended = watch(&mut terminal, client, feed, Screen::new(client.server(), &args.filter)).await;
    ratatui::restore();
    ended
}

async fn print_once(client: &Client, filter: &str, json: bool) -> anyhow::Result<()> {
    let snapshot = Feed::open(client).await?.next().await?;
    match json {
        true => output::json(&snapshot),
        false => plain::print(&snapshot, filter),
    }
    Ok(())
}

/// Until a person leaves.
async fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client,
    feed: Feed,
    mut screen: Screen,
) -> anyhow::Result<()> {
    let mut changes = listen_to_keys();
    let mut feed = Some(feed);
    loop {
        terminal.draw(|frame| view::draw(frame, &screen))?;
        tokio::select! {
            change = changes.recv() => match change {
                Some(Change::Key(key)) => {
                    let page = view::page(terminal.size()?.height);
                    if screen.press(key, page) == Wish::Leave {
                        return Ok(());
                    }
                }
                Some(Change::Resized) => {}
                None => return Ok(()),
            },
            news = next(client, &mut feed) => match news {
                Ok(Some(snapshot)) => screen.show(snapshot),
                Ok(None) => {}
                Err(error) => {
                    feed = None;
                    screen.trouble = Some(format!("{error:#}"));
                }
            },
        }
    }
}

/// The next snapshot; or, after a pause, a new connection to have one from.
async fn next(client: &Client, feed: &mut Option<Feed>) -> anyhow::Result<Option<keymill_api::Snapshot>> {
    if let Some(open) = feed {
        return open.next().await.map(Some);
    }
    tokio::time::sleep(PAUSE).await;
    *feed = Some(Feed::open(client).await?);
    Ok(None)
}

/// Keys are read on a thread of their own: the terminal knows no futures.
fn listen_to_keys() -> mpsc::Receiver<Change> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let change = match event::poll(LOOK_EVERY) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let change = match change {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Change::Key(key),
                Ok(Event::Resize(..)) => Change::Resized,
                Ok(_) => continue,
                // The terminal is gone, and with it whoever looked.
                Err(_) => return,
            };
            if sender.blocking_send(change).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests;
