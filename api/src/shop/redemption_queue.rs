//! Hands the redemptions of orders to the tasks that redeem several orders in one transaction
//! (`routes/shop/redemption_batch.rs`).

use coupon::{CouponId, UserId};
use mysql_store::{
    redemption::Redemption,
    redemption_order::{Digest, Redeemed},
};
use tokio::sync::{mpsc, oneshot};

use crate::auth::Operator;

/// Redemptions that wait for a transaction: a few transactions' worth. One more has a transaction of its own.
const WAITING_MAX: usize = 1_024;

/// One order's redemption, as requested.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) shop: Operator,
    pub(crate) order_ref: String,
    /// `None`: whoever has the coupons, but all of them.
    pub(crate) user: Option<UserId>,
    /// In minor units.
    pub(crate) amount: i64,
    pub(crate) currency: String,
    /// By id, each once.
    pub(crate) coupons: Vec<CouponId>,
    pub(crate) digest: Digest,
}

/// What an order has redeemed now, for the first time.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) redeemed: Redeemed,
    /// In the order of application.
    pub(crate) redemptions: Vec<Redemption>,
}

/// A redemption in the queue.
pub(crate) struct Waiting {
    pub(crate) wanted: Wanted,
    /// Gets `None` if the order needs a transaction of its own: nothing is known of it then.
    pub(crate) answer: oneshot::Sender<Option<Made>>,
}

/// The sending end; clones share the queue.
#[derive(Clone)]
pub(crate) struct RedemptionQueue(mpsc::Sender<Waiting>);

impl RedemptionQueue {
    /// Creates the queue, and its receiving end for the tasks that redeem.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Waiting>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Redeems an order together with others. Returns `None` if it needs a transaction of its own: it is not new, does not
    /// fit, or something failed.
    pub(crate) async fn redeem(&self, wanted: Wanted) -> Option<Made> {
        let (answer, made) = oneshot::channel();
        self.0.try_send(Waiting { wanted, answer }).ok()?;
        made.await.ok().flatten()
    }
}
