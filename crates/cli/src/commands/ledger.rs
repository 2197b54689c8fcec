//! `keymill ledger …`: through the server that holds the ledger, or on the store itself.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use hyper::Method;
use keymill_api::{AdvanceAnswer, AdvanceRequest, GoneNode, LedgerView, Refusal, TrackView};
use keymill_issuer::witness::Witness;
use keymill_ledger::{Ledger, LedgerError, NodeName, SqlStore, ops};
use keymill_server::config::LedgerUrl;

use super::place::{Absent, Place, configured, now};
use crate::{
    args::{self, Global, Which},
    client::whole,
    output::{self, Refused},
};

pub(crate) async fn run(global: &Global, command: args::Ledger) -> anyhow::Result<()> {
    let json = global.json;
    match command {
        args::Ledger::Show { which } => {
            let view = Desk::open(global, &which)?.show().await?;
            if json {
                output::json(&view);
            } else {
                print(&view);
            }
        }
        args::Ledger::Advance { which, dry_run, yes, without, skip } => {
            let desk = Desk::open(global, &which)?;
            let skip = skip.unwrap_or(0);
            let without: Vec<_> = without.into_iter().map(|node| GoneNode { node, skip }).collect();
            let plan = AdvanceRequest { dry_run: true, without: without.clone() };
            let planned = desk.advance(&plan).await?;
            if !json {
                tell(&planned, "would go");
            }
            if !dry_run {
                if !yes && !agreed()? {
                    bail!("nothing was done");
                }
                let done = desk.advance(&AdvanceRequest { dry_run: false, without }).await?;
                if json {
                    output::json(&done);
                } else {
                    output::say!("the ledger is advanced and serves again");
                }
            } else if json {
                output::json(&planned);
            }
        }
        args::Ledger::Migrate { ledger } => migrate(&ledger, json).await?,
        args::Ledger::Backup { file, which } => {
            Desk::open(global, &which)?.backup(&file).await?;
            if json {
                output::json(&serde_json::json!({ "file": file }));
            } else {
                output::say!(
                    "{} is a stamped copy; it serves only after `keymill ledger advance`",
                    file.display()
                );
            }
        }
    }
    Ok(())
}

/// Where the ledger is looked after.
struct Desk(Place);

impl Desk {
    fn open(global: &Global, which: &Which) -> anyhow::Result<Self> {
        Place::open(global, which, Absent::Refused).map(Self)
    }

    async fn show(&self) -> anyhow::Result<LedgerView> {
        let ledger = match &self.0 {
            Place::Server(client) => return client.get("/v1/ledger").await?.read(),
            Place::Store { ledger, .. } => ledger,
        };
        let survey = ledger.survey(ops::Survey { at: now() }).await?;
        let tracks = ledger.tracks().await?.into_iter().map(|(track, row)| TrackView {
            track: track.to_string(),
            cursor: row.cursor.to_string(),
            revision: row.revision,
        });
        Ok(LedgerView {
            id: Some(survey.head.id.0),
            store: ledger.store().to_owned(),
            grade: ledger.grade(),
            incarnation: Some(survey.incarnation),
            state: if survey.head.halted.is_some() { "halted" } else { "ok" }.to_owned(),
            reason: survey.head.halted.map(|halt| halt.reason),
            region: survey.head.region,
            tracks: tracks.collect(),
        })
    }

    async fn advance(&self, request: &AdvanceRequest) -> anyhow::Result<AdvanceAnswer> {
        let (ledger, data_dir) = match &self.0 {
            Place::Server(client) => return client.post("/v1/ledger/advance", request).await?.read(),
            Place::Store { ledger, data_dir } => (ledger, data_dir),
        };
        if let Some(data_dir) = data_dir {
            report_beside(&**ledger, data_dir).await?;
        }
        let mut without = Vec::new();
        for gone in &request.without {
            without.push((NodeName::parse(&gone.node)?, gone.skip));
        }
        let advanced = ledger.advance(ops::Advance { without, dry_run: request.dry_run, at: now() }).await;
        let advanced = advanced.map_err(|error| Refused(Refusal::from(&error).problem()))?;
        Ok(AdvanceAnswer { advanced: advanced.into_iter().map(Into::into).collect() })
    }

    async fn backup(&self, to: &Path) -> anyhow::Result<()> {
        let client = match &self.0 {
            Place::Server(client) => client,
            Place::Store { ledger, .. } => return Ok(ledger.backup(to, now()).await?),
        };
        if to.exists() {
            bail!("{} exists; choose another name", to.display());
        }
        let response = client.send(Method::POST, "/v1/ledger/backup", None, "*/*").await?;
        if !response.status().is_success() {
            whole(response).await?;
            return Ok(());
        }
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        // It holds the shuffle secrets: for its owner alone.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame.context("the copy was cut off")?.data_ref() {
                file.write_all(data)?;
            }
        }
        file.sync_all()?;
        Ok(std::fs::rename(&partial, to)?)
    }
}

async fn migrate(url: &str, json: bool) -> anyhow::Result<()> {
    let (LedgerUrl::Shared(url), options) = configured(url)? else {
        bail!("an embedded ledger is brought up to date by the server that opens it");
    };
    let scheme = url.reveal().split(':').next().unwrap_or_default();
    if !matches!(scheme, "postgres" | "postgresql" | "mysql" | "mariadb") {
        bail!("a {scheme} ledger has no tables; there is nothing to migrate");
    }
    let version = SqlStore::new(url.reveal(), options)?.migrate().await?;
    if json {
        output::json(&serde_json::json!({ "from": version.found, "to": version.known }));
    } else if version.is_current() {
        output::say!("the tables at {url} are up to date (version {})", version.known);
    } else {
        output::say!("the tables at {url} went from version {} to {}", version.found, version.known);
    }
    Ok(())
}

/// The node whose witness lies beside the file cannot report by itself while we hold the file.
async fn report_beside(ledger: &dyn Ledger, data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join("witness");
    let Ok(name) = std::fs::read_to_string(data_dir.join("node")) else { return Ok(()) };
    if !path.exists() {
        return Ok(());
    }
    let node = NodeName::parse(name.trim())?;
    let witness = Witness::open(&path, &node)?.memory().clone();
    let head = ledger.survey(ops::Survey { at: now() }).await?.head;
    if witness.ledger.as_ref() != Some(&head.id) {
        return Ok(());
    }
    match ledger.report_witness(ops::ReportWitness { node, witness: witness.to_row() }).await {
        Ok(()) | Err(LedgerError::NotHalted) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn print(view: &LedgerView) {
    let mut facts =
        vec![("store", view.store.clone()), ("grade", view.grade.to_string()), ("state", view.state.clone())];
    let optional = [
        ("reason", view.reason.clone()),
        ("id", view.id.clone()),
        ("incarnation", view.incarnation.clone()),
        ("region", view.region.map(|region| region.to_string())),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    output::facts(&facts);
    let mut table = output::Table::new(&["track", "cursor", "revision"]);
    for track in &view.tracks {
        table.row([track.track.clone(), output::grouped(&track.cursor), track.revision.to_string()]);
    }
    table.print();
}

fn tell(answer: &AdvanceAnswer, verb: &str) {
    if answer.advanced.is_empty() {
        output::say!("no cursor has to move");
    }
    for track in &answer.advanced {
        output::say!(
            "{}: {verb} from {} to {}",
            track.track,
            output::grouped(&track.from),
            output::grouped(&track.to)
        );
    }
}

fn agreed() -> anyhow::Result<bool> {
    eprint!("advance the ledger? [y/N] ");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
