//! Request bodies that record whether a handler is waiting for more of them.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use axum::{
    Error,
    body::{Body, Bytes, HttpBody},
    extract::Request,
};
use hyper::body::{Frame, SizeHint};

/// Whether a handler is waiting for bytes of a request's body that have not arrived.
#[derive(Clone, Default)]
pub(crate) struct Awaited(Arc<AtomicBool>);

struct Arriving {
    body: Body,
    awaited: Awaited,
}

impl Awaited {
    /// Wraps the body of a request so that the flag follows it.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        let awaited = Self::default();
        if request.body().is_end_stream() {
            return (request, awaited);
        }
        let arriving = |body| Body::new(Arriving { body, awaited: awaited.clone() });
        (request.map(arriving), awaited)
    }

    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Relaxed)
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
        arriving.awaited.0.store(frame.is_pending(), Relaxed);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
