//! What every engine answers to the same work.

use std::time::Duration;

use keymill_sql::{Access, Database, Dialect, Schema, SqlError, Statements, Value, Work};

use crate::common::{Do, all, ask, count, make};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_come_back_as_they_went_in() {
    let (databases, _file) = all();
    for database in databases {
        make(
            &database,
            &["CREATE TABLE kept (k {key} NOT NULL PRIMARY KEY, n BIGINT, t {text}, f BOOLEAN NOT NULL){table}"],
        )
        .await;
        let put = database.dialect().upsert("kept", &["k", "n", "t", "f"], 1);
        let text = "žluť ☂ 🦀 'quoted' \"twice\" `and` \\ % \t\n";
        let kept = [
            ("Ab", Some(9_007_199_254_740_993)),
            ("Ab ", None),
            ("aB", Some(i64::MAX)),
            ("aB\u{e9}", Some(i64::MIN)),
        ];
        let rows: Vec<_> = kept
            .iter()
            .rev()
            .map(|(key, number)| {
                (put.clone(), vec![(*key).into(), (*number).into(), text.into(), number.is_some().into()])
            })
            .collect();
        assert_eq!(database.run(Do(rows.clone())).await.unwrap(), [1, 1, 1, 1]);
        if database.dialect() != Dialect::MySql {
            assert_eq!(database.run(Do(rows)).await.unwrap(), [1, 1, 1, 1], "again, over what is there");
        }
        let found =
            ask(&database, "SELECT k, n, t, f FROM kept WHERE k >= ? ORDER BY k", &["A".into()]).await;
        let read: Vec<_> = found
            .iter()
            .map(|row| {
                assert_eq!(row.text(2).unwrap(), text);
                (row.text(0).unwrap(), row.maybe_integer(1).unwrap(), row.flag(3).unwrap())
            })
            .collect();
        let expected: Vec<_> =
            kept.iter().map(|(key, number)| ((*key).to_owned(), *number, number.is_some())).collect();
        assert_eq!(read, expected, "byte by byte: neither case nor a space at the end is folded");
        let wrong = found[0].integer(2).unwrap_err();
        assert!(wrong.to_string().contains("`t`"), "{wrong}");
    }
}

/// PostgreSQL holds no NUL in a text, and says so; the others give it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nul_is_kept_or_refused_and_never_the_end() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &["CREATE TABLE nul (k {key} NOT NULL PRIMARY KEY, t {text}){table}"]).await;
        let put = Do::one("INSERT INTO nul VALUES (?, ?)", &["a\0b".into(), "c\0d".into()]);
        match (database.dialect(), database.run(put).await) {
            (Dialect::Postgres, refused) => {
                assert!(matches!(&refused, Err(SqlError::Refused(_))), "{refused:?}");
            }
            (_, done) => {
                done.unwrap();
                let row = &ask(&database, "SELECT k, t FROM nul WHERE k = ?", &["a\0b".into()]).await[0];
                assert_eq!((row.text(0).unwrap(), row.text(1).unwrap()), ("a\0b".into(), "c\0d".into()));
                assert!(ask(&database, "SELECT k FROM nul WHERE k = ?", &["a".into()]).await.is_empty());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_fails_leaves_nothing() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &["CREATE TABLE failing (k {key} NOT NULL PRIMARY KEY){table}"]).await;
        make(&database, &["INSERT INTO failing (k) VALUES ('a')"]).await;
        let duplicate =
            Do::all(&["INSERT INTO failing (k) VALUES ('b')", "INSERT INTO failing (k) VALUES ('a')"]);
        let refused = database.run(duplicate).await.unwrap_err();
        assert!(matches!(refused, SqlError::Aborted(_)), "{refused:?}");
        let missing =
            Do::all(&["INSERT INTO failing (k) VALUES ('b')", "INSERT INTO nowhere (k) VALUES ('a')"]);
        let refused = database.run(missing).await.unwrap_err();
        assert!(matches!(&refused, SqlError::Refused(said) if said.contains("nowhere")), "{refused:?}");
        assert_eq!(count(&database, "failing").await, 1);
    }
}

/// Work that goes on after a statement of it was refused.
struct Stubborn;

impl Work for Stubborn {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        statements.execute("INSERT INTO stubborn VALUES (2)", &[]).await?;
        let _ = statements.execute("INSERT INTO stubborn VALUES (1)", &[]).await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_committed_after_a_statement_failed() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &["CREATE TABLE stubborn (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
        make(&database, &["INSERT INTO stubborn VALUES (1)"]).await;
        let refused = database.run(Stubborn).await;
        assert!(matches!(refused, Err(SqlError::Aborted(_))), "{refused:?}");
        assert_eq!(count(&database, "stubborn").await, 1);
    }
}

/// Writes, although it said that it would not.
struct Sly;

