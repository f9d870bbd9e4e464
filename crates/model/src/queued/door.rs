//! The api: a request from the gate to its answer, in direct or in queued mode.

use coupon::TemplateState;

use super::{
    Next, Promise, Protocol, State, Step, Who, bit,
    bounds::{AcceptAfter, IDS, Mode, SPARE},
    gate::{Message, Request, Said, Verdict},
    state::{At, Ending, Walk},
    step,
    truth::{Decision, Open, Outcome},
};
use crate::Bug;

impl Protocol {
    /// The next steps of one request; the successful one first.
    pub(super) fn walk(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        match walk.at {
            At::Unsent => self.send(state, id, next),
            At::Lookup => self.look_up(state, id, next),
            At::LookFirst => self.look_first(state, id, next),
            At::AskLooked => self.ask_in_mode(state, id, true, next),
            At::LookAgain => self.look_again(state, id, next),
            At::Publish => {
                let mut after = state.with_walk(id, At::Confirm);
                if after.publish(walk.message) {
                    if self.bounds.has(Bug::NotConfirmed) {
                        self.accept(&mut after, id, walk.message.id);
                    }
                    next.push((claim(id, "publishes the entry itself, acked"), after));
                }
            }
            At::Confirm => {
                let mut after = *state;
                let what = if after.gate.published(walk.message, walk.run) {
                    self.accept(&mut after, id, walk.message.id);
                    "published.lua: the same gate; 202"
                } else {
                    after.end(id, At::Done);
                    "published.lua: another gate; 503 with Location"
                };
                next.push((claim(id, what), after));
            }
            At::Wait => self.wait(state, id, next),
            At::Land => self.land_directly(state, id, next),
            At::Settle => {
                let mut after = *state;
                after.gate.settle(walk.message.epoch, id);
                after.end(id, At::Answered);
                next.push((claim(id, "settle.lua; 201"), after));
            }
            At::Release(ending) => {
                let mut after = *state;
                after.gate.release(walk.message.epoch, self.attempt(id).user, id);
                match ending {
                    Ending::Refused => self.refuse(&mut after, id),
                    Ending::Answered => after.end(id, At::Answered),
                    Ending::Retryable => after.end(id, At::Done),
                }
                next.push((claim(id, "release.lua; is answered"), after));
            }
            At::Accepted | At::Answered | At::Refused | At::Done => {}
        }
        if state.left.crashes > 0 && walk.is_under_way() {
            let mut dead = *state;
            dead.left.crashes -= 1;
            dead.end(id, At::Done);
            next.push((claim(id, "its process dies"), dead));
        }
    }

    /// Claims with the same key are sent in order. In mode spill the api tells the gate with each claim whether its
    /// lander is behind.
    fn send(&self, state: &State, id: u8, next: &mut Next) {
        let key = self.attempt(id).key;
        let mut earlier = (0..id).filter(|earlier| self.attempt(*earlier).key == key);
        let is_probe = usize::from(id) == SPARE;
        if !is_probe && earlier.any(|earlier| state.walks[usize::from(earlier)].at == At::Unsent) {
            return;
        }
        self.ask_in_mode(state, id, false, next);
    }

    fn ask_in_mode(&self, state: &State, id: u8, looked: bool, next: &mut Next) {
        self.ask_gate(state, id, Said { behind: false, looked }, next);
        if state.gate.meta.is_some_and(|meta| meta.mode == Mode::Spill) {
            self.ask_gate(state, id, Said { behind: true, looked }, next);
        }
    }

    /// Notes what a queued admission means for the promises about its key.
    fn note_queued(&self, asked: &mut State, state: &State, id: u8, said: Said, message: Message) {
        let key = self.attempt(id).key;
        let overtook = |later: u8| {
            self.attempt(later).key == key && state.walks[usize::from(later)].at != At::Unsent
        };
        if said.looked && (id + 1..IDS as u8).any(overtook) {
            asked.overtaken |= bit(id);
        }
        // Another request with the key may have ended since the look.
        let is_answered = self.answered_under(&state.truth, key).is_some();
        if !said.looked && is_answered && message.epoch != state.lied {
            asked.broken = Some(Promise::NothingTakenForAnAnsweredKey);
        }
    }

