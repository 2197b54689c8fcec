//! Makes time-ordered IDs in this process, by a worker that the server lends: `keymill serve`, then
//! `cargo run -p keymill-client --example make_ids`. No async here: this is the blocking client.

use std::time::Instant;

use keymill_client::{Error, blocking::Client};

fn main() -> Result<(), Error> {
    let client = Client::builder().environment().name("example").build_blocking()?;
    let events = client.snowflake("events")?;
    println!("worker {:?} is ours; the window reaches {:?} ahead", events.worker(), events.window_left());
    println!("an ID: {}", events.next_id()?);

    let (begun, calls) = (Instant::now(), client.stats().calls);
    let ids = events.next_ids(1_000_000)?;
    println!("{} more in {:?}, up to {:?}", ids.len(), begun.elapsed(), ids.last());
    println!("and {} calls", client.stats().calls - calls);

    // Gives the worker back.
    client.close()
}
