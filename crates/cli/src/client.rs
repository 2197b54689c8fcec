//! Asking a server: which one, and what it said.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, Uri,
    body::Incoming,
    header::{self, HeaderValue},
};
use hyper_util::{client::legacy, rt::TokioExecutor};
use keymill_server::{
    ServerFile,
    connect::{Connector, Trust},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{args::Global, output::Refused};

const DEFAULT_SERVER: &str = "http://127.0.0.1:7070";

#[derive(Debug)]
pub(crate) struct Client {
    servers: Vec<String>,
    /// `Bearer TOKEN`, marked as a secret.
    bearer: Option<HeaderValue>,
    http: legacy::Client<Connector, Full<Bytes>>,
    /// What else to do where no server answers.
    otherwise: &'static str,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub body: Bytes,
}

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body).context("the server's answer is not what this version expects")
    }
}

impl Client {
    /// The servers named, or the one that holds `data_dir`, or the usual address.
    pub(crate) fn new(global: &Global, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        Self::to(global, data_dir, |file| file.http.clone())
    }

    /// The same for dangerous calls, which may have a listener of their own.
    pub(crate) fn for_admin(global: &Global, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let client =
            Self::to(global, data_dir, |file| file.admin.clone().unwrap_or_else(|| file.http.clone()))?;
        Ok(Self { otherwise: ", or open the store itself with --data-dir or --ledger", ..client })
    }

    fn to(
        global: &Global,
        data_dir: Option<&Path>,
        door: impl FnOnce(&ServerFile) -> String,
    ) -> anyhow::Result<Self> {
        let servers: Vec<String> = match &global.server {
            Some(list) => list.split(',').map(|one| one.trim().trim_end_matches('/').to_owned()).collect(),
            None => {
                let stated = std::env::var_os("KEYMILL_DATA_DIR").map(PathBuf::from);
                let usual = stated.as_deref().unwrap_or(Path::new("./keymill-data"));
                let beside = ServerFile::read(data_dir.unwrap_or(usual));
                let scheme = |file: &ServerFile| if file.tls { "https" } else { "http" };
                let address = |file: ServerFile| format!("{}://{}", scheme(&file), door(&file));
                vec![beside.map_or_else(|| DEFAULT_SERVER.to_owned(), address)]
            }
        };
        let bearer = token(global.token_file.as_deref())?;
        let secure = servers.iter().any(|server| secure(server));
        let trust = Trust {
            ca: global.tls_ca.clone(),
            identity: global.tls_cert.clone().zip(global.tls_key.clone()),
        };
        let connector = Connector::new(secure.then_some(&trust))?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { servers, bearer, http, otherwise: "" })
    }

    /// The first of those that would be asked.
    pub(crate) fn server(&self) -> &str {
        self.servers.first().map_or(DEFAULT_SERVER, String::as_str)
    }

    /// The token it would show.
    pub(crate) fn token(&self) -> Option<String> {
        let bearer = self.bearer.as_ref()?.to_str().ok()?;
        bearer.strip_prefix("Bearer ").map(str::to_owned)
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        whole(self.send(Method::GET, path, None, "application/json").await?).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Answer> {
        whole(self.send(Method::POST, path, Some(to_json(body)), "application/json").await?).await
    }

    pub(crate) async fn send_json(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Answer> {
        whole(self.send(method, path, Some(to_json(body)), "application/json").await?).await
    }

    /// A post that may be repeated: whoever sends it again under the same `once` gets the same answer.
    pub(crate) async fn post_once(
        &self,
        path: &str,
        body: &impl Serialize,
        once: &str,
    ) -> anyhow::Result<Answer> {
        let body = Some(to_json(body));
        whole(self.request(Method::POST, path, body, "application/json", Some(once)).await?).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        accept: &'static str,
    ) -> anyhow::Result<Response<Incoming>> {
        self.request(method, path, body, accept, None).await
    }

    /// Sends to the first server that can be reached. A refusal is an answer; a refused connection is not.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        accept: &'static str,
        once: Option<&str>,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut last = None;
        for server in &self.servers {
            let uri: Uri = format!("{server}{path}")
                .parse()
                .with_context(|| format!("`{server}` is not a server's address, such as {DEFAULT_SERVER}"))?;
            if !matches!(uri.scheme_str(), Some("http" | "https")) {
                bail!("`{server}` starts with neither http:// nor https://");
            }
            let mut request =
                Request::builder().method(method.clone()).uri(uri).header(header::ACCEPT, accept);
            if let Some(bearer) = &self.bearer {
                request = request.header(header::AUTHORIZATION, bearer);
            }
            if body.is_some() {
                request = request.header(header::CONTENT_TYPE, "application/json");
            }
            if let Some(once) = once {
                request = request.header("idempotency-key", once);
            }
            let request = request.body(Full::new(body.clone().unwrap_or_default()))?;
            match self.http.request(request).await {
                Ok(response) => return Ok(response),
                Err(error) if error.is_connect() => last = Some((server, error)),
                Err(error) => {
                    let hint = if secure(server) { "" } else { "; if it speaks TLS, write https://" };
                    return Err(error).with_context(|| format!("{server} did not answer{hint}"));
                }
            }
        }
        let (server, error) = last.context("no server was named")?;
        let trust = if secure(server) { "; does --tls-ca vouch for it?" } else { "" };
        let otherwise = self.otherwise;
        Err(error).with_context(|| {
            format!("no server answers at {server}; start one with `keymill serve`, or name one with --server{otherwise}{trust}")
        })
    }
}

fn secure(server: &str) -> bool {
    server.starts_with("https:")
}

/// The token to show, if there is one: from the file, else from the environment, never from the command line,
/// which anyone on the machine can read.
fn token(file: Option<&Path>) -> anyhow::Result<Option<HeaderValue>> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file)
            .with_context(|| format!("the token file {} cannot be read", file.display()))?,
        None => std::env::var("KEYMILL_TOKEN").unwrap_or_default(),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", text.trim()))
        .ok()
        .context("the token holds characters that no token has")?;
    bearer.set_sensitive(true);
    Ok(Some(bearer))
}

fn to_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("requests are plain data").into()
}

/// Reads the whole answer; a refusal becomes an error.
pub(crate) async fn whole(response: Response<Incoming>) -> anyhow::Result<Answer> {
    let status = response.status();
    let body = response.into_body().collect().await.context("the answer was cut off")?.to_bytes();
    if status.is_success() {
        return Ok(Answer { body });
    }
    match serde_json::from_slice(&body) {
        Ok(problem) => Err(Refused(problem).into()),
        Err(_) => bail!("the server answered {status}"),
    }
}

/// A piece of a path: everything but letters, digits, `-` and `_` is escaped.
pub(crate) fn segment(text: &str) -> String {
    const KEEP: percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_');
    percent_encoding::utf8_percent_encode(text, &KEEP).to_string()
}
