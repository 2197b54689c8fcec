//! What only the embedded engine has: one thread that writes, and several that read beside it.

use std::{
    fs,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use keymill_sql::{Access, Database, Fate, SqlError, Sqlite, Statements, Value, Work};
use tokio::task::JoinSet;

use crate::common::{Ask, Do, File, ask, count, make};

/// Commits in the log: a frame that ends one says how large the file is after it.
fn commits(file: &File) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let log = fs::read(file.dir.path().join("test.db-wal")).unwrap();
    log[HEADER..].chunks_exact(FRAME).filter(|frame| frame[4..8] != [0; 4]).count()
}

/// Keeps the writer busy until the sender is dropped.
async fn hold(sqlite: &Sqlite) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel::<()>();
    let (began, beginning) = tokio::sync::oneshot::channel();
    let sqlite = sqlite.clone();
    tokio::spawn(async move {
        let job = move |_: &mut rusqlite::Connection| {
            let _ = began.send(());
            (Fate::Keep, receiver.recv().is_err())
        };
        assert!(sqlite.write(job).await.unwrap());
    });
    beginning.await.unwrap();
    sender
}

/// All at once, while the writer is busy with something else.
async fn together<W: Work<Answer: std::fmt::Debug>>(
    file: &File,
    works: Vec<W>,
) -> Vec<Result<W::Answer, SqlError>> {
    let busy = hold(&file.sqlite).await;
    let mut tasks = JoinSet::new();
    for work in works {
        let database = file.database();
        tasks.spawn(async move { database.run(work).await });
    }
    // Until all of them are queued: they run as far as they can as soon as this yields.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(busy);
    tasks.join_all().await
}

