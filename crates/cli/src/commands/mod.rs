//! A file per command, all of one shape: arguments in, an answer printed.

use crate::{
    args::{Cli, Command},
    client::Client,
    import_args::{Audit, Export, Import},
};

mod audit;
mod bench;
mod decode;
mod fill;
mod inspect;
mod keys;
mod keyspace;
mod ledger;
mod legacy;
mod place;
mod plan;
mod ready;
mod serve;
mod take;
mod token;
mod top;
mod used;
mod watch;

pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    let global = cli.global;
    let client = || Client::new(&global, None);
    match cli.command {
        Command::Serve(args) => serve::run(args, global.json),
        Command::Take { keyspace, count } => block_on(take::run(&client()?, &keyspace, count, global.json)),
        Command::Inspect { keyspace, key } => {
            block_on(inspect::run(&client()?, &keyspace, &key, global.json))
        }
        Command::Decode { id, layout, at } => {
            decode::run(id.as_deref(), layout.as_deref(), at.as_deref(), global.json)
        }
        Command::Keyspace(command) => block_on(keyspace::run(&client()?, command, global.json)),
        Command::Ledger(command) => block_on(ledger::run(&global, command)),
        Command::Token(command) => block_on(token::run(&global, command)),
        Command::Plan(args) => plan::run(&args, global.json),
        Command::Fill(args) => block_on(fill::run(&client()?, &args, global.json)),
        Command::Import(Import::Keys(args)) => block_on(keys::run(&client()?, &args, global.json)),
        Command::Import(Import::Used(args)) => block_on(used::run(&client()?, &args, global.json)),
        Command::Import(Import::Legacy(args)) => block_on(legacy::import(&client()?, &args, global.json)),
        Command::Audit(Audit::Export(args)) => block_on(audit::export(&client()?, &args, global.json)),
        Command::Export(Export::Legacy(args)) => block_on(legacy::export(&client()?, &args)),
        Command::Watch(args) => {
            if !block_on(watch::run(&global, &args))? {
                std::process::exit(1);
            }
            Ok(())
        }
        Command::Ready => block_on(ready::run(&client()?, global.json)),
        Command::Top(args) => block_on(top::run(&client()?, &args, global.json)),
        Command::Bench(args) => block_on(bench::run(&client()?, &args, global.json)),
        Command::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "keymill", &mut std::io::stdout());
            Ok(())
        }
    }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(future)
}