    fn ask_gate(&self, state: &State, id: u8, said: Said, next: &mut Next) {
        let mut asked = *state;
        let verdict = self.admit(&mut asked.gate, id, said);
        let run = asked.gate.run;
        let mut go_on = |at, message, wrote| {
            asked.walks[usize::from(id)] = Walk { at, message, run, wrote };
        };
        let user = usize::from(self.attempt(id).user);
        let look = state.gate.users[user].look;
        let what = match verdict {
            // 503, as if the request had not been sent. Once nothing can land any more, MySQL alone has the answer.
            Verdict::NotLoaded if !self.answers_without_gate(state) && said.looked => {
                asked.end(id, At::Unsent);
                "claim.lua: not loaded any more"
            }
            Verdict::NotLoaded if !self.answers_without_gate(state) => return,
            Verdict::NotLoaded => {
                go_on(At::Lookup, Message::default(), false);
                "claim.lua: not loaded, and its template has ended"
            }
            Verdict::Admitted(message) => {
                go_on(At::Land, message, true);
                "claim.lua: ADMITTED"
            }
            Verdict::LookFirst => {
                go_on(At::LookFirst, Message::default(), false);
                "claim.lua: its key must be looked up first"
            }
            Verdict::Queued(message) => {
                asked.receipts[usize::from(id)] = message.epoch;
                self.note_queued(&mut asked, state, id, said, message);
                if state.gate.meta.is_some_and(|meta| meta.movement < state.truth.movement) {
                    asked.excused |= bit(id);
                }
                self.queued(&mut asked, id, Walk { message, run, wrote: true, ..Walk::default() });
                "claim.lua: QUEUED"
            }
            Verdict::Replay(other, Request::Queued(number)) => {
                let epoch = asked.gate.meta.map_or(0, |meta| meta.epoch);
                let message = Message { id: other, epoch, number };
                let wrote = !self.bounds.has(Bug::ReplayWithoutWrite);
                if self.bounds.has(Bug::ReplayAccepted) {
                    self.accept(&mut asked, id, other);
                } else {
                    self.queued(&mut asked, id, Walk { message, run, wrote, ..Walk::default() });
                }
                "claim.lua: REPLAY of a queued request"
            }
            Verdict::Replay(_, Request::Landed(_)) => {
                asked.end(id, At::Answered);
                "claim.lua: REPLAY of a landed request; 201"
            }
            Verdict::Replay(..) => {
                asked.end(id, At::Done);
                "claim.lua: REPLAY of a pending request; 201 or 409 in progress"
            }
            Verdict::Refused if look => {
                go_on(At::Lookup, Message::default(), false);
                "claim.lua refuses; not final"
            }
            Verdict::Refused => {
                self.refuse(&mut asked, id);
                "claim.lua refuses, 409"
            }
        };
        next.push((claim(id, what), asked));
    }

    /// Without a gate, ENDED is final only when no accepted claim can land any more.
    fn answers_without_gate(&self, state: &State) -> bool {
        let closed =
            state.truth.open == Open::Nothing || self.bounds.has(Bug::EndedBeforeTheQueueIsClosed);
        state.truth.state == TemplateState::Ended && closed
    }

    /// The step that a queued claim waits for before its 202.
    fn queued(&self, state: &mut State, id: u8, walk: Walk) {
        let user = usize::from(self.attempt(id).user);
        let at = if state.gate.users[user].look && !self.bounds.has(Bug::QueuedWithoutLook) {
            At::LookAgain
        } else {
            match self.bounds.accept_after {
                AcceptAfter::Gate => return self.accept(state, id, walk.message.id),
                AcceptAfter::Replica => At::Wait,
                AcceptAfter::Topic => At::Publish,
            }
        };
        state.walks[usize::from(id)] = Walk { at, ..walk };
    }

    /// The answer to a key that was rejected, or that landed before the gate was rebuilt, is in MySQL. Nothing is taken
    /// for such a key.
    fn look_first(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        let what = if self.answered_under(&state.truth, self.attempt(id).key).is_some() {
            looked.end(id, At::Answered);
            "the key has an answer: that one"
        } else {
            looked.walks[usize::from(id)].at = At::AskLooked;
            "the key has no answer"
        };
        next.push((claim(id, what), looked));
    }

