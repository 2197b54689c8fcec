//! `keymill keyspace …`

use hyper::Method;
use keymill_api::{KeyspaceList, KeyspaceView};
use serde_json::{Map, Value};

use crate::{
    args::Keyspace,
    client::{Client, segment},
    output,
};

pub(crate) async fn run(client: &Client, command: Keyspace, json: bool) -> anyhow::Result<()> {
    let one = |name: &str| format!("/v1/keyspaces/{}", segment(name));
    let view: KeyspaceView = match command {
        Keyspace::List => return list(client, json).await,
        Keyspace::Create(args) => client.post("/v1/keyspaces", &*args).await?.read()?,
        Keyspace::Show { name } => client.get(&one(&name)).await?.read()?,
        Keyspace::Tune { name, tuning } => {
            client.send_json(Method::PATCH, &one(&name), &*tuning).await?.read()?
        }
        Keyspace::Retire { name } => {
            client.send_json(Method::DELETE, &one(&name), &Map::new()).await?.read()?
        }
    };
    if json {
        output::json(&view);
    } else {
        show(&view);
    }
    Ok(())
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let mut keyspaces = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: KeyspaceList = client.get(&format!("/v1/keyspaces?limit=1000{cursor}")).await?.read()?;
        keyspaces.extend(page.keyspaces);
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", segment(&next)),
            None => break,
        }
    }
    if json {
        output::json(&KeyspaceList { keyspaces, next_cursor: None });
        return Ok(());
    }
    let mut table = output::Table::new(&["name", "scheme", "state", "level", "stock", "keys/s", "runway"]);
    for view in &keyspaces {
        table.row([
            view.name.clone(),
            view.scheme.clone(),
            view.state.clone(),
            view.level.as_deref().map_or_else(|| "–".to_owned(), output::grouped),
            output::grouped(&view.stock),
            format!("{:.1}", view.rate),
            view.runway_seconds.map_or_else(|| "–".to_owned(), output::spoken),
        ]);
    }
    table.print();
    Ok(())
}

fn show(view: &KeyspaceView) {
    let mut facts = vec![
        ("name", view.name.clone()),
        ("scheme", view.scheme.clone()),
        ("state", view.state.clone()),
        ("created at", view.created_at.clone()),
        ("size", view.size.as_deref().map_or_else(|| "–".to_owned(), output::grouped)),
        ("level", view.level.as_deref().map_or_else(|| "–".to_owned(), output::grouped)),
        ("stock", output::grouped(&view.stock)),
        ("rate", format!("{:.1} keys/s", view.rate)),
        ("runway", view.runway_seconds.map_or_else(|| "–".to_owned(), output::spoken)),
        (
            "claims",
            format!(
                "{} (reserved {}, issued {}, burned {}, holes {})",
                view.claims.count,
                view.claims.reserved,
                view.claims.issued,
                view.claims.burned,
                view.claims.holes
            ),
        ),
        ("fingerprint", view.fingerprint.clone()),
    ];
    if let Some(trouble) = view.rows.as_ref().and_then(|rows| rows.trouble.as_ref()) {
        facts.push(("trouble", trouble.clone()));
    }
    facts.push(("definition", spell(&view.definition)));
    facts.push(("tuning", spell(&view.tuning)));
    output::facts(&facts);
}

/// `a=1 b=x`
fn spell(object: &Value) -> String {
    let Value::Object(fields) = object else { return object.to_string() };
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    fields.iter().map(field).collect::<Vec<_>>().join(" ")
}
