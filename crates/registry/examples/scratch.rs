use std::time::{Duration, Instant};
use keymill_registry::*;
use keymill_sql::*;
#[tokio::main]
async fn main() {
    let rows: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let which = std::env::args().nth(1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut pg = None; let mut my = None;
    let db = match which.as_str() {
        "sqlite" => Database::embedded(Sqlite::open(&dir.path().join("k.db")).unwrap()),
        "pg" => { let s = keymill_engines::postgres::Postgres::start().unwrap(); let d = Database::new(Address::parse(&s.url(), &Tls::default(), Duration::from_secs(20)).unwrap()); pg = Some(s); d }
        _ => { let s = keymill_engines::mariadb::MariaDb::start().unwrap(); let d = Database::new(Address::parse(&s.url(), &Tls::default(), Duration::from_secs(20)).unwrap()); my = Some(s); d }
    };
    let r = Registry::new(db.clone(), true);
    let t = Instant::now();
    let name = |n: usize| format!("k{:07x}", (n as u32).wrapping_mul(0x9e37_79b9) >> 4);
    for c in 0..rows / 10_000 {
        r.mark_used("used", (0..10_000).map(|i| name(c * 10_000 + i)).collect(), 1).await.unwrap();
    }
    println!("{which}: mark_used {rows} in {:?}", t.elapsed());
    let t = Instant::now();
    for c in 0..rows / 10_000 {
        let b = (0..10_000).map(|i| Bind { keyspace: "links".into(), name: name(c * 10_000 + i), kind: Kind::Issued, target: format!("https://example.com/{c}/{i}"), owner: None, expires_at_ms: if i % 10 == 0 { Some(5_000 + i as i64) } else { None }, at_ms: 1, skeleton: None, only_new: true, receipt: None }).collect();
        r.bind_all(b).await.unwrap();
    }
    println!("bind_all {rows} in {:?}", t.elapsed());
    let t = Instant::now();
    for c in 0..rows / 10_000 {
        let b = (0..10_000).map(|i| NewReference { keyspace: "links".into(), owner: None, reference: format!("legacy {c} {i}"), key: name(c * 10_000 + i), at_ms: 1, receipt: None }).collect();
        r.refer_all(b).await.unwrap();
    }
    println!("refer_all {rows} in {:?}", t.elapsed());
    let t = Instant::now();
    for i in 0..2_000 { r.entry("links", &name(i * 37 % rows)).await.unwrap().unwrap(); }
    println!("entry one by one: {:?} each", t.elapsed() / 2_000);
    let t = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..16usize { let r = r.clone(); tasks.spawn(async move { for i in 0..1_000 { r.entry("links", &format!("k{:07x}", (((i * 16 + w) as u32).wrapping_mul(0x9e37_79b9)) >> 4)).await.unwrap(); } }); }
    tasks.join_all().await;
    println!("entry by 16: {:?} each", t.elapsed() / 16_000);
    let t = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..16usize { let r = r.clone(); tasks.spawn(async move { for i in 0..100 { r.bind(Bind { keyspace: "links".into(), name: format!("n{w}-{i}"), kind: Kind::Issued, target: "https://example.com/x".into(), owner: None, expires_at_ms: None, at_ms: 1, skeleton: None, only_new: true, receipt: None }).await.unwrap(); } }); }
    tasks.join_all().await;
    println!("bind by 16: {:?} each", t.elapsed() / 1_600);
    let t = Instant::now();
    let p = r.list(Listing { keyspace: "links".into(), after: Some("k8".into()), limit: 100, query: None, live_at_ms: Some(1) }).await.unwrap();
    println!("list {} {:?}", p.entries.len(), t.elapsed());
    let t = Instant::now();
    let p = r.list(Listing { keyspace: "links".into(), after: Some("k8".into()), limit: 100, query: Some("nothing".into()), live_at_ms: Some(1) }).await.unwrap();
    println!("search {} {:?} {:?}", p.entries.len(), p.next, t.elapsed());
    let t = Instant::now();
    let s = r.sweep(6_000, 1_000).await.unwrap();
    println!("sweep {s:?} {:?}", t.elapsed());
    let t = Instant::now();
    r.add_visits((0..1_000).map(|i| Visits { keyspace: "links".into(), name: name(i * 31), count: 1 }).collect()).await.unwrap();
    println!("visits 1000 {:?}", t.elapsed());
    let t = Instant::now();
    for i in 0..100 { r.references_to("links", &name(i * 37)).await.unwrap(); }
    println!("references_to {:?}", t.elapsed() / 100);
    if let Some(s) = &pg {
        s.sql("ANALYZE").unwrap();
        for q in ["SELECT keyspace, name, deleted_at FROM keymill_registry_names WHERE due_at <= 6000 ORDER BY due_at LIMIT 1000 FOR UPDATE", "SELECT name FROM keymill_registry_names WHERE keyspace = 'links' AND name > 'k8' ORDER BY name LIMIT 100", "UPDATE keymill_registry_names SET visits = visits + CASE name WHEN 'k1' THEN 1 WHEN 'k2' THEN 2 END WHERE keyspace = 'links' AND deleted_at IS NULL AND name IN ('k1','k2')"] {
            println!("{}", s.sql(&format!("EXPLAIN {q}")).unwrap());
        }
    }
    if let Some(s) = &my {
        for q in ["SELECT keyspace, name, deleted_at FROM keymill_registry_names WHERE due_at <= 6000 ORDER BY due_at LIMIT 1000 FOR UPDATE", "SELECT name FROM keymill_registry_names WHERE keyspace = 'links' AND name > 'k8' ORDER BY name LIMIT 100", "UPDATE keymill_registry_names SET visits = visits + CASE name WHEN 'k1' THEN 1 WHEN 'k2' THEN 2 END WHERE keyspace = 'links' AND deleted_at IS NULL AND name IN ('k1','k2')"] {
            println!("{}", s.sql(&format!("USE keymill; EXPLAIN {q}")).unwrap());
        }
    }
}
