//! Unchanged gates: found correct with nothing in flight, and unchanged in MySQL since. Many templates are unchanged for hours,
//! before and after their rush.
//!
//! Such a gate can become wrong without a change in MySQL in these ways only:
//!
//! - Its keys are gone (a manual `DEL`, a Redis that lost its file). One command checks the keys of hundreds of
//!   gates.
//! - It belongs to another run of Redis, perhaps on another master. Then all gates of that run are checked.
//! - A claim was admitted and has not landed. The resolver checks for the keys of such claims each second. When the
//!   claim lands, MySQL's stock changes, and the gate is checked.
//! - A claim found something wrong. It requests a check, and gets one.
//! - Its keys were edited by hand. MySQL still refuses every landing that it would have refused before. A share of the
//!   unchanged gates is checked in full each time, in turns.

use std::collections::{HashMap, HashSet};

use coupon::TemplateId;
use mysql_store::{stock::Stock, template::Watched};
use redis_gate::{CheckedGate, Gate, Meta};

/// Unchanged gates to check in full each time, at three commands each. A platform with a few sales has no more gates than
/// this, so each check finds everything; with thousands, each gate is checked within minutes.
pub(crate) const IN_FULL: usize = 16;

/// The unchanged gates of a process.
#[derive(Default)]
pub(crate) struct UnchangedGates {
    gates: HashMap<TemplateId, Found>,
    /// Last template that was checked in full.
    turn: Option<TemplateId>,
}

/// MySQL's version and stock of a template whose gate was correct, and the gate's keys.
struct Found {
    version: i64,
    stock: Stock,
    checked: CheckedGate,
}

impl UnchangedGates {
    /// Returns the watched templates whose gates need no individual check this time. All others are dropped until
    /// they are noted again.
    pub(crate) async fn pass_over<'a>(
        &mut self,
        gate: &Gate,
        watched: impl Iterator<Item = &'a Watched>,
    ) -> HashSet<TemplateId> {
        let mut before = std::mem::take(&mut self.gates);
        for one in watched {
            let id = one.template.id;
            let as_before =
                |found: &Found| found.version == one.template.version && found.stock == one.stock;
            if let Some(found) = before.remove(&id).filter(as_before) {
                self.gates.insert(id, found);
            }
        }
        for id in self.next_turn() {
            self.gates.remove(&id);
        }
        let checked = self.gates.values().map(|found| found.checked.clone());
        for id in gate.lost(&checked.collect::<Vec<_>>()).await {
            self.gates.remove(&id);
        }
        self.gates.keys().copied().collect()
    }

    /// Records a checked gate as unchanged if it matches MySQL and nothing is in flight.
    pub(crate) fn note(&mut self, watched: &Watched, meta: &Meta, in_flight: u64) {
        let Watched { template, stock } = watched;
        let is_right = meta.is_open()
            && in_flight == 0
            && meta.unreadable.is_none()
            && (meta.epoch, meta.movement) == (stock.epoch, stock.movement)
            && (meta.stock, meta.version) == (stock.stock, template.version);
        if is_right {
            let id = template.id;
            let has_users = meta.users > 0;
            let run = meta.run.clone();
            let checked = CheckedGate { template: id, epoch: meta.epoch, run, has_users };
            let found = Found { version: template.version, stock: *stock, checked };
            self.gates.insert(id, found);
        }
    }

    /// Picks the next gates to check in full, round robin.
    fn next_turn(&mut self) -> Vec<TemplateId> {
        let mut ids: Vec<TemplateId> = self.gates.keys().copied().collect();
        ids.sort_unstable();
        let first = self.turn.map_or(0, |last| ids.partition_point(|id| *id <= last));
        ids.rotate_left(first);
        ids.truncate(IN_FULL);
        self.turn = ids.last().copied().or(self.turn);
        ids
    }
}
