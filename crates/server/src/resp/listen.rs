//! Accepting connections of the Redis protocol: bounded in number, spread over a few threads, drained at
//! the end.

use std::{
    io, net,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use anyhow::Context;
use keymill_api::{Code, Refusal};
use keymill_issuer::news::News;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
};

use super::{
    Front,
    connection::Connection,
    reply::{Protocol, Reply},
    stream::{Stream, farewell},
};
use crate::http::listen::{prepare, told};

/// How long to wait when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections being turned away at a time; more are closed without a word.
const TURNED_AWAY_MAX: usize = 64;

/// A connection on its way to its thread.
#[derive(Debug)]
struct Guest {
    stream: net::TcpStream,
    seat: OwnedSemaphorePermit,
}

/// Threads of our own, each with a runtime of its own.
#[derive(Debug)]
pub(crate) struct Threads {
    doors: Vec<mpsc::UnboundedSender<Guest>>,
}

impl Threads {
    /// One for every two cores: the fewer there are, the more commands each finds when it wakes.
    pub(crate) fn start(front: &Arc<Front>, stopping: &watch::Receiver<bool>) -> anyhow::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
        let mut runtimes = Vec::with_capacity(count);
        let start = |index: usize| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.metrics());
            // Not without bound: each holds a seat.
            let (door, mut guests) = mpsc::unbounded_channel::<Guest>();
            let (front, stopping) = (front.clone(), stopping.clone());
            let run = move || {
                runtime.block_on(async {
                    while let Some(guest) = guests.recv().await {
                        tokio::spawn(attend(front.clone(), guest, stopping.clone()));
                    }
                });
            };
            thread::Builder::new().name(format!("resp-{index}")).spawn(run)?;
            Ok(door)
        };
        let doors = (0..count).map(start).collect::<io::Result<_>>();
        front.measures.served_by(front.measure(), runtimes);
        Ok(Self { doors: doors.context("the threads of the Redis protocol could not be started")? })
    }

    fn send(&self, turn: u64, guest: Guest) {
        let index = turn % self.doors.len() as u64;
        // A thread that is gone drops what it is sent, which closes it.
        let _ = usize::try_from(index).map(|index| self.doors[index].send(guest));
    }
}

async fn attend(front: Arc<Front>, Guest { stream, seat }: Guest, mut stopping: watch::Receiver<bool>) {
    let id = front.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let opened = tokio::select! {
        opened = open(&front, stream) => opened,
        () = told(&mut stopping) => return,
    };
    let measures = front.measures.clone();
    let _presence = measures.resp.enter();
    let served = match opened {
        Ok(stream) => Connection::new(front, stream, id).serve(stopping).await,
        Err(error) => Err(error),
    };
    // A caller that breaks off is not our error.
    if let Err(error) = served {
        tracing::debug!(%error, "a Redis protocol connection ended early: {error}");
    }
    drop(seat);
}

/// Shakes hands first, where the port speaks TLS.
async fn open(front: &Front, stream: net::TcpStream) -> io::Result<Stream> {
    let stream = TcpStream::from_std(stream)?;
    Ok(match &front.tls {
        None => Stream::Plain(stream),
        Some(tls) => Stream::secure(tls.accept(stream).await?),
    })
}

/// Serves until `stopping` turns true, then waits for what is under way, [`Limits::finish_within`] at most.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    threads: Threads,
    mut stopping: watch::Receiver<bool>,
) {
    let all = front.seats.available_permits();
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    let unaccepted = News::default();
    for turn in 0_u64.. {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
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
        match front.seats.clone().try_acquire_owned() {
            Ok(seat) => {
                prepare(&stream, front.limits.keepalive.duration());
                if let Ok(stream) = stream.into_std() {
                    threads.send(turn, Guest { stream, seat });
                }
            }
            Err(_) => {
                // Whoever expects TLS would take a plain word for an attack; they see the connection closed.
                if front.tls.is_none()
                    && let Ok(place) = turned_away.clone().try_acquire_owned()
                {
                    tokio::spawn(turn_away(stream, place));
                }
            }
        }
    }
    drop(listener);
    front.stopping.store(true, Ordering::Relaxed);
    let everyone = front.seats.acquire_many(u32::try_from(all).unwrap_or(u32::MAX));
    let _ = tokio::time::timeout(front.limits.finish_within(), everyone).await;
}

/// One connection too many: told so at once.
async fn turn_away(mut stream: TcpStream, place: OwnedSemaphorePermit) {
    let detail = "limits.resp_connections are open; try again in a moment, or ask another node";
    let mut out = Vec::new();
    Reply { out: &mut out, protocol: Protocol::default() }.refusal(&Refusal::new(Code::Overloaded, detail));
    if stream.write_all(&out).await.is_ok() {
        farewell(&mut stream).await;
    }
    drop(place);
}
