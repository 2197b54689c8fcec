//! How names lie: whatever the order, they are found.

use keymill_id::{Definition, Mint, Number, Secret, Stated};
use keymill_sql::{Access, Schema, SqlError, Statements, Work};

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, bind, claim, visit},
};
use crate::{
    Bind, Bound, Change, Changed, Claimed, Deleted, Expiry, Kind, Listing, Marked, Registry, TakenBy, Visits,
    schema,
};

/// Keys of two lengths, so that they grow on the way; with no secret they are spelled in order, with one they are not.
fn definition(secret: u8) -> Definition {
    let stated: Stated =
        serde_json::from_value(serde_json::json!({"scheme": "pool", "alphabet": "base36", "length": 4}))
            .expect("what a user could state");
    Definition::resolve(&stated, Secret::from_bytes([secret; Secret::LENGTH])).expect("a good definition")
}

fn keys(definition: &Definition, count: u64) -> Vec<String> {
    let mint = Mint::compile(definition);
    (0..).filter_map(|n| mint.spell_one(Number::new(n)?)).take(usize::try_from(count).expect("few")).collect()
}

async fn listed(registry: &Registry, limit: u32) -> Vec<String> {
    let mut listing = Listing { keyspace: KS.to_owned(), after: None, limit, query: None, live_at_ms: None };
    let mut names = Vec::new();
    loop {
        let page = registry.list(listing.clone()).await.unwrap();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        match page.next {
            Some(next) => listing.after = Some(next),
            None => return names,
        }
    }
}

fn links(names: &[String]) -> Vec<Bind> {
    names.iter().map(|name| bind(name, "https://a.example/")).collect()
}

pub async fn keys_lie_as_they_are_numbered_behind_chosen_names<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let definition = definition(1);
    registry.arrange(KS, &definition).await.unwrap();
    let keys = keys(&definition, 300);
    let chosen = ["a chosen name", "summer-sale", "winter-sale"].map(str::to_owned);
    for batch in [&keys[200..], &keys[..100], &chosen, &keys[100..200]] {
        let bound = registry.bind_all(links(batch), None).await.unwrap();
        assert!(bound.iter().all(|bound| matches!(bound, Bound::New(_))));
    }
    let all = [&chosen, keys.as_slice()].concat();
    for limit in [1, 7, 300, 303, 304] {
        assert_eq!(listed(&registry, limit).await, all, "by {limit}");
    }
    let other = bench.registry().await;
    for name in &all {
        assert_eq!(other.entry(KS, name).await.unwrap().unwrap().name, *name);
    }
    let again = other.bind_all(links(&all), None).await.unwrap();
    assert!(again.iter().all(|bound| matches!(bound, Bound::Same(_))), "each of them is there once");
}

/// All that is done to one name, to a key and to a chosen name.
pub async fn whatever_is_done_to_a_name_is_done_where_it_lies<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let definition = definition(2);
    registry.arrange(KS, &definition).await.unwrap();
    let keys = keys(&definition, 20);
    for (n, name) in [keys[7].as_str(), "a chosen name"].into_iter().enumerate() {
        assert!(matches!(registry.claim(claim(name)).await.unwrap(), Claimed::Granted(_)));
        let taken = Claimed::Taken { by: TakenBy::Alias };
        assert_eq!(registry.claim(claim(name)).await.unwrap(), taken, "{name}");
        let Bound::New(entry) = registry.bind(bind(name, "https://a.example/")).await.unwrap() else {
            panic!("it was claimed, and waits for its target")
        };
        assert_eq!(entry.kind, Kind::Alias);
        let change = Change {
            keyspace: KS.to_owned(),
            name: name.to_owned(),
            target: Some("https://b.example/".to_owned()),
            expiry: Expiry::At(NOW + HOUR),
            at_ms: NOW,
        };
        assert!(matches!(registry.update(change).await.unwrap(), Changed::Done(_)), "{name}");
        let visits = |name: &str| Visits { keyspace: KS.to_owned(), name: name.to_owned(), count: 2 };
        let crowd = keys.iter().map(|key| visits(key)).chain([visits(name), visits("unknown")]);
        visit(&registry, crowd.collect()).await;
        let entry = registry.entry(KS, name).await.unwrap().unwrap();
        let expected = if n == 0 { 4 } else { 2 };
        assert_eq!((entry.target.as_deref(), entry.visits), (Some("https://b.example/"), expected), "{name}");
    }
    let marked = registry.mark_used(KS, vec![keys[7].clone(), keys[8].clone()], NOW).await.unwrap();
    assert_eq!(marked, [Marked::Taken, Marked::New]);
    assert_eq!(registry.delete(KS, &keys[8], NOW, Some(NOW + HOUR)).await.unwrap(), Deleted::Done);
    // Both have expired, one is due; a rest of an hour later all of them can be had again.
    let swept = registry.sweep(NOW + HOUR, 100, Some(NOW + 2 * HOUR)).await.unwrap();
    assert_eq!((swept.expired, swept.freed), (2, 1));
    let swept = registry.sweep(NOW + 2 * HOUR, 100, None).await.unwrap();
    assert_eq!((swept.expired, swept.freed), (0, 2));
    assert_eq!(listed(&registry, 10).await, [""; 0]);
}

