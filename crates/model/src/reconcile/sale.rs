//! The sale: claims, returns, top-ups, and the delivery of movements to the gate.

use super::{
    At, Claim, Movement, Next, Promise, Reconcile, Request, State, Way, bounds::CLAIMS_MAX, step,
};
use crate::{
    Bug,
    gate::{Numbers, RequestState},
};

impl Reconcile {
    pub(super) fn sell(&self, state: &State, next: &mut Next) {
        for (which, way) in self.bounds.claims.iter().take(CLAIMS_MAX).enumerate() {
            match state.claims[which].at {
                At::Unsent => self.admit(state, which, *way, next),
                At::Admitted => {
                    self.land(state, which, *way, next);
                    self.fence_queued(state, which, *way, next);
                }
                At::Abandoned => self.resolve(state, which, next),
                At::Landed => self.settle(state, which, next),
                At::Ended => {}
            }
        }
    }

    /// `claim.lua`
    fn admit(&self, state: &State, which: usize, way: Way, next: &mut Next) {
        let gate = state.gate;
        let number = gate.taken.lowest_free(1);
        let within = number.iter().all(|number| number <= self.bounds.limit);
        if !state.is_open() || gate.marked || gate.stock <= 0 || !within {
            return;
        }
        let waits = match way {
            Way::Direct => RequestState::Pending,
            Way::Queued => RequestState::Queued,
        };
        let mut after = *state;
        after.gate.stock -= 1;
        after.gate.taken = gate.taken.with(number);
        after.gate.requests[which] = Some(Request { state: waits, listed: true });
        after.claims[which] = Claim { at: At::Admitted, number, epoch: gate.epoch };
        next.push((step("claim", which, "claim.lua admits it"), after));
    }

    /// The landing's transaction. A queued claim of an earlier epoch lands: a rebuild waits for it. Any landing waits
    /// for the stock row.
    fn land(&self, state: &State, which: usize, way: Way, next: &mut Next) {
        let claim = state.claims[which];
        if way == Way::Direct && state.left.crashes > 0 {
            let mut after = *state;
            after.left.crashes -= 1;
            after.claims[which].at = At::Abandoned;
            next.push((step("claim", which, "its process dies"), after));
        }
        let truth = state.truth;
        if truth.hidden.is_some() {
            return;
        }
        let guarded = way == Way::Queued || claim.epoch == truth.epoch;
        let mut after = *state;
        if guarded && truth.stock > 0 && !truth.numbers.meets(claim.number) {
            after.truth.stock -= 1;
            after.truth.landed += 1;
            after.truth.numbers = truth.numbers.with(claim.number);
            after.claims[which].at = At::Landed;
            next.push((step("claim", which, "lands"), after));
        } else {
            give_up(&mut after, which);
            next.push((step("claim", which, "is rolled back for good, and released"), after));
        }
    }

    /// The resolver fences a claim whose process died, and releases it. It finds claims among those in flight.
    fn resolve(&self, state: &State, which: usize, next: &mut Next) {
        let request = state.gate.requests[which];
        if request.is_none_or(|request| request.listed) {
            let mut after = *state;
            give_up(&mut after, which);
            next.push((step("claim", which, "the resolver fences and releases it"), after));
        }
    }

    /// Only with [`Bug::ReconcilerFencesQueued`]. The claim was answered 202.
    fn fence_queued(&self, state: &State, which: usize, way: Way, next: &mut Next) {
        if self.has(Bug::ReconcilerFencesQueued) && way == Way::Queued {
            let mut after = *state;
            give_up(&mut after, which);
            after.broken = Some(Promise::AcceptedLands);
            next.push((step("claim", which, "a reconciler fences and releases it"), after));
        }
    }

    /// `settle.lua`
    fn settle(&self, state: &State, which: usize, next: &mut Next) {
        let mut after = *state;
        if let Some(gate) = after.unsettled(which) {
            gate.requests[which] = Some(Request { state: RequestState::Landed, listed: false });
        }
        after.claims[which] = Claim { at: At::Ended, ..Claim::default() };
        next.push((step("claim", which, "settle.lua"), after));
    }

    /// Returns and top-ups, and their way to the gate.
    pub(super) fn change(&self, state: &State, next: &mut Next) {
        if let Some(movement) = state.truth.hidden {
            let mut after = *state;
            after.truth.hidden = None;
            commit(&mut after, movement);
            next.push((step("movement", after.truth.movement().into(), "can be read"), after));
        } else {
            self.move_stock(state, next);
        }
        let seq = state.gate.movement + 1;
        let message = state.truth.message(seq).filter(|_| state.is_open());
        if let Some(Movement { delta, returned }) = message {
            let mut after = *state;
            after.gate.stock += delta;
            after.gate.taken = after.gate.taken.without(returned);
            after.gate.movement = seq;
            next.push((step("movement", seq.into(), "move.lua"), after));
        }
    }

    fn move_stock(&self, state: &State, next: &mut Next) {
        let seq = usize::from(state.truth.movement() + 1);
        let mut moves = |mut after: State, movement: Movement, what: &'static str| {
            if self.bounds.hidden {
                after.truth.hidden = Some(movement);
            } else {
                commit(&mut after, movement);
            }
            next.push((step("movement", seq, what), after));
        };
        if state.left.returns > 0 {
            for number in state.truth.numbers.iter() {
                let mut after = *state;
                after.left.returns -= 1;
                let returned = Numbers::from_iter([number]);
                moves(after, Movement { delta: 1, returned }, "a coupon comes back");
            }
        }
        if state.left.top_ups > 0 {
            let mut after = *state;
            after.left.top_ups -= 1;
            moves(after, Movement { delta: 1, ..Movement::default() }, "a top-up");
        }
    }
}

fn commit(state: &mut State, movement: Movement) {
    let truth = &mut state.truth;
    truth.movements.push(movement);
    truth.stock += movement.delta;
    truth.numbers = truth.numbers.without(movement.returned);
}

/// `release.lua` for a claim that will never land.
fn give_up(state: &mut State, which: usize) {
    let number = state.claims[which].number;
    if let Some(gate) = state.unsettled(which) {
        gate.stock += 1;
        gate.taken = gate.taken.without(number);
        gate.requests[which] = None;
    }
    state.claims[which] = Claim { at: At::Ended, ..Claim::default() };
}
