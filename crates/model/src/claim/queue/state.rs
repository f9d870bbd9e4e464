//! What queued claims add to a state.

use super::super::{
    bounds::{IDS, MESSAGES_MAX, WORKERS_MAX},
    truth::Reason,
};
use crate::{
    Few,
    gate::{Message, OutboxEntry},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Queue {
    /// The template's partition of `coupon.claims`. Messages before `committed` are blank, since none is read again.
    pub topic: Few<Message, MESSAGES_MAX>,
    /// The lander's committed offset.
    pub committed: u8,
    pub relays: [Relay; WORKERS_MAX],
    pub landers: [Lander; WORKERS_MAX],
    pub orphan: Orphan,
    pub looker: Looker,
    /// The epoch of each queued claim's receipt; 0: it has none.
    pub receipts: [u8; IDS],
    /// The claims whose 202 survives every fault so far, by bit.
    pub kept: u8,
    /// The claims whose 202 does not hold: the broker refused the entry for good, or the gate had not heard of a
    /// movement when it admitted them.
    pub excused: u8,
    /// The claims that took a coupon when a later one with their key had been answered by the gate: their keys were
    /// looked up first.
    pub overtaken: u8,
    /// What a client with a receipt is told.
    pub told: [Outcome; IDS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Relay {
    #[default]
    Idle,
    /// Has read an entry in this run of Redis.
    Publish { entry: OutboxEntry, run: u8 },
    /// XACK and XDEL
    Trim { at: u8, run: u8 },
}

/// A lander, and the offset that it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lander {
    #[default]
    Idle,
    Land(u8, Message),
    /// Was rolled back.
    Reread(u8, Message),
    /// Decided to reject.
    Reject(u8, Message, Reason),
    /// The key was answered under another id.
    Fence(u8, Message),
    Settle(u8, Message),
    Release(u8, Message),
    Commit(u8),
}

/// The resolver's search for a queued request that is in neither outbox nor topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Orphan {
    #[default]
    Idle,
    /// Not in the outbox, and the partition's end was noted.
    Wait { id: u8, epoch: u8, end: u8 },
    /// Only with [`crate::Bug::EndNotedBeforeOutbox`].
    OutboxNext { id: u8, epoch: u8, end: u8 },
}

/// A `GET` of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Looker {
    #[default]
    Idle,
    /// Has read `queued_epoch`.
    Epoch { id: u8, queued: u8 },
    /// Only with [`crate::Bug::RowReadBeforeEpoch`]: has found no row.
    NoRow { id: u8 },
}

/// What a client is told about a queued claim by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    #[default]
    Processing,
    /// The claim landed, or its key landed under another id.
    Succeeded,
    /// The claim was rejected, or its key was rejected under another id.
    Rejected,
    /// The claim has not landed and never lands: the same key may be sent again.
    Lost,
}

impl Queue {
    /// Appends a message, if the explored partition has room.
    pub(in crate::claim) fn publish(&mut self, message: Message) -> bool {
        let room = self.topic.as_slice().len() < MESSAGES_MAX;
        if room {
            self.topic.push(message);
        }
        room
    }

    /// The partition's end.
    pub(in crate::claim) fn end(&self) -> u8 {
        self.topic.as_slice().len() as u8
    }

    /// Commits the offset after `at`.
    pub(in crate::claim) fn commit(&mut self, at: u8) {
        self.committed = self.committed.max(at + 1);
        let consumed = usize::from(self.committed);
        self.topic.as_mut_slice()[..consumed].fill(Message::default());
    }

    /// Returns the messages that are still to be landed.
    pub(in crate::claim) fn waiting(&self) -> &[Message] {
        &self.topic.as_slice()[usize::from(self.committed)..]
    }

    pub(in crate::claim) fn is_idle(&self) -> bool {
        self.relays.iter().all(|relay| *relay == Relay::Idle)
            && self.landers.iter().all(|lander| *lander == Lander::Idle)
            && self.orphan == Orphan::Idle
            && self.looker == Looker::Idle
    }
}

pub(in crate::claim) fn bit(id: u8) -> u8 {
    1 << id
}