/// The first who arranged a keyspace has arranged it for all, whatever they think of it: a ledger that was lost and made
/// anew numbers the same keys otherwise.
pub async fn names_are_found_although_the_ledger_numbers_them_anew<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let (first, second) = (definition(3), definition(4));
    registry.arrange(KS, &first).await.unwrap();
    let keys = keys(&first, 100);
    registry.bind_all(links(&keys), None).await.unwrap();
    let later = bench.registry().await;
    later.arrange(KS, &second).await.unwrap();
    for key in &keys {
        let bound = later.bind(bind(key, "https://other.example/")).await.unwrap();
        assert!(matches!(bound, Bound::AlreadyBound(_)), "{key}: {bound:?}");
    }
    assert_eq!(listed(&later, 7).await, keys, "as they lay");
}

pub async fn those_who_arrange_at_once_agree<B: Bench>(bench: B) {
    let answers = at_once(&bench, 64, |registry, caller| async move {
        let definition = definition(u8::try_from(caller).expect("few"));
        registry.arrange(KS, &definition).await.unwrap();
        registry.bind(bind("0abc", &format!("https://example.com/{caller}"))).await.unwrap()
    });
    let answers = answers.await;
    let new = answers.iter().filter(|bound| matches!(bound, Bound::New(_))).count();
    assert_eq!(new, 1, "whatever each of them thinks of its number, it is one name");
}

pub async fn what_lay_by_name_before_goes_on_to<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let (prefix, database) = registry.tables_of();
    Schema { prefix: &prefix, steps: &schema::STEPS[..1] }.migrate(database).await.unwrap();
    database.run(OldLink { table: format!("{prefix}_names") }).await.unwrap();
    registry.arrange(KS, &definition(5)).await.unwrap();
    registry.arrange("new", &definition(5)).await.unwrap();
    let entry = registry.entry(KS, OLD).await.unwrap().expect("it was there");
    assert_eq!((entry.target.as_deref(), entry.visits), (Some("https://old.example/"), 7));
    assert!(matches!(
        registry.bind(bind(OLD, "https://new.example/")).await.unwrap(),
        Bound::AlreadyBound(_)
    ));
    assert!(matches!(registry.bind(bind("0abd", "https://a.example/")).await.unwrap(), Bound::New(_)));
    let new = Bind { keyspace: "new".to_owned(), ..bind(OLD, "https://new.example/") };
    assert!(matches!(registry.bind(new).await.unwrap(), Bound::New(_)));
    assert_eq!(listed(&registry, 1).await, [OLD, "0abd"], "in the order of bytes");
}

/// Would have a number if anyone asked for it.
const OLD: &str = "0abc";

struct OldLink {
    table: String,
}

impl Work for OldLink {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        let sql = format!(
            "INSERT INTO {} (keyspace, name, kind, target, created_at, visits) VALUES (?, ?, ?, ?, ?, ?)",
            self.table
        );
        let values = [
            KS.into(),
            OLD.into(),
            Kind::Issued.word().into(),
            "https://old.example/".into(),
            NOW.into(),
            7.into(),
        ];
        statements.execute(&sql, &values).await.map(drop)
    }
}
