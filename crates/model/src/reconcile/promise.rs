//! Promises of the reconciler.

use std::fmt;

use super::{At, Keeper, Reconcile, Request, State, judge::TruthRead};

/// A promise of the reconciler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// What is found is wrong.
    NoFalseFinding,
    /// What stays wrong is found, at the latest at rest.
    EveryFaultFound,
    /// A gate is rebuilt once for a finding.
    RepairedOnce,
    /// A repair of the ledger leaves no drift, whatever happened since its dry run.
    RepairHelps,
    /// A claim that was answered 202 lands.
    AcceptedLands,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFalseFinding => "a finding, and nothing was wrong in its epoch",
            Self::EveryFaultFound => {
                "all is quiet, gate and MySQL differ, and a look finds nothing"
            }
            Self::RepairedOnce => "the epoch is raised once more for what is already repaired",
            Self::RepairHelps => "a repair leaves another drift",
            Self::AcceptedLands => "an accepted claim can never land",
        })
    }
}

impl Reconcile {
    /// Returns the broken promise if all is quiet, gate and MySQL differ, and a look would not find it.
    pub(super) fn unfound_at_rest(&self, state: &State) -> Option<Promise> {
        let gate = &state.gate;
        let waits = gate.requests.iter().flatten().any(|request| request.is_unsettled());
        let differs = gate.taken != state.truth.numbers || gate.stock != state.truth.stock || waits;
        if !differs || !is_quiet(state) {
            return None;
        }
        let read = self.read_gate(state)?;
        let found = self.judge(state, &read, &TruthRead::of(state), &read);
        (!found.any()).then_some(Promise::EveryFaultFound)
    }
}

/// Returns whether nobody is about to change anything: no claim, no movement, no keeper. Of a claim whose process died,
/// the resolver knows only what is in flight.
fn is_quiet(state: &State) -> bool {
    let gate = &state.gate;
    let truth = &state.truth;
    let told = truth.hidden.is_none() && gate.movement == truth.movement();
    let kept = state.is_open() && !gate.marked && gate.epoch == truth.epoch;
    let idle = state.keepers.iter().all(|keeper| *keeper == Keeper::Idle);
    let resolved = |request: Option<Request>| request.is_some_and(|request| !request.listed);
    let ended = state.claims.iter().zip(gate.requests).all(|(claim, request)| match claim.at {
        At::Unsent | At::Ended => true,
        At::Admitted | At::Landed => false,
        At::Abandoned => resolved(request),
    });
    told && kept && idle && ended
}
