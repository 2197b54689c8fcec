//! Connections to servers: plain, or TLS where the address says https.

use std::{
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::Context as _;
use hyper::{Uri, rt::ReadBufCursor};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::Service;

use crate::args::Global;

#[derive(Debug, Clone)]
pub(crate) struct Connector {
    http: HttpConnector,
    /// Made only if some server is asked by https: reading whom the machine trusts takes its time.
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    pub(crate) fn new(global: &Global, secure: bool) -> anyhow::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let tls = if secure { Some(Arc::new(settings(global)?)) } else { None };
        Ok(Self { http, tls })
    }
}

fn settings(global: &Global) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match &global.tls_ca {
        Some(path) => {
            for authority in certificates(path)? {
                roots.add(authority).with_context(|| format!("{}", path.display()))?;
            }
        }
        // What cannot be read of them is as good as not there.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    Ok(match (&global.tls_cert, &global.tls_key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key);
            let key = read.with_context(|| format!("{} holds no private key", key.display()))?;
            let built = builder.with_client_auth_cert(certificates(cert)?, key);
            built.context("--tls-cert and --tls-key do not belong together")?
        }
        _ => builder.with_no_client_auth(),
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.with_context(|| format!("{} holds no certificates", path.display()))
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TokioIo<TcpStream>),
    Secure(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.http.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let (connecting, tls) = (self.http.call(uri.clone()), self.tls.clone());
        Box::pin(async move {
            let plain = connecting.await.map_err(io::Error::other)?;
            let Some(tls) = tls.filter(|_| uri.scheme_str() == Some("https")) else {
                return Ok(Stream::Plain(plain));
            };
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let secure = TlsConnector::from(tls).connect(name, plain.into_inner()).await?;
            Ok(Stream::Secure(Box::new(TokioIo::new(secure))))
        })
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
