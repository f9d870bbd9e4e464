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
        let Meta { epoch, movement, .. } = *meta;
        let before = self.contained.get(&id).filter(|before| before.epoch == epoch);
        let has_lost = before.is_some_and(|before| movement < before.movement);
        let since = before.and_then(|before| before.ahead_since).unwrap_or_else(Instant::now);
        let ahead_since = (movement > stock.movement).then_some(since);
        self.contained.insert(id, Contained { epoch, movement, ahead_since });
        has_lost || ahead_since.is_some_and(|since| since.elapsed() >= SHOWN_WITHIN)
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
