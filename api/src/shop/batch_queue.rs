//! Hands a shop's calls to the tasks that serve several of them in one transaction (`routes/shop/batch.rs`).

use std::hash::Hash;

use coupon::MerchantId;
use tokio::sync::{mpsc, oneshot};

/// Calls that wait for a transaction: a few transactions' worth. One more has a transaction of its own.
const WAITING_MAX: usize = 1_024;

/// A call that can be served together with others.
pub(crate) trait Batched: Send + Sync + 'static {
    /// What it has changed now, for the first time.
    type Made: Send;

    /// What two calls at once compete for: a coupon, or the claim that its coupons are found by.
    type Thing: Copy + Eq + Hash + Send;

    fn merchant(&self) -> MerchantId;

    /// The merchant's name of what is done: an order's, or a payment's. Each is done once.
    fn name(&self) -> &str;

    fn things(&self) -> &[Self::Thing];
}

/// A call in the queue.
pub(crate) struct Waiting<T: Batched> {
    pub(crate) wanted: T,
    /// Gets `None` if the call needs a transaction of its own: nothing is known of it then.
    pub(crate) answer: oneshot::Sender<Option<T::Made>>,
}

/// The sending end; clones share the queue.
pub(crate) struct BatchQueue<T: Batched>(mpsc::Sender<Waiting<T>>);

impl<T: Batched> Clone for BatchQueue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Batched> BatchQueue<T> {
    /// Creates the queue, and its receiving end for the tasks that serve it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Waiting<T>>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Serves a call together with others. Returns `None` if it needs a transaction of its own: it was served before, is
    /// refused, or something failed.
    pub(crate) async fn together(&self, wanted: T) -> Option<T::Made> {
        let (answer, made) = oneshot::channel();
        self.0.try_send(Waiting { wanted, answer }).ok()?;
        made.await.ok().flatten()
    }
}
