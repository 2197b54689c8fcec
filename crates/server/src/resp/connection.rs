//! One connection: read what is there, answer all of it, send the answers at once, and again.
//!
//! Its memory is bounded: it reads nothing while answers wait to be sent, so a caller who does not read
//! stops being heard, and a caller who sends half a command has a frame's worth of room and a deadline.

use std::{cell::Cell, future::poll_fn, io, pin::Pin, sync::Arc, task::Poll, time::Instant};

use keymill_api::{Code, Refusal};
use keymill_issuer::IssueError;
use tokio::{sync::watch, time};

use super::{
    Front,
    buffers::{Buffers, READ_BYTES},
    commands::{Call, Later, Outcome},
    reply::Reply,
    session::Session,
    stream::Stream,
    table,
};
use crate::{http::listen::told, trace};

/// Answers beyond this are sent before another command is looked at. One answer may pass it by its own length.
const OUTPUT_BYTES: usize = 64 << 10;
#[derive(Debug)]
pub(crate) struct Connection {
    front: Arc<Front>,
    stream: Stream,
    session: Session,
}

/// How a wait for bytes ended.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Something,
    /// The other end said that it is done.
    End,
    /// This server is to stop.
    Stop,
    Silence,
}

/// Why commands are no longer carried out.
enum Pause {
    /// Nothing whole is left.
    Read,
    /// Enough is answered for now.
    Send,
    Wait(Later),
    Close,
}

type Told<'t> = Pin<&'t mut (dyn Future<Output = ()> + Send)>;

impl Connection {
    pub(crate) fn new(front: Arc<Front>, stream: Stream, id: u64) -> Self {
        let session = Session::new(id, front.newcomer());
        Self { front, stream, session }
    }

    /// Until either end has had enough. Errors are the network's.
    pub(crate) async fn serve(mut self, mut stopping: watch::Receiver<bool>) -> io::Result<()> {
        let told = told(&mut stopping);
        tokio::pin!(told);
        let frame_bytes = usize::try_from(self.front.limits.body_bytes.0).unwrap_or(usize::MAX);
        loop {
            let heard = self.idle(told.as_mut()).await?;
            if heard == Heard::Silence {
                return Ok(());
            }
            let mut buffers = Buffers::borrow(frame_bytes);
            if heard == Heard::Stop {
                return self.finish(&mut buffers).await;
            }
            if !self.talk(&mut buffers, told.as_mut()).await? {
                return Ok(());
            }
            buffers.give_back();
        }
    }

    /// Waits for the first byte, holding nothing.
    async fn idle(&mut self, told: Told<'_>) -> io::Result<Heard> {
        let stream = &self.stream;
        let readable = async {
            stream.readable().await?;
            Ok(Heard::Something)
        };
        let patience = self.front.limits.resp_idle_timeout.duration();
        if patience.is_zero() {
            return or_told(readable, told).await;
        }
        time::timeout(patience, or_told(readable, told)).await.unwrap_or(Ok(Heard::Silence))
    }

    /// Answers until nothing is left to answer. False: the connection is over.
    async fn talk(&mut self, buffers: &mut Buffers, mut told: Told<'_>) -> io::Result<bool> {
        let mut begun = None;
        loop {
            match self.read(&mut buffers.input, told.as_mut(), begun).await? {
                Heard::Something => {}
                Heard::End => return Ok(false),
                Heard::Stop => return self.finish(buffers).await.map(|()| false),
                Heard::Silence => {
                    let limit = self.front.limits.request_timeout;
                    let detail =
                        format!("a command did not arrive whole within limits.request_timeout ({limit})");
                    self.refuse(buffers, &Refusal::new(Code::RequestTimeout, detail));
                    self.send(&mut buffers.output).await?;
                    return Ok(false);
                }
            }
            if !self.answer(buffers).await? {
                Box::pin(self.stream.farewell()).await;
                return Ok(false);
            }
            if self.front.is_stopping() {
                return Ok(false);
            }
            if buffers.is_empty() {
                return Ok(true);
            }
            begun.get_or_insert_with(Instant::now);
        }
    }

