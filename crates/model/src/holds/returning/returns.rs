//! How a hold ends without a payment: its deadline passes and expiry-worker lapses it, or a request cancels it.

use super::{
    Next, Promise, Protocol, State, Step, Who,
    bounds::Part,
    ledger::{Return, Set},
    state::Cancel,
    truth::{Row, Status},
};
impl Protocol {
    /// `held_until` of a claim passes by MySQL's clock.
    pub(in crate::holds) fn pass_deadlines(&self, state: &State, next: &mut Next) {
        if state.deadlines == 0 {
            return;
        }
        for (id, coupons) in state.truth.landed() {
            let held = coupons.status.contains(&Status::Held);
            let mut after = *state;
            let Row::Landed(row) = &mut after.truth.claims[usize::from(id)] else { continue };
            if held && !coupons.due {
                row.due = true;
                after.deadlines -= 1;
                next.push((Step { who: Who::Claim(id), what: "its deadline passes" }, after));
            }
        }
    }

    /// expiry-worker reads the ids of a chunk, then returns the chunk in one transaction. It does not inform the gate.
    pub(in crate::holds) fn lapse(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Lapser(which);
        let read = state.lapsers[which];
        if read.is_empty() {
            // Workers are interchangeable, so only the first idle one begins.
            if state.lapsers[..which].iter().any(|earlier| earlier.is_empty()) {
                return;
            }
            for read in self.chunks(state) {
                let mut after = *state;
                after.lapsers[which] = read;
                next.push((Step { who, what: "reads a chunk of what is due" }, after));
            }
            return;
        }
        if state.truth.hidden.is_none() {
            let mut after = *state;
            after.lapsers[which] = Set::default();
            let what = match state.truth.give_back(self.claims(), &self.bounds, read, Return::Lapse)
            {
                Some(transaction) => {
                    self.check_deadlines(&mut after, transaction.coupons);
                    self.commit(&mut after, transaction);
                    "lapses it"
                }
                None => "finds nothing of it held any more",
            };
            next.push((Step { who, what }, after));
        }
        if state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.lapsers[which] = Set::default();
            next.push((Step { who, what: "dies" }, died));
        }
    }

    /// Returns the possible chunks: the due coupons of each claim, of all claims, and of a part of a claim, since a
    /// chunk may end anywhere.
    fn chunks(&self, state: &State) -> Vec<Set> {
        let due = |id, part| state.truth.returnable(id, part, Return::Lapse, self.bounds.bug);
        let ids = (0..).zip(self.bounds.attempts).map(|(id, _)| id);
        let mut chunks: Vec<Set> = Vec::new();
        let mut all = Set::default();
        for id in ids {
            let whole = due(id, Part::All);
            all = all.with(whole);
            chunks.extend([whole, due(id, Part::First)]);
        }
        chunks.push(all);
        chunks.retain(|chunk| !chunk.is_empty());
        chunks.sort_unstable();
        chunks.dedup();
        chunks
    }

    /// No hold lapses before its deadline.
    fn check_deadlines(&self, state: &mut State, lapsed: Set) {
        for (claim, _) in lapsed.iter() {
            if let Row::Landed(row) = state.truth.claims[usize::from(claim)]
                && !row.due
            {
                state.broken = Some(Promise::LapsesAtItsDeadline);
            }
        }
    }

    /// A request to cancel reads the ids, returns the coupons in one transaction, and sends the movement to the gate.
    pub(in crate::holds) fn cancel(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Cancel(which);
        let request = self.bounds.cancels[which];
        let way = Return::from(request.by);
        let mut after = *state;
        match state.cancels[which] {
            Cancel::Unsent => {
                let bug = self.bounds.bug;
                let read = state.truth.returnable(request.claim, request.part, way, bug);
                if !read.is_empty() {
                    after.cancels[which] = Cancel::Read(read);
                    next.push((Step { who, what: "reads its coupons" }, after));
                }
                return;
            }
            Cancel::Read(read) if state.truth.hidden.is_none() => {
                match state.truth.give_back(self.claims(), &self.bounds, read, way) {
                    Some(transaction) => {
                        self.check_late_cancel(&mut after, transaction.coupons);
                        after.cancels[which] = Cancel::Tell(state.truth.movement + 1);
                        self.commit(&mut after, transaction);
                        next.push((Step { who, what: "cancels them" }, after));
                    }
                    None => {
                        after.cancels[which] = Cancel::Done;
                        next.push((Step { who, what: "finds none that may be cancelled" }, after));
                    }
                }
            }
            Cancel::Tell(seq) if seq <= state.truth.movement => {
                after.cancels[which] = Cancel::Done;
                self.tell(state, after, who, seq, next);
            }
            Cancel::Read(_) | Cancel::Tell(_) => {}
            Cancel::Done => return,
        }
        if state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.cancels[which] = Cancel::Done;
            next.push((Step { who, what: "dies" }, died));
        }
    }

    /// A hold whose deadline has passed only lapses.
    fn check_late_cancel(&self, state: &mut State, cancelled: Set) {
        for (claim, position) in cancelled.iter() {
            if let Row::Landed(row) = state.truth.claims[usize::from(claim)]
                && row.due
                && row.status[position] == Status::Held
            {
                state.broken = Some(Promise::LapsesAtItsDeadline);
            }
        }
    }
}