impl Work for Sly {
    type Answer = u64;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        statements.execute("INSERT INTO sly VALUES (1)", &[]).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_reads_cannot_write() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &["CREATE TABLE sly (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
        let refused = database.run(Sly).await.unwrap_err();
        assert!(matches!(&refused, SqlError::Unavailable(said) if said.contains("read-only")), "{refused:?}");
        assert_eq!(count(&database, "sly").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_sees_what_was_committed_before() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &["CREATE TABLE seen (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
        let tasks: Vec<_> = (0..8_i64)
            .map(|task| {
                let database = database.clone();
                tokio::spawn(async move {
                    for n in 0..25 {
                        let value = [Value::from(task * 100 + n)];
                        database.run(Do::one("INSERT INTO seen VALUES (?)", &value)).await.unwrap();
                        let found = ask(&database, "SELECT n FROM seen WHERE n = ?", &value).await;
                        assert_eq!(found.len(), 1, "{value:?} was written and is not there");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(count(&database, "seen").await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_knows_what_time_it_is() {
    let (databases, _file) = all();
    for database in databases {
        let clock = format!("SELECT {}", database.dialect().clock());
        let now = ask(&database, &clock, &[]).await[0].integer(0).unwrap();
        let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let apart = ours.abs_diff(Duration::from_millis(now.try_into().unwrap()));
        assert!(apart < Duration::from_secs(60), "{:?} says {now}", database.dialect());
    }
}

/// Puts a row and tells whether it is new.
struct PutAbsent(&'static str, Vec<Value>);

impl Work for PutAbsent {
    type Answer = bool;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<bool, SqlError> {
        statements.insert_absent(self.0, &["k", "n", "v"], 2, &self.1).await
    }
}

struct PutAbsentMany(&'static str, Vec<Vec<Value>>);

impl Work for PutAbsentMany {
    type Answer = Vec<bool>;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Vec<bool>, SqlError> {
        statements.insert_absent_many(self.0, &["k", "n", "v"], 2, &self.1).await
    }
}

fn row(key: &str, number: i64, value: &str) -> Vec<Value> {
    vec![key.into(), number.into(), value.into()]
}

const ABSENT: &str = "(k {key} NOT NULL, n BIGINT NOT NULL, v {text}, PRIMARY KEY (k, n)){table_by_key}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_put_once_and_each_is_told_whether_it_was_new() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &[&format!("CREATE TABLE absent {ABSENT}")]).await;
        let put = |key: &str, number, value: &str| database.run(PutAbsent("absent", row(key, number, value)));
        assert!(put("a", 1, "first").await.unwrap());
        assert!(!put("a", 1, "second").await.unwrap(), "it is there");
        assert!(!put("a", 1, "first").await.unwrap(), "even with the same value");
        assert!(put("a", 2, "first").await.unwrap(), "another key");
        assert!(put("A", 1, "first").await.unwrap(), "case tells keys apart");
        assert!(put("a ", 1, "first").await.unwrap(), "so does a space");
        let kept = ask(&database, "SELECT v FROM absent WHERE k = 'a' AND n = 1", &[]).await;
        assert_eq!(kept[0].text(0).unwrap(), "first", "what was there stays");

        let many = vec![row("a", 1, "third"), row("b", 1, "x"), row("b", 1, "y"), row("B", 1, "z")];
        let put = database.run(PutAbsentMany("absent", many.clone())).await.unwrap();
        assert_eq!(put, [false, true, false, true], "each is told whether it was new");
        assert_eq!(database.run(PutAbsentMany("absent", many)).await.unwrap(), [false; 4]);
        assert_eq!(database.run(PutAbsentMany("absent", Vec::new())).await.unwrap(), [false; 0]);
        let kept = ask(&database, "SELECT v FROM absent WHERE k = 'b' AND n = 1", &[]).await;
        assert_eq!(kept[0].text(0).unwrap(), "x", "the first of a key counts");
        assert_eq!(count(&database, "absent").await, 6);
        // What is wrong for another reason than its key is an error, and not passed over.
        let wrong = vec!["c".into(), Value::Integer(None), "v".into()];
        let refused = database.run(PutAbsent("absent", wrong)).await;
        assert!(matches!(refused, Err(SqlError::Refused(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_put_the_same_rows_each_row_is_new_to_one() {
    let (databases, _file) = all();
    for database in databases {
        make(&database, &[&format!("CREATE TABLE raced {ABSENT}")]).await;
        let tasks: Vec<_> = (0..6_i64)
            .map(|task| {
                let database = database.clone();
                tokio::spawn(async move {
                    let mut new = 0;
                    for n in 0..20 {
                        let one = PutAbsent("raced", row("one", n, "v"));
                        new += u64::from(database.run(one).await.unwrap());
                        // Overlapping, and each in the same order, as whoever avoids deadlocks has them.
                        let many = (n * 3 + task..n * 3 + task + 10).map(|n| row("many", n, "v")).collect();
                        let put = database.run(PutAbsentMany("raced", many)).await.unwrap();
                        new += put.into_iter().map(u64::from).sum::<u64>();
                    }
                    new
                })
            })
            .collect();
        let mut new = 0;
        for task in tasks {
            new += task.await.unwrap();
        }
        assert_eq!(i64::try_from(new).unwrap(), count(&database, "raced").await);
    }
}

struct Load(&'static str, Vec<Vec<Value>>);

impl Work for Load {
    type Answer = u64;
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<u64, SqlError> {
        statements.load(self.0, &["n", "t", "f", "m"], &self.1).await
    }
}

fn awkward(n: i64) -> Vec<Value> {
    let text = match n % 7 {
        0 => None,
        1 => Some(String::new()),
        2 => Some(format!("{n}\ttab\nline\r\nback\\slash \\N \\.")),
        3 => Some("\\.".to_owned()),
        4 => Some(format!("'{n}' \"☂\" 🦀 {{}},;")),
        5 => Some("\\N".to_owned()),
        _ => Some(n.to_string()),
    };
    let number = (n % 3 != 0).then_some(i64::MIN + n);
    vec![n.into(), text.into(), (n % 2 == 0).into(), number.into()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_rows_are_loaded_as_they_are() {
    const ROWS: i64 = 100_000;
    let table =
        "CREATE TABLE loaded (n BIGINT NOT NULL PRIMARY KEY, t {text}, f BOOLEAN NOT NULL, m BIGINT){table}";
    let (databases, _file) = all();
    for database in databases {
        make(&database, &[table]).await;
        let rows: Vec<_> = (0..ROWS).map(awkward).collect();
        let begun = std::time::Instant::now();
        assert_eq!(database.run(Load("loaded", rows)).await.unwrap(), 100_000);
        println!("{}: loaded {ROWS} rows in {:?}", database.dialect().name(), begun.elapsed());
        let found = ask(&database, "SELECT n, t, f, m FROM loaded ORDER BY n", &[]).await;
        assert_eq!(found.len(), 100_000);
        for (row, n) in found.iter().zip(0..) {
            let read: Vec<Value> = vec![
                row.integer(0).unwrap().into(),
                row.maybe_text(1).unwrap().into(),
                row.flag(2).unwrap().into(),
                row.maybe_integer(3).unwrap().into(),
            ];
            assert_eq!(read, awkward(n));
        }
        let again = database.run(Load("loaded", vec![awkward(ROWS), awkward(7)])).await;
        assert!(matches!(again, Err(SqlError::Refused(_))), "what is there is not loaded again: {again:?}");
        assert_eq!(count(&database, "loaded").await, ROWS, "and nothing beside it");
        let narrow = database.run(Load("loaded", vec![vec![1_i64.into()]])).await;
        assert!(matches!(&narrow, Err(SqlError::Refused(said)) if said.contains("4 columns")), "{narrow:?}");
    }
}

const STEPS: &[&[&str]] = &[
    &[
        "CREATE TABLE {prefix}_things (k {key} NOT NULL PRIMARY KEY){table_by_key}",
        "CREATE INDEX {prefix}_i ON {prefix}_things (k)",
    ],
    &["INSERT INTO {prefix}_things VALUES ('one')"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_run_once_however_many_start() {
    let (databases, _file) = all();
    for database in databases {
        let old = Schema { prefix: "many", steps: &STEPS[..1] };
        let schema = Schema { prefix: "many", steps: STEPS };
        assert_eq!(schema.version(&database).await.unwrap().found, 0);
        old.migrate(&database).await.unwrap();
        assert_eq!(schema.version(&database).await.unwrap().found, 1);
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let database = database.clone();
                tokio::spawn(async move { Schema { prefix: "many", steps: STEPS }.migrate(&database).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert!(schema.version(&database).await.unwrap().is_current());
        assert_eq!(count(&database, "many_things").await, 1);
        for refused in [old.version(&database).await, old.migrate(&database).await] {
            let newer = refused.unwrap_err();
            assert!(matches!(&newer, SqlError::Refused(said) if said.contains("newer Keymill")), "{newer:?}");
        }
        migrations_go_on_after_a_refusal(&database).await;
    }
}

/// H: MySQL's lock belongs to a connection, which is used again.
async fn migrations_go_on_after_a_refusal(database: &Database) {
    for _ in 0..10 {
        let refused = Schema { prefix: "many", steps: &STEPS[..1] }.migrate(database).await;
        assert!(matches!(refused, Err(SqlError::Refused(_))), "{refused:?}");
    }
    Schema { prefix: "many", steps: STEPS }.migrate(database).await.unwrap();
}
