//! How a hold ends without a payment: its deadline passes and expiry-worker lapses it, or a request cancels it.

use coupon::CouponStatus;

use super::{
    super::{
        Next, Promise, Protocol, State, Who, dies, is_next, step,
        truth::{Return, Row, Set},
    },
    bounds::{Cancel as Request, Part},
    state::Cancel,
};

impl Protocol {
    /// `held_until` of a claim passes by MySQL's clock.
    pub(super) fn pass_deadlines(&self, state: &State, next: &mut Next) {
        if state.left.deadlines == 0 {
            return;
        }
        for (id, coupons) in state.truth.landed() {
            let held = coupons.status.contains(&Some(CouponStatus::Held));
            let mut after = *state;
            let Row::Landed(row) = &mut after.truth.claims[usize::from(id)] else { continue };
            if held && !coupons.due {
                row.due = true;
                after.left.deadlines -= 1;
                next.push((step(Who::Claim(id), "its deadline passes"), after));
            }
        }
    }

    /// expiry-worker reads the ids of a chunk, then returns the chunk in one transaction. It does not inform the gate.
    pub(super) fn lapse(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Lapser(which);
        let read = state.holds.lapsers[which];
        if read.is_empty() {
            if is_next(&state.holds.lapsers, which, &read) {
                for read in self.chunks(state) {
                    let mut after = *state;
                    after.holds.lapsers[which] = read;
                    next.push((step(who, "reads a chunk of what is due"), after));
                }
            }
            return;
        }
        if state.truth.hidden.is_none() {
            let mut after = *state;
            let what = self.lapse_chunk(&mut after, which);
            next.push((step(who, what), after));
        }
        dies(state, who, next, |dead| dead.holds.lapsers[which] = Set::default());
    }

    fn lapse_chunk(&self, state: &mut State, which: usize) -> &'static str {
        let read = std::mem::take(&mut state.holds.lapsers[which]);
        let given = state.truth.give_back(self.claims(), &self.bounds, read, Return::Lapse);
        let Some(transaction) = given else { return "finds nothing of it held any more" };
        for (claim, _) in transaction.coupons.iter() {
            if matches!(state.truth.row(claim), Row::Landed(row) if !row.due) {
                state.broken = Some(Promise::LapsesAtItsDeadline);
            }
        }
        self.commit(state, transaction);
        "lapses it"
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

    /// A request to cancel reads the ids, returns the coupons in one transaction, and sends the movement to the gate.
    pub(super) fn cancel(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Cancel(which);
        let request = self.bounds.cancels[which];
        let mut after = *state;
        match state.holds.cancels[which] {
            Cancel::Unsent => {
                let Request { claim, part, by } = request;
                let read = state.truth.returnable(claim, part, Return::from(by), self.bounds.bug);
                if !read.is_empty() {
                    after.holds.cancels[which] = Cancel::Read(read);
                    next.push((step(who, "reads its coupons"), after));
                }
                return;
            }
            Cancel::Read(read) if state.truth.hidden.is_none() => {
                let what = self.cancel_read(&mut after, which, read);
                next.push((step(who, what), after));
            }
            Cancel::Tell(seq) if seq <= state.truth.movement => {
                after.holds.cancels[which] = Cancel::Done;
                self.tell(state, after, who, seq, next);
            }
            Cancel::Read(_) | Cancel::Tell(_) => {}
            Cancel::Done => return,
        }
        dies(state, who, next, |dead| dead.holds.cancels[which] = Cancel::Done);
    }

    fn cancel_read(&self, state: &mut State, which: usize, read: Set) -> &'static str {
        let way = Return::from(self.bounds.cancels[which].by);
        let given = state.truth.give_back(self.claims(), &self.bounds, read, way);
        let Some(transaction) = given else {
            state.holds.cancels[which] = Cancel::Done;
            return "finds none that may be cancelled";
        };
        // A hold whose deadline has passed only lapses.
        for (claim, position) in transaction.coupons.iter() {
            let Row::Landed(row) = state.truth.row(claim) else { continue };
            if row.due && row.status[position] == Some(CouponStatus::Held) {
                state.broken = Some(Promise::LapsesAtItsDeadline);
            }
        }
        state.holds.cancels[which] = Cancel::Tell(state.truth.movement + 1);
        self.commit(state, transaction);
        "cancels them"
    }
}
