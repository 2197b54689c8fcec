//! `keymill token …`: through the server that holds the ledger, or on the store itself, because the first token
//! has to be made before a server that needs one can start.

use anyhow::{Context, bail};
use hyper::Method;
use keymill_api::{CreatedToken, NewToken, Scope, TokenList, TokenView};
use keymill_issuer::quantity::Span;
use keymill_ledger::{Ledger, LedgerError, NodeName, NodeReport, TokenRow, ops};
use keymill_server::auth::record;

use super::place::{Absent, Place, now};
use crate::{
    args::{CreateToken, Global, Token},
    client::segment,
    output,
};

pub(crate) async fn run(global: &Global, command: Token) -> anyhow::Result<()> {
    match command {
        Token::Create(args) => {
            let wanted = wanted(&args)?;
            let created = match Place::open(global, &args.which, Absent::Made)? {
                Place::Server(client) => client.post("/v1/tokens", &wanted).await?.read()?,
                Place::Store { ledger, .. } => create(&*ledger, &wanted).await?,
            };
            tell(&created, global.json);
        }
        Token::List { which } => {
            let tokens = match Place::open(global, &which, Absent::Refused)? {
                Place::Server(client) => listed(&client).await?,
                Place::Store { ledger, .. } => {
                    ledger.tokens().await?.iter().filter_map(record::view).collect()
                }
            };
            print(tokens, global.json);
        }
        Token::Revoke { id, which } => {
            let was_there = match Place::open(global, &which, Absent::Refused)? {
                Place::Server(client) => {
                    let path = format!("/v1/tokens/{}", segment(&id));
                    client.send_json(Method::DELETE, &path, &serde_json::Map::new()).await?;
                    true
                }
                Place::Store { ledger, .. } => revoke(&*ledger, &id).await?,
            };
            if !was_there {
                bail!(
                    "there is no token `{}`; `keymill token list` shows those there are",
                    id.escape_debug()
                );
            }
            if global.json {
                output::json(&serde_json::json!({ "id": id }));
            } else {
                output::say!("token {id} is accepted no longer");
            }
        }
    }
    Ok(())
}

fn wanted(args: &CreateToken) -> anyhow::Result<NewToken> {
    let scope = |text: &String| {
        let all = Scope::ALL.map(Scope::as_str).join(", ");
        Scope::parse(text.trim()).with_context(|| format!("`{text}` is not a scope; there is {all}"))
    };
    let expires_in = match &args.expires_in {
        None => None,
        Some(text) => Some(text.parse::<Span>().context("--expires-in")?.0 / 1000),
    };
    let rate = args.rate.as_deref().map(str::parse).transpose().context("--rate")?;
    let keyspaces = if args.keyspaces.is_empty() { vec!["*".to_owned()] } else { args.keyspaces.clone() };
    let scopes = args.scopes.iter().map(scope).collect::<anyhow::Result<_>>()?;
    let wanted = NewToken { name: args.name.clone(), scopes, keyspaces, expires_in, rate };
    wanted.check().map_err(|refusal| output::Refused(refusal.problem()))?;
    Ok(wanted)
}

async fn create(ledger: &dyn Ledger, wanted: &NewToken) -> anyhow::Result<CreatedToken> {
    let there = ledger.tokens().await?;
    let (created, row) = record::make(wanted, &there, now())?;
    visit(ledger, Errand::Put(row)).await?;
    Ok(created)
}

async fn revoke(ledger: &dyn Ledger, id: &str) -> anyhow::Result<bool> {
    visit(ledger, Errand::Revoke(id.to_owned())).await
}

enum Errand {
    Put(TokenRow),
    Revoke(String),
}

/// Every write of a ledger is some node's. This command is one for a moment, under a name of its own, and at rest
/// again when it ends; two at a time fence each other, and the older one changes nothing.
async fn visit(ledger: &dyn Ledger, errand: Errand) -> anyhow::Result<bool> {
    let node = NodeName::parse("keymill-token-command").expect("a valid name");
    let report = NodeReport { version: keymill_server::VERSION.to_owned(), ..NodeReport::default() };
    let register = ops::Register { node: node.clone(), remembered: None, region: None, report, at: now() };
    let registered = ledger.register(register).await?;
    let stamp = |acked: u64| ops::Stamp {
        node: node.clone(),
        epoch: registered.epoch,
        acked,
        next: acked + 1,
        at: now(),
    };
    let beat = registered.beat;
    let done = match errand {
        Errand::Put(token) => {
            ledger.put_token(ops::PutToken { stamp: stamp(beat), token }).await.map(|()| true)
        }
        Errand::Revoke(id) => ledger.revoke_token(ops::RevokeToken { stamp: stamp(beat), id }).await,
    };
    let done = match done {
        Err(LedgerError::Fenced { .. }) => {
            bail!("another `keymill token` was at work; nothing was done, run it again")
        }
        done => done?,
    };
    let stop = ops::Stop { stamp: stamp(beat + 1), progress: Vec::new(), settlements: Vec::new() };
    match ledger.stop(stop).await {
        // What was to be done is done, and whoever came next says when it rests.
        Ok(()) | Err(LedgerError::Fenced { .. }) => Ok(done),
        Err(error) => Err(error.into()),
    }
}

async fn listed(client: &crate::client::Client) -> anyhow::Result<Vec<TokenView>> {
    let mut tokens = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: TokenList = client.get(&format!("/v1/tokens?limit=1000{cursor}")).await?.read()?;
        tokens.extend(page.tokens);
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", segment(&next)),
            None => return Ok(tokens),
        }
    }
}

/// The token alone goes to stdout, fit for a file; the rest is for people.
fn tell(created: &CreatedToken, json: bool) {
    if json {
        output::json(created);
        return;
    }
    let TokenView { id, scopes, keyspaces, .. } = &created.view;
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    eprintln!(
        "token {id} may {} in {}; it cannot be shown again, keep it now",
        scopes.join(", "),
        keyspaces.join(", ")
    );
    output::say!("{}", created.token);
}

fn print(tokens: Vec<TokenView>, json: bool) {
    if json {
        output::json(&TokenList { tokens, next_cursor: None });
        return;
    }
    let mut table = output::Table::new(&["id", "name", "scopes", "keyspaces", "keys/s", "expires at"]);
    for token in tokens {
        let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        table.row([
            token.id,
            token.name,
            scopes.join(","),
            token.keyspaces.join(","),
            token.rate.map_or_else(|| "–".to_owned(), |rate| rate.to_string()),
            token.expires_at.unwrap_or_else(|| "never".to_owned()),
        ]);
    }
    table.print();
}
