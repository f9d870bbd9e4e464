//! The body that an export is sent in.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc;

/// The body of an export. It ends without an error only if all rows were sent, so a client notices missing rows.
pub(crate) struct Exported(mpsc::Receiver<Option<Bytes>>);

impl Exported {
    /// Sends the pieces that arrive, up to the `None` after the last.
    pub(crate) fn of(pieces: mpsc::Receiver<Option<Bytes>>) -> Self {
        Self(pieces)
    }
}

impl HttpBody for Exported {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.get_mut().0.poll_recv(context).map(|received| match received {
            Some(Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(None) => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[tokio::test]
    async fn a_body_that_broke_off_is_an_error_and_a_whole_one_ends() {
        let frame = async |body: &mut Exported| {
            future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
        };
        for is_whole in [true, false] {
            let (chunks, taken) = mpsc::channel(2);
            let mut body = Exported::of(taken);
            chunks.send(Some(Bytes::from_static(b"a"))).await.unwrap();
            if is_whole {
                chunks.send(None).await.unwrap();
            }
            drop(chunks);
            assert!(frame(&mut body).await.unwrap().is_ok());
            let end = frame(&mut body).await;
            assert_eq!(end.is_none(), is_whole);
            assert_eq!(end.is_some_and(|end| end.is_err()), !is_whole);
        }
    }
}
