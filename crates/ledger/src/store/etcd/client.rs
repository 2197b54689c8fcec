//! The few calls of etcd that a ledger makes, over whichever member answers.
//!
//! A read goes to the next member if one does not answer. A commit is sent once: whether it took effect
//! cannot be told from a call that failed.

use std::{
    error::Error,
    pin::Pin,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use super::{
    ETCD,
    proto::{
        AuthenticateRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse, auth_client::AuthClient,
        kv_client::KvClient,
    },
    refused,
};
use crate::{
    BoxError, LedgerError,
    store::keyed::{Address, Login},
};

/// The most that one answer may hold.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A member that is asked this seldom does not mind: etcd closes a connection that pings more often than
/// every 5 s.
const PING_EVERY: Duration = Duration::from_secs(10);

type Token = MetadataValue<Ascii>;

#[derive(Debug)]
pub(super) struct Client {
    members: Vec<Member>,
    /// Who is asked first: the member that answered last.
    current: AtomicUsize,
    login: Option<Login>,
    token: Mutex<Option<Token>>,
    /// How long a commit may take.
    patience: Duration,
}

#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    channel: OnceLock<Channel>,
}

impl Client {
    pub(super) fn new(
        address: Address,
        tls: Option<ClientTlsConfig>,
        patience: Duration,
    ) -> Result<Self, LedgerError> {
        let members = address.members.iter().map(|member| Member::new(member, tls.as_ref(), patience));
        Ok(Self {
            members: members.collect::<Result<_, _>>()?,
            current: AtomicUsize::new(0),
            login: address.login,
            token: Mutex::default(),
            patience,
        })
    }

    /// Asks one member after the other, so that one that hangs does not use up everybody's patience.
    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, LedgerError> {
        let each = self.patience / u32::try_from(self.members.len() + 1).unwrap_or(u32::MAX);
        let first = self.current.load(Ordering::Relaxed);
        let mut failure = None;
        for turn in 0..self.members.len() {
            let member = (first + turn) % self.members.len();
            match self.ask(member, each, |kv, request| Box::pin(kv.range(request)), request.clone()).await {
                Ok(response) => {
                    self.current.store(member, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(status) if is_members_own(&status) => failure = Some(status),
                Err(status) => return Err(sorted("read", status)),
            }
        }
        Err(failure
            .map_or_else(|| unavailable("read", "no member is named"), |status| sorted("read", status)))
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, LedgerError> {
        let member = self.current.load(Ordering::Relaxed) % self.members.len();
        let answer = self.ask(member, self.patience, |kv, request| Box::pin(kv.txn(request)), request).await;
        answer.map_err(|status| {
            if is_members_own(&status) {
                self.current.store((member + 1) % self.members.len(), Ordering::Relaxed);
            }
            sorted("commit", status)
        })
    }

    /// One call to one member. A token that ran out is replaced and the call made again: it was refused.
    async fn ask<Q: Clone, A>(
        &self,
        member: usize,
        patience: Duration,
        call: impl for<'k> Fn(&'k mut KvClient<Channel>, Request<Q>) -> Calling<'k, A>,
        request: Q,
    ) -> Result<A, Status> {
        let channel = self.members[member].channel();
        let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let calls = async {
            let token = self.token(&channel, None).await?;
            match call(&mut kv, stamped(request.clone(), token.as_ref())).await {
                Err(status) if status.code() == Code::Unauthenticated && token.is_some() => {
                    let token = self.token(&channel, token.as_ref()).await?;
                    call(&mut kv, stamped(request, token.as_ref())).await
                }
                answer => answer,
            }
        };
        match tokio::time::timeout(patience, calls).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("it did not answer in time")),
        }
    }

    /// The token to send, other than `stale`; none if the URL names no user.
    async fn token(&self, channel: &Channel, stale: Option<&Token>) -> Result<Option<Token>, Status> {
        let Some(Login { user, password }) = &self.login else { return Ok(None) };
        let mut token = self.token.lock().await;
        if token.is_none() || token.as_ref() == stale {
            let login = AuthenticateRequest { name: user.clone(), password: password.clone() };
            let answer = AuthClient::new(channel.clone()).authenticate(login).await?.into_inner();
            let mut fresh: Token =
                answer.token.parse().map_err(|_| Status::internal("a token that is not text"))?;
            fresh.set_sensitive(true);
            *token = Some(fresh);
        }
        Ok(token.clone())
    }
}

type Calling<'k, A> = Pin<Box<dyn Future<Output = Result<tonic::Response<A>, Status>> + Send + 'k>>;

fn stamped<Q>(request: Q, token: Option<&Token>) -> Request<Q> {
    let mut request = Request::new(request);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

impl Member {
    fn new(member: &str, tls: Option<&ClientTlsConfig>, patience: Duration) -> Result<Self, LedgerError> {
        let wrong =
            |error: tonic::transport::Error| refused(format!("`{member}` cannot be reached: {error}"));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{member}"))
            .map_err(wrong)?
            .connect_timeout(patience)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(patience);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls.clone()).map_err(wrong)?;
        }
        Ok(Self { endpoint, channel: OnceLock::new() })
    }

    /// Connects with the first call, and again whenever the connection is lost.
    fn channel(&self) -> Channel {
        self.channel.get_or_init(|| self.endpoint.connect_lazy()).clone()
    }
}

/// Whether another member may do better.
fn is_members_own(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled | Code::Internal
    )
}

pub(super) fn unavailable(operation: &'static str, source: impl Into<BoxError>) -> LedgerError {
    LedgerError::Unavailable { store: ETCD, operation, source: source.into() }
}

/// Sorts etcd's complaints by what the caller must do. A refusal was not carried out.
fn sorted(operation: &'static str, status: Status) -> LedgerError {
    let message = status.message();
    match status.code() {
        Code::InvalidArgument if message.contains("too many operations") => {
            refused(format!("{message}; raise --max-txn-ops on every member"))
        }
        Code::InvalidArgument if message.contains("too large") => {
            refused(format!("{message}; raise --max-request-bytes on every member"))
        }
        Code::InvalidArgument | Code::FailedPrecondition if message.contains("auth") => {
            refused(format!("{message}; check user and password in ledger.url"))
        }
        Code::InvalidArgument if message.contains("user name") => {
            refused(format!("{message}; ledger.url must name a user: etcd://USER:PASSWORD@…"))
        }
        Code::Unauthenticated => refused(format!("{message}; check user and password in ledger.url")),
        Code::PermissionDenied => {
            refused(format!("{message}; the user needs readwrite on the prefix in ledger.url"))
        }
        _ => unavailable(operation, told(&status)),
    }
}

/// What went wrong, down to the bottom of it: "transport error" alone helps nobody.
fn told(status: &Status) -> String {
    let mut told = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        told = format!("{told}: {error}");
        source = error.source();
    }
    told
}
