//! A client's connection that does not wait forever for the client to take its answers.
//!
//! hyper limits the time for a head, and the router that for a request. Neither covers an answer that its client does
//! not take: it fills the system's buffers, and then ours. So an answer is under way until the client has it, not until
//! the system has it. A connection ends when an answer is under way for too long, or when requests hold too much
//! memory.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use crate::connections::{Connection, Ended, unacked_bytes::unacked};

/// Interval between checks whether a client has its answer, while nothing else happens on its connection.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a client may keep sending after the last answer, while its bytes are discarded. A connection that is closed
/// with unread bytes is reset, and its client would not see why its request was refused.
const LINGER: Duration = Duration::from_secs(1);

/// How long a request is worked on after the end of its client's side. Such a client may only have nothing more to send,
/// and waits for its answer; or it has left, and the system says the same of both until an answer is sent. So this is
/// longer than nearly every answer takes, also one that waits for a locked row (3 s), and what a client that has left can
/// make us do for nothing. A reset ends the work at once. So does the end of a client's side while it follows a stream of
/// events, which has no end of its own.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(5);

/// Bytes discarded at a time.
const THROWN_AWAY: usize = 4 * 1024;

/// A client's connection.
pub(crate) struct TimedStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    /// Time limit for an answer under way.
    patience: Duration,
    /// Bytes passed to the system so far.
    written: u64,
    /// The oldest answer that is under way.
    oldest: Option<UnderWay>,
    /// The newest answer under way, if a client sends requests ahead of the answers to earlier ones.
    newest: Option<UnderWay>,
    /// Timer of the next check.
    look: Pin<Box<Sleep>>,
    /// When the [`LINGER`] after the last answer ends.
    closing: Option<Instant>,
    /// Timer of [`HALF_CLOSED_MAX`], once the client's side has ended.
    left: Option<Pin<Box<Sleep>>>,
}

/// An answer that its client does not have in full.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    /// When its client must have it.
    end: Instant,
    /// Value of `written` after its last byte.
    until: u64,
    /// Whether the system has all of it.
    whole: bool,
}

impl TimedStream {
    pub(crate) fn new(stream: TcpStream, connection: Arc<Connection>, patience: Duration) -> Self {
        Self {
            stream,
            connection,
            patience,
            written: 0,
            oldest: None,
            newest: None,
            look: Box::pin(sleep(LOOK_EVERY)),
            closing: None,
            left: None,
        }
    }

    /// Drops answers that the client has. Returns whether none is left.
    fn drop_taken(&mut self) -> bool {
        if self.oldest.is_some_and(|answer| answer.whole) {
            let taken = self.written.saturating_sub(unacked(&self.stream));
            while self.oldest.is_some_and(|answer| answer.whole && answer.until <= taken) {
                self.oldest = self.newest.take();
            }
        }
        self.oldest.is_none()
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += u64::try_from(bytes).unwrap_or(u64::MAX);
        // Drop answers that the client has taken, so that none counts as older than this one.
        self.drop_taken();
        let next =
            UnderWay { end: Instant::now() + self.patience, until: self.written, whole: false };
        match &mut self.oldest {
            // The deadline stays even if some of it is taken: a client that takes a byte now and then would keep its
            // connection.
            Some(answer) if !answer.whole => answer.until = self.written,
            Some(_) => self.newest = Some(next),
            None => self.oldest = Some(next),
        }
    }

    /// Resolves when the client has left, and registers the task for that moment. hyper does not read while a request is
    /// worked on, so it would not notice.
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut byte = [0];
        match self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) if self.connection.streams() => {
                Poll::Ready(io::ErrorKind::ConnectionAborted.into())
            }
            Poll::Ready(Ok(0)) if self.connection.is_working() => {
                let left = self.left.get_or_insert_with(|| Box::pin(sleep(HALF_CLOSED_MAX)));
                left.as_mut().poll(context).map(|()| io::ErrorKind::ConnectionAborted.into())
            }
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Resolves when the client has not taken an answer in time, and registers the task for that moment.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if self.drop_taken() {
                self.connection.taken();
            }
            let now = Instant::now();
            let next = match (self.oldest, self.closing) {
                (Some(answer), _) if answer.end <= now => {
                    Ended::Answer.count();
                    return Poll::Ready(io::ErrorKind::TimedOut.into());
                }
                (Some(answer), _) => answer.end.min(now + LOOK_EVERY),
                (None, Some(end)) => end,
                (None, None) => return Poll::Pending,
            };
            self.look.as_mut().reset(next);
            ready!(self.look.as_mut().poll(context));
            if self.oldest.is_none() {
                return Poll::Pending;
            }
        }
    }

    fn poll_written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => self.wrote(bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => return Poll::Ready(Err(ready!(self.poll_blocked(context)))),
        }
        written
    }

    /// Handles a write that the system does not accept. It counts as an answer under way even if none of it is written.
    fn poll_blocked(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.oldest.is_none() {
            self.wrote(0);
        }
        self.poll_overdue(context)
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        if !line.connection.may_read() {
            Ended::Memory.count();
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut line.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                line.connection.read(buffer.filled().len() - before);
                Poll::Ready(read)
            }
            Poll::Pending => Poll::Ready(Err(ready!(line.poll_overdue(context)))),
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        let written = Pin::new(&mut line.stream).poll_write(context, bytes);
        line.poll_written(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        let written = Pin::new(&mut line.stream).poll_write_vectored(context, slices);
        line.poll_written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written everything: the system has the answer.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        for answer in [&mut line.oldest, &mut line.newest].into_iter().flatten() {
            answer.whole = true;
        }
        if let Poll::Ready(left) = line.poll_left(context) {
            return Poll::Ready(Err(left));
        }
        // While a request is worked on or answered, hyper only flushes.
        if let Poll::Ready(overdue) = line.poll_overdue(context) {
            return Poll::Ready(Err(overdue));
        }
        Pin::new(&mut line.stream).poll_flush(context)
    }

    /// Ends our side and waits until the client has everything. Otherwise its slot would go to another client while the
    /// system keeps what this one does not take.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        let end = match line.closing {
            Some(end) => end,
            None => {
                ready!(Pin::new(&mut line.stream).poll_shutdown(context))?;
                *line.closing.insert(Instant::now() + LINGER)
            }
        };
        let mut has_ended = Instant::now() >= end;
        while !has_ended {
            let mut bytes = [0; THROWN_AWAY];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut line.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => has_ended = buffer.filled().is_empty(),
                // The client is gone, and so is what it had not taken.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        if line.drop_taken() && has_ended {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(error) = line.poll_overdue(context) {
            return Poll::Ready(Err(error));
        }
        // The answer was taken, or the linger ended, during the check.
        if line.oldest.is_none() && (has_ended || Instant::now() >= end) {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl Drop for TimedStream {
    /// Makes the system drop what it keeps for this client together with the connection.
    fn drop(&mut self) {
        if !self.drop_taken() {
            drop(self.stream.set_zero_linger());
        }
    }
}
