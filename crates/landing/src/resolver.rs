//! Ends the admissions whose process died or hangs between gate and landing.
//!
//! For each admission that has been in flight longer than a grace it places the fence row. UNIQUE(id)
//! makes that wait for an open insert of the same admission, and then it either loses (it landed:
//! settle) or stands (it never will: release). Right with a grace of 0: the grace only saves fencing
//! claims that are about to land.

use std::{io, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId};
use mysql_store::{MySqlPool, StoreError, claim, connect, template};
use redis_gate::{Gate, GateError, InFlight};
use runtime::FailPoints;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{gates::PRELOAD, metric};

/// How long an admission may be in flight before it is looked at: a landing takes milliseconds, and a
/// lander that lost MySQL keeps its batch, so this is the time of a short outage.
pub const GRACE: Duration = Duration::from_secs(10);

/// How often the resolver looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Admissions of one template in one look; the next look takes the next.
const LOOK_MAX: usize = 1000;

/// In flight longer than this is reported as stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// How long after a template's window ended its gate is still looked at.
const TAIL: Duration = Duration::from_hours(24);

/// The task that resolves.
pub struct Resolver {
    /// Where the fences are placed.
    pub pool: MySqlPool,
    /// Whose in-flight entries are looked at.
    pub gate: Gate,
    /// How long an admission is left alone.
    pub grace: Duration,
    /// `resolver.before_fence`, `resolver.before_settle` and `resolver.before_release`.
    pub points: FailPoints,
}

/// What one look did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Admissions found to have landed.
    pub settled: usize,
    /// Admissions that never will.
    pub released: usize,
    /// Admissions that had been in flight for more than a minute.
    pub stuck: usize,
}

/// A look could not be finished; the next one goes on.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// MySQL failed.
    #[error("the resolver could not use MySQL")]
    Store(#[from] StoreError),
    /// The gate failed.
    #[error("the resolver could not use the gate")]
    Gate(#[from] GateError),
    /// A fail point was armed.
    #[error("the resolver was interrupted")]
    FailPoint(#[from] io::Error),
}

impl Resolver {
    /// Looks until `stop`.
    pub async fn run(self, clock: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let look = stop.run_until_cancelled(self.look(clock()));
            if let Some(Err(error)) = look.await {
                warn!(error = %error, cause = ?error, "the resolver could not look");
            }
        }
    }

    /// Ends every admission that has been in flight since before `now` less the grace.
    ///
    /// # Errors
    /// MySQL or the gate failed; what was done stays done.
    pub async fn look(&self, now: DateTime<Utc>) -> Result<Resolved, ResolveError> {
        let mut connection = connect::acquire(&self.pool).await?;
        let watched = template::watched(&mut connection, now + PRELOAD, now - TAIL).await?;
        drop(connection);
        let mut resolved = Resolved::default();
        let mut first_error = None;
        for watched in watched {
            let template = watched.template.id;
            if let Err(error) = self.look_at(template, now, &mut resolved).await {
                // One template that fails keeps no other from being looked at.
                warn!(template.id = %template, error = %error, cause = ?error, "not resolved");
                first_error.get_or_insert(error);
            }
        }
        metrics::gauge!(metric::STUCK).set(resolved.stuck as f64);
        if resolved.stuck > 0 {
            let admissions = resolved.stuck;
            warn!(admissions, "admissions were in flight for more than a minute");
        }
        first_error.map_or(Ok(resolved), Err)
    }

    async fn look_at(
        &self,
        template: TemplateId,
        now: DateTime<Utc>,
        resolved: &mut Resolved,
    ) -> Result<(), ResolveError> {
        let Some(meta) = self.gate.meta(template).await? else { return Ok(()) };
        let before = now - self.grace;
        let entries = self.gate.in_flight(template, meta.epoch, before, LOOK_MAX).await?;
        resolved.stuck += entries.iter().filter(|e| e.admitted_at + STUCK_AFTER < now).count();
        for entry in entries {
            self.resolve(template, meta.epoch, entry, now, resolved).await?;
        }
        Ok(())
    }

    async fn resolve(
        &self,
        template: TemplateId,
        epoch: Epoch,
        entry: InFlight,
        now: DateTime<Utc>,
        resolved: &mut Resolved,
    ) -> Result<(), ResolveError> {
        self.points.reach("resolver.before_fence").await?;
        let mut connection = connect::acquire(&self.pool).await?;
        let fence = claim::fence(&mut connection, template, entry.user, entry.id, now).await;
        let action = match fence {
            Ok(claim::Fence::Landed) => {
                self.points.reach("resolver.before_settle").await?;
                self.gate.settle(template, epoch, &[(entry.user, entry.id)]).await?;
                resolved.settled += 1;
                "settled"
            }
            Ok(claim::Fence::Stands) => {
                self.points.reach("resolver.before_release").await?;
                self.gate.release(template, epoch, entry.user, entry.id).await?;
                resolved.released += 1;
                "released"
            }
            // Somebody is landing it just now: the next look sees how that ended.
            Err(error) if error.is_conflict() => "busy",
            Err(error) => return Err(error.into()),
        };
        debug!(claim.id = %entry.id, action, "resolved an admission");
        metrics::counter!(metric::RESOLVED, "action" => action).increment(1);
        Ok(())
    }
}
