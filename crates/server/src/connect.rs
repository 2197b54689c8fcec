//! Connections to servers: plain, or TLS where the address says https.

use std::{
    io,
    path::{Path, PathBuf},
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

/// Whom to trust, and who we are, as PEM files.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Authorities to believe instead of the machine's.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key, for servers that want to see one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone)]
pub struct Connector {
    http: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Without `trust` it speaks plainly only: reading whom the machine trusts takes its time.
    pub fn new(trust: Option<&Trust>) -> anyhow::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        Ok(Self { http, tls: trust.map(settings).transpose()?.map(Arc::new) })
    }
}

fn settings(trust: &Trust) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match &trust.ca {
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
    let Some((cert, key)) = &trust.identity else { return Ok(builder.with_no_client_auth()) };
    let read = PrivateKeyDer::from_pem_file(key);
    let read = read.with_context(|| format!("{} holds no private key", key.display()))?;
    let built = builder.with_client_auth_cert(certificates(cert)?, read);
    built.with_context(|| format!("{} and {} do not belong together", cert.display(), key.display()))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.with_context(|| format!("{} cannot be read as PEM", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "{} holds no certificate", path.display());
    Ok(found)
}

/// A connection to a server.
#[derive(Debug)]
pub enum Stream {
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
