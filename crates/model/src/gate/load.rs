//! How a gate is loaded and unloaded.

use coupon::TemplateState;

use super::{Entry, Gate, Ids, Meta, Numbers, OpenFacts, Phase, RequestState, Rules, Unloaded};
use crate::Bug;

impl<const USERS: usize, const REQUESTS: usize> Gate<USERS, REQUESTS> {
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
        let halted = self.meta.is_some_and(|meta| meta.halted);
        self.clear();
        let facts = OpenFacts::UNKNOWN;
        let run = self.run;
        self.meta = Some(Meta { phase: Phase::Loading, epoch, run, users: 0, halted, facts });
    }

    /// Removes the keys of an epoch.
    fn clear(&mut self) {
        self.meta = None;
        self.users = [None; USERS];
        self.inflight = Ids::default();
    }

    /// Returns meta if the gate is exactly loading(`epoch`) in this run.
    fn loading(&mut self, rules: Rules, epoch: u8) -> Option<&mut Meta> {
        self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Loading && meta.epoch == epoch)
    }

    /// `load.lua` for one user.
    pub fn load(&mut self, rules: Rules, epoch: u8, user: u8, taken: Numbers, lapses: u8) -> bool {
        let loading = self.loading(rules, epoch).is_some();
        if loading {
            let unlooked = rules.has(Bug::LandedKeysNotLoaded) && taken.count() > 0;
            let look_in_mysql = !unlooked;
            self.put(user, Entry { look_in_mysql, taken, lapses, ..Entry::default() });
        }
        loading
    }

    /// `open.lua`. Version, state and mode that were set while the gate was loading stay if they are newer.
    pub fn open(&mut self, rules: Rules, epoch: u8, facts: OpenFacts) -> bool {
        let meta = if rules.has(Bug::OpenFromAnyLoading) {
            self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Loading)
        } else {
            self.loading(rules, epoch)
        };
        let Some(meta) = meta else { return false };
        let OpenFacts { version, state, mode, .. } = meta.facts;
        meta.phase = Phase::Open;
        meta.facts = facts;
        if version > facts.version && !rules.has(Bug::OpenOverwritesState) {
            meta.facts.version = version;
            meta.facts.state = state;
            meta.facts.mode = mode;
        }
        true
    }

    /// `unload.lua`: removes a gate that gives out no coupons any more, once nothing may land.
    pub fn unload(&mut self, rules: Rules, epoch: u8, now: u8) -> Unloaded {
        if self.meta.is_none_or(|meta| meta.epoch != epoch) {
            return Unloaded::OtherEpoch;
        }
        let waits = self.requests().any(|request| request.state == RequestState::Queued);
        let idle = self.inflight.is_empty() && !waits && self.outbox.entries.as_slice().is_empty();
        let answers = self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Open);
        if let Some(Meta { facts, .. }) = answers {
            if facts.state != TemplateState::Ended && now < facts.ends_at {
                return Unloaded::Open;
            }
            if !idle {
                return Unloaded::InFlight;
            }
        }
        self.clear();
        Unloaded::Gone
    }
}
