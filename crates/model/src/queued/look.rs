//! `GET` of a claim by its id, with a receipt.

use super::{
    Next, Promise, Protocol, State, Who,
    bounds::IDS,
    state::Looker,
    step,
    truth::{Outcome, Row},
};
use crate::Bug;

impl Protocol {
    /// Reads `queued_epoch` before the row. So if a claim of an older epoch has no row, it never gets one.
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        match state.looker {
            Looker::Idle if state.left.looks > 0 => {
                after.left.looks -= 1;
                for id in (0..IDS as u8).filter(|id| state.receipts[usize::from(*id)] > 0) {
                    after.looker = if !self.bounds.has(Bug::RowReadBeforeEpoch) {
                        Looker::Epoch { id, queued: state.truth.queued_epoch }
                    } else if matches!(state.truth.row(id), Row::Absent | Row::Foreign) {
                        Looker::NoRow { id }
                    } else {
                        continue;
                    };
                    next.push((step(Who::Client, "asks for its claim: the first read"), after));
                }
            }
            Looker::Idle => {}
            Looker::Epoch { id, queued } => {
                let receipt = state.receipts[usize::from(id)];
                self.answer(&mut after, id, self.outcome(&state.truth, id, receipt, queued));
                next.push((step(Who::Client, "asks for its claim: the second read"), after));
            }
            Looker::NoRow { id } => {
                let late = state.receipts[usize::from(id)] < state.truth.queued_epoch;
                let outcome = if late { Outcome::Lost } else { Outcome::Processing };
                self.answer(&mut after, id, outcome);
                next.push((step(Who::Client, "asks for its claim: the second read"), after));
            }
        }
    }

    /// Someone looks a claim up under another template, which is not queued, and leaves a fence there.
    pub(super) fn look_elsewhere(&self, state: &State, next: &mut Next) {
        for id in (0..).zip(self.bounds.attempts).map(|(id, _)| id) {
            if state.left.strangers > 0 && state.truth.row(id) == Row::Absent {
                let mut after = *state;
                after.left.strangers -= 1;
                after.truth.rows[usize::from(id)] = Row::Foreign;
                next.push((step(Who::Client, "a lookup fences the id in another template"), after));
            }
        }
    }

    fn answer(&self, state: &mut State, id: u8, outcome: Outcome) {
        state.looker = Looker::Idle;
        if outcome != Outcome::Processing && outcome != state.told[usize::from(id)] {
            state.broken = Some(Promise::OneOutcome);
        }
    }

    /// Notes the outcome that a client would be told in this state. A definite outcome never changes.
    pub(super) fn tell(&self, state: &mut State) {
        for id in 0..IDS as u8 {
            let receipt = state.receipts[usize::from(id)];
            if receipt == 0 {
                continue;
            }
            let now = self.outcome(&state.truth, id, receipt, state.truth.queued_epoch);
            let told = &mut state.told[usize::from(id)];
            if *told != Outcome::Processing && now != *told {
                state.broken = Some(Promise::OneOutcome);
            }
            *told = now;
        }
    }
}
