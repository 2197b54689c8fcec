//! `keymill serve`

use std::path::{Path, PathBuf};

use keymill_server::{
    Origin,
    config::{Config, Layers, Setting, Source},
};

use crate::{args::Serve, output};

/// Read when no file is named and this one is there.
const USUAL_FILE: &str = "./keymill.toml";

pub(crate) fn run(args: Serve, json: bool) -> anyhow::Result<()> {
    let file =
        args.config.clone().or_else(|| Path::new(USUAL_FILE).exists().then(|| PathBuf::from(USUAL_FILE)));
    let (config, settings) = configure(&args, file.as_deref())?;
    if args.check {
        print(&settings, json);
        return Ok(());
    }
    let log_level = keymill_server::start_logging(&config.log)?;
    let again = file.clone();
    let read = move || configure(&args, again.as_deref()).map(|(config, _)| config);
    let origin = Origin { file, read: Box::new(read) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(keymill_server::serve(config, origin, log_level));
    // A blocking call that hangs must not keep a stopped server from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    served
}

fn configure(args: &Serve, file: Option<&Path>) -> anyhow::Result<(Config, Vec<Setting>)> {
    let mut layers = Layers::default();
    if let Some(file) = file {
        layers.file(file)?;
    }
    layers.environment(std::env::vars());
    layers.flag("--data-dir", "data_dir", args.data_dir.as_deref());
    layers.flag("--http", "listen.http", args.http.as_deref());
    layers.flag("--resp", "listen.resp", args.resp.as_deref());
    layers.flag("--ledger", "ledger.url", args.ledger.as_deref());
    layers.flag("--node", "node", args.node.as_deref());
    let (config, settings) = layers.finish()?;
    refuse_empty_ledger(&settings)?;
    Ok((config, settings))
}

/// A secret that was not set must not give this node a ledger of its own.
fn refuse_empty_ledger(settings: &[Setting]) -> anyhow::Result<()> {
    let url = settings.iter().find(|setting| setting.name == "ledger.url" && setting.value == "\"\"");
    match url.map(|setting| &setting.source) {
        Some(source @ (Source::Environment(_) | Source::Flag(_))) => anyhow::bail!(
            "ledger.url ({source}) is empty: name a ledger, or leave it out for the embedded one"
        ),
        _ => Ok(()),
    }
}

fn print(settings: &[Setting], json: bool) {
    if json {
        let rows = settings.iter().map(|setting| {
            serde_json::json!({
                "setting": setting.name, "value": setting.value, "source": setting.source.to_string()
            })
        });
        output::json(&rows.collect::<Vec<_>>());
        return;
    }
    let mut table = output::Table::new(&["setting", "value", "from"]);
    for Setting { name, value, source } in settings {
        table.row([name.clone(), value.clone(), source.to_string()]);
    }
    table.print();
}
