//! A claim's call of the gate.

use coupon::{ClaimMode, Open, TemplateState};

use super::{
    super::{
        LateKind, NOW, Next, Promise, Protocol, State,
        bounds::{IDS, SPARE},
        queue::state::bit,
        state::{At, Packet, Walk},
    },
    claim,
};
use crate::{
    Bug,
    gate::{Message, RequestState, Said, Verdict},
};

impl Protocol {
    /// In mode spill the api tells the gate with each claim whether its lander is behind.
    pub(super) fn ask_in_mode(&self, state: &State, id: u8, looked: bool, next: &mut Next) {
        self.ask_gate(state, id, Said { behind: false, looked }, next);
        let spills = |meta: &crate::gate::Meta| meta.facts.mode == ClaimMode::Spill;
        if state.gate.meta.as_ref().is_some_and(spills) {
            self.ask_gate(state, id, Said { behind: true, looked }, next);
        }
    }

    /// If the gate has a later epoch than the process, the process adopts it and calls again. Here both calls are one
    /// step.
    fn ask_gate(&self, state: &State, id: u8, said: Said, next: &mut Next) {
        let epoch = state.walk(id).known.max(state.gate.epoch());
        let mut asked = *state;
        let verdict = asked.gate.claim_saying(self.rules(), epoch, NOW, self.claim(id), said);
        let mut lost = asked;
        lost.walk_mut(id).at = At::Gate(false);
        if self.waits_for_refusals(verdict) {
            asked.walk_mut(id).wait = state.gate.refusing;
        }
        let Some(what) = self.follow_verdict(state, &mut asked, id, epoch, said, verdict) else {
            return;
        };
        next.push((claim(id, what), asked));
        if self.bounds.coarse {
            return;
        }
        if matches!(verdict, Verdict::Admitted { .. }) {
            next.push((claim(id, "claim.lua: ADMITTED, the answer is lost; asks again"), lost));
        }
        if self.may_be_late(state, LateKind::Claim) && epoch > 0 {
            let late =
                Self::sent_late(state, Packet::Claim { id, epoch }).with_walk(id, At::Gate(false));
            next.push((claim(id, "claim.lua is late; asks again"), late));
        }
    }

    /// Returns whether a success after this verdict waits until no api refuses its user from memory any more.
    fn waits_for_refusals(&self, verdict: Verdict) -> bool {
        let looks = matches!(verdict, Verdict::Refused { .. } | Verdict::LookFirst);
        let early = looks && self.has(Bug::StoredAnswerBeforeRefusalsEnd);
        self.bounds.apis > 0 && !early && !self.has(Bug::AnswerBeforeRefusalsEnd)
    }

