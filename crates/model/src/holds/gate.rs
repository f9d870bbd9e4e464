//! The gate of a template with holds, one method per script. It leaves out states and windows, which holds do not
//! change; [`crate::gate`] has them.

use super::{
    bounds::{Bounds, IDS, USERS_MAX},
    ledger::Movement,
    requests::{Entry, Verdict},
};
use crate::{
    Bug,
    gate::{Claim, Ids, Moved, Numbers, Phase, Request, RequestState},
};

/// The Redis of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate {
    /// The current run of Redis.
    pub run: u8,
    /// Absent: there is no gate.
    pub meta: Option<Meta>,
    /// `users:<epoch>`
    pub users: [Option<Entry>; USERS_MAX],
    /// `inflight:<epoch>`, without the times.
    pub inflight: Ids,
}

/// What the gate knows about its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meta {
    pub phase: Phase,
    pub epoch: u8,
    /// Run of Redis in which this epoch began.
    pub run: u8,
    /// Number of entries that there must be.
    pub users: u8,
    pub stock: i16,
    /// Number of the last movement that the gate contains.
    pub movement: u8,
}

impl Gate {
    /// A Redis without a gate of the template.
    pub fn absent(run: u8) -> Self {
        Self { run, meta: None, users: [None; USERS_MAX], inflight: Ids::default() }
    }

    /// Returns meta if it was written in this run of Redis.
    fn meta_of_run(&mut self) -> Option<&mut Meta> {
        let run = self.run;
        self.meta.as_mut().filter(|meta| meta.run == run)
    }

    /// Returns meta of a gate in exactly this epoch, in any phase; for settle and release.
    fn meta_of(&mut self, epoch: u8) -> Option<&mut Meta> {
        self.meta_of_run().filter(|meta| meta.epoch == epoch)
    }

    /// Returns meta if the gate is exactly loading(`epoch`) in this run.
    fn loading(&mut self, epoch: u8) -> Option<&mut Meta> {
        self.meta_of(epoch).filter(|meta| meta.phase == Phase::Loading)
    }

    /// Returns whether no entry is missing.
    pub fn is_complete(&self) -> bool {
        let there = self.users.iter().flatten().count();
        self.meta.is_some_and(|meta| there >= usize::from(meta.users))
    }

    pub fn entry(&self, user: u8) -> Entry {
        self.users[usize::from(user)].unwrap_or_default()
    }

    /// Writes a user's entry, and counts the user if the entry is new.
    fn put(&mut self, user: u8, entry: Entry) {
        let is_new = self.users[usize::from(user)].replace(entry).is_none();
        if let Some(meta) = &mut self.meta {
            meta.users += u8::from(is_new);
        }
    }

    /// `claim.lua`
    pub(super) fn claim(&mut self, bounds: &Bounds, epoch: u8, claim: Claim) -> Verdict {
        let complete = self.is_complete();
        let Some(meta) = self.meta_of_run() else { return Verdict::NotLoaded };
        if meta.phase != Phase::Open || meta.epoch != epoch || !complete {
            return Verdict::NotLoaded;
        }
        let stock = meta.stock;
        let mut entry = self.entry(claim.user);
        let banned = entry.is_banned(bounds);
        if banned && bounds.has(Bug::BanBeforeReplay) {
            return Verdict::Refused { look: entry.look };
        }
        if let Some(known) = entry.requests.as_slice().iter().find(|known| known.key == claim.key) {
            return Verdict::Replay { id: known.id, state: known.state, numbers: known.numbers };
        }
        let look = bounds.limit == 0 || entry.look;
        if banned {
            return Verdict::Refused { look: look && !bounds.has(Bug::BanWithoutLook) };
        }
        let over = bounds.limit > 0 && entry.taken.count() + claim.quantity > bounds.limit;
        if over || stock < i16::from(claim.quantity) {
            return Verdict::Refused { look };
        }
        if claim.id < entry.floor {
            return Verdict::TooOld;
        }
        let numbers = if bounds.limit == 0 {
            Numbers::default()
        } else {
            entry.taken.lowest_free(claim.quantity)
        };
        entry.taken = entry.taken.with(numbers);
        let Claim { key, quantity, id, .. } = claim;
        entry.requests.push(Request { key, quantity, id, numbers, state: RequestState::Pending });
        self.put(claim.user, entry);
        self.inflight.insert(id);
        if let Some(meta) = &mut self.meta {
            meta.stock -= i16::from(quantity);
        }
        Verdict::Admitted { numbers }
    }

