//! Gates at which nothing happens: found right with nothing in flight, and MySQL's rows have stayed as they were
//! since. Many templates are like that for hours, before the crowd and behind it.
//!
//! What could have become wrong with such a gate without a change in MySQL?
//!
//! - Its keys are gone (somebody's `DEL`, a Redis that lost its file): one command asks hundreds of gates for their keys.
//! - It is of another run of Redis: then the connection is another, and all of them are looked at.
//! - A claim was let through and has not landed: the resolver asks for such keys each second. When it lands, MySQL's
//!   stock is another, and the gate is looked at.
//! - A claim found something wrong: it asks for a look, and gets one.
//! - Somebody wrote into its keys by hand: what MySQL would not let land it still does not. A share of the calm gates
//!   is looked at in full at each look, in turns.

use std::collections::{HashMap, HashSet};

use coupon::TemplateId;
use mysql_store::{stock::Stock, template::Watched};
use redis_gate::{Gate, GateError, Meta, Run, Standing};

/// Calm gates that are looked at in full at each look, three commands each. A platform of a few sales has no more, so
/// that everything is noticed at the next look; of thousands each is looked at within minutes.
pub(crate) const IN_FULL: usize = 16;

/// The calm gates of a process.
#[derive(Default)]
pub(crate) struct Calm {
    gates: HashMap<TemplateId, Found>,
    /// By which run of Redis.
    run: Option<Run>,
    /// Up to which template they were looked at in full.
    turn: Option<TemplateId>,
}

/// What MySQL had of a template whose gate was right, and what the gate has.
struct Found {
    version: i64,
    stock: Stock,
    standing: Standing,
}

impl Calm {
    /// Those of the watched templates whose gates need no look of their own this time. All others are forgotten,
    /// until they are noted again.
    ///
    /// # Errors
    /// Redis does not answer.
    pub(crate) async fn pass_over<'a>(
        &mut self,
        gate: &Gate,
        watched: impl Iterator<Item = &'a Watched>,
    ) -> Result<HashSet<TemplateId>, GateError> {
        let run = Some(gate.redis().run().await?);
        let mut before = std::mem::take(&mut self.gates);
        if self.run != run {
            before.clear();
            self.run = run;
        }
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
        let standing: Vec<Standing> = self.gates.values().map(|found| found.standing).collect();
        for id in gate.lost(&standing).await? {
            self.gates.remove(&id);
        }
        Ok(self.gates.keys().copied().collect())
    }

    /// Notes a gate that was looked at, if it has all that MySQL has and nothing is in flight.
    pub(crate) fn note(&mut self, watched: &Watched, meta: &Meta, in_flight: u64) {
        let Watched { template, stock } = watched;
        let is_right = meta.is_open()
            && in_flight == 0
            && meta.unreadable.is_none()
            && (meta.epoch, meta.movement) == (stock.epoch, stock.movement)
            && (meta.stock, meta.version) == (stock.stock, template.version);
        if is_right {
            let (id, has_users) = (template.id, meta.users > 0);
            let standing = Standing { template: id, epoch: meta.epoch, has_users };
            let found = Found { version: template.version, stock: *stock, standing };
            self.gates.insert(id, found);
        }
    }

    /// The next ones to be looked at in full, round and round.
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
