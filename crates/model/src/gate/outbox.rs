//! The outbox, a stream to which `claim.lua` appends each queued claim. No epoch clears it.

use super::{Gate, Numbers, Phase, RequestState, Rules};
use crate::few::Few;

/// A claim on its way through the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Message {
    pub id: u8,
    /// The admission's epoch.
    pub epoch: u8,
    /// The admission's numbers.
    pub numbers: Numbers,
}

/// An entry of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OutboxEntry {
    /// Its id in the stream. After Redis went back in time, another entry may have the same id.
    pub at: u8,
    pub message: Message,
    /// Only with a planted mistake: the group will not deliver it as new any more.
    pub passed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Outbox<const ENTRIES: usize> {
    pub entries: Few<OutboxEntry, ENTRIES>,
    /// The last id that the stream has given.
    pub last: u8,
    /// Only with [`crate::Bug::GroupFromNow`]: whether the consumer group exists.
    pub group: bool,
}

impl<const ENTRIES: usize> Outbox<ENTRIES> {
    pub(super) fn append(&mut self, message: Message) {
        self.last += 1;
        self.entries.push(OutboxEntry { at: self.last, message, passed: false });
    }

    pub fn has(&self, id: u8) -> bool {
        self.entries.as_slice().iter().any(|entry| entry.message.id == id)
    }

    fn remove_where(&mut self, fits: impl Fn(&OutboxEntry) -> bool) {
        while let Some(at) = self.entries.as_slice().iter().position(&fits) {
            self.entries.remove(at);
        }
    }

    /// XACK and XDEL of a relay.
    pub fn trim(&mut self, at: u8) {
        self.remove_where(|entry| entry.at == at);
    }
}

impl<const USERS: usize, const REQUESTS: usize> Gate<USERS, REQUESTS> {
    /// `published.lua`: true only while this gate is open under the admission's epoch and run, and holds the admission.
    pub fn published(&mut self, rules: Rules, message: Message, run: u8) -> bool {
        let open = |meta: &super::Meta| meta.phase == Phase::Open && meta.epoch == message.epoch;
        let is_open = self.meta_of_run(rules).is_some_and(|meta| open(meta));
        let held = self.request(message.id).is_some_and(|r| r.state != RequestState::Pending);
        let confirmed = is_open && self.run == run && held;
        if confirmed {
            self.outbox.remove_where(|entry| entry.message.id == message.id);
        }
        confirmed
    }
}
