//! Receipts: a request that is sent twice has one effect and one answer.

use super::{
    Bench,
    requests::{HOUR, KS, NOW, at_once, attempt, bind, claim, derive, receipt, refer},
};
use crate::{
    Attempt, BatchReceipt, Begun, Bind, Bound, Claim, Claimed, Derive, Derived, Finished, NewReference,
    Referred, Registry,
};

/// Long enough for a lock to run out.
const AFTER_THE_LOCK: i64 = NOW + 60_000;

fn done(answer: &str) -> Begun {
    Begun::Done { answer: answer.to_owned() }
}

/// `a` begins and is not heard of again; `b` takes over.
async fn overtake<B: Bench>(bench: &B, scope: &str) -> Registry {
    let registry = bench.registry().await;
    assert_eq!(registry.begin(attempt(scope, "a")).await.unwrap(), Begun::Go);
    let late = Attempt { at_ms: AFTER_THE_LOCK, lock_until_ms: AFTER_THE_LOCK + 1, ..attempt(scope, "b") };
    assert_eq!(registry.begin(late).await.unwrap(), Begun::Go);
    registry
}

pub async fn an_answer_is_given_again_until_its_time_is_over<B: Bench>(bench: B) {
    let (registry, other) = (bench.registry().await, bench.registry().await);
    assert_eq!(registry.begin(attempt("s", "a")).await.unwrap(), Begun::Go);
    let answer = "201 {\"key\":\"žluť 🦜\"}".repeat(500);
    assert_eq!(registry.finish(receipt("s", "a", &answer)).await.unwrap(), Finished::Kept);
    for at_ms in [NOW, NOW + 24 * HOUR - 1] {
        let again = Attempt { at_ms, ..attempt("s", "b") };
        assert_eq!(other.begin(again).await.unwrap(), done(&answer));
    }
    assert_eq!(other.begin(attempt("S", "b")).await.unwrap(), Begun::Go, "another scope");
    let end = NOW + 24 * HOUR;
    let anew = Attempt {
        at_ms: end,
        lock_until_ms: end + 1,
        until_ms: end + HOUR,
        body_hash: "another".to_owned(),
        ..attempt("s", "b")
    };
    assert_eq!(other.begin(anew).await.unwrap(), Begun::Go, "its time is over, even if no sweep came by");
}

pub async fn another_body_is_refused<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    let other = |at_ms| Attempt { body_hash: "another".to_owned(), at_ms, ..attempt("s", "b") };
    registry.begin(attempt("s", "a")).await.unwrap();
    assert_eq!(registry.begin(other(NOW)).await.unwrap(), Begun::Mismatch);
    assert_eq!(
        registry.begin(other(AFTER_THE_LOCK)).await.unwrap(),
        Begun::Mismatch,
        "even if nobody is at it"
    );
    assert_eq!(registry.finish(receipt("s", "a", "done")).await.unwrap(), Finished::Kept);
    assert_eq!(registry.begin(other(NOW)).await.unwrap(), Begun::Mismatch);
    assert_eq!(registry.begin(attempt("s", "c")).await.unwrap(), done("done"));
}

pub async fn an_attempt_waits_while_another_is_at_it<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.begin(attempt("s", "a")).await.unwrap();
    for at_ms in [NOW, AFTER_THE_LOCK - 1] {
        let second = Attempt { at_ms, ..attempt("s", "b") };
        assert_eq!(registry.begin(second).await.unwrap(), Begun::InProgress);
    }
    assert_eq!(registry.begin(attempt("s", "a")).await.unwrap(), Begun::Go, "its own, asked again");
    let late = Attempt { at_ms: AFTER_THE_LOCK, ..attempt("s", "b") };
    assert_eq!(registry.begin(late).await.unwrap(), Begun::Go, "whoever was at it is gone");
}

pub async fn what_an_earlier_life_began_is_not_waited_for<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.begin(attempt("s", "node/1/a")).await.unwrap();
    for other in ["node/1/b", "another/2/b", "b"] {
        assert_eq!(registry.begin(attempt("s", other)).await.unwrap(), Begun::InProgress, "{other}");
    }
    assert_eq!(
        registry.begin(attempt("s", "node/2/c")).await.unwrap(),
        Begun::Go,
        "its maker was started again"
    );
    let late = registry.finish(receipt("s", "node/1/a", "old")).await.unwrap();
    assert_eq!(late, Finished::Overtaken { answer: None }, "should it not be quite dead");
    assert_eq!(registry.finish(receipt("s", "node/2/c", "new")).await.unwrap(), Finished::Kept);
}

