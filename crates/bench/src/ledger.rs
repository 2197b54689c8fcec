//! What the ledger costs: as often as time passes, not as keys are taken; and the same with a million
//! claims in the file as with ten.

use std::{num::NonZeroU64, path::Path, time::Instant};

use futures_util::future::join_all;
use keymill_id::{KeyspaceName, Number};
use keymill_ledger::{Ledger, LedgerId, NodeName, NodeReport, SqliteStore, Timestamp, Track, ops};

use crate::{compare, process::Server};

const FEW: u64 = 10;
const MANY: u64 = 1_000_000;
const NODES: u64 = 250;
const RATE_SECONDS: u64 = 60;

pub(crate) fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for claims in [FEW, MANY] {
        let data = dir.path().join(format!("claims-{claims}"));
        std::fs::create_dir(&data)?;
        figures.push(runtime.block_on(with_claims(&data, claims))?);
    }
    let [few, many] = figures.as_slice() else { unreachable!("two figures") };
    for ((what, few), (_, many)) in few.iter().zip(many) {
        compare(
            &format!("{what}, 1 000 000 claims"),
            *many,
            "us",
            &format!("10 claims ({few:.1} us)"),
            many / few,
            "about 1x",
        );
    }
    reserves_at_two_rates(dir.path())
}

/// Medians in microseconds: a reserve, a look at a claim, an open.
async fn with_claims(data: &Path, claims: u64) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let path = data.join("keymill.db");
    let open = || SqliteStore::open(&path, "bench", LedgerId("bench".into()), Timestamp(0));
    let (store, _) = open()?;
    // A node writes one thing at a time; many nodes share a commit, and none extends another's claim.
    let mut nodes = Vec::new();
    for node in 0..NODES.min(claims) {
        nodes.push(TestNode::register(&store, &format!("node-{node}")).await?);
    }
    let name = KeyspaceName::parse("links")?;
    let create = ops::CreateKeyspace {
        stamp: nodes[0].stamp(),
        name: name.clone(),
        definition: "{}".into(),
        fingerprint: String::new(),
        tuning: serde_json::Map::new(),
        root: false,
        withheld: Vec::new(),
        limit: 10,
    };
    store.create_keyspace(create).await?;
    let track = Track::of(name);
    for _ in 0..claims / nodes.len() as u64 {
        let pending: Vec<_> = nodes.iter_mut().map(|node| store.reserve(node.reserve(&track))).collect();
        for answer in join_all(pending).await {
            answer?;
        }
    }
    // Issued, as the audit would have it after ten seconds: a start has nothing to bury.
    for node in &mut nodes {
        let issued_up_to = Number::new(claims).unwrap_or(Number::MAX);
        let progress = ops::Progress {
            track: track.clone(),
            issued_up_to,
            issued: 0,
            burned: 0,
            last_issued_at: Timestamp(0),
        };
        let stamp = node.stamp();
        store
            .heartbeat(ops::Heartbeat { stamp, report: NodeReport::default(), progress: vec![progress] })
            .await?;
    }
    drop(store);
    let begun = Instant::now();
    let (store, _) = open()?;
    let mut node = TestNode::register(&store, "node-0").await?;
    let opened = begun.elapsed().as_secs_f64() * 1e6;
    let mut reserve = Vec::new();
    let mut look = Vec::new();
    for round in 0..301 {
        let begun = Instant::now();
        store.reserve(node.reserve(&track)).await?;
        reserve.push(begun.elapsed().as_secs_f64() * 1e6);
        let number = Number::new((round * 7919) % claims).unwrap_or(Number::ZERO);
        let begun = Instant::now();
        store.claim(ops::ClaimAt { track: track.clone(), number }).await?;
        look.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(vec![("reserve", median(reserve)), ("look up a claim", median(look)), ("open and register", opened)])
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

pub(crate) struct TestNode {
    name: NodeName,
    epoch: u64,
    beat: u64,
}

impl TestNode {
    pub(crate) async fn register(store: &dyn Ledger, name: &str) -> anyhow::Result<Self> {
        let name = NodeName::parse(name)?;
        let op = ops::Register {
            node: name.clone(),
            remembered: None,
            region: None,
            report: NodeReport::default(),
            at: Timestamp(0),
        };
        let registration = store.register(op).await?;
        Ok(Self { name, epoch: registration.epoch, beat: registration.beat })
    }

    pub(crate) fn stamp(&mut self) -> ops::Stamp {
        self.beat += 1;
        let node = self.name.clone();
        ops::Stamp { node, epoch: self.epoch, acked: 0, next: self.beat, at: Timestamp(0) }
    }

    pub(crate) fn reserve(&mut self, track: &Track) -> ops::Reserve {
        ops::Reserve {
            stamp: self.stamp(),
            track: track.clone(),
            at_least: Number::ZERO,
            count: NonZeroU64::MIN,
            ceiling: Number::MAX,
            witnessed: Number::ZERO,
        }
    }
}

/// Reserves in a minute, at a low and at a high rate of keys.
#[expect(clippy::cast_precision_loss, reason = "counts")]
fn reserves_at_two_rates(dir: &Path) -> anyhow::Result<()> {
    let mut counts = Vec::new();
    for (rate, name) in [(1_000_u64, "slow"), (200_000, "fast")] {
        let server = Server::keymill(&dir.join(name))?;
        let per_request = rate / 20;
        let body = format!("{{\"count\":{per_request}}}");
        let begun = Instant::now();
        let before = metric(&server, "keymill_reserve_duration_seconds_count")?;
        while begun.elapsed().as_secs() < RATE_SECONDS {
            let sent = Instant::now();
            server.post("/v1/keyspaces/links/keys", "", &body)?;
            std::thread::sleep(std::time::Duration::from_millis(50).saturating_sub(sent.elapsed()));
        }
        let issued = metric(&server, "keymill_keys_issued_total{keyspace=\"links\"}")?;
        let reserves = metric(&server, "keymill_reserve_duration_seconds_count")? - before;
        println!(
            "{rate} keys/s wanted: {:.0} keys/s for {RATE_SECONDS} s took {reserves} reserves",
            issued / RATE_SECONDS as f64
        );
        counts.push(reserves);
    }
    compare(
        "reserves a minute at 200 times the rate",
        counts[1],
        "",
        "the slow rate",
        counts[1] / counts[0].max(1.0),
        "flat",
    );
    Ok(())
}

pub(crate) fn metric(server: &Server, name: &str) -> anyhow::Result<f64> {
    let page = server.get("/metrics")?;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.unwrap_or("0").trim().parse()?)
}
