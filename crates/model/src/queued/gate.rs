//! The gate with its outbox, one method per script. [`crate::claim`] explores what is the same in direct mode.

use coupon::TemplateState;

use super::{
    Protocol,
    bounds::{IDS, Mode, USERS_MAX},
};
use crate::{
    Bug, Few,
    gate::{Numbers, Phase},
};

/// The Redis of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate {
    /// The current run of Redis.
    pub run: u8,
    /// Absent: there is no gate.
    pub meta: Option<Meta>,
    pub users: [User; USERS_MAX],
    /// The requests that the users' entries remember, by id.
    pub requests: [Request; IDS],
    /// `outbox`, which no epoch clears.
    pub outbox: Few<Entry, IDS>,
    /// The last id that the stream has given.
    pub last: u8,
    /// Only with [`Bug::GroupFromNow`]: whether the consumer group exists.
    pub group: bool,
}

/// What the gate knows about its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meta {
    pub phase: Phase,
    pub epoch: u8,
    /// Run of Redis in which this epoch began.
    pub run: u8,
    /// Version of the template from which state and mode are; 0: unknown.
    pub version: u8,
    pub state: TemplateState,
    pub mode: Mode,
    pub stock: i16,
    /// Number of the last movement that the stock contains.
    pub movement: u8,
}

/// A user's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct User {
    /// The numbers that the user holds, including those pending and queued.
    pub taken: Numbers,
    /// Whether a key must be looked up in MySQL before an answer that rests on the gate alone.
    pub look: bool,
}

/// A request that the gate remembers, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Request {
    #[default]
    Absent,
    /// Admitted to the direct way.
    Pending(u8),
    /// In the queue.
    Queued(u8),
    Landed(u8),
}

/// A claim on its way through the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Message {
    pub id: u8,
    /// The admission's epoch.
    pub epoch: u8,
    pub number: u8,
}

/// An entry of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry {
    /// Its id in the stream. After Redis went back in time, another entry may have the same id.
    pub at: u8,
    pub message: Message,
    /// Only with a planted mistake: the group will not deliver it as new any more.
    pub passed: bool,
}

/// The gate's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Absent, loading, or of another run.
    NotLoaded,
    /// The key has this request.
    Replay(u8, Request),
    Refused,
    Admitted(Message),
    Queued(Message),
    /// It would be queued, but its key must be looked up in MySQL first; nothing was done.
    LookFirst,
}

/// What the api says with a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    /// Its lander is behind.
    pub(super) behind: bool,
    /// MySQL has no answer under the key.
    pub(super) looked: bool,
}

/// What a rebuild loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    pub version: u8,
    pub state: TemplateState,
    pub mode: Mode,
    pub stock: i16,
    pub movement: u8,
    pub users: [User; USERS_MAX],
}

/// The set of one number.
pub(super) fn one(number: u8) -> Numbers {
    [number].into_iter().collect()
}

impl Gate {
    /// A Redis without any data.
    pub(super) fn empty(run: u8) -> Self {
        Self {
            run,
            meta: None,
            users: [User::default(); USERS_MAX],
            requests: [Request::Absent; IDS],
            outbox: Few::default(),
            last: 0,
            group: false,
        }
    }

    /// Returns meta if it was written in this run of Redis.
    pub(super) fn live(&self) -> Option<Meta> {
        self.meta.filter(|meta| meta.run == self.run)
    }

    /// Returns meta if it was written in this run of Redis, and the gate answers claims.
    pub(super) fn answering(&self) -> Option<Meta> {
        self.live().filter(|meta| meta.phase == Phase::Open)
    }

    pub(super) fn request(&self, id: u8) -> Request {
        self.requests[usize::from(id)]
    }

    pub(super) fn is_in_outbox(&self, id: u8) -> bool {
        self.outbox.as_slice().iter().any(|entry| entry.message.id == id)
    }

    fn remove_where(&mut self, fits: impl Fn(&Entry) -> bool) {
        while let Some(at) = self.outbox.as_slice().iter().position(&fits) {
            self.outbox.remove(at);
        }
    }

    /// XACK and XDEL of the relay, with the run in which it read the entry.
    pub(super) fn trim(&mut self, at: u8, run: u8, compare: bool) {
        if self.run == run || !compare {
            self.remove_where(|entry| entry.at == at);
        }
    }

    /// `published.lua`: true only while this gate is open under the admission's epoch and run, and holds the admission.
    pub(super) fn published(&mut self, message: Message, run: u8) -> bool {
        let open = self.answering().is_some_and(|meta| meta.epoch == message.epoch);
        let held = matches!(self.request(message.id), Request::Queued(_) | Request::Landed(_));
        let confirmed = open && self.run == run && held;
        if confirmed {
            self.remove_where(|entry| entry.message.id == message.id);
        }
        confirmed
    }

    /// `settle.lua`
    pub(super) fn settle(&mut self, epoch: u8, id: u8) {
        if self.live().is_none_or(|meta| meta.epoch != epoch) {
            return;
        }
        let request = &mut self.requests[usize::from(id)];
        if let Request::Pending(number) | Request::Queued(number) = *request {
            *request = Request::Landed(number);
        }
    }