pub async fn of_many_attempts_at_once_one_goes<B: Bench>(bench: B) {
    // A scope that is new, and one whose last attempt died.
    bench.registry().await.begin(attempt("dead", "z")).await.unwrap();
    for (scope, at_ms) in [("new", NOW), ("dead", AFTER_THE_LOCK)] {
        let answers = at_once(&bench, 64, |registry, caller| {
            let lock_until_ms = at_ms + 60_000;
            let attempt = Attempt { at_ms, lock_until_ms, ..attempt(scope, &format!("a{caller}")) };
            async move { registry.begin(attempt).await.unwrap() }
        });
        let answers = answers.await;
        assert_eq!(answers.iter().filter(|answer| **answer == Begun::Go).count(), 1, "{scope}");
        assert_eq!(answers.iter().filter(|answer| **answer == Begun::InProgress).count(), 63, "{scope}");
    }
}

pub async fn an_overtaken_attempt_finishes_nothing<B: Bench>(bench: B) {
    let registry = overtake(&bench, "s").await;
    let late = registry.finish(receipt("s", "a", "old")).await.unwrap();
    assert_eq!(late, Finished::Overtaken { answer: None }, "the other is still at it");
    registry.abandon("s", "a").await.unwrap();
    assert_eq!(registry.finish(receipt("s", "b", "new")).await.unwrap(), Finished::Kept);
    let late = registry.finish(receipt("s", "a", "old")).await.unwrap();
    assert_eq!(late, Finished::Overtaken { answer: Some("new".to_owned()) });
    assert_eq!(registry.begin(attempt("s", "c")).await.unwrap(), done("new"));
    let never = registry.finish(receipt("never begun", "a", "x")).await.unwrap();
    assert_eq!(never, Finished::Overtaken { answer: None });
}

/// The old attempt does everything that can carry a receipt; nothing of it happens.
async fn tries_in_vain(registry: &Registry, expected: Option<&str>) {
    let answer = expected.map(str::to_owned);
    let old = || Some(receipt("s", "a", "old"));
    let claimed = registry.claim(Claim { receipt: old(), ..claim("c") }).await.unwrap();
    assert_eq!(claimed, Claimed::Overtaken { answer: answer.clone() });
    let fresh = Bind { receipt: old(), ..bind("b", "https://a.example/") };
    assert_eq!(registry.bind(fresh.clone()).await.unwrap(), Bound::Overtaken { answer: answer.clone() });
    let many = registry.bind_all(vec![fresh], None).await.unwrap();
    assert_eq!(many, [Bound::Overtaken { answer: answer.clone() }]);
    let waiting = Bind { receipt: old(), ..bind("waiting", "https://a.example/") };
    assert_eq!(registry.bind(waiting).await.unwrap(), Bound::Overtaken { answer: answer.clone() });
    let derived = registry.derive(Derive { receipt: old(), ..derive("id", &["d"]) }).await.unwrap();
    assert_eq!(derived, Derived::Overtaken { answer: answer.clone() });
    let referred = registry.refer(NewReference { receipt: old(), ..refer("r", "k") }).await.unwrap();
    assert_eq!(referred, Referred::Overtaken { answer });
    for name in ["c", "b", "d"] {
        assert_eq!(registry.entry(KS, name).await.unwrap(), None, "{name}");
    }
    assert_eq!(registry.entry(KS, "waiting").await.unwrap().unwrap().target, None);
    assert_eq!(registry.reference(KS, None, "r").await.unwrap(), None);
}

pub async fn an_overtaken_attempt_grants_nothing<B: Bench>(bench: B) {
    let registry = overtake(&bench, "s").await;
    registry.claim(claim("waiting")).await.unwrap();
    tries_in_vain(&registry, None).await;
    assert_eq!(registry.finish(receipt("s", "b", "new")).await.unwrap(), Finished::Kept);
    tries_in_vain(&registry, Some("new")).await;
}

pub async fn a_grant_and_its_answer_are_kept_together<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    for scope in ["claim", "bind", "claimed", "derive", "refer"] {
        registry.begin(attempt(scope, "a")).await.unwrap();
    }
    let with = |scope: &str| Some(receipt(scope, "a", &format!("{scope} done")));
    let claimed = registry.claim(Claim { receipt: with("claim"), ..claim("c") }).await.unwrap();
    assert!(matches!(claimed, Claimed::Granted(_)));
    let bound =
        registry.bind(Bind { receipt: with("bind"), ..bind("b", "https://a.example/") }).await.unwrap();
    assert!(matches!(bound, Bound::New(_)));
    let target = Bind { receipt: with("claimed"), ..bind("c", "https://a.example/") };
    assert!(matches!(registry.bind(target).await.unwrap(), Bound::New(_)));
    let derived = registry.derive(Derive { receipt: with("derive"), ..derive("id", &["d"]) }).await.unwrap();
    assert!(matches!(derived, Derived::New { .. }));
    let referred = registry.refer(NewReference { receipt: with("refer"), ..refer("r", "k") }).await.unwrap();
    assert_eq!(referred, Referred::New);
    let other = bench.registry().await;
    for scope in ["claim", "bind", "claimed", "derive", "refer"] {
        assert_eq!(other.begin(attempt(scope, "b")).await.unwrap(), done(&format!("{scope} done")));
    }
}

