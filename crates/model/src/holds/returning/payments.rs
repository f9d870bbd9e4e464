//! Confirming: a payment takes all of its coupons or none, and its reference has one answer.

use super::{
    Next, Payment, Promise, Protocol, State, Step, Who, state,
    truth::{Coupons, Row, Status},
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
    pub(in crate::holds) fn pay(&self, state: &State, which: usize, next: &mut Next) {
        let payment = self.bounds.payments[which];
        let Row::Landed(coupons) = state.truth.claims[usize::from(payment.claim)] else { return };
        let sent = state.payments[which];
        if matches!(sent, state::Payment::Paid | state::Payment::Refused)
            || self.waits(state, payment)
        {
            return;
        }
        let who = Who::Payment(which);
        let found = self.find(state, payment, &coupons);
        let mut push = |what, answer, mut after: State| {
            after.payments[which] = answer;
            next.push((Step { who, what }, after));
        };
        if self.bounds.has(Bug::ConfirmWithoutCompare) {
            if sent == state::Payment::Read {
                push(
                    "confirms what it has read",
                    state::Payment::Paid,
                    self.confirmed(state, payment),
                );
                return;
            }
            if found == Found::Held {
                push("reads that all is held", state::Payment::Read, *state);
            }
            return;
        }
        match found {
            Found::Held => {
                let confirmed = self.confirmed(state, payment);
                push("confirms: OK", state::Payment::Paid, confirmed);
                push("confirms, the answer is lost", state::Payment::Unsent, confirmed);
                if self.bounds.has(Bug::RefusedByOwnClock) {
                    push("its clock is ahead: HOLD_LAPSED", state::Payment::Refused, *state);
                }
            }
            Found::Confirmed => push("was confirmed: OK", state::Payment::Paid, *state),
            Found::Ended => push("cannot confirm: 409", state::Payment::Refused, *state),
        }
    }

    /// A transaction that is not yet visible holds locks on its coupons.
    fn waits(&self, state: &State, payment: Payment) -> bool {
        state.truth.hidden.is_some_and(|hidden| {
            hidden.coupons.iter().any(|(claim, at)| claim == payment.claim && payment.part.has(at))
        })
    }

    fn find(&self, state: &State, payment: Payment, coupons: &Coupons) -> Found {
        if state.truth.paid >> payment.reference & 1 == 1 {
            return Found::Confirmed;
        }
        let asked = (0..).zip(coupons.status).filter(|(at, _)| payment.part.has(*at));
        let mut asked = asked.map(|(_, status)| status).filter(|s| *s != Status::Absent);
        let in_time = !coupons.due || self.bounds.has(Bug::ConfirmAfterDeadline);
        let held = if self.bounds.has(Bug::PaymentInPart) {
            asked.any(|status| status == Status::Held)
        } else {
            asked.all(|status| status == Status::Held)
        };
        if held && in_time { Found::Held } else { Found::Ended }
    }

    /// Changes the coupons from `held` to `unused` and inserts the reference, in one transaction.
    fn confirmed(&self, state: &State, payment: Payment) -> State {
        let mut after = *state;
        after.truth.paid |= 1 << payment.reference;
        let Row::Landed(row) = &mut after.truth.claims[usize::from(payment.claim)] else {
            return after;
        };
        if row.due {
            after.broken = Some(Promise::LapsesAtItsDeadline);
        }
        for (at, status) in row.status.iter_mut().enumerate() {
            let asked = payment.part.has(at) && *status != Status::Absent;
            if !asked || self.bounds.has(Bug::PaymentInPart) && *status != Status::Held {
                continue;
            }
            if !status.may_become(Status::Unused) {
                after.broken = Some(Promise::HeldEndsOnce);
            }
            *status = Status::Unused;
        }
        let mut asked = (0..).zip(row.status).filter(|(at, _)| payment.part.has(*at));
        if asked.any(|(_, status)| !matches!(status, Status::Unused | Status::Absent)) {
            after.broken = Some(Promise::PaidIsConfirmed);
        }
        after
    }

    /// Returns the first promise to a merchant that this state breaks.
    pub(in crate::holds) fn broken_payment(&self, state: &State) -> Option<Promise> {
        for (payment, answer) in self.bounds.payments.iter().zip(state.payments) {
            let paid = state.truth.paid >> payment.reference & 1 == 1;
            if answer == state::Payment::Refused && paid {
                return Some(Promise::PaymentHasOneAnswer);
            }
            if answer != state::Payment::Paid {
                continue;
            }
            let Row::Landed(row) = state.truth.claims[usize::from(payment.claim)] else {
                return Some(Promise::PaidIsConfirmed);
            };
            let asked = (0..).zip(row.status).filter(|(at, _)| payment.part.has(*at));
            let mut asked = asked.map(|(_, status)| status);
            if asked.any(|status| matches!(status, Status::Held | Status::Lapsed)) {
                return Some(Promise::PaidIsConfirmed);
            }
        }
        None
    }
}
