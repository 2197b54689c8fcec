//! TLS: whom a client trusts, and how it shows who it is. Everything is read and checked before anything is sent.

use std::{borrow::Cow, error::Error as _, fmt, time::Duration};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::Error;

/// PEM, or the file that holds it.
#[derive(Clone)]
pub(crate) enum Pem {
    Text(Vec<u8>),
    File(String),
}

/// Not derived: it may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem").finish_non_exhaustive()
    }
}

impl Pem {
    fn read(&self, setting: &'static str) -> Result<Cow<'_, [u8]>, Error> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::File(path) => std::fs::read(path).map(Cow::Owned).map_err(|error| {
                wrong(setting, format!("is the file {path}, which cannot be read: {error}"))
            }),
        }
    }
}

/// What was said about TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    pub ca: Option<Pem>,
    /// A certificate and its key.
    pub identity: Option<(Pem, Pem)>,
}

/// The same, read.
#[derive(Debug)]
pub(crate) struct Trust {
    config: ClientTlsConfig,
    shows_identity: bool,
}

const CA: &str = "tls_ca";
const IDENTITY: &str = "tls_identity";

impl Tls {
    pub(crate) fn read(&self) -> Result<Trust, Error> {
        let mut config = match &self.ca {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(certificates(CA, pem)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            let (certificate, key) = (certificates(IDENTITY, certificate)?, key.read(IDENTITY)?);
            PrivateKeyDer::from_pem_slice(&key).map_err(|error| {
                wrong(IDENTITY, format!("has a key that is no private key in PEM: {error}"))
            })?;
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(Trust { config, shows_identity: self.identity.is_some() })
    }
}

impl Trust {
    /// Has connections to `endpoint` made by TLS; a handshake that takes longer is given up.
    pub(crate) fn secure(&self, endpoint: Endpoint, within: Duration) -> Result<Endpoint, Error> {
        endpoint.tls_config(self.config.clone().timeout(within)).map_err(|error| {
            // "transport error", it says; why is below.
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            match self.shows_identity {
                true => wrong(
                    IDENTITY,
                    format!("cannot be used: {why}; do the certificate and the key belong together?"),
                ),
                false => wrong(CA, format!("is needed for https here: {why}")),
            }
        })
    }
}

/// The PEM, which holds at least one certificate.
fn certificates<'p>(setting: &'static str, pem: &'p Pem) -> Result<Cow<'p, [u8]>, Error> {
    let text = pem.read(setting)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(text),
        Ok(_) => Err(wrong(setting, "holds no certificate in PEM".to_owned())),
        Err(error) => Err(wrong(setting, format!("is not PEM: {error}"))),
    }
}

fn wrong(setting: &'static str, detail: String) -> Error {
    Error::Settings { setting, detail }
}