/// Tells how many were new.
fn count_new(attempt: &str) -> Option<BatchReceipt> {
    let (scope, attempt) = ("batch".to_owned(), attempt.to_owned());
    let is_new = |bound: &&Bound| matches!(bound, Bound::New(_));
    let answer = Box::new(move |bound: &[Bound]| format!("{} new", bound.iter().filter(is_new).count()));
    Some(BatchReceipt { scope, attempt, until_ms: NOW + HOUR, answer })
}

pub async fn a_batch_and_its_answer_are_kept_together<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.bind(bind("b", "https://other.example/")).await.unwrap();
    let binds: Vec<Bind> = ["a", "b", "c"].map(|name| bind(name, "https://a.example/")).to_vec();
    registry.begin(attempt("batch", "a")).await.unwrap();
    let bound = registry.bind_all(binds.clone(), count_new("a")).await.unwrap();
    assert!(matches!(&bound[..], [Bound::New(_), Bound::AlreadyBound(_), Bound::New(_)]), "{bound:?}");
    let other = bench.registry().await;
    assert_eq!(other.begin(attempt("batch", "b")).await.unwrap(), done("2 new"));
    let more = [binds, vec![bind("d", "https://a.example/")]].concat();
    for late in ["a", "b"] {
        let overtaken = registry.bind_all(more.clone(), count_new(late)).await.unwrap();
        assert_eq!(overtaken, vec![Bound::Overtaken { answer: Some("2 new".to_owned()) }; 4]);
        assert_eq!(registry.entry(KS, "d").await.unwrap(), None, "nothing was done");
    }
}

pub async fn what_is_refused_keeps_no_answer<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.bind(bind("b", "https://a.example/")).await.unwrap();
    registry.derive(derive("id", &["d"])).await.unwrap();
    registry.refer(refer("r", "k")).await.unwrap();
    registry.begin(attempt("s", "a")).await.unwrap();
    let with = || Some(receipt("s", "a", "done"));
    let claimed = registry.claim(Claim { receipt: with(), ..claim("b") }).await.unwrap();
    assert!(matches!(claimed, Claimed::Taken { .. }));
    let bound = registry.bind(Bind { receipt: with(), ..bind("b", "https://b.example/") }).await.unwrap();
    assert!(matches!(bound, Bound::AlreadyBound(_)));
    let same = registry.bind(Bind { receipt: with(), ..bind("b", "https://a.example/") }).await.unwrap();
    assert!(matches!(same, Bound::Same(_)));
    let derived = registry.derive(Derive { receipt: with(), ..derive("id", &["d"]) }).await.unwrap();
    assert!(matches!(derived, Derived::Known { .. }));
    let referred = registry.refer(NewReference { receipt: with(), ..refer("r", "k2") }).await.unwrap();
    assert!(matches!(referred, Referred::Known { .. }));
    assert_eq!(registry.begin(attempt("s", "b")).await.unwrap(), Begun::InProgress, "no answer yet");
    assert_eq!(
        registry.finish(receipt("s", "a", "known")).await.unwrap(),
        Finished::Kept,
        "it is the caller's"
    );
}

pub async fn an_abandoned_attempt_leaves_the_way_free<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.begin(attempt("s", "a")).await.unwrap();
    registry.abandon("s", "b").await.unwrap();
    assert_eq!(registry.begin(attempt("s", "b")).await.unwrap(), Begun::InProgress, "not its own");
    registry.abandon("s", "a").await.unwrap();
    let other = Attempt { body_hash: "another".to_owned(), ..attempt("s", "b") };
    assert_eq!(registry.begin(other).await.unwrap(), Begun::Go);
    registry.finish(receipt("s", "b", "done")).await.unwrap();
    registry.abandon("s", "b").await.unwrap();
    let again = Attempt { body_hash: "another".to_owned(), ..attempt("s", "c") };
    assert_eq!(registry.begin(again).await.unwrap(), done("done"), "what is done stays done");
}

/// What a caller does who does not know whether its first call was carried out.
pub async fn asking_again_with_the_same_receipt_is_safe<B: Bench>(bench: B) {
    let registry = bench.registry().await;
    registry.begin(attempt("s", "a")).await.unwrap();
    let bind = Bind { receipt: Some(receipt("s", "a", "done")), ..bind("b", "https://a.example/") };
    let Bound::New(entry) = registry.bind(bind.clone()).await.unwrap() else { panic!("it is free") };
    let again = registry.bind(bind).await.unwrap();
    assert_eq!(again, Bound::Overtaken { answer: Some("done".to_owned()) }, "its own answer");
    assert_eq!(registry.entry(KS, "b").await.unwrap(), Some(entry));
    assert_eq!(registry.finish(receipt("s", "a", "done")).await.unwrap(), Finished::Kept);
}
