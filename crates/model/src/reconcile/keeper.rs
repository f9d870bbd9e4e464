//! The keepers, which rebuild a gate that a reconciler marked, and one that is lost or behind. A raise of the epoch is
//! conditional on the epoch in which its reason was seen.

use super::{
    At, Gate, Keeper, Next, Phase, Promise, Reconcile, State, Way, bounds::PROCESSES_MAX,
    is_first_idle, step,
};
use crate::Bug;

const KEEPER: &str = "keeper";

impl Reconcile {
    pub(super) fn keep(&self, state: &State, next: &mut Next) {
        for which in 0..self.bounds.processes.min(PROCESSES_MAX) {
            match state.keepers[which] {
                Keeper::Idle if is_first_idle(&state.keepers, which, &Keeper::Idle) => {
                    self.see(state, which, next);
                }
                Keeper::Idle => {}
                Keeper::Saw(epoch) => self.raise(state, which, epoch, next),
                Keeper::Begins(epoch) => begin(state, which, epoch, next),
                Keeper::Loads(epoch) => self.load(state, which, epoch, next),
            }
        }
    }

    fn see(&self, state: &State, which: usize, next: &mut Next) {
        let gate = state.gate;
        let truth = state.truth;
        let loads = gate.phase == Phase::Loading && gate.run == state.run;
        // A rebuild that nobody finishes any more is begun again.
        let under_way = loads
            && gate.epoch == truth.epoch
            && state.keepers.iter().any(|keeper| *keeper != Keeper::Idle);
        let reason = !state.is_open() || gate.marked || gate.epoch < truth.epoch;
        let mut after = *state;
        if reason && !under_way {
            let epoch = if gate.marked { gate.epoch } else { truth.epoch };
            after.keepers[which] = Keeper::Saw(epoch);
            next.push((step(KEEPER, which, "sees a gate to rebuild"), after));
        } else if state.left.rebuilds > 0 {
            after.left.rebuilds -= 1;
            after.keepers[which] = Keeper::Saw(truth.epoch);
            next.push((step(KEEPER, which, "sees another reason to rebuild"), after));
        }
    }

    /// `update template_stock set epoch = epoch + 1 where epoch = ?`; it waits for the stock row.
    fn raise(&self, state: &State, which: usize, seen: u8, next: &mut Next) {
        let epoch = state.truth.epoch;
        if state.truth.hidden.is_some() {
            return;
        }
        let mut after = *state;
        if epoch != seen && !self.has(Bug::RaiseUnconditional) {
            after.keepers[which] = Keeper::Idle;
            next.push((step(KEEPER, which, "finds the epoch raised already"), after));
            return;
        }
        after.truth.epoch += 1;
        after.keepers[which] = Keeper::Begins(after.truth.epoch);
        after.broken = (epoch != seen).then_some(Promise::RepairedOnce);
        next.push((step(KEEPER, which, "raises the epoch"), after));
    }

    /// Reads MySQL, loads and opens, once what is queued has landed.
    fn load(&self, state: &State, which: usize, epoch: u8, next: &mut Next) {
        let gate = state.gate;
        let loading = gate.phase == Phase::Loading && gate.epoch == epoch && gate.run == state.run;
        let mut after = *state;
        after.keepers[which] = Keeper::Idle;
        if state.truth.epoch != epoch || !loading {
            next.push((step(KEEPER, which, "gives up"), after));
        } else if !self.is_queued(state) {
            after.gate = Gate { phase: Phase::Open, ..gate }.with(&state.truth);
            next.push((step(KEEPER, which, "load.lua, open.lua"), after));
        }
    }

    fn is_queued(&self, state: &State) -> bool {
        let mut claims = self.bounds.claims.iter().zip(&state.claims);
        claims.any(|(way, claim)| *way == Way::Queued && claim.at == At::Admitted)
    }
}

/// `begin.lua`
fn begin(state: &State, which: usize, epoch: u8, next: &mut Next) {
    let mut after = *state;
    if state.gate.epoch < epoch {
        after.gate = Gate::loading(epoch, state.run);
        after.keepers[which] = Keeper::Loads(epoch);
        next.push((step(KEEPER, which, "begin.lua"), after));
    } else {
        after.keepers[which] = Keeper::Idle;
        next.push((step(KEEPER, which, "begin.lua finds a later epoch"), after));
    }
}
