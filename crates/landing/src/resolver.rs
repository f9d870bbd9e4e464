//! Ends the admissions whose process died or hangs between gate and landing.
//!
//! For each admission that has been in flight longer than a grace it places the fence row. UNIQUE(id)
//! makes that wait for an open insert of the same admission, and then it either loses (it landed:
//! settle) or stands (it never will: release). Right with a grace of 0: the grace only saves fencing
//! claims that are about to land.
//!
//! A gate without admissions in flight has no key of them, and one command asks for the keys of hundreds of such
//! gates: what a look costs Redis follows from the sales that are under way, not from the templates there are
//! (docs/decisions/0038).

use std::{collections::HashMap, io, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId};
use mysql_store::{MySqlPool, StoreError, claim, connect, template};
use redis_gate::{Flights, Gate, GateError, InFlight, Still};
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

/// Admissions of one template read at a time; the next look takes the next.
const LOOK_MAX: usize = 1000;

/// How many admissions that fail at one look are passed over for those behind them.
const PASSED_MAX: usize = 16 * LOOK_MAX;

/// In flight longer than this is reported as stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// How long after a template's window ended its gate is still looked at.
const TAIL: Duration = Duration::from_hours(24);

/// What the resolver does, as its metric's label.
pub(crate) const ACTIONS: [&str; 3] = ["settled", "released", "busy"];

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

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub struct Watch {
    /// What MySQL told of last: templates that may have admissions in flight, and their gates' epochs. While it is away
    /// what is stuck in their gates is still counted.
    templates: Vec<(TemplateId, Epoch)>,
    /// Gates at which nothing was in flight, as they were then. Until their key of admissions is there they are asked
    /// for together, and not each by itself.
    still: HashMap<TemplateId, Still>,
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
        let mut watch = Watch::default();
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let look = stop.run_until_cancelled(self.look_again(&mut watch, clock()));
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
        self.look_again(&mut Watch::default(), now).await
    }

    /// The same for who looks again and again.
    ///
    /// # Errors
    /// As of [`Resolver::look`].
    pub async fn look_again(
        &self,
        watch: &mut Watch,
        now: DateTime<Utc>,
    ) -> Result<Resolved, ResolveError> {
        let told = self.watched(now).await.map(|templates| watch.templates = templates);
        let mut resolved = Resolved::default();
        let mut flights = Vec::new();
        let mut first_error = None;
        for (template, epoch) in self.stirred(watch).await? {
            match self.flight(template, now).await {
                Ok(flight) => {
                    watch.note(template, epoch, flight.as_ref());
                    flights.extend(flight);
                }
                // One template that fails keeps no other from being looked at.
                Err(error) => note(&mut first_error, template, error.into()),
            }
        }
        report_stuck(&flights, now, &mut resolved);
        told?;
        for flight in flights {
            let template = flight.template;
            match self.resolve_all(flight, now, &mut resolved).await {
                Ok(None) => {}
                Ok(Some(error)) => {
                    first_error.get_or_insert(error);
                }
                Err(ResolveError::Store(error)) if error.is_unavailable() => {
                    return Err(error.into());
                }
                Err(error) => note(&mut first_error, template, error),
            }
        }
        first_error.map_or(Ok(resolved), Err)
    }

    /// Ends what is in flight at the gate of a template that MySQL's list names no more.
    ///
    /// # Errors
    /// As of [`Resolver::look`].
    pub(crate) async fn look_at(
        &self,
        template: TemplateId,
        now: DateTime<Utc>,
    ) -> Result<(), ResolveError> {
        let Some(flight) = self.flight(template, now).await? else { return Ok(()) };
        let failed = self.resolve_all(flight, now, &mut Resolved::default()).await?;
        failed.map_or(Ok(()), Err)
    }

    /// The watched templates but those at whose gates nothing was in flight, and nothing is.
    async fn stirred(&self, watch: &mut Watch) -> Result<Vec<(TemplateId, Epoch)>, GateError> {
        let epochs: HashMap<TemplateId, Epoch> = watch.templates.iter().copied().collect();
        // Of another epoch it is another gate.
        watch.still.retain(|id, still| {
            epochs.get(id).is_some_and(|epoch| still.epoch.is_none_or(|own| own == *epoch))
        });
        let still: Vec<Still> = watch.still.values().copied().collect();
        for id in self.gate.stirred(&still).await? {
            watch.still.remove(&id);
        }
        let templates = watch.templates.iter().copied();
        Ok(templates.filter(|(id, _)| !watch.still.contains_key(id)).collect())
    }

    /// The templates that may have admissions in flight, and the epochs of their gates.
    async fn watched(&self, now: DateTime<Utc>) -> Result<Vec<(TemplateId, Epoch)>, StoreError> {
        let watched = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::watched(&mut connection, now + PRELOAD, now - TAIL).await
        });
        let watched = watched.await?.into_iter();
        Ok(watched.map(|watched| (watched.template.id, watched.stock.epoch)).collect())
    }

    async fn flight(
        &self,
        template: TemplateId,
        now: DateTime<Utc>,
    ) -> Result<Option<Flight>, GateError> {
        let Some(meta) = self.gate.meta(template).await? else { return Ok(None) };
        let before = now - self.grace;
        let flights = self.gate.in_flight(template, meta.epoch, before, 0, LOOK_MAX).await?;
        if flights.unreadable > 0 {
            // Whose request it stands for, nobody can tell. The new epoch asks MySQL.
            self.gate.mark_unreadable(template, meta.epoch, "in flight").await?;
        }
        Ok(Some(Flight { template, epoch: meta.epoch, flights }))
    }

    /// Ends what it can of a flight, and passes over what fails by itself; answers the first such failure.
    ///
    /// # Errors
    /// MySQL or the gate is away, or the resolver was interrupted.
    async fn resolve_all(
        &self,
        mut flight: Flight,
        now: DateTime<Utc>,
        resolved: &mut Resolved,
    ) -> Result<Option<ResolveError>, ResolveError> {
        let (mut first_error, mut passed) = (None, 0);
        loop {
            let Flights { admissions, unreadable } = &flight.flights;
            let looked_at = admissions.len() + unreadable;
            let before = passed;
            passed += unreadable;
            for admission in admissions {
                match self.resolve(&flight, admission, now, resolved).await {
                    Ok(()) => {}
                    Err(ResolveError::Store(error)) if error.is_unavailable() => {
                        return Err(error.into());
                    }
                    Err(error @ ResolveError::FailPoint(_)) => return Err(error),
                    Err(error) => {
                        passed += 1;
                        note(&mut first_error, flight.template, error);
                    }
                }
            }
            if looked_at < LOOK_MAX || passed == before || passed >= PASSED_MAX {
                return Ok(first_error);
            }
            let (template, epoch, until) = (flight.template, flight.epoch, now - self.grace);
            let next = self.gate.in_flight(template, epoch, until, passed, LOOK_MAX).await?;
            flight.flights = next;
        }
    }

    async fn resolve(
        &self,
        &Flight { template, epoch, .. }: &Flight,
        &InFlight { user, id, .. }: &InFlight,
        now: DateTime<Utc>,
        resolved: &mut Resolved,
    ) -> Result<(), ResolveError> {
        self.points.reach("resolver.before_fence").await?;
        let fence = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            claim::fence(&mut connection, template, user, id, now).await
        });
        let action = match fence.await {
            Ok(claim::Fence::Landed) => {
                self.points.reach("resolver.before_settle").await?;
                self.gate.settle(template, epoch, &[(user, id)]).await?;
                resolved.settled += 1;
                "settled"
            }
            Ok(claim::Fence::Stands) => {
                self.points.reach("resolver.before_release").await?;
                self.gate.release(template, epoch, user, id).await?;
                resolved.released += 1;
                "released"
            }
            // Somebody is landing it just now: the next look sees how that ended.
            Err(error) if error.is_conflict() => "busy",
            Err(error) => return Err(error.into()),
        };
        debug!(claim.id = %id, action, "resolved an admission");
        metrics::counter!(metric::RESOLVED, "action" => action).increment(1);
        Ok(())
    }
}

