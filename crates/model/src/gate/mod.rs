//! The gate of one template, one method per command in `lua/`, with the same names and answers.
//!
//! Only the current epoch's keys are modelled: scripts compare the epoch first, so they touch no keys of older epochs.
//! Times, epochs, ids and versions are small numbers, so a state takes a few dozen bytes.

mod load;
mod meta;
mod movement;
mod outbox;
mod sets;
mod sold_out;
mod verdict;

use coupon::{ClaimMode, TemplateState};

pub use self::{
    meta::{Entry, Meta, OpenFacts, Phase, Request, RequestState},
    movement::{Movement, Returned},
    outbox::{Message, Outbox, OutboxEntry},
    sets::{Ids, Numbers},
    verdict::{Claim, Moved, Refusal, Said, Unloaded, Verdict},
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
    /// `outbox`
    pub outbox: Outbox<REQUESTS>,
    /// `refusing`: ticks for which some api may still refuse from memory. No epoch clears it.
    pub refusing: u8,
}

/// Parameters of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How many requests an entry keeps, those that may still land aside.
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
    /// A Redis without any key of the template.
    pub fn absent(run: u8) -> Self {
        Self {
            run,
            meta: None,
            users: [None; USERS],
            inflight: Ids::default(),
            outbox: Outbox::default(),
            refusing: 0,
        }
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

    /// Returns the epoch that meta names; 0 if there is no gate.
    pub fn epoch(&self) -> u8 {
        self.meta.map_or(0, |meta| meta.epoch)
    }

    /// Returns meta if it was written in this run of Redis, whatever the phase.
    pub fn live(&self) -> Option<Meta> {
        self.meta.filter(|meta| meta.run == self.run)
    }

    /// Returns meta if the gate answers claims.
    pub fn answering(&self) -> Option<Meta> {
        self.live().filter(|meta| meta.phase == Phase::Open && self.is_complete())
    }

    /// Returns whether no entry is missing.
    pub fn is_complete(&self) -> bool {
        let there = self.users.iter().flatten().count();
        self.meta.is_some_and(|meta| there >= usize::from(meta.users))
    }

    pub fn entry(&self, user: u8) -> Entry<REQUESTS> {
        self.users[usize::from(user)].unwrap_or_default()
    }

    /// Writes a user's entry, and counts the user if the entry is new.
    fn put(&mut self, user: u8, entry: Entry<REQUESTS>) {
        let is_new = self.users[usize::from(user)].replace(entry).is_none();
        if let Some(meta) = &mut self.meta {
            meta.users += u8::from(is_new);
        }
    }

    /// Returns the remembered requests of all users.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.users.iter().flatten().flat_map(|entry| entry.requests.as_slice())
    }

    pub fn request(&self, id: u8) -> Option<Request> {
        self.requests().find(|request| request.id == id).copied()
    }

    /// `claim.lua` of a claim that may not be queued, or whose key was not looked up.
    pub fn claim(&mut self, rules: Rules, epoch: u8, now: u8, claim: Claim) -> Verdict {
        self.claim_saying(rules, epoch, now, claim, Said::default())
    }

    /// `claim.lua`.
    pub fn claim_saying(
        &mut self,
        rules: Rules,
        epoch: u8,
        now: u8,
        claim: Claim,
        said: Said,
    ) -> Verdict {
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
        let meta = *meta;
        let Meta { epoch, facts, .. } = meta;
        let entry = self.entry(claim.user);
        let refused = verdict::refusal(&meta, &entry, now, claim.quantity)
            .map(|refusal| verdict::refused(rules, &facts, &entry, refusal));
        if let Some(refused) = refused.filter(|refused| refused.comes_first(rules)) {
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
        let queued = match facts.mode {
            ClaimMode::Direct => false,
            ClaimMode::Queued => true,
            ClaimMode::Spill => said.behind,
        };
        let unlooked = entry.look_in_mysql && !said.looked;
        if queued && unlooked && !rules.has(Bug::QueuedBeforeLook) {
            return Verdict::LookFirst;
        }
        self.admit(rules, epoch, claim, queued)
    }

    /// Takes stock and numbers, and remembers the request.
    fn admit(&mut self, rules: Rules, epoch: u8, claim: Claim, queued: bool) -> Verdict {
        let Claim { user, key, quantity, id } = claim;
        let mut entry = self.entry(user);
        let limit = self.meta.map_or(0, |meta| meta.facts.limit);
        let numbers = if limit == 0 {
            Numbers::default()
        } else if rules.has(Bug::CountInsteadOfNumbers) {
            Numbers::range(entry.taken.count(), quantity)
        } else {
            entry.taken.lowest_free(quantity)
        };
        entry.taken = entry.taken.with(numbers);
        let state = if queued { RequestState::Queued } else { RequestState::Pending };
        entry.requests.push(Request { key, quantity, id, numbers, state });
        self.put(user, entry);
        let mut left = 0;
        if let Some(meta) = &mut self.meta {
            meta.facts.stock -= i16::from(quantity);
            left = meta.facts.stock;
        }
        if queued {
            let message = Message { id, epoch, numbers };
            self.outbox.append(message);
            return Verdict::Queued(message);
        }
        self.inflight.insert(id);
        Verdict::Admitted { numbers, left }
    }

    /// `settle.lua` for pairs of user and id. `None`: another epoch or run.
    pub fn settle(&mut self, rules: Rules, epoch: u8, landed: &[(u8, u8)]) -> Option<u8> {
        self.facts_of(rules, epoch)?;
        let mut settled = 0;
        for (user, id) in landed {
            if let Some(entry) = &mut self.users[usize::from(*user)]
                && let Some(at) = entry.unsettled(*id)
            {
                entry.requests.as_mut_slice()[at].state = RequestState::Landed;
                entry.trim(rules);
                settled += 1;
            }
            self.inflight.remove(*id);
        }
        Some(settled)
    }

    /// `release.lua`: returns whether anything was given back. `None`: another epoch or run. A queued request was
    /// rejected, so from then on the user's keys must be looked up in MySQL.
    pub fn release(&mut self, rules: Rules, epoch: u8, user: u8, id: u8) -> Option<bool> {
        self.facts_of(rules, epoch)?;
        let mut given_back = 0;
        if let Some(entry) = &mut self.users[usize::from(user)] {
            if let Some(at) = entry.unsettled(id) {
                let request = entry.requests.as_slice()[at];
                entry.taken = entry.taken.without(request.numbers);
                entry.look_in_mysql |= request.state == RequestState::Queued;
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

    /// `set_state.lua`: sets state and mode if the template's version is newer, also while loading. Returns whether it
    /// was newer. `None`: another epoch or run.
    pub fn set_state(
        &mut self,
        rules: Rules,
        epoch: u8,
        version: u8,
        state: TemplateState,
        mode: ClaimMode,
    ) -> Option<bool> {
        let lost = self.meta.is_some_and(|meta| meta.phase == Phase::Loading)
            && rules.has(Bug::StateLostWhileLoading);
        let facts = self.facts_of(rules, epoch)?;
        if lost || (version <= facts.version && !rules.has(Bug::StateWithoutVersion)) {
            return Some(false);
        }
        facts.version = version;
        facts.state = state;
        facts.mode = mode;
        Some(true)
    }

    /// `halt.lua`: pauses a gate, whatever MySQL says. Returns whether it is paused now.
    pub fn halt(&mut self, rules: Rules) -> bool {
        self.meta_of_run(rules).map(|meta| meta.halted = true).is_some()
    }

    /// `lift_halt.lua`, in any epoch.
    pub fn lift_halt(&mut self) {
        if let Some(meta) = &mut self.meta {
            meta.halted = false;
        }
    }
}
