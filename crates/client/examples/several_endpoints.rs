//! Takes a key a second and says which servers answer: start two nodes of one ledger, then
//! `KEYMILL_SERVER=http://127.0.0.1:7070,http://127.0.0.1:8080 cargo run -p keymill-client --example several_endpoints`,
//! and stop one or the other meanwhile. Ends after a minute.

use std::time::Duration;

use keymill_client::{Client, Error};

const TAKES: u32 = 60;

#[tokio::main]
async fn main() -> Result<(), Error> {
    // A small cache, so that every take soon needs a server.
    let client = Client::builder().environment().deadline(Duration::from_secs(3)).cache_keys(1, 2).build()?;
    let links = client.keyspace("links")?;
    for _ in 0..TAKES {
        match links.take().await {
            Ok(key) => println!("{key}"),
            // What happened, on which endpoint, and what to do.
            Err(error) => println!("{error}"),
        }
        for endpoint in client.stats().endpoints {
            println!("    {}: {:?}, {} attempts", endpoint.address, endpoint.breaker, endpoint.attempts);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    client.close().await
}
