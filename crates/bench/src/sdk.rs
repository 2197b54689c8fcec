//! Keys and IDs from the SDK, next to a bare generator: what they cost where no call is made.

use std::{
    hint::{black_box, spin_loop},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use keymill_client::{
    Error,
    blocking::{Client, Keyspace},
};
use keymill_id::{Layout, Next, Settings, SharedGenerator, Window};

use crate::{best, compare, process::Server, take::per_item};

/// Fewer than a cache is filled to, so that no take waits for a server.
const KEYS: u32 = 1 << 18;
const CACHE: u32 = 1 << 20;
const IDS: u64 = 1 << 20;
const RUNS: usize = 7;
/// 2^21 IDs a tick, so that none is used up while they are timed.
const LAYOUT: &str = "time:41 worker:1 sequence:21";
const WIDE: &str = r#"{"name":"wide","scheme":"snowflake","layout":"time:41 worker:1 sequence:21"}"#;
const FILLED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::keymill(&dir.path().join("data"))?;
    server.post("/v1/keyspaces", "Content-Type: application/json\r\n", WIDE)?;
    let endpoint = format!("http://{}", server.address);
    let client = Client::builder()
        .endpoints([endpoint])
        .deadline(FILLED_WITHIN)
        .cache_keys(CACHE, CACHE)
        .build_blocking()?;
    cached(&client)?;
    ids(&client)?;
    client.close()?;
    Ok(())
}

fn cached(client: &Client) -> anyhow::Result<()> {
    let (links, tickets) = (client.keyspace("links")?, client.keyspace("tickets")?);
    let mut out = String::with_capacity(16);
    let one = timed(&links, |links| links.with_key(|key| _ = black_box(key)))?;
    compare("a cached key, handed over", one, "ns", "", 1.0, "<= 20 ns");
    let into = timed(&links, |links| {
        out.clear();
        links.take_into(&mut out)
    })?;
    compare("a cached key, into a String", into, "ns", "handed over", into / one, "<= 20 ns");
    let owned = timed(&links, |links| links.take().map(|key| drop(black_box(key))))?;
    compare("a cached key, as a String", owned, "ns", "handed over", owned / one, "-");
    let number = timed(&tickets, |tickets| tickets.take_number().map(|ticket| _ = black_box(ticket)))?;
    compare("a cached ticket, as a number", number, "ns", "handed over", number / one, "<= 20 ns");
    Ok(())
}

/// Nanoseconds per take, from a cache that holds enough of them.
fn timed(keyspace: &Keyspace, mut take: impl FnMut(&Keyspace) -> Result<(), Error>) -> anyhow::Result<f64> {
    let mut taken = Ok(());
    let figure = best(RUNS, || {
        let until = Instant::now() + FILLED_WITHIN;
        while keyspace.ready() < KEYS.into() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        per_item(KEYS.into(), || {
            for _ in 0..KEYS {
                if let Err(error) = take(keyspace) {
                    taken = Err(error);
                }
            }
        })
    });
    taken?;
    Ok(figure)
}

fn ids(client: &Client) -> anyhow::Result<()> {
    let layout = Layout::parse(LAYOUT, None, None)?;
    let window = Window::new(0, layout.ticks()).expect("not empty");
    let bare = SharedGenerator::new(layout.clone(), 0, 0, window, Settings::default());
    let wide = client.snowflake("wide")?;
    let (mut floor, mut ours) = (f64::INFINITY, f64::INFINITY);
    // In turn, so that a slow moment of the machine hits both.
    for _ in 0..RUNS {
        floor = floor.min(per_item(IDS, || (0..IDS).for_each(|_| next(&bare, &layout))));
        let mut made = Ok(());
        ours = ours.min(per_item(IDS, || {
            for _ in 0..IDS {
                match wide.next_id() {
                    Ok(id) => _ = black_box(id),
                    Err(error) => made = Err(error),
                }
            }
        }));
        made?;
    }
    compare("a bare shared generator, system clock", floor, "ns", "", 1.0, "-");
    compare("an ID made in process by the SDK", ours, "ns", "the bare generator", ours / floor, "<= 1.5x");
    Ok(())
}

fn next(bare: &SharedGenerator, layout: &Layout) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let tick = || layout.tick_of_clock(u64::try_from(now()).unwrap_or(u64::MAX));
    while !matches!(black_box(bare.next(tick())), Next::Id(_)) {
        spin_loop();
    }
}
