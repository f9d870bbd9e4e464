//! The account of a template, one statement: the stock is the sum of its movements less what landed. Correct traffic
//! keeps a drift as it is. A person repairs it, after a dry run whose digest the repair repeats.

use super::{
    Finding, Next, Promise, Reconcile, Shown, State, bounds::OPERATORS_MAX, is_first_idle, step,
};
use crate::Bug;

const OPERATOR: &str = "operator";

impl Reconcile {
    pub(super) fn account(&self, state: &State, next: &mut Next) {
        let drift = state.truth.drift(self.bounds.total);
        if state.finding == Finding::None && drift != 0 {
            let mut after = *state;
            after.finding = Finding::Open;
            next.push((step("reconciler", 0, "finds the ledger's drift"), after));
        }
        for which in 0..OPERATORS_MAX {
            match state.shown[which] {
                None => self.dry_run(state, which, drift, next),
                Some(shown) => self.repair(state, which, shown, drift, next),
            }
        }
    }

    fn dry_run(&self, state: &State, which: usize, drift: i8, next: &mut Next) {
        let first = is_first_idle(&state.shown, which, &None);
        if state.left.repairs == 0 || state.finding != Finding::Open || drift == 0 || !first {
            return;
        }
        let mut after = *state;
        after.left.repairs -= 1;
        after.shown[which] = Some(Shown { drift, stock: state.truth.stock - drift });
        next.push((step(OPERATOR, which, "looks at the dry run"), after));
    }

    /// One transaction, under the lock of the stock row: the finding is still open, the drift is still the one of the
    /// digest, and the change is relative.
    fn repair(&self, state: &State, which: usize, shown: Shown, drift: i8, next: &mut Next) {
        if state.truth.hidden.is_some() {
            return;
        }
        let mut after = *state;
        after.shown[which] = None;
        let twice = self.has(Bug::RepairTwice);
        let absolute = self.has(Bug::RepairAbsolute);
        let is_open = state.finding == Finding::Open || twice;
        let same = shown.drift == drift || twice || absolute;
        if !is_open || !same {
            next.push((step(OPERATOR, which, "409: the state moved"), after));
            return;
        }
        after.truth.stock = if absolute { shown.stock } else { state.truth.stock - shown.drift };
        after.truth.epoch += 1;
        after.finding = Finding::Repaired;
        if after.truth.drift(self.bounds.total) != 0 {
            after.broken = Some(Promise::RepairHelps);
        }
        next.push((step(OPERATOR, which, "repairs the stock, and raises the epoch"), after));
    }
}