#[tokio::test]
async fn works_that_wait_together_are_committed_together() {
    let file = File::new();
    make(&file.database(), &["CREATE TABLE grouped (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    let before = commits(&file);
    let works = (0..200_i64).map(|n| Do::one("INSERT INTO grouped VALUES (?)", &[n.into()])).collect();
    for outcome in together(&file, works).await {
        assert_eq!(outcome.unwrap(), [1]);
    }
    assert_eq!(count(&file.database(), "grouped").await, 200);
    let commits = commits(&file) - before;
    assert!((1..=3).contains(&commits), "{commits} commits for 200 works");
}

#[tokio::test]
async fn work_that_fails_undoes_nothing_of_its_neighbours() {
    let file = File::new();
    make(&file.database(), &["CREATE TABLE mixed (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    let works = (0..60_i64)
        .map(|n| {
            let good = ("INSERT INTO mixed VALUES (?)".to_owned(), vec![Value::from(n)]);
            let bad = ("INSERT INTO nowhere VALUES (?)".to_owned(), vec![Value::from(n)]);
            Do(if n % 3 == 0 { vec![good, bad] } else { vec![good] })
        })
        .collect();
    let outcomes = together(&file, works).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 40);
    let refused = |outcome: &&Result<_, _>| matches!(outcome, Err(SqlError::Refused(_)));
    assert_eq!(outcomes.iter().filter(refused).count(), 20);
    let database = file.database();
    assert_eq!(count(&database, "mixed").await, 40);
    assert!(ask(&database, "SELECT n FROM mixed WHERE n % 3 = 0", &[]).await.is_empty());
}

/// Waits for something that is not a statement.
struct Waits;

impl Work for Waits {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        statements.execute("INSERT INTO waits VALUES (1)", &[]).await?;
        tokio::task::yield_now().await;
        Ok(())
    }
}

#[tokio::test]
async fn work_that_waits_is_refused_and_holds_nobody_up() {
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE waits (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    let refused = database.run(Waits).await.unwrap_err();
    assert!(matches!(&refused, SqlError::Refused(said) if said.contains("wait")), "{refused:?}");
    assert_eq!(count(&database, "waits").await, 0);
    make(&database, &["INSERT INTO waits VALUES (2)"]).await;
}

/// A bug in one of those who share the thread.
struct Panics<const WRITES: bool>;

impl<const WRITES: bool> Work for Panics<WRITES> {
    type Answer = ();
    const ACCESS: Access = if WRITES { Access::Write } else { Access::Read };

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<(), SqlError> {
        if WRITES {
            statements.execute("INSERT INTO panics VALUES (1)", &[]).await?;
        }
        panic!("this is what a test of panics looks like");
    }
}

#[tokio::test]
async fn work_that_panics_is_undone_and_takes_nobody_along() {
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE panics (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    for _ in 0..8 {
        let refused = database.run(Panics::<true>).await.unwrap_err();
        assert!(matches!(&refused, SqlError::Refused(said) if said.contains("assertion")), "{refused:?}");
        let refused = database.run(Panics::<false>).await.unwrap_err();
        assert!(matches!(&refused, SqlError::Refused(said) if said.contains("assertion")), "{refused:?}");
    }
    assert_eq!(count(&database, "panics").await, 0);
    make(&database, &["INSERT INTO panics VALUES (2)"]).await;
}

/// Keeps the file open as long as it lives.
struct Holds(#[expect(dead_code)] Database);

impl Work for Holds {
    type Answer = ();
    const ACCESS: Access = Access::Write;

    async fn run<S: Statements>(&self, _: &mut S) -> Result<(), SqlError> {
        Ok(())
    }
}

#[tokio::test]
async fn the_last_handle_may_be_held_by_a_job() {
    let File { sqlite, dir } = File::new();
    let busy = hold(&sqlite).await;
    let database = Database::embedded(sqlite);
    let work = Holds(database.clone());
    assert!(tokio::time::timeout(Duration::from_millis(20), database.run(work)).await.is_err());
    drop((database, busy));
    for _ in 0..1_000 {
        if fs::read_dir(dir.path()).unwrap().count() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the file was not closed");
}

#[tokio::test]
async fn a_broken_writer_refuses_everything() {
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE broken (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    let job = |connection: &mut rusqlite::Connection| {
        connection.execute("INSERT INTO broken VALUES (1)", []).unwrap();
        (Fate::Broken("the disk is on fire".to_owned()), ())
    };
    let told = |refused: SqlError| matches!(&refused, SqlError::Broken(said) if said.contains("on fire"));
    assert!(told(file.sqlite.write(job).await.unwrap_err()));
    assert!(told(database.run(Do::all(&["INSERT INTO broken VALUES (2)"])).await.unwrap_err()));
    assert!(told(database.run(Ask("SELECT 1".to_owned(), Vec::new())).await.unwrap_err()));
    let path = file.dir.path().join("test.db");
    drop((database, file.sqlite));
    let reopened = Database::embedded(Sqlite::open(&path).unwrap());
    assert_eq!(count(&reopened, "broken").await, 0, "what was in the same commit is not there");
}

#[tokio::test]
async fn a_caller_who_gives_up_takes_nobody_along() {
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE given_up (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    let busy = hold(&file.sqlite).await;
    let work = Do::all(&["INSERT INTO given_up VALUES (1)"]);
    assert!(tokio::time::timeout(Duration::from_millis(20), database.run(work)).await.is_err());
    drop(busy);
    make(&database, &["INSERT INTO given_up VALUES (2)"]).await;
    assert_eq!(count(&database, "given_up").await, 2, "it was queued, and is done all the same");
}

#[tokio::test]
async fn the_last_handle_leaves_one_file() {
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE closed (n BIGINT NOT NULL PRIMARY KEY){table}"]).await;
    assert_eq!(count(&database, "closed").await, 0, "so that readers have it open, too");
    let File { sqlite, dir } = file;
    drop(sqlite);
    assert_eq!(count(&database, "closed").await, 0, "there is another handle");
    drop(database);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["test.db"], "the log is emptied and gone");
}

#[test]
fn what_is_no_database_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("letter.txt");
    fs::write(&path, "Dear database,\n".repeat(500)).unwrap();
    let refused = Sqlite::open(&path).unwrap_err();
    assert!(matches!(&refused, SqlError::Unexpected(said) if said.contains("not a database")), "{refused:?}");
    let refused = Sqlite::open(Path::new("/no/such/folder/test.db")).unwrap_err();
    assert!(matches!(&refused, SqlError::Unavailable(said) if said.contains("open")), "{refused:?}");
}

/// Prints what a read costs, from 16 callers at once; a time is not asserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_answered_from_beside_the_runtime() {
    const CALLERS: i64 = 16;
    const READS: i64 = 2_000;
    let file = File::new();
    let database = file.database();
    make(&database, &["CREATE TABLE looked_up (k {key} NOT NULL PRIMARY KEY, n BIGINT){table_by_key}"]).await;
    for n in 0..100 {
        let values = [n.to_string().into(), Value::from(n)];
        database.run(Do::one("INSERT INTO looked_up VALUES (?, ?)", &values)).await.unwrap();
    }
    for callers in [1, CALLERS] {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let database = database.clone();
            tasks.spawn(async move {
                for read in 0..READS {
                    let n = (caller * 7 + read) % 100;
                    let key = [Value::from(n.to_string())];
                    let found = ask(&database, "SELECT n FROM looked_up WHERE k = ?", &key).await;
                    assert_eq!(found[0].integer(0).unwrap(), n);
                }
            });
        }
        tasks.join_all().await;
        let each = begun.elapsed() / u32::try_from(callers * READS).unwrap();
        println!("{callers} callers: {each:?} per read");
    }
}