    /// `settle.lua`
    pub(super) fn settle(&mut self, bounds: &Bounds, epoch: u8, user: u8, id: u8) {
        if self.meta_of(epoch).is_none() {
            return;
        }
        if let Some(entry) = &mut self.users[usize::from(user)] {
            let mut requests = entry.requests.as_mut_slice().iter_mut();
            let pending = |r: &&mut Request| r.id == id && r.state == RequestState::Pending;
            if let Some(request) = requests.find(pending) {
                request.state = RequestState::Landed;
                entry.trim(bounds);
            }
        }
        self.inflight.remove(id);
    }

    /// `release.lua`
    pub(super) fn release(&mut self, epoch: u8, user: u8, id: u8) {
        if self.meta_of(epoch).is_none() {
            return;
        }
        let mut given_back = 0;
        if let Some(entry) = &mut self.users[usize::from(user)] {
            let requests = entry.requests.as_slice();
            let pending = |r: &Request| r.id == id && r.state == RequestState::Pending;
            if let Some(at) = requests.iter().position(pending) {
                let request = requests[at];
                entry.taken = entry.taken.without(request.numbers);
                entry.requests.remove(at);
                given_back = i16::from(request.quantity);
            }
        }
        self.inflight.remove(id);
        if let Some(meta) = self.meta_of(epoch) {
            meta.stock += given_back;
        }
    }

    /// `move.lua`: applies movement `seq`, once and in order. It frees numbers and counts lapses; requests stay.
    pub(super) fn apply(
        &mut self,
        bounds: &Bounds,
        epoch: u8,
        seq: u8,
        movement: Movement,
    ) -> Moved {
        let Some(meta) = self.meta_of_run().filter(|meta| meta.phase == Phase::Open) else {
            return Moved::NotLoaded;
        };
        if meta.epoch != epoch {
            return Moved::OtherEpoch(meta.epoch);
        }
        if seq <= meta.movement && !bounds.has(Bug::ReturnAppliedTwice) {
            if bounds.has(Bug::NumbersFreedAgain) {
                self.free(bounds, seq, movement);
            }
            return Moved::Already;
        }
        if seq > meta.movement + 1 && !bounds.has(Bug::ReturnGapIgnored) {
            return Moved::Gap(meta.movement);
        }
        meta.movement = seq.max(meta.movement);
        meta.stock += movement.delta_stock;
        let stock = meta.stock;
        self.free(bounds, seq, movement);
        Moved::Applied(stock)
    }

    /// Applies the movement's list of users. Without a limit a user may have no entry yet; a lapse creates one.
    fn free(&mut self, bounds: &Bounds, seq: u8, movement: Movement) {
        for (user, returned) in (0..).zip(movement.returned) {
            let counts = bounds.lapses_allowed > 0
                && returned.lapses > 0
                && !bounds.has(Bug::LapsesNeedAnEntry);
            if self.users[usize::from(user)].is_none() && counts {
                self.put(user, Entry::default());
            }
            if let Some(entry) = &mut self.users[usize::from(user)] {
                entry.taken = entry.taken.without(returned.numbers);
                if bounds.has(Bug::ReturnRemovesRequest) {
                    entry.remove_landed(returned.numbers);
                }
                if bounds.lapses_allowed > 0 {
                    entry.count(user, seq, movement);
                }
            }
        }
    }

    /// `begin.lua`: makes the gate loading(`epoch`), unless it knows this epoch or a later one.
    pub(super) fn begin(&mut self, epoch: u8) -> bool {
        if self.meta.is_some_and(|meta| meta.epoch >= epoch) {
            return false;
        }
        *self = Self::absent(self.run);
        let phase = Phase::Loading;
        let run = self.run;
        self.meta = Some(Meta { phase, epoch, run, users: 0, stock: 0, movement: 0 });
        true
    }

    /// `load.lua` for one user.
    pub(super) fn load(&mut self, epoch: u8, user: u8, taken: Numbers, lapses: u8) -> bool {
        let loading = self.loading(epoch).is_some();
        if loading {
            self.put(user, Entry { look: true, taken, lapses, ..Entry::default() });
        }
        loading
    }

    /// `open.lua`
    pub(super) fn open(&mut self, epoch: u8, stock: i16, movement: u8) -> bool {
        let Some(meta) = self.loading(epoch) else { return false };
        *meta = Meta { phase: Phase::Open, stock, movement, ..*meta };
        true
    }
}

/// Most requests that an entry can hold.
pub(super) const REQUESTS_MAX: usize = IDS;
