//! Accepting connections: bounded in number, in time and in what they may send, and drained at the end.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use keymill_api::{Code, Refusal};
use keymill_issuer::news::News;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use tokio_rustls::server::TlsStream;

use super::App;
use crate::{
    config::Limits,
    tls::{HTTP2, Tls},
};

/// Probes without an answer after which the kernel gives a connection up, and how far apart they are.
const KEEPALIVE_PROBES: u32 = 3;
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// Connections the kernel may hold for us while we are busy.
const BACKLOG: i32 = 1024;
/// The largest head of a request; beyond it the answer is 431.
const HEAD_BYTES: usize = 64 << 10;
/// Requests under way on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Requests of one HTTP/2 connection that were taken back before we had looked at them, and errors that
/// it made us answer: one more and the connection ends, because that is how floods look.
const RESETS_MAX: usize = 64;
/// The most that waits for a slow reader, for each request of an HTTP/2 connection.
const SEND_AHEAD_BYTES: usize = 64 << 10;
/// What one HTTP/2 request may send before we have read it, and one connection: bodies are small.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The largest head of an HTTP/2 request, unpacked.
const HTTP2_HEAD_BYTES: u32 = 16 << 10;
const HTTP2_PING_EVERY: Duration = Duration::from_secs(30);
/// An HTTP/2 peer that does not answer a ping for so long is gone.
const HTTP2_PING_PATIENCE: Duration = Duration::from_secs(20);
/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often to look at a preface that comes in pieces.
const PREFACE_LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long to wait when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn bind(address: SocketAddr, setting: &str, flag: &str) -> anyhow::Result<TcpListener> {
    let listen = || {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
        // A restart need not wait for the last connections' TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().with_context(|| {
        format!("cannot listen on {address}; choose another address with {flag} or `{setting}`")
    })
}

/// Without these two a connection works as well, only later or longer.
pub(crate) fn prepare(stream: &TcpStream, keepalive: Duration) {
    // Small answers must not wait for a full packet.
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(keepalive)
        .with_interval(KEEPALIVE_EVERY.min(keepalive))
        .with_retries(KEEPALIVE_PROBES);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Serves until `stopping` turns true, then waits for what is under way, [`Limits::finish_within`] at most.
pub(crate) async fn serve(
    listener: TcpListener,
    app: App,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    mut stopping: watch::Receiver<bool>,
) {
    let server = Arc::new(Server::new(app, &limits, tls));
    let graceful = GracefulShutdown::new();
    let seats = Arc::new(Semaphore::new(limits.connections));
    let unaccepted = News::default();
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if unaccepted.is_new(&error) {
                        tracing::warn!(%error, "connections cannot be accepted: {error}; retrying");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = told(&mut stopping) => break,
        };
        unaccepted.over();
        let Ok(seat) = seats.clone().try_acquire_owned() else {
            // Whoever expects TLS would take a plain word for an attack; they see the connection closed.
            if server.tls.is_none() {
                tokio::spawn(turn_away(stream));
            }
            continue;
        };
        prepare(&stream, limits.keepalive.duration());
        let (server, watcher, mut stopping) = (server.clone(), graceful.watcher(), stopping.clone());
        tokio::spawn(async move {
            let opened = tokio::select! {
                opened = tokio::time::timeout(server.open_within, server.open(stream)) => opened.ok().flatten(),
                () = told(&mut stopping) => None,
            };
            let _presence = server.app.measures().http.enter();
            match opened {
                Some((Opened::Plain(stream), protocol)) => {
                    server.converse(stream, protocol, from.ip(), watcher).await
                }
                Some((Opened::Secure(stream), protocol)) => {
                    server.converse(stream, protocol, from.ip(), watcher).await
                }
                None => {}
            }
            drop(seat);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.finish_within(), graceful.shutdown()).await;
}

/// Until the server is to stop.
pub(crate) async fn told(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone says the same.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Which protocol a connection speaks, by its first bytes; `None` if it was closed before it said.
async fn opening(stream: &TcpStream) -> Option<Protocol> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await.ok().filter(|count| *count > 0)?;
        if !PREFACE.starts_with(&seen[..count]) {
            return Some(Protocol::Http1);
        }
        if count == PREFACE.len() {
            return Some(Protocol::Http2);
        }
        // What is there stays there, so the socket would call itself readable for ever.
        tokio::time::sleep(PREFACE_LOOK_EVERY).await;
    }
}

/// A connection that is ready for requests.
#[derive(Debug)]
enum Opened {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
struct Server {
    app: App,
    tls: Option<Arc<Tls>>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    /// How long a connection may say nothing at first.
    open_within: Duration,
}

impl Server {
    fn new(app: App, limits: &Limits, tls: Option<Arc<Tls>>) -> Self {
        let mut http1 = http1::Builder::new();
        // Not `pipeline_flush`: with it hyper keeps its 400 and 431 to itself while the bytes it complains
        // about are unread, and the caller sees nothing but a closed connection.
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_timeout.duration())
            .max_buf_size(HEAD_BYTES);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(RESETS_MAX)
            .max_send_buf_size(SEND_AHEAD_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HTTP2_HEAD_BYTES)
            .keep_alive_interval(HTTP2_PING_EVERY)
            .keep_alive_timeout(HTTP2_PING_PATIENCE);
        Self { app, tls, http1, http2, open_within: limits.request_timeout.duration() }
    }

    /// Finds out which protocol is spoken. Behind TLS the handshake has settled that: HTTP/2 wants it so.
    async fn open(&self, stream: TcpStream) -> Option<(Opened, Protocol)> {
        let Some(tls) = &self.tls else {
            let protocol = opening(&stream).await?;
            return Some((Opened::Plain(stream), protocol));
        };
        let stream = match tls.accept(stream).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed: {error}");
                return None;
            }
        };
        let chosen = stream.get_ref().1.alpn_protocol();
        let protocol = if chosen == Some(HTTP2) { Protocol::Http2 } else { Protocol::Http1 };
        Some((Opened::Secure(Box::new(stream)), protocol))
    }

    async fn converse<S>(&self, stream: S, protocol: Protocol, from: IpAddr, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (io, app) = (TokioIo::new(stream), self.app.from(from));
        let ended = match protocol {
            Protocol::Http1 => watcher.watch(self.http1.serve_connection(io, app)).await,
            Protocol::Http2 => watcher.watch(self.http2.serve_connection(io, app)).await,
        };
        // A caller that breaks off is not our error.
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early: {error}");
        }
    }
}

/// One connection too many: told so at once, in the one protocol everyone understands.
async fn turn_away(mut stream: TcpStream) {
    let refusal = Refusal::new(Code::Overloaded, "limits.connections are open; try again in a moment");
    let body = serde_json::to_string(&refusal.problem()).expect("problems are plain data");
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = async {
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), sent).await;
}
