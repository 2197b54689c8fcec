//! Wrong configurations and data dirs that do not fit: each is refused at once, by name.
//!
//! Proven here on the real binary: the message names the setting and its value, or both values of a
//! contradiction; the exit code is 1 (2 for misuse of the command line); what is wrong in itself is
//! found before anything is opened or created.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;

mod harness;
use harness::{Finished, Home, Launch, Starting};

/// How long a refusal may take.
const AT_ONCE: Duration = Duration::from_secs(2);

#[track_caller]
fn assert_refused(refused: &Finished, code: i32, named: &[&str]) {
    assert_eq!(refused.code, Some(code), "{refused:#?}");
    assert!(refused.took < AT_ONCE, "{refused:#?}");
    assert!(refused.stdout.is_empty(), "{refused:#?}");
    for name in named {
        assert!(refused.stderr.contains(name), "`{name}` is not named: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("panicked"), "{}", refused.stderr);
}

#[test]
fn a_file_that_is_wrong_is_refused_before_anything_is_opened() {
    let table: &[(&str, &[&str])] = &[
        ("[limits\n", &["keymill.toml", "not TOML"]),
        ("[limits]\ncount_maxx = 5\n", &["limits.count_maxx", "keymill.toml"]),
        ("[limitz]\ncount_max = 5\n", &["limitz", "keymill.toml"]),
        ("nodes = \"a\"\n", &["nodes", "keymill.toml"]),
        ("[limits]\ncount_max = \"many\"\n", &["limits.count_max", "many"]),
        ("[limits]\ncount_max = -1\n", &["limits.count_max", "-1"]),
        ("[limits]\ncount_max = 1.5\n", &["limits.count_max", "1.5"]),
        ("[limits]\ncount_max = 0\n", &["limits.count_max", "at least 1"]),
        (
            "[limits]\ncount_max = 500\nstream_count_max = 400\n",
            &["limits.count_max", "500", "limits.stream_count_max", "400"],
        ),
        ("[limits]\nbody_bytes = \"64 potatoes\"\n", &["limits.body_bytes", "64 potatoes"]),
        ("[limits]\ntake_timeout = \"2M\"\n", &["limits.take_timeout", "2M"]),
        ("[limits]\ntake_timeout = \"0s\"\n", &["limits.take_timeout"]),
        ("[limits]\nconnections = 0\n", &["limits.connections"]),
        ("[ledger]\nheartbeat = \"0s\"\n", &["ledger.heartbeat"]),
        ("[ledger]\nurl = \"memory:\"\n", &["ledger.url", "memory:", "repeat keys"]),
        ("[ledger]\nurl = \"keymill.db\"\n", &["ledger.url", "sqlite:PATH"]),
        ("[ledger]\nregion = 70000\n", &["ledger.region", "70000"]),
        ("[listen]\nhttp = \"localhost\"\n", &["listen.http", "localhost"]),
        ("[listen]\nhttp = \"127.0.0.1:99999\"\n", &["listen.http", "127.0.0.1:99999"]),
        ("listen = 5\n", &["listen", "keymill.toml"]),
        ("[log]\nformat = \"xml\"\n", &["log.format", "xml"]),
        ("[keyspaces]\npromo = 5\n", &["keyspaces.promo"]),
        ("[keyspaces.Promo]\nscheme = \"pool\"\n", &["keyspaces.Promo"]),
        ("[keyspaces.healthz]\nscheme = \"pool\"\n", &["keyspaces.healthz", "route"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\nlenght = 8\n", &["keyspaces.promo", "lenght"]),
        ("[keyspaces.promo]\nscheme = \"pol\"\n", &["keyspaces.promo", "pol"]),
        ("[keyspaces.promo]\nlength = 8\n", &["keyspaces.promo", "scheme"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\nlength = 11\n", &["keyspaces.promo", "length", "11"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\noffset = 5\n", &["keyspaces.promo", "offset", "sequence"]),
        ("[keyspaces.promo]\nscheme = \"digest\"\nlength = 40\n", &["keyspaces.promo", "length"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\naudit = 5\n", &["keyspaces.promo", "audit"]),
        (
            "[keyspaces.promo]\nscheme = \"pool\"\nstock_min = \"2K\"\nstock_max = \"1K\"\n",
            &["keyspaces.promo", "stock_min", "2K", "stock_max", "1K"],
        ),
        (
            "[keyspaces.promo]\nscheme = \"pool\"\noutage_budget = \"20M\"\n",
            &["keyspaces.promo", "outage_budget", "20M"],
        ),
    ];
    for (text, named) in table {
        let home = Home::new();
        home.write("keymill.toml", text);
        // The address stands in the file in some of these, and a flag would win over it.
        let refused = if text.contains("listen") { home.run(&["serve"]) } else { home.server().run() };
        assert_refused(&refused, 1, named);
        assert!(!home.data().exists(), "{text} was found out too late");
    }
}

#[test]
fn flags_and_variables_that_are_wrong_are_refused_by_their_names() {
    let home = Home::new();
    let variables: &[(&str, &str, &[&str])] = &[
        ("KEYMILL_LIMITS__COUNT_MAXX", "8", &["limits.count_maxx", "KEYMILL_LIMITS__COUNT_MAXX"]),
        ("KEYMILL_NONSENSE__KEY", "1", &["nonsense", "KEYMILL_NONSENSE__KEY"]),
        ("KEYMILL_LIMITS__COUNT_MAX", "lots", &["limits.count_max", "lots", "KEYMILL_LIMITS__COUNT_MAX"]),
        (
            "KEYMILL_LIMITS__TAKE_TIMEOUT",
            "20M",
            &["limits.take_timeout", "20M", "KEYMILL_LIMITS__TAKE_TIMEOUT"],
        ),
        ("KEYMILL_LOG__LEVEL", "lou=d=er", &["log.level", "lou=d=er"]),
        ("KEYMILL_LEDGER", "memory:", &["ledger.url", "memory:"]),
        ("KEYMILL_CONFIG", "nothing.toml", &["nothing.toml"]),
    ];
    for (name, value, named) in variables {
        assert_refused(&home.server().environment(name, value).run(), 1, named);
    }
    let flags: &[(&[&str], i32, &[&str])] = &[
        (&["--config", "nothing.toml"], 1, &["nothing.toml"]),
        (&["--ledger", "memory:"], 1, &["ledger.url", "memory:"]),
        (&["--ledger", "sqlite:"], 1, &["ledger.url"]),
        (&["--colour"], 2, &["--colour"]),
        (&["--node"], 2, &["--node"]),
        (&["extra"], 2, &["extra"]),
    ];
    for (flags, code, named) in flags {
        assert_refused(&home.server().arguments(flags).run(), *code, named);
    }
    assert_refused(&home.server().http("nowhere").run(), 1, &["listen.http", "nowhere"]);
    assert!(!home.data().exists(), "none of these opened anything");
    for node in ["a b", "../x", "é", &"n".repeat(200)] {
        assert_refused(&home.server().environment("KEYMILL_NODE", node).run(), 1, &["node", "--node"]);
        assert_refused(&home.server().arguments(&["--node", node]).run(), 1, &["node", "--node"]);
    }
}

#[test]
fn a_definition_that_the_ledger_has_otherwise_is_refused_with_both_values() {
    let home = Home::new();
    let file = |text: &str| {
        home.write("keymill.toml", text);
        home.server()
    };
    let good = "[keyspaces.promo]\nscheme = \"pool\"\nlength = 8\nalphabet = \"base36\"\n";
    let server = file(good).start();
    let taken = server.take("promo", 10);
    server.terminate();
    let table: &[(&str, &[&str])] = &[
        ("[keyspaces.promo]\nscheme = \"pool\"\nlength = 9\n", &["promo", "length", "8", "9"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\nalphabet = \"base62\"\n", &["promo", "base36", "base62"]),
        ("[keyspaces.promo]\nscheme = \"sequence\"\n", &["promo", "pool", "sequence"]),
        ("[keyspaces.promo]\nscheme = \"pool\"\nprefix = \"P\"\n", &["promo", "prefix", "P"]),
        (
            "[keyspaces.a]\nscheme = \"pool\"\nroot = true\n[keyspaces.b]\nscheme = \"pool\"\nroot = true\n",
            &["root", "`a`"],
        ),
    ];
    for (text, named) in table {
        let refused = file(text).run();
        assert_refused(&refused, 1, named);
    }
    let server = file(&format!("{good}stock_max = \"2K\"\n")).start();
    assert_eq!(server.show("promo")["tuning"]["stock_max"], 2000, "tuning may change");
    assert!(server.take("promo", 10).iter().all(|key| !taken.contains(key)));
}

#[test]
fn a_data_dir_in_use_is_refused_naming_node_and_process() {
    let home = Home::new();
    let server = home.start();
    let taken = server.take("tickets", 10);
    let pid = server.pid().to_string();
    let node = home.node();
    assert_refused(&home.server().run(), 1, &["keymill-data", &node, &pid, "--data-dir"]);
    assert_refused(&home.server().arguments(&["--node", "another"]).run(), 1, &[&node, &pid]);
    // Another data dir with this ledger is the same thing by another door.
    let url = format!("sqlite:{}", home.file("keymill.db").display());
    let elsewhere = home.path().join("elsewhere");
    let flags = ["--ledger", &url, "--data-dir", elsewhere.to_str().unwrap()];
    assert_refused(&home.server().arguments(&flags).run(), 1, &["keymill.db", &node, &pid]);
    // The first is none the worse for it, and still says where it listens.
    assert_eq!(server.take("tickets", 1)[0], "11");
    assert_eq!(taken.len(), 10);
    let file: Value = serde_json::from_slice(&fs::read(home.file("server.json")).unwrap()).unwrap();
    assert_eq!(file["pid"], server.pid());
    server.kill();
    home.start().terminate();
}

#[test]
fn two_first_starts_at_once_leave_one_server_and_one_name() {
    for round in 0..10 {
        let home = Home::new();
        let both = [home.server().spawn(), home.server().spawn(), home.server().spawn()];
        let mut serving = Vec::new();
        for started in both.map(Starting::listening) {
            match started {
                Ok(server) => serving.push(server),
                Err(refused) => assert_eq!(refused.code, Some(1), "{refused:#?}"),
            }
        }
        assert_eq!(serving.len(), 1, "in round {round}");
        let server = serving.pop().unwrap();
        server.until_ready();
        assert_eq!(server.get("/healthz").json()["node"], home.node(), "in round {round}");
        assert_eq!(server.take("tickets", 1), ["1"]);
        server.terminate();
        let server = home.start();
        assert_eq!(server.take("tickets", 1), ["2"]);
    }
}

#[test]
fn a_data_dir_that_cannot_be_one_is_refused() {
    let home = Home::new();
    let file = home.write("file", "not a folder");
    for dir in [file.to_str().unwrap(), "/proc/keymill", "/dev/null/keymill"] {
        assert_refused(&home.server().arguments(&["--data-dir", dir]).run(), 1, &[dir, "--data-dir"]);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "not a folder");
    let folder = home.path().join("folder.db");
    fs::create_dir(&folder).unwrap();
    let url = format!("sqlite:{}", folder.display());
    assert_refused(&home.server().arguments(&["--ledger", &url]).run(), 1, &["folder.db"]);
    let url = format!("sqlite:{}", home.path().join("no/such/folder/k.db").display());
    assert_refused(&home.server().arguments(&["--ledger", &url]).run(), 1, &["no/such/folder"]);
    home.start().terminate();
    fs::write(home.file("node"), "two words\n").unwrap();
    assert_refused(&home.server().run(), 1, &["keymill-data/node", "--node"]);
}

/// Writes a number into the database's first page.
fn write_header(database: &Path, offset: usize, number: u32) {
    let mut bytes = fs::read(database).unwrap();
    bytes[offset..offset + 4].copy_from_slice(&number.to_be_bytes());
    fs::write(database, bytes).unwrap();
}

#[test]
fn a_ledger_file_that_is_not_ours_or_newer_is_refused_and_left_alone() {
    const USER_VERSION: usize = 60;
    const APPLICATION_ID: usize = 68;
    let home = Home::new();
    let server = home.start();
    server.take("links", 10);
    server.terminate();
    let database = home.file("keymill.db");
    let good = fs::read(&database).unwrap();
    let check = |named: &[&str]| {
        let before = fs::read(&database).unwrap();
        let refused = home.server().run();
        assert_refused(&refused, 1, named);
        assert_refused(&refused, 1, &["keymill.db"]);
        assert_eq!(fs::read(&database).unwrap(), before, "what is refused is left as it is: {named:?}");
        fs::write(&database, &good).unwrap();
    };
    fs::write(&database, "this is not a database, but long enough to be looked at. ".repeat(50)).unwrap();
    check(&["not a database"]);
    write_header(&database, APPLICATION_ID, 0x1234_5678);
    check(&["not a Keymill ledger"]);
    write_header(&database, USER_VERSION, 99);
    check(&["newer", "99"]);
    write_header(&database, USER_VERSION, 0);
    check(&["format"]);
    home.start().terminate();
}

#[test]
fn a_witness_that_does_not_fit_is_refused() {
    let home = Home::new();
    let named = |home: &Home, node: &str| -> Launch { home.server().arguments(&["--node", node]) };
    let server = named(&home, "a").start();
    let taken = server.take("tickets", 10);
    server.terminate();
    let witness = home.file("witness");
    let good = fs::read(&witness).unwrap();

    assert_refused(&named(&home, "b").run(), 1, &["witness", "`a`", "`b`"]);
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    fs::write(&witness, &damaged).unwrap();
    assert_refused(&named(&home, "a").run(), 1, &["witness", "damaged", "line 1"]);
    assert_eq!(fs::read(&witness).unwrap(), damaged, "it is left for someone to look at");

    let other = Home::new();
    named(&other, "a").start().terminate();
    fs::copy(other.file("witness"), &witness).unwrap();
    let refused = named(&home, "a").run();
    let ids = [&home, &other].map(|home| {
        let shown: Value = serde_json::from_str(&home.ledger(&["show", "--json"]).ok()).unwrap();
        shown["id"].as_str().unwrap().to_owned()
    });
    assert_refused(&refused, 1, &["witness", &ids[0], &ids[1]]);

    fs::write(&witness, &good).unwrap();
    let next = named(&home, "a").start().take("tickets", 1);
    assert_eq!((taken.len(), next[0].as_str()), (10, "11"), "with its own witness it goes on");
}

#[test]
fn a_ledger_of_another_region_is_refused_with_both_values() {
    let home = Home::new();
    let region = |region: &str| home.server().environment("KEYMILL_LEDGER__REGION", region);
    region("1").start().terminate();
    assert_refused(&region("2").run(), 1, &["region 1", "region 2"]);
    home.start().terminate();
}

#[test]
fn check_prints_every_setting_with_its_source_and_starts_nothing() {
    let home = Home::new();
    let file = home.write("keymill.toml", "[limits]\ncount_max = 7\n[keyspaces.promo]\nscheme = \"pool\"\n");
    let checked = home
        .server()
        .arguments(&["--check", "--json"])
        .environment("KEYMILL_LIMITS__TAKE_TIMEOUT", "3s")
        .environment("KEYMILL_NODE", "n1")
        .run();
    let settings: Vec<Value> = serde_json::from_str(&checked.ok()).unwrap();
    let of = |name: &str| {
        let found = settings.iter().find(|setting| setting["setting"] == name);
        let found = found.unwrap_or_else(|| panic!("{name} is not shown"));
        (found["value"].as_str().unwrap().to_owned(), found["source"].as_str().unwrap().to_owned())
    };
    assert!(
        of("limits.count_max").1.starts_with("file ") && of("limits.count_max").1.ends_with("keymill.toml")
    );
    assert_eq!(of("limits.count_max").0, "7");
    assert_eq!(
        of("limits.take_timeout"),
        ("\"3s\"".into(), "environment KEYMILL_LIMITS__TAKE_TIMEOUT".into())
    );
    assert_eq!(of("listen.http"), ("\"127.0.0.1:0\"".into(), "flag --http".into()));
    assert_eq!(of("limits.connections").1, "default");
    assert_eq!(of("keyspaces.promo.scheme").0, "\"pool\"");
    for name in [
        "node",
        "data_dir",
        "listen.resp",
        "ledger.url",
        "ledger.heartbeat",
        "ledger.timeout",
        "log.level",
        "log.format",
        "limits.stream_count_max",
        "limits.body_bytes",
        "limits.request_timeout",
        "limits.drain_timeout",
        "limits.keyspaces",
    ] {
        of(name);
    }
    let table = home.server().arguments(&["--check"]).run().ok();
    assert!(table.lines().count() > 15 && table.contains("limits.count_max"), "{table}");
    assert!(!home.data().exists(), "nothing was started");

    fs::write(file, "[limits]\ncount_max = 0\n").unwrap();
    assert_refused(&home.server().arguments(&["--check"]).run(), 1, &["limits.count_max"]);
}

#[test]
fn a_region_that_a_peer_uses_is_refused_before_the_ledger_keeps_it() {
    let (here, there) = (Home::new(), Home::new());
    there.write("keymill.toml", "[ledger]\nregion = 3\n");
    let peer = there.start();
    let peer_of = |region: u16| format!("[ledger]\nregion = {region}\npeers = [\"{}\"]\n", peer.url());

    here.write("keymill.toml", &peer_of(3));
    assert_refused(&here.server().run(), 1, &["region 3 is in use by the ledger behind", "ledger.region"]);

    // Nothing was kept: the same ledger starts as another region.
    here.write("keymill.toml", &peer_of(4));
    assert_eq!(here.start().get("/v1/ledger").json()["region"], 4);
}

#[test]
fn a_peer_that_is_down_does_not_keep_a_region_from_starting() {
    let home = Home::new();
    home.write("keymill.toml", "[ledger]\nregion = 3\npeers = [\"http://127.0.0.1:1\"]\n");
    home.start().logged("could not be asked for its region");
}

#[test]
fn a_node_on_the_same_ledger_is_no_other_region() {
    let home = Home::new();
    home.write("keymill.toml", "[ledger]\nregion = 3\n");
    let server = home.start();
    let (url, address) = (server.url(), server.url().replace("http://", ""));
    server.terminate();
    // Asked while it starts itself, it does not answer; asked by another node of its ledger, it has that
    // ledger's id. Both are no conflict.
    home.write("keymill.toml", &format!("[ledger]\nregion = 3\npeers = [\"{url}\"]\n"));
    home.server().http(&address).start();
}

#[test]
fn peers_need_a_region_and_an_address() {
    let home = Home::new();
    for (peers, region, named) in
        [("http://127.0.0.1:1", "", "ledger.region"), ("127.0.0.1:1", "region = 1", "http://HOST:PORT")]
    {
        home.write("keymill.toml", &format!("[ledger]\npeers = [\"{peers}\"]\n{region}\n"));
        assert_refused(&home.server().run(), 1, &["ledger.peers", named]);
    }
}

#[test]
fn a_ledger_that_was_meant_to_be_named_is_not_replaced_by_the_embedded_one() {
    let home = Home::new();
    let empty = home.server().environment("KEYMILL_LEDGER__URL", "");
    assert_refused(&empty.run(), 1, &["ledger.url", "KEYMILL_LEDGER__URL", "empty"]);
    assert_refused(&home.server().arguments(&["--ledger", ""]).run(), 1, &["ledger.url", "empty"]);
    assert!(!home.data().exists());
}

#[test]
fn a_config_that_cannot_be_read_is_told_without_its_secrets() {
    let home = Home::new();
    home.write("keymill.toml", "[ledger]\nurl = \"postgres://app:s3cret@db/keys\n");
    let refused = home.server().run();
    assert_refused(&refused, 1, &["keymill.toml", "not TOML", "line 2"]);
    assert!(!refused.stderr.contains("s3cret"), "{refused:#?}");
}
