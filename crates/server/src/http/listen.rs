//! Accepting connections: bounded in number, in time and in what they may send, and drained at the end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use keymill_api::{Code, Refusal};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use super::App;
use crate::config::Limits;

/// Connections the kernel may hold for us while we are busy.
const BACKLOG: i32 = 1024;
/// The largest head of a request; beyond it the answer is 431.
const HEAD_BYTES: usize = 64 << 10;
/// Requests under way on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
const HTTP2_PING_EVERY: Duration = Duration::from_secs(30);
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

/// Serves until `stopping` turns true, then waits for what is under way, `limits.drain_timeout` at most.
pub(crate) async fn serve(
    listener: TcpListener,
    app: App,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let server = Arc::new(server(&limits));
    let graceful = GracefulShutdown::new();
    let seats = Arc::new(Semaphore::new(limits.connections));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = told(&mut stopping) => break,
        };
        let Ok(seat) = seats.clone().try_acquire_owned() else {
            tokio::spawn(turn_away(stream));
            continue;
        };
        // Small answers must not wait for a full packet.
        let _ = stream.set_nodelay(true);
        let connection = server.serve_connection(TokioIo::new(stream), app.clone()).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A caller that breaks off is not our error.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early: {error}");
            }
            drop(seat);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.drain_timeout.duration(), graceful.shutdown()).await;
}

async fn told(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone says the same.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn server(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout.duration())
        .max_buf_size(HEAD_BYTES);
    // Not `pipeline_flush`: with it hyper keeps its 400 and 431 to itself while the bytes it complains
    // about are unread, and the caller sees nothing but a closed connection.
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(HTTP2_PING_EVERY);
    server
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
