//! TLS on every port: certificates from files, read again when they change.
//!
//! A connection keeps what it began with; the next one gets what is newest. Files that do not belong together –
//! a renewal that is half written – are left alone until they do.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::config::Listen;

/// How often the files are looked at. They are small.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What HTTP may be spoken, the better first.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    now: ArcSwap<Loaded>,
    /// A handshake that takes longer is given up.
    within: Duration,
}

#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What the files held when they were last understood.
#[derive(Debug)]
struct Loaded {
    texts: Texts,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct Texts {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Not derived: a private key is never shown.
impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

impl Tls {
    /// `None`: the settings name no certificate, and the ports speak plainly.
    pub(crate) fn open(listen: &Listen, within: Duration) -> anyhow::Result<Option<Arc<Self>>> {
        if listen.tls_cert.is_empty() {
            return Ok(None);
        }
        let client_ca = (!listen.tls_client_ca.is_empty()).then(|| listen.tls_client_ca.clone().into());
        let files =
            Files { cert: listen.tls_cert.clone().into(), key: listen.tls_key.clone().into(), client_ca };
        let texts = files.read()?;
        let config = files.understand(&texts)?;
        Ok(Some(Arc::new(Self { files, now: ArcSwap::from_pointee(Loaded { texts, config }), within })))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.now.load().config.clone());
        tokio::time::timeout(self.within, acceptor.accept(stream)).await?
    }

    /// Serves what the files hold now, if that is something else than before.
    fn look_again(&self) -> anyhow::Result<bool> {
        let texts = self.files.read()?;
        if texts == self.now.load().texts {
            return Ok(false);
        }
        let config = self.files.understand(&texts)?;
        self.now.store(Arc::new(Loaded { texts, config }));
        Ok(true)
    }
}

/// Looks at the files until nobody serves with them.
pub(crate) async fn watch(tls: Weak<Tls>) {
    let mut complained = String::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(tls) = tls.upgrade() else { return };
        match tls.look_again() {
            Ok(false) => {}
            Ok(true) => {
                complained.clear();
                tracing::info!("the certificates were read again; new connections get them");
            }
            Err(error) => {
                let error = format!("{error:#}");
                if error != complained {
                    tracing::warn!(error, "the certificates are left as they are: {error}");
                    complained = error;
                }
            }
        }
    }
}

impl Files {
    fn read(&self) -> anyhow::Result<Texts> {
        let read = |setting: &str, path: &Path| {
            std::fs::read(path).with_context(|| format!("{setting}: {} cannot be read", path.display()))
        };
        Ok(Texts {
            cert: read("listen.tls_cert", &self.cert)?,
            key: read("listen.tls_key", &self.key)?,
            client_ca: self
                .client_ca
                .as_deref()
                .map(|path| read("listen.tls_client_ca", path))
                .transpose()?,
        })
    }

    fn understand(&self, texts: &Texts) -> anyhow::Result<Arc<ServerConfig>> {
        let chain = certificates("listen.tls_cert", &self.cert, &texts.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&texts.key)
            .with_context(|| format!("listen.tls_key: {} holds no private key", self.key.display()))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match (&self.client_ca, &texts.client_ca) {
            (Some(path), Some(text)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates("listen.tls_client_ca", path, text)? {
                    roots.add(authority).context("listen.tls_client_ca")?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .context("listen.tls_cert and listen.tls_key do not belong together")?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(setting: &str, path: &Path, text: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{setting}: {} is not PEM", path.display()))?;
    if found.is_empty() {
        bail!("{setting}: {} holds no certificate", path.display());
    }
    Ok(found)
}