impl Watch {
    /// Remembers a gate at which nothing was in flight. `epoch` is MySQL's: one of another is about to be another gate.
    fn note(&mut self, template: TemplateId, epoch: Epoch, flight: Option<&Flight>) {
        let still = match flight {
            None => Some(Still { template, epoch: None }),
            Some(flight) if flight.flights == Flights::default() && flight.epoch == epoch => {
                Some(Still { template, epoch: Some(epoch) })
            }
            Some(_) => None,
        };
        self.still.extend(still.map(|still| (template, still)));
    }
}

/// The admissions of one gate that have been in flight for longer than the grace.
struct Flight {
    template: TemplateId,
    epoch: Epoch,
    flights: Flights,
}

fn report_stuck(flights: &[Flight], now: DateTime<Utc>, resolved: &mut Resolved) {
    let ages = flights.iter().flat_map(|flight| &flight.flights.admissions);
    let ages = ages.map(|one| (now - one.admitted_at).to_std().unwrap_or_default());
    let oldest = ages.clone().max().unwrap_or_default();
    resolved.stuck = ages.filter(|age| *age > STUCK_AFTER).count();
    metrics::gauge!(metric::IN_FLIGHT_OLDEST).set(oldest.as_secs_f64());
    metrics::gauge!(metric::STUCK).set(resolved.stuck as f64);
    if resolved.stuck > 0 {
        let admissions = resolved.stuck;
        warn!(admissions, "admissions were in flight for more than a minute");
    }
}

fn note(first: &mut Option<ResolveError>, template: TemplateId, error: ResolveError) {
    warn!(template.id = %template, error = %error, cause = ?error, "not resolved");
    first.get_or_insert(error);
}