    /// Returns what the claim does with the gate's verdict. `None`: as if it had not been sent.
    fn follow_verdict(
        &self,
        state: &State,
        asked: &mut State,
        id: u8,
        epoch: u8,
        said: Said,
        verdict: Verdict,
    ) -> Option<&'static str> {
        let pending = RequestState::Pending;
        Some(match verdict {
            Verdict::Admitted { numbers, .. } => {
                self.check_halt(asked);
                self.check_ban(state, asked, id);
                self.check_key(state, asked, id, epoch, said);
                asked.admitted(id, Message { id, epoch, numbers });
                "claim.lua: ADMITTED"
            }
            Verdict::Replay { id: mine, state, numbers } if mine == id && state == pending => {
                asked.admitted(id, Message { id, epoch, numbers });
                "claim.lua: REPLAY of its own admission"
            }
            Verdict::Queued(message) => {
                self.check_halt(asked);
                self.check_ban(state, asked, id);
                self.check_key(state, asked, id, epoch, said);
                self.note_queued(state, asked, id, said, message);
                self.queued(asked, id, message, true);
                "claim.lua: QUEUED"
            }
            Verdict::LookFirst => {
                asked.walk_mut(id).at = At::LookFirst;
                "claim.lua: its key must be looked up first"
            }
            Verdict::Replay { id: other, state: RequestState::Queued, numbers } => {
                let message = Message { id: other, epoch, numbers };
                if self.has(Bug::ReplayAccepted) {
                    self.accept(asked, id, other);
                } else {
                    self.queued(asked, id, message, !self.has(Bug::ReplayWithoutWrite));
                }
                "claim.lua: REPLAY of a queued request"
            }
            Verdict::Replay { state: RequestState::Landed, .. } => {
                asked.answer(id);
                "claim.lua: REPLAY of a landed request; 201"
            }
            // 201 if the claim has landed in MySQL, otherwise 409 `REQUEST_IN_PROGRESS` or 503: no definite refusal.
            Verdict::Replay { .. } => {
                asked.end(id, At::Done);
                "claim.lua: REPLAY of another admission; MySQL answers"
            }
            Verdict::KeyReused => {
                asked.end(id, At::Done);
                "claim.lua: KEY_REUSED, 422"
            }
            // An ended template may have no gate any more; then the key is looked up in MySQL.
            Verdict::NotLoaded if self.answers_without_gate(state) => {
                *asked.walk_mut(id) = Walk { at: At::Lookup, ..Walk::default() };
                "claim.lua: not loaded, and its template has ended"
            }
            // 503, as if it had not been sent.
            Verdict::NotLoaded if self.bounds.coarse && !said.looked => return None,
            Verdict::NotLoaded if self.bounds.coarse => {
                asked.end(id, At::Unsent);
                "claim.lua: not loaded any more"
            }
            Verdict::NotLoaded | Verdict::OtherEpoch(_) => {
                asked.end(id, At::Done);
                "claim.lua: not loaded, or behind, 503"
            }
            // 201 if the key has landed in MySQL, otherwise 503; the next request has another id.
            Verdict::TooOld => {
                asked.end(id, At::Done);
                "claim.lua: TOO_OLD; MySQL answers, or 503"
            }
            Verdict::Refused { look_in_mysql: true, .. } => {
                let wait = asked.walk(id).wait;
                *asked.walk_mut(id) = Walk { at: At::Lookup, wait, ..Walk::default() };
                "claim.lua refuses; not final"
            }
            // The user may ask again: their refusals from memory are judged at every moment.
            Verdict::Refused { .. } if self.bounds.apis > 0 && !self.is_probe(id) => return None,
            Verdict::Refused { look_in_mysql: false, .. } => {
                self.refuse(asked, id);
                "claim.lua refuses, 409"
            }
        })
    }

    /// Without a gate, ENDED is final only when no accepted claim can land any more.
    fn answers_without_gate(&self, state: &State) -> bool {
        let closed = !state.truth.ever_queued
            || state.truth.open == Open::Nothing
            || self.has(Bug::EndedBeforeTheQueueIsClosed);
        let ended = state.truth.state == TemplateState::Ended;
        ended && closed && !self.has(Bug::EndedWithoutGateUnanswered)
    }

    fn is_probe(&self, id: u8) -> bool {
        usize::from(id) == SPARE
    }

    /// A gate that contains a movement refuses every user that the movement bans.
    fn check_ban(&self, before: &State, after: &mut State, id: u8) {
        let allowed = self.bounds.lapses_allowed;
        if allowed == 0 || !self.is_trusted(before) {
            return;
        }
        let seq = before.gate.meta.map_or(0, |meta| meta.facts.movement);
        let known = seq <= before.truth.last_message();
        if known && before.truth.lapses_at(self.attempt(id).user, seq) >= allowed {
            after.broken = Some(Promise::BannedAreRefused);
        }
    }

    /// A gate that may queue takes nothing for a key with an answer. Another request with the key may have ended since
    /// the key was looked up.
    fn check_key(&self, state: &State, asked: &mut State, id: u8, epoch: u8, said: Said) {
        let queued = asked.gate.request(id).is_some_and(|r| r.state == RequestState::Queued);
        let answered = state.truth.answered_under(self.claims(), self.attempt(id).key).is_some();
        let trusted = epoch != state.lied && state.gate_is_of_history();
        if queued && !said.looked && answered && trusted {
            asked.broken = Some(Promise::NothingTakenForAnAnsweredKey);
        }
    }

    /// Notes what a queued admission means for the promises about its key.
    fn note_queued(&self, state: &State, asked: &mut State, id: u8, said: Said, message: Message) {
        let key = self.attempt(id).key;
        let overtook =
            |later: u8| self.attempt(later).key == key && state.walk(later).at != At::Unsent;
        if said.looked && (id + 1..IDS as u8).any(overtook) {
            asked.queue.overtaken |= bit(id);
        }
        asked.queue.receipts[usize::from(id)] = message.epoch;
        let heard = state.gate.meta.map_or(0, |meta| meta.facts.movement);
        if heard < state.truth.movement {
            asked.queue.excused |= bit(id);
        }
    }
}

impl State {
    fn admitted(&mut self, id: u8, message: Message) {
        let walk = self.walk_mut(id);
        walk.at = At::Land;
        walk.message = message;
        walk.admissions += 1;
    }
}