    fn look_again(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        let mut looked = *state;
        if self.answered_under(&state.truth, self.attempt(id).key).is_some() {
            looked.end(id, At::Answered);
            next.push((claim(id, "the key has an answer: that one, no 202"), looked));
            return;
        }
        match self.bounds.accept_after {
            AcceptAfter::Gate => self.accept(&mut looked, id, walk.message.id),
            AcceptAfter::Replica => looked.walks[usize::from(id)].at = At::Wait,
            AcceptAfter::Topic => looked.walks[usize::from(id)].at = At::Publish,
        }
        next.push((claim(id, "the key has no answer still"), looked));
    }

    /// WAIT on the connection of `claim.lua`. Either a replica has everything that this connection wrote, or too few
    /// replicas answer in time.
    fn wait(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        let mut waited = *state;
        if walk.run == state.gate.run {
            let has = |gate: &super::gate::Gate| {
                gate.run == state.gate.run
                    && matches!(gate.live(), Some(meta) if meta.epoch == walk.message.epoch)
                    && gate.request(walk.message.id) != Request::Absent
            };
            let waits = walk.wrote && !self.bounds.has(Bug::WaitOnAnotherConnection);
            if waits && !state.replica.as_ref().is_some_and(has) {
                waited.replica = Some(state.gate);
            }
            self.accept(&mut waited, id, walk.message.id);
            next.push((claim(id, "WAIT: a replica has it; 202"), waited));
        }
        let mut fewer = *state;
        fewer.end(id, At::Done);
        next.push((claim(id, "WAIT: none in time; 503 with Location"), fewer));
    }

    fn accept(&self, state: &mut State, id: u8, admission: u8) {
        state.accepted |= bit(admission);
        let epoch = state.receipts[usize::from(admission)];
        if epoch != state.lied {
            state.kept |= bit(admission) & !state.excused;
        }
        state.end(id, At::Accepted);
    }

    /// The direct way, in few steps.
    fn land_directly(&self, state: &State, id: u8, next: &mut Next) {
        let message = state.walks[usize::from(id)].message;
        let mut after = *state;
        if self.land(&mut after.truth, message, false) {
            next.push((claim(id, "lands"), after.with_walk(id, At::Settle)));
            return;
        }
        let decision = self.decide(&state.truth, message, false);
        let what = match decision {
            Decision::Landed => {
                after.walks[usize::from(id)].at = At::Settle;
                "decides: landed earlier"
            }
            Decision::Elsewhere | Decision::Rejected => {
                after.walks[usize::from(id)].at = At::Release(Ending::Answered);
                "decides: its key has an answer"
            }
            Decision::Stale => {
                after.end(id, At::Done);
                "decides: the epoch differs; 503"
            }
            Decision::NotOpen | Decision::Short => {
                Self::fence(&mut after.truth, id);
                after.walks[usize::from(id)].at = At::Release(Ending::Refused);
                "decides: not open or short; its fence stands"
            }
            Decision::NumberTaken(_) | Decision::Fenced | Decision::Retry => {
                if matches!(decision, Decision::NumberTaken(_)) {
                    after.wrong = after.wrong.max(message.epoch);
                }
                Self::fence(&mut after.truth, id);
                after.walks[usize::from(id)].at = At::Release(Ending::Retryable);
                "gives up behind its fence; 503"
            }
        };
        next.push((claim(id, what), after));
    }

    fn look_up(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        if self.answered_under(&state.truth, self.attempt(id).key).is_some() {
            looked.end(id, At::Answered);
        } else {
            self.refuse(&mut looked, id);
        }
        next.push((claim(id, "looks its key up: the stored answer, or 409"), looked));
    }

    /// Answers with a definite 4xx. No request with the key that took its coupon before may land after it.
    fn refuse(&self, state: &mut State, id: u8) {
        let key = self.attempt(id).key;
        if self.answered_under(&state.truth, key).is_some_and(|id| state.truth.has_landed(id)) {
            state.broken = Some(Promise::NothingLandedWhenRefused);
        }
        let can_land =
            state.truth.state != TemplateState::Ended || state.truth.open > Open::Nothing;
        let mut of_key = (0..id).filter(|other| self.attempt(*other).key == key);
        let mut under_way = |other: u8| {
            state.receipts[usize::from(other)] > 0
                && state.overtaken & bit(other) == 0
                && state.told[usize::from(other)] == Outcome::Processing
        };
        if can_land && of_key.any(&mut under_way) {
            state.broken = Some(Promise::NothingUnderWayWhenRefused);
        }
        state.end(id, At::Refused);
    }
}

fn claim(id: u8, what: &'static str) -> Step {
    step(Who::Claim(id), what)
}