    /// Reads what is there; what is left of a command that has begun must come in time.
    async fn read(
        &mut self,
        input: &mut Vec<u8>,
        told: Told<'_>,
        begun: Option<Instant>,
    ) -> io::Result<Heard> {
        input.reserve(READ_BYTES);
        let read = async {
            let count = self.stream.read(input).await?;
            Ok(if count == 0 { Heard::End } else { Heard::Something })
        };
        let Some(begun) = begun else { return or_told(read, told).await };
        let deadline = begun + self.front.limits.request_timeout.duration();
        time::timeout_at(deadline.into(), or_told(read, told)).await.unwrap_or(Ok(Heard::Silence))
    }

    /// Carries out every whole command and sends the answers. False: that was the last one.
    ///
    /// Time is read once for all that arrived together: none of them is answered before the others are.
    async fn answer(&mut self, buffers: &mut Buffers) -> io::Result<bool> {
        let mut begun = self.front.measure().begin();
        let span = self.front.follow(buffers.input.len());
        loop {
            let (pause, answered) = self.execute(buffers);
            self.front.measure().answered(answered, begun);
            if !buffers.output.is_empty() {
                self.send(&mut buffers.output).await?;
            }
            match pause {
                Pause::Read => return Ok(true),
                Pause::Send => begun = self.front.measure().begin(),
                Pause::Close => return Ok(false),
                Pause::Wait(later) => {
                    let done = match &span {
                        None => self.front.runtime.spawn(later),
                        Some(span) => self.front.runtime.spawn(trace::under(span, later)),
                    };
                    let done = done.await;
                    let done = done.unwrap_or_else(|_| Err(IssueError::Internal.into()));
                    match done {
                        Ok(answer) => answer.write(&mut self.reply(buffers)),
                        Err(refusal) => self.refuse(buffers, &refusal),
                    }
                    self.front.measure().answered(1, begun);
                    begun = self.front.measure().begin();
                }
            }
        }
    }

    /// Why it went no further, and how many commands it answered.
    fn execute(&mut self, buffers: &mut Buffers) -> (Pause, u64) {
        let Buffers { input, output, parser } = buffers;
        let (mut done, mut answered, moment) = (0, 0, Cell::new(None));
        let pause = loop {
            if output.len() >= OUTPUT_BYTES {
                break Pause::Send;
            }
            let frame = &input[done..];
            match parser.frame(frame) {
                Ok(None) => break Pause::Read,
                Ok(Some(length)) => done += length,
                Err(malformed) => {
                    let mut reply = Reply { out: output, protocol: self.session.protocol };
                    reply.error("ERR", &malformed.to_string());
                    self.front.measure().refused(Code::InvalidRequest);
                    return (Pause::Close, answered);
                }
            }
            let arguments = parser.arguments(frame);
            if arguments.is_empty() {
                continue;
            }
            let (front, session) = (&self.front, &mut self.session);
            match table::run(&mut Call { front, session, arguments, out: output, moment: &moment }) {
                Outcome::Answered => answered += 1,
                Outcome::Close => return (Pause::Close, answered + 1),
                Outcome::Later(later) => break Pause::Wait(later),
            }
        };
        if done == input.len() {
            input.clear();
        } else {
            input.drain(..done);
        }
        (pause, answered)
    }

    fn refuse(&self, buffers: &mut Buffers, refusal: &Refusal) {
        self.front.measure().refused(refusal.code);
        self.reply(buffers).refusal(refusal);
    }

    fn reply<'b>(&self, buffers: &'b mut Buffers) -> Reply<'b> {
        Reply { out: &mut buffers.output, protocol: self.session.protocol }
    }

    /// Sends everything. A caller who does not read for `limits.request_timeout` is given up.
    async fn send(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        self.stream.send(output, self.front.limits.request_timeout.duration()).await?;
        output.clear();
        Ok(())
    }

    /// The server is to stop: what has arrived by now is answered, then the connection ends.
    async fn finish(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        buffers.input.reserve(READ_BYTES);
        if self.stream.read_now(&mut buffers.input) {
            self.answer(buffers).await?;
        }
        Ok(())
    }
}

/// What is waited for, unless the server is to stop.
async fn or_told(wait: impl Future<Output = io::Result<Heard>>, mut told: Told<'_>) -> io::Result<Heard> {
    tokio::pin!(wait);
    poll_fn(|context| match wait.as_mut().poll(context) {
        Poll::Ready(heard) => Poll::Ready(heard),
        Poll::Pending => told.as_mut().poll(context).map(|()| Ok(Heard::Stop)),
    })
    .await
}
