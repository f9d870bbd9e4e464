//! `GET` of a claim by its id, with a receipt, and what a client is told.

use super::{
    super::{
        Next, Promise, Protocol, State, Who,
        bounds::IDS,
        step,
        truth::{Row, Truth},
    },
    state::{Looker, Outcome},
};
use crate::Bug;

impl Protocol {
    /// Reads `queued_epoch` before the row. So if a claim of an older epoch has no row, it never gets one.
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        match state.queue.looker {
            Looker::Idle if state.left.looks > 0 => {
                after.left.looks -= 1;
                for id in (0..IDS as u8).filter(|id| state.queue.receipts[usize::from(*id)] > 0) {
                    after.queue.looker = if !self.has(Bug::RowReadBeforeEpoch) {
                        Looker::Epoch { id, queued: state.truth.queued_epoch }
                    } else if matches!(state.truth.row(id), Row::Absent | Row::Foreign) {
                        Looker::NoRow { id }
                    } else {
                        continue;
                    };
                    next.push((step(Who::Client, "asks for its claim: the first read"), after));
                }
                return;
            }
            Looker::Idle => return,
            Looker::Epoch { id, queued } => {
                let receipt = state.queue.receipts[usize::from(id)];
                answer(&mut after, id, self.outcome(&state.truth, id, receipt, queued));
            }
            Looker::NoRow { id } => {
                let late = state.queue.receipts[usize::from(id)] < state.truth.queued_epoch;
                answer(&mut after, id, if late { Outcome::Lost } else { Outcome::Processing });
            }
        }
        next.push((step(Who::Client, "asks for its claim: the second read"), after));
    }

    /// Someone looks a claim up under another template, which is not queued, and leaves a fence there.
    pub(super) fn look_elsewhere(&self, state: &State, next: &mut Next) {
        for id in (0..).zip(self.bounds.attempts).map(|(id, _)| id) {
            if state.left.strangers > 0 && state.truth.row(id) == Row::Absent {
                let mut after = *state;
                after.left.strangers -= 1;
                after.truth.claims[usize::from(id)] = Row::Foreign;
                next.push((step(Who::Client, "a lookup fences the id in another template"), after));
            }
        }
    }

    /// Returns the outcome that a client with a receipt of this epoch is told, given the rows and a `queued_epoch`.
    fn outcome(&self, truth: &Truth, id: u8, receipt: u8, queued: u8) -> Outcome {
        match truth.row(id) {
            Row::Landed(_) => Outcome::Succeeded,
            Row::Rejected(_) => Outcome::Rejected,
            Row::Void => match truth.answered_under(self.claims(), self.attempt(id).key) {
                Some(other) if truth.has_landed(other) => Outcome::Succeeded,
                Some(_) => Outcome::Rejected,
                None => Outcome::Lost,
            },
            Row::Absent | Row::Foreign if receipt < queued => Outcome::Lost,
            Row::Absent | Row::Foreign => Outcome::Processing,
        }
    }

    /// Notes the outcome that a client would be told in this state. A definite outcome never changes.
    pub(in crate::claim) fn tell_clients(&self, state: &mut State) {
        for id in 0..IDS as u8 {
            let receipt = state.queue.receipts[usize::from(id)];
            if receipt == 0 {
                continue;
            }
            let now = self.outcome(&state.truth, id, receipt, state.truth.queued_epoch);
            let told = &mut state.queue.told[usize::from(id)];
            if *told != Outcome::Processing && now != *told {
                state.broken = Some(Promise::OneOutcome);
            }
            *told = now;
        }
    }
}

fn answer(state: &mut State, id: u8, outcome: Outcome) {
    state.queue.looker = Looker::Idle;
    if outcome != Outcome::Processing && outcome != state.queue.told[usize::from(id)] {
        state.broken = Some(Promise::OneOutcome);
    }
}
