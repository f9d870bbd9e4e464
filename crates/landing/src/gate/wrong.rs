//! What shows that an open gate is wrong, though all of it can be read. MySQL says what is right; the gate was read after
//! it. A gate that is wrong is rebuilt.

use std::time::{Duration, Instant};

use coupon::{Epoch, Template, TemplateId};
use mysql_store::{
    connect,
    stock::Stock,
    template::{self, Watched},
};
use redis_gate::Meta;
use tracing::error;

use crate::gate::{keeper::Keeper, rebuild::RebuildError};

/// How long a gate may contain a movement that MySQL does not show. Its message may come from the binlog a moment before
/// the commit is visible; this is many times as long.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// The last movement that a gate contained at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contained {
    epoch: Epoch,
    movement: i64,
    /// Since when the gate contains more than MySQL shows; absent: it does not.
    ahead_since: Option<Instant>,
}

impl Keeper {
    /// Returns whether MySQL knows the gate's epoch, and learns it. It does not if the gate is damaged, or if MySQL has
    /// lost its newest transactions; then nothing that the gate admits directly can land.
    pub(super) async fn is_of_mysql(
        &self,
        template: TemplateId,
        meta: &Meta,
        before: &Stock,
    ) -> Result<bool, RebuildError> {
        let gates = self.gates();
        let mut of_mysql = before.epoch;
        // A rebuild may have raised the epoch since MySQL was read, and this process may know it.
        if meta.epoch > of_mysql || gates.known(template) > meta.epoch {
            of_mysql = gates.epoch_of_mysql(template).await?;
            gates.correct(template, of_mysql);
        }
        if meta.epoch > of_mysql {
            error!(template.id = %template, gate.epoch = %meta.epoch, %of_mysql, "a gate's epoch is not MySQL's");
            return Ok(false);
        }
        gates.learn(template, meta.epoch);
        Ok(true)
    }

    /// Returns whether the gate contradicts MySQL, has lost entries, or was reported wrong.
    pub(super) async fn is_wrong(
        &mut self,
        watched: &Watched,
        meta: &Meta,
    ) -> Result<bool, RebuildError> {
        let template = &watched.template;
        let stock = &watched.stock;
        let users = self.gates().gate().user_count(template.id, meta.epoch).await?;
        if users < meta.users {
            return Ok(true);
        }
        if self.reported_wrong(template.id).is_some_and(|wrong| wrong >= meta.epoch) {
            return Ok(true);
        }
        let mut field = contradiction(template, stock, meta);
        if field.is_none() && meta.version > template.version {
            field = self.is_ahead(template.id, meta.version).await?.then_some("version");
        }
        if field.is_none() && self.has_moved_wrongly(template.id, meta, stock) {
            field = Some("movement");
        }
        if let Some(field) = field {
            error!(template.id = %template.id, gate.epoch = %meta.epoch, field, "a gate contradicts MySQL");
        }
        Ok(field.is_some())
    }

    /// Returns whether this version is beyond the one that MySQL has by now.
    async fn is_ahead(&self, id: TemplateId, version: i64) -> Result<bool, RebuildError> {
        let current = connect::within(async {
            let mut connection = connect::acquire(self.gates().pool()).await?;
            template::get(&mut connection, id).await
        });
        Ok(current.await?.is_some_and(|current| version > current.version))
    }

    /// Returns whether the gate contains fewer movements than before in the same epoch, or some that MySQL has not shown
    /// for too long.
    fn has_moved_wrongly(&mut self, id: TemplateId, meta: &Meta, stock: &Stock) -> bool {
        let before = self.contained.get(&id).filter(|before| before.epoch == meta.epoch);
        let has_lost = before.is_some_and(|before| meta.movement < before.movement);
        let now = Instant::now();
        let contained = Contained::after(before, meta.epoch, meta.movement, stock.movement, now);
        self.contained.insert(id, contained);
        let is_ahead = |since: Instant| since.elapsed() >= SHOWN_WITHIN;
        has_lost || contained.ahead_since.is_some_and(is_ahead)
    }
}

impl Contained {
    /// `before` is of the same epoch. While units come back all the time, the gate is ahead at each check, of other
    /// movements: those of the check before are shown by now.
    fn after(before: Option<&Self>, epoch: Epoch, movement: i64, shown: i64, now: Instant) -> Self {
        let unshown = before.filter(|before| before.movement > shown);
        let since = unshown.and_then(|before| before.ahead_since).unwrap_or(now);
        Self { epoch, movement, ahead_since: (movement > shown).then_some(since) }
    }
}

/// Returns the first field in which a gate contradicts MySQL as read before it. The limits never change once a gate may
/// be loaded, a change of the window raises the epoch, and one of state or mode the version.
fn contradiction(template: &Template, stock: &Stock, meta: &Meta) -> Option<&'static str> {
    let Template { window, claim_mode, state, version, .. } = template;
    let window_ms = (window.starts_at.timestamp_millis(), window.ends_at.timestamp_millis());
    let is_current = meta.version == *version;
    [
        ("limit", meta.limit != i64::from(template.per_user_limit)),
        ("lapses_allowed", meta.lapses_allowed != i64::from(template.hold.lapses_allowed)),
        ("window", meta.epoch == stock.epoch && meta.window_ms != window_ms),
        ("state", is_current && meta.state != state.word()),
        ("mode", is_current && meta.mode != *claim_mode),
    ]
    .into_iter()
    .find_map(|(field, differs)| differs.then_some(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_ahead_only_as_long_as_mysql_does_not_show_the_same_movement() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let after = |before: Contained, movement, shown, seconds| {
            Contained::after(Some(&before), Epoch(1), movement, shown, at(seconds))
        };
        let first = Contained::after(None, Epoch(1), 10, 7, at(0));
        assert_eq!(first.ahead_since, Some(at(0)));
        // Units come back all the time: each check finds it ahead, of other movements.
        let next = after(first, 20, 12, 2);
        assert_eq!(next.ahead_since, Some(at(2)));
        assert_eq!(after(next, 30, 20, 4).ahead_since, Some(at(4)));
        // MySQL still does not show what the gate had at the check before.
        assert_eq!(after(next, 30, 19, 4).ahead_since, Some(at(2)));
        assert_eq!(after(next, 20, 20, 4).ahead_since, None);
    }
}