    /// `release.lua`. After a rejection, the user's keys must be looked up in MySQL.
    pub(super) fn release(&mut self, epoch: u8, user: u8, id: u8) {
        let Some(meta) = self.live().filter(|meta| meta.epoch == epoch) else { return };
        let (Request::Pending(number) | Request::Queued(number)) = self.request(id) else { return };
        let queued = matches!(self.request(id), Request::Queued(_));
        self.requests[usize::from(id)] = Request::Absent;
        let entry = &mut self.users[usize::from(user)];
        entry.taken = entry.taken.without(one(number));
        entry.look |= queued;
        self.meta = Some(Meta { stock: meta.stock + 1, ..meta });
    }

    /// `begin.lua`, which keeps the outbox. A gate that is loading this epoch in this run stays as it is.
    pub(super) fn begin(&mut self, epoch: u8) -> bool {
        let is_loading = |meta: &Meta| meta.phase == Phase::Loading && meta.epoch == epoch;
        if self.live().as_ref().is_some_and(is_loading) {
            return true;
        }
        // What another run has begun to load is gone with it.
        let knows = |meta: &Meta| meta.epoch >= epoch && !is_loading(meta);
        if self.meta.as_ref().is_some_and(knows) {
            return false;
        }
        let Self { run, outbox, last, group, .. } = *self;
        *self = Self { outbox, last, group, ..Self::empty(run) };
        self.meta = Some(Meta {
            phase: Phase::Loading,
            epoch,
            run,
            version: 0,
            state: TemplateState::Draft,
            mode: Mode::Direct,
            stock: 0,
            movement: 0,
        });
        true
    }

    /// `load.lua` and `open.lua`. They work only on a gate that is exactly loading(`epoch`) in this run. State and mode
    /// are set only if they are newer.
    pub(super) fn open(&mut self, epoch: u8, facts: &Facts) -> bool {
        let loading = |meta: &Meta| meta.phase == Phase::Loading && meta.epoch == epoch;
        let Some(meta) = self.live().filter(loading) else { return false };
        let Facts { version, state, mode, stock, movement, users } = *facts;
        let opened = Meta { phase: Phase::Open, stock, movement, ..meta };
        self.users = users;
        self.meta = Some(if meta.version > version {
            opened
        } else {
            Meta { version, state, mode, ..opened }
        });
        true
    }

    /// `unload.lua`, refused while a request is pending or queued.
    pub(super) fn unload(&mut self, epoch: u8) -> bool {
        let stands = |r: &Request| matches!(r, Request::Pending(_) | Request::Queued(_));
        if self.meta.is_none_or(|meta| meta.epoch != epoch) || self.requests.iter().any(stands) {
            return false;
        }
        let Self { run, outbox, last, group, .. } = *self;
        *self = Self { outbox, last, group, ..Self::empty(run) };
        true
    }
}

impl Protocol {
    /// `claim.lua` with the gate's epoch.
    pub(super) fn admit(&self, gate: &mut Gate, id: u8, said: Said) -> Verdict {
        let Some(meta) = gate.answering() else { return Verdict::NotLoaded };
        let user = self.attempt(id).user;
        let key = self.attempt(id).key;
        let mut of_key = (0..IDS as u8).filter(|other| self.attempt(*other).key == key);
        if let Some(known) = of_key.find(|other| gate.request(*other) != Request::Absent) {
            return Verdict::Replay(known, gate.request(known));
        }
        let taken = gate.users[usize::from(user)].taken;
        let number = (1..=self.bounds.limit).find(|number| !taken.meets(one(*number)));
        let Some(number) = number.filter(|_| meta.state == TemplateState::Published) else {
            return Verdict::Refused;
        };
        if meta.stock < 1 {
            return Verdict::Refused;
        }
        let queued = match meta.mode {
            Mode::Direct => false,
            Mode::Queued => true,
            Mode::Spill => said.behind,
        };
        let unlooked = gate.users[usize::from(user)].look && !said.looked;
        if queued && unlooked && !self.bounds.has(Bug::QueuedBeforeLook) {
            return Verdict::LookFirst;
        }
        gate.meta = Some(Meta { stock: meta.stock - 1, ..meta });
        gate.users[usize::from(user)].taken = taken.with(one(number));
        let message = Message { id, epoch: meta.epoch, number };
        if !queued {
            gate.requests[usize::from(id)] = Request::Pending(number);
            return Verdict::Admitted(message);
        }
        gate.requests[usize::from(id)] = Request::Queued(number);
        gate.last += 1;
        gate.outbox.push(Entry { at: gate.last, message, passed: false });
        Verdict::Queued(message)
    }

    /// The entries that the consumer group gives a relay: new ones, its own leftovers, and those of dead relays.
    pub(super) fn delivered(&self, gate: &Gate) -> Vec<Entry> {
        let first = self.bounds.has(Bug::GroupFromNow) && !gate.group;
        let entries = gate.outbox.as_slice().iter().filter(|entry| !entry.passed && !first);
        entries.copied().collect()
    }
}
