//! Confirming: a payment takes all of its coupons or none, and its reference has one answer.

use coupon::CouponStatus;

use super::{
    super::{
        Next, Promise, Protocol, State, Who, step,
        truth::{Coupons, Row},
    },
    bounds::Payment,
    state,
};
use crate::Bug;

/// What a transaction finds under its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// All coupons are held, and their deadline has not passed.
    Held,
    /// The same reference has confirmed them before.
    Confirmed,
    /// A coupon has lapsed, its deadline has passed by MySQL's clock, or it was cancelled or confirmed by another
    /// payment.
    Ended,
}

impl Protocol {
    /// A request to confirm, or a message of the payments' topic. It may be sent again while it has no answer. A
    /// process answers 503 if the deadline has passed by its own clock only; that changes nothing.
    pub(super) fn pay(&self, state: &State, which: usize, next: &mut Next) {
        let payment = self.bounds.payments[which];
        let Row::Landed(coupons) = state.truth.row(payment.claim) else { return };
        let sent = state.holds.payments[which];
        if matches!(sent, state::Payment::Paid | state::Payment::Refused) || waits(state, payment) {
            return;
        }
        let who = Who::Payment(which);
        let found = self.find(state, payment, &coupons);
        let mut push = |what, answer, mut after: State| {
            after.holds.payments[which] = answer;
            next.push((step(who, what), after));
        };
        if self.has(Bug::ConfirmWithoutCompare) {
            if sent == state::Payment::Read {
                let confirmed = self.confirmed(state, payment);
                push("confirms what it has read", state::Payment::Paid, confirmed);
            } else if found == Found::Held {
                push("reads that all is held", state::Payment::Read, *state);
            }
            return;
        }
        match found {
            Found::Held => {
                let confirmed = self.confirmed(state, payment);
                push("confirms: OK", state::Payment::Paid, confirmed);
                push("confirms, the answer is lost", state::Payment::Unsent, confirmed);
                if self.has(Bug::RefusedByOwnClock) {
                    push("its clock is ahead: HOLD_LAPSED", state::Payment::Refused, *state);
                }
            }
            Found::Confirmed => push("was confirmed: OK", state::Payment::Paid, *state),
            Found::Ended => push("cannot confirm: 409", state::Payment::Refused, *state),
        }
    }

    fn find(&self, state: &State, payment: Payment, coupons: &Coupons) -> Found {
        if state.truth.paid >> payment.reference & 1 == 1 {
            return Found::Confirmed;
        }
        let mut asked = asked(coupons, payment);
        let in_time = !coupons.due || self.has(Bug::ConfirmAfterDeadline);
        let held = if self.has(Bug::PaymentInPart) {
            asked.any(|status| status == CouponStatus::Held)
        } else {
            asked.all(|status| status == CouponStatus::Held)
        };
        if held && in_time { Found::Held } else { Found::Ended }
    }

    /// Changes the coupons from `held` to `unused` and inserts the reference, in one transaction.
    fn confirmed(&self, state: &State, payment: Payment) -> State {
        let mut after = *state;
        after.truth.paid |= 1 << payment.reference;
        let row = &mut after.truth.claims[usize::from(payment.claim)];
        let Row::Landed(row) = row else { return after };
        if row.due {
            after.broken = Some(Promise::LapsesAtItsDeadline);
        }
        for (at, slot) in row.status.iter_mut().enumerate() {
            let Some(status) = slot.filter(|_| payment.part.has(at)) else { continue };
            if self.has(Bug::PaymentInPart) && status != CouponStatus::Held {
                continue;
            }
            if !status.may_become(CouponStatus::Unused) {
                after.broken = Some(Promise::HeldEndsOnce);
            }
            *slot = Some(CouponStatus::Unused);
        }
        if asked(row, payment).any(|status| status != CouponStatus::Unused) {
            after.broken = Some(Promise::PaidIsConfirmed);
        }
        after
    }

    /// Returns the first promise to a merchant that this state breaks.
    pub(in crate::claim) fn broken_payment(&self, state: &State) -> Option<Promise> {
        for (payment, answer) in self.bounds.payments.iter().zip(state.holds.payments) {
            let paid = state.truth.paid >> payment.reference & 1 == 1;
            if answer == state::Payment::Refused && paid {
                return Some(Promise::PaymentHasOneAnswer);
            }
            if answer != state::Payment::Paid {
                continue;
            }
            let Row::Landed(row) = state.truth.row(payment.claim) else {
                return Some(Promise::PaidIsConfirmed);
            };
            let open = |status| matches!(status, CouponStatus::Held | CouponStatus::Lapsed);
            if asked(&row, *payment).any(open) {
                return Some(Promise::PaidIsConfirmed);
            }
        }
        None
    }
}

/// Returns the status of each coupon that the payment is for.
fn asked(coupons: &Coupons, payment: Payment) -> impl Iterator<Item = CouponStatus> {
    let all = (0..).zip(coupons.status).filter(move |(at, _)| payment.part.has(*at));
    all.filter_map(|(_, status)| status)
}

/// A transaction that is not yet visible holds locks on its coupons.
fn waits(state: &State, payment: Payment) -> bool {
    state.truth.hidden.is_some_and(|hidden| {
        hidden.coupons.iter().any(|(claim, at)| claim == payment.claim && payment.part.has(at))
    })
}
