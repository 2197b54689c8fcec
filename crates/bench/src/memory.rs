//! What a hundred million keys leave behind: in memory, and on the disk.

use std::time::Instant;

use crate::process::Server;

const KEYS: u64 = 100_000_000;
const AT_A_TIME: u64 = 1_000_000;

#[expect(clippy::cast_precision_loss, reason = "figures")]
pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let server = Server::keymill(&data)?;
    let body = format!("{{\"count\":{AT_A_TIME}}}");
    let begun = Instant::now();
    for _ in 0..KEYS / AT_A_TIME {
        let answer = server.post("/v1/keyspaces/links/keys", "Accept: text/plain\r\n", &body)?;
        anyhow::ensure!(answer.ends_with(b"\r\n0\r\n\r\n"), "an answer was cut off");
    }
    let seconds = begun.elapsed().as_secs_f64();
    let resident = server.resident_bytes()? as f64 / 1e6;
    let mut disk = 0;
    for entry in std::fs::read_dir(&data)? {
        disk += entry?.metadata()?.len();
    }
    println!(
        "{} M keys in {seconds:.1} s, {:.1} M keys/s over HTTP as text",
        KEYS / 1_000_000,
        KEYS as f64 / seconds / 1e6
    );
    println!("resident {resident:.1} MB (goal < 100), on disk {:.2} MB (goal < 10)", disk as f64 / 1e6);
    Ok(())
}
