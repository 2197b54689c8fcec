//! An etcd cluster, from Debian's `etcd-server` and `etcd-client`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use tempfile::TempDir;

use crate::{
    certificates::Certificates,
    process::{Process, directory, free_port, run},
};

/// Members of one cluster on loopback. They end with the value.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    /// Part of what a cluster's id is made of.
    token: String,
    guard: Option<Guard>,
    dir: TempDir,
}

/// Where and how a member answers over TLS.
#[derive(Debug)]
struct Guard {
    port: u16,
    certificates: Certificates,
}

#[derive(Debug)]
struct Member {
    client_port: u16,
    peer_port: u16,
    process: Option<Process>,
}

/// A member that nobody can reach, and that reaches nobody.
#[derive(Debug)]
pub struct CutOff {
    rules: Vec<Vec<String>>,
}

impl Drop for CutOff {
    fn drop(&mut self) {
        for rule in &self.rules {
            let _ = run(Command::new("iptables").args(["-w", "-D"]).args(rule));
        }
    }
}

impl Etcd {
    /// Starts a cluster, and waits until it elected a leader.
    pub fn cluster(members: usize) -> anyhow::Result<Self> {
        Self::up(members, None)
    }

    /// Starts one member that also answers over TLS, to clients whose certificate it knows: its address there
    /// is [`guarded_address`](Self::guarded_address).
    pub fn guarded(certificates: Certificates) -> anyhow::Result<Self> {
        Self::up(1, Some(Guard { port: free_port()?, certificates }))
    }

    fn up(members: usize, guard: Option<Guard>) -> anyhow::Result<Self> {
        let member = || Ok(Member { client_port: free_port()?, peer_port: free_port()?, process: None });
        let members = (0..members).map(|_| member()).collect::<anyhow::Result<Vec<_>>>()?;
        let mut etcd = Self { members, token: "first".to_owned(), guard, dir: directory()? };
        etcd.start_all()?;
        Ok(etcd)
    }

    /// `host:port` of every member, as a URL lists them.
    pub fn addresses(&self) -> String {
        self.members.iter().map(Member::address).collect::<Vec<_>>().join(",")
    }

    pub fn guarded_address(&self) -> Option<String> {
        self.guard.as_ref().map(|guard| format!("127.0.0.1:{}", guard.port))
    }

    /// Which member leads at the moment.
    pub fn leader(&self) -> anyhow::Result<usize> {
        let leads = |member: &Member| {
            let status = run(ctl(&member.address()).args(["endpoint", "status"])).unwrap_or_default();
            // address, id, version, size, is leader, …
            status.split(", ").nth(4) == Some("true")
        };
        let alive = self.members.iter().enumerate().filter(|(_, member)| member.process.is_some());
        alive.into_iter().find(|(_, member)| leads(member)).map(|(at, _)| at).context("nobody leads")
    }

    /// Ends a member at once, as a power cut would.
    pub fn kill_member(&mut self, member: usize) -> anyhow::Result<()> {
        match self.members[member].process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Starts a member that was killed, on what it has on its disk. It is of use once this returns.
    pub fn restart_member(&mut self, member: usize) -> anyhow::Result<()> {
        self.start(member)?;
        self.wait_for(member)
    }

    /// Takes a member off the network, until the value ends: what goes to its ports is dropped, and what comes
    /// from them.
    pub fn cut_off(&self, member: usize) -> anyhow::Result<CutOff> {
        let Member { client_port, peer_port, .. } = self.members[member];
        let mut cut = CutOff { rules: Vec::new() };
        for port in [client_port, peer_port] {
            for side in ["--dport", "--sport"] {
                let rule = ["INPUT", "-i", "lo", "-p", "tcp", side, &port.to_string(), "-j", "DROP"];
                run(Command::new("iptables").args(["-w", "-I"]).args(rule))?;
                cut.rules.push(rule.map(str::to_owned).to_vec());
            }
        }
        Ok(cut)
    }

    /// A copy of everything, as a backup would be.
    pub fn snapshot(&self, name: &str) -> anyhow::Result<PathBuf> {
        let to = self.dir.path().join(name);
        let from = self.members.iter().find(|member| member.process.is_some()).context("nobody is up")?;
        run(ctl(&from.address()).args(["snapshot", "save"]).arg(&to))?;
        Ok(to)
    }

    /// Puts a snapshot in the place of everything, on the same ports. The cluster gets another id if
    /// `token` is another one.
    pub fn restore(&mut self, snapshot: &Path, token: &str) -> anyhow::Result<()> {
        for member in 0..self.members.len() {
            self.kill_member(member)?;
            let data = self.data(member);
            fs::remove_dir_all(&data)?;
            let mut restore = ctl("");
            restore.args(["snapshot", "restore"]).arg(snapshot).arg("--data-dir").arg(&data);
            run(restore.args(self.identity(member, token)))?;
        }
        token.clone_into(&mut self.token);
        self.start_all()
    }

    fn start_all(&mut self) -> anyhow::Result<()> {
        for member in 0..self.members.len() {
            self.start(member)?;
        }
        (0..self.members.len()).try_for_each(|member| self.wait_for(member))
    }

    /// Starts a member that was killed, and does not wait until it is of use.
    pub fn start(&mut self, member: usize) -> anyhow::Result<()> {
        let Member { client_port, peer_port, .. } = self.members[member];
        let mut command = Command::new("etcd");
        let mut listen = format!("http://127.0.0.1:{client_port}");
        if let Some(Guard { port, certificates }) = &self.guard {
            listen = format!("{listen},https://127.0.0.1:{port}");
            let files = [("cert", "server.pem"), ("key", "server.key"), ("trusted-ca", "ca.pem")];
            for (flag, file) in files {
                command.arg(format!("--{flag}-file")).arg(certificates.file(file));
            }
            command.arg("--client-cert-auth");
        }
        command
            .args(self.identity(member, &self.token))
            .arg("--data-dir")
            .arg(self.data(member))
            .args(["--listen-client-urls", &listen])
            .args(["--advertise-client-urls", &format!("http://127.0.0.1:{client_port}")])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer_port}")])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--logger", "zap", "--log-level", "warn"]);
        let log = self.dir.path().join(format!("m{member}.log"));
        self.members[member].process = Some(Process::start("etcd", &mut command, &log)?);
        Ok(())
    }

    fn wait_for(&mut self, member: usize) -> anyhow::Result<()> {
        let member = &mut self.members[member];
        let address = member.address();
        let process = member.process.as_mut().context("the member was not started")?;
        process.wait_until(|| run(ctl(&address).args(["endpoint", "health"])).is_ok())
    }

    fn data(&self, member: usize) -> PathBuf {
        self.dir.path().join(format!("m{member}"))
    }

    /// What a member says of itself and the others, at a start and at a restore.
    fn identity(&self, member: usize, token: &str) -> Vec<String> {
        let peer = |at: usize| format!("http://127.0.0.1:{}", self.members[at].peer_port);
        let all: Vec<String> = (0..self.members.len()).map(|at| format!("m{at}={}", peer(at))).collect();
        let pairs = [
            ("--name", format!("m{member}")),
            ("--initial-advertise-peer-urls", peer(member)),
            ("--initial-cluster", all.join(",")),
            ("--initial-cluster-token", token.to_owned()),
        ];
        pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }
}

impl Member {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }
}

fn ctl(address: &str) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3");
    if !address.is_empty() {
        command.args(["--endpoints", address, "--command-timeout", "2s"]);
    }
    command
}
