//! How holds end: payments, cancellations and lapses.
//!
//! Left out: use and expiry of confirmed coupons, chunks of more than two claims, several reads for the pages of one
//! user, retention of the movements, and answers to repeated cancellations.
//!
//! Assumed:
//! - MySQL's clock does not go back. If a failover could set it back, the confirmation that finds a passed deadline
//!   would have to write the lapse itself before it answers `HOLD_LAPSED`.
//! - Nothing moves `held_until` of a hold up once it has passed. A change of validity keeps it, or lowers it.
//! - At most one message is ahead of MySQL: the stock row stays locked until its commit is visible.
//!
//! Two things are left as they are, since nothing is oversold:
//! - A gate that has dropped a returned claim, or was rebuilt, admits its key again under a new id. The landing finds
//!   the key, the admission is released, and the client gets its own claim. Until then another client may be told
//!   `SOLD_OUT`.
//! - The reread of a batch may not see the stock of a return that the gate has heard of. Its claim is refused and
//!   released, and the coupon is sold to the next one.

pub(super) mod bounds;
mod payments;
mod returns;
pub(super) mod state;

use super::{Next, Protocol, State};

impl Protocol {
    pub(super) fn work_on_holds(&self, state: &State, next: &mut Next) {
        self.pass_deadlines(state, next);
        for which in 0..self.bounds.lapsers {
            self.lapse(state, which, next);
        }
        for which in 0..self.bounds.payments.len() {
            self.pay(state, which, next);
        }
        for which in 0..self.bounds.cancels.len() {
            self.cancel(state, which, next);
        }
    }
}
