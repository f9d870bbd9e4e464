//! The last state of a trace.

use std::fmt;

use super::super::{State, queue::state::Queue, truth::Truth};
use crate::gate::{Meta, OpenFacts};

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truth { total, stock, epoch, queued_epoch, version, state, open, .. } = self.truth;
        writeln!(f, "MySQL: epoch {epoch}, queued {queued_epoch}, stock {stock} of {total}")?;
        writeln!(
            f,
            "       {state:?} v{version}, open for {open:?}; rows {:?}",
            self.truth.claims
        )?;
        for seq in 1..=self.truth.movement {
            writeln!(f, "       movement {seq}: {:?}", self.truth.message(seq))?;
        }
        if let Some(hidden) = self.truth.hidden {
            writeln!(f, "       not yet visible: {hidden:?}")?;
        }
        let Queue { topic, committed, told, kept, receipts, .. } = self.queue;
        if receipts.iter().any(|epoch| *epoch > 0) {
            writeln!(f, "topic: {:?}, committed {committed}", topic.as_slice())?;
            writeln!(f, "told:  {told:?}, kept {kept:#b}")?;
        }
        if self.memory.is_used() {
            writeln!(f, "apis:  {:?}", self.memory)?;
        }
        if self.halt.is_answered {
            writeln!(f, "pause at the gate: {:?}", self.halt)?;
        }
        let Some(meta) = self.gate.meta else { return write!(f, "gate:  absent") };
        let Meta { phase, epoch, users, halted, facts, run } = meta;
        let OpenFacts { version, state, mode, stock, movement, .. } = facts;
        writeln!(
            f,
            "gate:  {phase:?}, epoch {epoch}, stock {stock}, {state:?} v{version}, {mode:?}"
        )?;
        if halted {
            writeln!(f, "       paused there")?;
        }
        write!(f, "       movement {movement}; in flight {:?}, {users} users", self.gate.inflight)?;
        for (user, entry) in self.gate.users.iter().enumerate() {
            if let Some(entry) = entry {
                write!(f, "\n       user {user}: {entry:?}")?;
            }
        }
        let outbox = self.gate.outbox.entries.as_slice();
        if !outbox.is_empty() {
            write!(f, "\n       outbox {outbox:?}")?;
        }
        if run != self.gate.run { write!(f, "\n       of another run") } else { Ok(()) }
    }
}
