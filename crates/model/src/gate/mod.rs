//! The gate of one template, one method per command in `lua/`, with the same names and answers.
//!
//! Only the current epoch's keys are modelled: scripts compare the epoch first, so they touch no keys of older epochs.
//! Times, epochs, ids and versions are small numbers, so a state takes a few dozen bytes.

mod meta;
mod sets;
mod verdict;

use coupon::TemplateState;

pub use self::{
    meta::{Entry, Meta, OpenFacts, Phase, Request, RequestState},
    sets::{Ids, Numbers},
    verdict::{Claim, Moved, Refusal, Unloaded, Verdict},
};
use crate::Bug;

/// A gate of at most `USERS` users with `REQUESTS` remembered requests each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate<const USERS: usize, const REQUESTS: usize> {
    /// The current run of Redis.
    pub run: u8,
    /// Absent: there is no gate.
    pub meta: Option<Meta>,
    /// `users:<epoch>`.
    pub users: [Option<Entry<REQUESTS>>; USERS],
    /// `inflight:<epoch>`, without the times.
    pub inflight: Ids,
}

/// Parameters of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How many requests an entry without a limit keeps.
    pub requests_kept: usize,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

impl Rules {
    fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

impl<const USERS: usize, const REQUESTS: usize> Gate<USERS, REQUESTS> {
    /// A Redis without a gate of the template.
    pub fn absent(run: u8) -> Self {
        Self { run, meta: None, users: [None; USERS], inflight: Ids::default() }
    }

    /// Returns meta if it was written in this run of Redis.
    fn meta_of_run(&mut self, rules: Rules) -> Option<&mut Meta> {
        let run = self.run;
        self.meta.as_mut().filter(|meta| meta.run == run || rules.has(Bug::RunNotCompared))
    }

    /// Returns the facts of a gate in exactly this epoch, in any phase; for settle and release.
    fn facts_of(&mut self, rules: Rules, epoch: u8) -> Option<&mut OpenFacts> {
        self.meta_of_run(rules).filter(|meta| meta.epoch == epoch).map(|meta| &mut meta.facts)
    }

    /// Returns whether no entry is missing.
    pub fn is_complete(&self) -> bool {
        let there = self.users.iter().flatten().count();
        self.meta.is_some_and(|meta| there >= usize::from(meta.users))
    }

    /// `claim.lua`.
    pub fn claim(&mut self, rules: Rules, epoch: u8, now: u8, claim: Claim) -> Verdict {
        let complete = self.is_complete();
        let Some(meta) = self.meta_of_run(rules) else { return Verdict::NotLoaded };
        if meta.phase != Phase::Open {
            return Verdict::NotLoaded;
        }
        if meta.epoch != epoch && !rules.has(Bug::ClaimWithoutEpoch) {
            return Verdict::OtherEpoch(meta.epoch);
        }
        if !complete {
            return Verdict::NotLoaded;
        }
        let facts = meta.facts;
        let slot = &mut self.users[usize::from(claim.user)];
        let mut entry = slot.unwrap_or_default();
        let refused = verdict::refusal(&facts, &entry, now, claim.quantity).map(|refusal| {
            let look_in_mysql = if facts.limit == 0 {
                !rules.has(Bug::LimitlessRefusalWithoutLook)
            } else {
                entry.look_in_mysql && !rules.has(Bug::RefusalWithoutLook)
            };
            Verdict::Refused { refusal, look_in_mysql }
        });
        if let (Some(refused), true) = (refused, rules.has(Bug::RefusalBeforeReplay)) {
            return refused;
        }
        if let Some(known) = entry.requests.as_slice().iter().find(|known| known.key == claim.key) {
            if known.quantity != claim.quantity {
                return Verdict::KeyReused;
            }
            return Verdict::Replay { id: known.id, state: known.state, numbers: known.numbers };
        }
        if let Some(refused) = refused {
            return refused;
        }
        if claim.id < entry.floor && !rules.has(Bug::DroppedAdmittedAgain) {
            return Verdict::TooOld;
        }
        let numbers = if facts.limit == 0 {
            Numbers::default()
        } else if rules.has(Bug::CountInsteadOfNumbers) {
            Numbers::range(entry.taken.count(), claim.quantity)
        } else {
            entry.taken.lowest_free(claim.quantity)
        };
        entry.taken = entry.taken.with(numbers);
        let Claim { key, quantity, id, .. } = claim;
        entry.requests.push(Request { key, quantity, id, numbers, state: RequestState::Pending });
        let is_new = slot.replace(entry).is_none();
        self.inflight.insert(id);
        let left = facts.stock - i16::from(quantity);
        if let Some(meta) = &mut self.meta {
            meta.users += u8::from(is_new);
            meta.facts.stock = left;
        }
        Verdict::Admitted { numbers, left }
    }

    /// `settle.lua` for pairs of user and id. `None`: another epoch or run.
    pub fn settle(&mut self, rules: Rules, epoch: u8, landed: &[(u8, u8)]) -> Option<u8> {
        let unlimited = self.facts_of(rules, epoch)?.limit == 0;
        let mut settled = 0;
        for (user, id) in landed {
            if let Some(entry) = &mut self.users[usize::from(*user)] {
                let mut requests = entry.requests.as_mut_slice().iter_mut();
                let pending = |r: &&mut Request| r.id == *id && r.state == RequestState::Pending;
                if let Some(request) = requests.find(pending) {
                    request.state = RequestState::Landed;
                    settled += 1;
                    if unlimited {
                        entry.trim(rules);
                    }
                }
            }
            self.inflight.remove(*id);
        }
        Some(settled)
    }

