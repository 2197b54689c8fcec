//! A connection's bytes, plain or behind TLS.

use std::{future::poll_fn, io, time::Duration};

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time,
};
use tokio_rustls::server::TlsStream;

/// How long, and for how many bytes, a connection that is to be closed still listens.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

#[derive(Debug)]
pub(crate) struct Secure {
    stream: TlsStream<TcpStream>,
    /// The last read filled all the room it had, so more may be deciphered than the socket knows of.
    more: bool,
}

impl Stream {
    pub(crate) fn secure(stream: TlsStream<TcpStream>) -> Self {
        // What came with the end of the handshake is not the socket's any more.
        Self::Secure(Box::new(Secure { stream, more: true }))
    }

    /// Until there is something to read, or to be told that nothing will come.
    pub(super) async fn readable(&self) -> io::Result<()> {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Secure(secure) if secure.more => return Ok(()),
            Self::Secure(secure) => secure.stream.get_ref().0,
        };
        poll_fn(|context| socket.poll_read_ready(context)).await
    }

    pub(super) async fn read(&mut self, input: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read_buf(input).await,
            Self::Secure(secure) => {
                let room = input.capacity() - input.len();
                let count = secure.stream.read_buf(input).await?;
                secure.more = count == room;
                Ok(count)
            }
        }
    }

    /// What is there by now, without waiting; false if that is nothing.
    pub(super) fn read_now(&mut self, input: &mut Vec<u8>) -> bool {
        match self {
            Self::Plain(stream) => stream.try_read_buf(input).is_ok(),
            Self::Secure(secure) => {
                secure.stream.read_buf(input).now_or_never().is_some_and(|read| read.is_ok())
            }
        }
    }

    /// Sends everything; gives up when nothing could be sent for `patience`.
    pub(super) async fn send(&mut self, output: &[u8], patience: Duration) -> io::Result<()> {
        match self {
            Self::Plain(stream) => send_plain(stream, output, patience).await,
            Self::Secure(secure) => {
                let mut sent = 0;
                while sent < output.len() {
                    sent += time::timeout(patience, secure.stream.write(&output[sent..])).await??;
                }
                time::timeout(patience, secure.stream.flush()).await?
            }
        }
    }

    pub(super) async fn farewell(&mut self) {
        match self {
            Self::Plain(stream) => farewell(stream).await,
            Self::Secure(secure) => farewell(&mut secure.stream).await,
        }
    }
}

async fn send_plain(stream: &TcpStream, output: &[u8], patience: Duration) -> io::Result<()> {
    let mut sent = 0;
    while sent < output.len() {
        match stream.try_write(&output[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                time::timeout(patience, stream.writable()).await??;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closing with bytes unread makes the kernel reset the connection, and the last answer could be lost.
pub(super) async fn farewell(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let _ = stream.shutdown().await;
    let listen = async {
        let mut scrap = vec![0; 4096];
        let mut heard = 0;
        while let Ok(count @ 1..) = stream.read(&mut scrap).await
            && heard < LINGER_BYTES
        {
            heard += count;
        }
    };
    let _ = time::timeout(LINGER, listen).await;
}
