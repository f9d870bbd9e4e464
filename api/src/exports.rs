//! Exports under way: how many there are, and the body that one is sent in.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::{Bytes, HttpBody};
use coupon::MerchantId;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::{code::Code, problem::Problem};

/// Exports at a time of one process, and of one merchant in it: each keeps about a connection busy.
const AT_ONCE: usize = 8;
const AT_ONCE_OF_MERCHANT: usize = 2;

/// The exports that are under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exports(Arc<Mutex<HashMap<MerchantId, usize>>>);

/// The place of one export among [`Exports`].
pub(crate) struct Place {
    exports: Exports,
    merchant: MerchantId,
}

/// The body of an export. It ends well only if all rows were sent: a client sees otherwise that some are missing.
pub(crate) struct Exported(mpsc::Receiver<Option<Bytes>>);

impl Exports {
    /// Takes a place for an export.
    pub(crate) fn place(&self, merchant: MerchantId) -> Result<Place, Problem> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = under_way.values().sum();
        let own = under_way.entry(merchant).or_default();
        if all >= AT_ONCE || *own >= AT_ONCE_OF_MERCHANT {
            if *own == 0 {
                under_way.remove(&merchant);
            }
            let detail = "Too many exports are under way. Send the request again in a while.";
            return Err(Problem::new(Code::Overloaded, detail));
        }
        *own += 1;
        Ok(Place { exports: self.clone(), merchant })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.exports.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = under_way.get_mut(&self.merchant) {
            *own -= 1;
            if *own == 0 {
                under_way.remove(&self.merchant);
            }
        }
    }
}

impl Exported {
    /// Sends what arrives: pieces, and `None` behind the last.
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

    #[test]
    fn a_merchant_has_its_places_and_the_process_has_no_more() {
        let exports = Exports::default();
        let held: Vec<Place> =
            (0..AT_ONCE_OF_MERCHANT).map(|_| exports.place(MerchantId(1)).unwrap()).collect();
        assert!(exports.place(MerchantId(1)).is_err());
        let others = (AT_ONCE - held.len()) as i64;
        let others: Vec<Place> =
            (0..others).map(|n| exports.place(MerchantId(2 + n)).unwrap()).collect();
        assert!(exports.place(MerchantId(99)).is_err(), "the process has enough");
        drop(held);
        assert!(exports.place(MerchantId(1)).is_ok());
        drop(others);
        assert!(exports.0.lock().unwrap().is_empty(), "nothing is left behind");
    }

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