    /// `release.lua`: returns whether anything was given back. `None`: another epoch or run.
    pub fn release(&mut self, rules: Rules, epoch: u8, user: u8, id: u8) -> Option<bool> {
        self.facts_of(rules, epoch)?;
        let mut given_back = 0;
        if let Some(entry) = &mut self.users[usize::from(user)] {
            let requests = entry.requests.as_slice();
            let pending = |r: &Request| r.id == id && r.state == RequestState::Pending;
            if let Some(at) = requests.iter().position(pending) {
                let request = requests[at];
                entry.taken = entry.taken.without(request.numbers);
                entry.requests.remove(at);
                given_back = request.quantity;
            } else if rules.has(Bug::ReleaseNotIdempotent) {
                given_back = 1;
            }
        }
        self.inflight.remove(id);
        let facts = self.facts_of(rules, epoch)?;
        facts.stock += i16::from(given_back);
        Some(given_back > 0)
    }

    /// `begin.lua`: makes the gate loading(`epoch`), unless it knows this epoch or a later one. A gate that is loading
    /// this epoch stays as it is.
    pub fn begin(&mut self, epoch: u8) -> bool {
        let of_this = |meta: &Meta| meta.phase == Phase::Loading && meta.epoch == epoch;
        if let Some(meta) = self.meta.filter(of_this) {
            if meta.run != self.run {
                self.restart(epoch);
            }
            return true;
        }
        if self.meta.is_some_and(|meta| meta.epoch >= epoch) {
            return false;
        }
        self.restart(epoch);
        true
    }

    fn restart(&mut self, epoch: u8) {
        *self = Self::absent(self.run);
        let facts = OpenFacts::UNKNOWN;
        self.meta = Some(Meta { phase: Phase::Loading, epoch, run: self.run, users: 0, facts });
    }

    /// Returns meta if the gate is exactly loading(`epoch`) in this run.
    fn loading(&mut self, rules: Rules, epoch: u8) -> Option<&mut Meta> {
        self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Loading && meta.epoch == epoch)
    }

    /// `load.lua` for one user.
    pub fn load(&mut self, rules: Rules, epoch: u8, user: u8, taken: Numbers) -> bool {
        let is_new = self.users[usize::from(user)].is_none();
        let Some(meta) = self.loading(rules, epoch) else { return false };
        meta.users += u8::from(is_new);
        let entry = Entry { look_in_mysql: true, taken, ..Entry::default() };
        self.users[usize::from(user)] = Some(entry);
        true
    }

    /// `open.lua`. A version and state that were set while the gate was loading stay if they are newer.
    pub fn open(&mut self, rules: Rules, epoch: u8, facts: OpenFacts) -> bool {
        let meta = if rules.has(Bug::OpenFromAnyLoading) {
            self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Loading)
        } else {
            self.loading(rules, epoch)
        };
        let Some(meta) = meta else { return false };
        let OpenFacts { version, state, .. } = meta.facts;
        meta.phase = Phase::Open;
        meta.facts = facts;
        if version > facts.version && !rules.has(Bug::OpenOverwritesState) {
            meta.facts.version = version;
            meta.facts.state = state;
        }
        true
    }

    /// `move.lua`: applies movement `seq`, once and in order. A cut may make the stock negative.
    pub fn apply_movement(&mut self, rules: Rules, epoch: u8, seq: u8, delta: i16) -> Moved {
        let Some(meta) = self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Open) else {
            return Moved::NotLoaded;
        };
        if meta.epoch != epoch {
            return Moved::OtherEpoch(meta.epoch);
        }
        let facts = &mut meta.facts;
        if seq <= facts.movement && !rules.has(Bug::MovementTwice) {
            return Moved::Already;
        }
        if seq > facts.movement + 1 && !rules.has(Bug::MovementGapIgnored) {
            return Moved::Gap(facts.movement);
        }
        facts.movement = seq.max(facts.movement);
        facts.stock += delta;
        if rules.has(Bug::CutClampedAtZero) {
            facts.stock = facts.stock.max(0);
        }
        Moved::Applied(facts.stock)
    }

    /// `set_state.lua`: sets the state if the template's version is newer, also while loading. Returns whether it was
    /// newer. `None`: another epoch or run.
    pub fn set_state(
        &mut self,
        rules: Rules,
        epoch: u8,
        version: u8,
        state: TemplateState,
    ) -> Option<bool> {
        let lost = self.meta.is_some_and(|meta| meta.phase == Phase::Loading)
            && rules.has(Bug::StateLostWhileLoading);
        let facts = self.facts_of(rules, epoch)?;
        if lost || (version <= facts.version && !rules.has(Bug::StateWithoutVersion)) {
            return Some(false);
        }
        (facts.version, facts.state) = (version, state);
        Some(true)
    }

    /// `unload.lua`: removes a gate that gives out no coupons any more, once nothing is in flight.
    pub fn unload(&mut self, rules: Rules, epoch: u8, now: u8) -> Unloaded {
        if self.meta.is_none_or(|meta| meta.epoch != epoch) {
            return Unloaded::OtherEpoch;
        }
        let idle = self.inflight.is_empty();
        let answers = self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Open);
        if let Some(Meta { facts, .. }) = answers {
            if facts.state != TemplateState::Ended && now < facts.ends_at {
                return Unloaded::Open;
            }
            if !idle {
                return Unloaded::InFlight;
            }
        }
        *self = Self::absent(self.run);
        Unloaded::Gone
    }
}
