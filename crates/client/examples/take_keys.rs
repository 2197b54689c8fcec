//! Takes short codes from a local cache: `keymill serve`, then `cargo run -p keymill-client --example take_keys`.
//!
//! Another server: `KEYMILL_SERVER=http://host:7070`, and where it asks for a token or speaks TLS `KEYMILL_TOKEN` and
//! `KEYMILL_TLS_CA`.

use std::time::Instant;

use keymill_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::builder().environment().build()?;
    let links = client.keyspace("links")?;
    println!("a key:     {}", links.take().await?);
    println!("ten more:  {}", links.take_many(10).await?.join(" "));

    let tickets = client.keyspace("tickets")?;
    println!("a ticket:  {}", tickets.take_number().await?);

    let (begun, mut key) = (Instant::now(), String::new());
    for _ in 0..100_000 {
        key.clear();
        links.take_into(&mut key).await?;
    }
    println!("100 000 keys one by one took {:?}; the last was {key}", begun.elapsed());

    let stats = client.stats();
    println!("that took {} calls and {} refills", stats.calls, stats.refills);
    println!("closing burns {} keys of the cache", links.close());
    client.close().await
}
