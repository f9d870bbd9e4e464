//! All queues of calls that are served together, one for each kind of call.

use tokio::sync::mpsc;

use crate::shop::{
    batch_queue::{BatchQueue, Waiting},
    payment, redemption,
};

/// Where the calls wait; clones share the queues.
#[derive(Clone)]
pub(crate) struct Batches {
    pub(crate) redemptions: BatchQueue<redemption::Wanted>,
    pub(crate) payments: BatchQueue<payment::Wanted>,
}

/// The receiving ends, for the tasks that serve them.
pub(crate) struct ToServe {
    pub(crate) redemptions: mpsc::Receiver<Waiting<redemption::Wanted>>,
    pub(crate) payments: mpsc::Receiver<Waiting<payment::Wanted>>,
}

impl Batches {
    pub(crate) fn new() -> (Self, ToServe) {
        let (redemptions, to_redeem) = BatchQueue::new();
        let (payments, to_confirm) = BatchQueue::new();
        (Self { redemptions, payments }, ToServe { redemptions: to_redeem, payments: to_confirm })
    }
}
