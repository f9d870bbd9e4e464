//! Request bodies that record how far they have been read.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use axum::{
    Error,
    body::{Body, Bytes, HttpBody},
    extract::Request,
};
use hyper::body::{Frame, SizeHint};

/// No handler waits for the body, and more of it may arrive.
const PARTLY_READ: u8 = 0;
/// A handler is waiting for bytes that have not arrived.
const AWAITED: u8 = 1;
/// All of it was read, or there is none.
const READ: u8 = 2;

/// How far a request's body has been read.
#[derive(Clone)]
pub(crate) struct BodyProgress(Arc<AtomicU8>);

struct Arriving {
    body: Body,
    progress: BodyProgress,
}

impl BodyProgress {
    /// Wraps the body of a request so that the progress follows it.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        let is_over = request.body().is_end_stream();
        let progress = Self(Arc::new(AtomicU8::new(if is_over { READ } else { PARTLY_READ })));
        if is_over {
            return (request, progress);
        }
        let arriving = |body| Body::new(Arriving { body, progress: progress.clone() });
        (request.map(arriving), progress)
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.0.load(Relaxed) == AWAITED
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Relaxed) == READ
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let arriving = self.get_mut();
        let frame = Pin::new(&mut arriving.body).poll_frame(context);
        let progress = match frame {
            Poll::Pending => AWAITED,
            Poll::Ready(None) => READ,
            Poll::Ready(Some(_)) if arriving.body.is_end_stream() => READ,
            Poll::Ready(Some(_)) => PARTLY_READ,
        };
        arriving.progress.0.store(progress, Relaxed);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
