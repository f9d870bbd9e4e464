//! Ends the admissions whose process died or hangs between gate and landing.
//!
//! For each admission that has been in flight longer than a grace it inserts the fence row. UNIQUE(id) makes the insert
//! wait for a concurrent insert of the same admission. Then either the admission has landed, and is settled; or the
//! fence stands, the admission can never land, and is released. This is correct even with a grace of 0; the grace only
//! avoids fencing claims that are about to land.
//!
//! Queued claims are never fenced, since the claim landers land or reject them: see `queued.rs`.
//!
//! A gate without admissions in flight has no in-flight key, and one command checks hundreds of gates for the key. The
//! cost of a scan for Redis thus depends on the sales under way, not on the number of templates (docs/decisions/0038).

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId};
use mysql_store::{MySqlPool, StoreError, connect, fence, template};
use redis_gate::{Flights, Gate, GateError, InFlight, QuietGate, Reach};
use runtime::FailPoints;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    gate::{
        gates::PRELOAD,
        queued::{QueuedFlights, Uncarried},
    },
    metric,
    queue::{ClaimQueue, QueueError},
};

/// Time in flight before an admission is examined. A landing takes milliseconds, and a lander that lost MySQL keeps its
/// batch, so this is the length of a short outage.
pub const GRACE: Duration = Duration::from_secs(10);

/// Interval between scans.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Admissions of one template read at a time. The next scan reads the rest, unless some of these fail; then the ones
/// behind them are read in this scan.
const READ_MAX: usize = 1000;

/// Failing admissions of one template that a scan skips to reach those behind them.
const PASSED_MAX: usize = 16 * READ_MAX;

/// Time in flight after which an admission is reported as stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// How long after the end of a template's window its gate is still scanned.
const TAIL: Duration = Duration::from_hours(24);

/// The task that resolves admissions.
pub struct Resolver {
    /// The database for the fences.
    pub pool: MySqlPool,
    /// The gates whose in-flight and queued entries are scanned.
    pub gate: Gate,
    /// The queue that carries queued entries.
    pub queue: Arc<dyn ClaimQueue>,
    /// How long an admission is left alone.
    pub grace: Duration,
    /// `resolver.before_fence`, `resolver.before_settle` and `resolver.before_release`.
    pub points: FailPoints,
}

/// State kept between scans.
#[derive(Debug, Default)]
pub struct Watch {
    /// MySQL's last list of templates that may have admissions in flight, and the epochs of their gates. With it stuck
    /// admissions are still counted while MySQL is unreachable.
    templates: Vec<(TemplateId, Epoch)>,
    /// Gates that had nothing in flight at their last scan. Until their in-flight key appears they are checked
    /// together, not one by one.
    quiet: HashMap<TemplateId, QuietGate>,
    /// Queued requests that seem to be in neither outbox nor topic.
    pub(super) uncarried: HashMap<TemplateId, Uncarried>,
}

/// What one scan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Admissions found landed.
    pub settled: usize,
    /// Admissions that will never land.
    pub released: usize,
    /// Admissions that had been in flight for more than a minute.
    pub stuck: usize,
}

/// A scan that could not finish; the next one continues.
#[derive(Debug, Error)]
pub enum ResolveError {
    #[error("the resolver could not use MySQL")]
    Store(#[from] StoreError),
    #[error("the resolver could not use the gate")]
    Gate(#[from] GateError),
    #[error("the resolver could not use the queue")]
    Queue(#[from] QueueError),
    #[error("the resolver was interrupted")]
    FailPoint(#[from] io::Error),
}

impl Resolver {
    /// Scans until `stop`.
    pub async fn run(self, clock: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        let mut watch = Watch::default();
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let look = stop.run_until_cancelled(self.look_again(&mut watch, clock()));
            if let Some(Err(error)) = look.await {
                runtime::seldom!("the resolver could not look", runtime::report(&error));
            }
        }
    }

    /// Ends every admission that has been in flight since before `now` minus the grace.
    ///
    /// # Errors
    /// MySQL or the gate failed; admissions that were ended before stay ended.
    pub async fn look(&self, now: DateTime<Utc>) -> Result<Resolved, ResolveError> {
        self.look_again(&mut Watch::default(), now).await
    }

    /// Like [`Resolver::look`], for a loop. `watch` caches the last list from MySQL, so that stuck admissions are
    /// counted while MySQL is unreachable.
    ///
    /// # Errors
    /// As of [`Resolver::look`].
    pub async fn look_again(
        &self,
        watch: &mut Watch,
        now: DateTime<Utc>,
    ) -> Result<Resolved, ResolveError> {
        let listed = self.watched(now).await.map(|templates| watch.templates = templates);
        let mut resolved = Resolved::default();
        let mut flights = Vec::new();
        let mut first_error = None;
        let reach = self.gate.reach().await?;
        for (template, epoch) in self.stirred(watch, &reach).await {
            let flight = match reach.to(template) {
                Ok(()) => self.flight(template, now).await,
                Err(error) => Err(error),
            };
            match flight {
                Ok(flight) => {
                    watch.note(template, epoch, flight.as_ref());
                    flights.extend(flight);
                }
                // An error at one template does not stop the scan of the others.
                Err(error) => note(&mut first_error, template, error.into()),
            }
        }
        report_stuck(&flights, now, &mut resolved);
        listed?;
        watch.uncarried.retain(|id, _| flights.iter().any(|flight| flight.template == *id));
        let mut queues = Vec::with_capacity(flights.len());
        for mut flight in flights {
            let template = flight.template;
            let epoch = flight.epoch;
            let queued = std::mem::take(&mut flight.queued);
            queues.push(QueuedFlights { template, epoch, flights: queued });
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
        self.resolve_queues(watch, queues, &mut resolved, &mut first_error).await?;
        first_error.map_or(Ok(resolved), Err)
    }

    /// Resolves queued requests, after all admissions in flight. An unreachable broker causes a long wait; this way it
    /// comes last, and only once per scan.
    async fn resolve_queues(
        &self,
        watch: &mut Watch,
        queues: Vec<QueuedFlights>,
        resolved: &mut Resolved,
        first_error: &mut Option<ResolveError>,
    ) -> Result<(), ResolveError> {
        let mut answers = true;
        for queued in queues {
            match self.resolve_queued(watch, &queued, answers, resolved).await {
                Ok(()) => {}
                Err(ResolveError::Store(error)) if error.is_unavailable() => {
                    return Err(error.into());
                }
                Err(error) => {
                    answers &= !matches!(error, ResolveError::Queue(_));
                    note(first_error, queued.template, error);
                }
            }
        }
        Ok(())
    }

    /// Ends the admissions in flight at the gate of a template that is no longer on MySQL's list.
    ///
    /// # Errors
    /// As of [`Resolver::look`].
    pub(crate) async fn look_at(
        &self,
        template: TemplateId,
        now: DateTime<Utc>,
    ) -> Result<(), ResolveError> {
        let Some(mut flight) = self.flight(template, now).await? else { return Ok(()) };
        let flights = std::mem::take(&mut flight.queued);
        let queued = QueuedFlights { template, epoch: flight.epoch, flights };
        let mut resolved = Resolved::default();
        let failed = self.resolve_all(flight, now, &mut resolved).await?;
        self.end_queued(&queued, &mut resolved).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Returns the watched templates, except those whose gates had nothing in flight and, as far as they can be reached,
    /// still have nothing.
    async fn stirred(&self, watch: &mut Watch, reach: &Reach) -> Vec<(TemplateId, Epoch)> {
        let epochs: HashMap<TemplateId, Epoch> = watch.templates.iter().copied().collect();
        // A gate of another epoch counts as another gate.
        watch.quiet.retain(|id, quiet| {
            epochs.get(id).is_some_and(|epoch| quiet.epoch.is_none_or(|own| own == *epoch))
        });
        let quiet = watch.quiet.values().filter(|quiet| reach.has(quiet.template)).copied();
        for id in self.gate.stirred(&quiet.collect::<Vec<_>>()).await {
            watch.quiet.remove(&id);
        }
        let templates = watch.templates.iter().copied();
        templates.filter(|(id, _)| !watch.quiet.contains_key(id)).collect()
    }

    /// Reads the templates that may have admissions in flight, and the epochs of their gates.
    async fn watched(&self, now: DateTime<Utc>) -> Result<Vec<(TemplateId, Epoch)>, StoreError> {
        let watched = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::watched(&mut connection, now + PRELOAD, now - TAIL).await
        });
        // The keeper logs those that cannot be read.
        let watched = watched.await?.rows.into_iter();
        Ok(watched.map(|watched| (watched.template.id, watched.stock.epoch)).collect())
    }

    async fn flight(
        &self,
        template: TemplateId,
        now: DateTime<Utc>,
    ) -> Result<Option<Flight>, GateError> {
        let Some(meta) = self.gate.meta(template).await? else { return Ok(None) };
        let before = now - self.grace;
        let flights = self.gate.in_flight(template, meta.epoch, before, 0, READ_MAX).await?;
        let queued = self.gate.queued_flights(template, meta.epoch, before, 0, READ_MAX).await?;
        if flights.unreadable + queued.unreadable > 0 {
            // It is unknown whose request this is. The new epoch reads everything from MySQL.
            self.gate.mark_unreadable(template, meta.epoch, "in flight").await?;
        }
        Ok(Some(Flight { template, epoch: meta.epoch, flights, queued }))
    }

    /// Ends the admissions of a flight, and skips those that fail individually. Returns the first such error.
    ///
    /// # Errors
    /// MySQL is unreachable, the gate cannot be read further, or the resolver was interrupted.
    async fn resolve_all(
        &self,
        mut flight: Flight,
        now: DateTime<Utc>,
        resolved: &mut Resolved,
    ) -> Result<Option<ResolveError>, ResolveError> {
        let mut first_error = None;
        let mut passed = 0;
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
            if looked_at < READ_MAX || passed == before || passed >= PASSED_MAX {
                return Ok(first_error);
            }
            let template = flight.template;
            let epoch = flight.epoch;
            let until = now - self.grace;
            let next = self.gate.in_flight(template, epoch, until, passed, READ_MAX).await?;
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
            fence::place_held(&mut connection, template, user, id, now).await
        });
        let action = match fence.await {
            Ok(fence::Fence::Landed) => {
                self.points.reach("resolver.before_settle").await?;
                self.gate.settle(template, epoch, &[(user, id)]).await?;
                resolved.settled += 1;
                "settled"
            }
            Ok(fence::Fence::Stands) => {
                self.points.reach("resolver.before_release").await?;
                self.gate.release(template, epoch, user, id).await?;
                resolved.released += 1;
                "released"
            }
            // The admission is just landing; the next scan sees how that ended.
            Err(error) if error.is_conflict() => "busy",
            Err(error) => return Err(error.into()),
        };
        debug!(claim.id = %id, action, "resolved an admission");
        metrics::counter!(metric::RESOLVED.name, "action" => action).increment(1);
        Ok(())
    }
}

impl Watch {
    /// Records a gate that had nothing in flight. `epoch` is MySQL's; a gate of another epoch is about to be replaced.
    fn note(&mut self, template: TemplateId, epoch: Epoch, flight: Option<&Flight>) {
        let quiet = match flight {
            None => Some(QuietGate { template, epoch: None }),
            Some(Flight { flights, queued, epoch: own, .. })
                if (flights, queued) == (&Flights::default(), &Flights::default())
                    && *own == epoch =>
            {
                Some(QuietGate { template, epoch: Some(epoch) })
            }
            Some(_) => None,
        };
        self.quiet.extend(quiet.map(|quiet| (template, quiet)));
    }
}

/// The admissions of one gate that have been in flight, or queued, longer than the grace.
struct Flight {
    template: TemplateId,
    epoch: Epoch,
    flights: Flights,
    queued: Flights,
}

fn report_stuck(flights: &[Flight], now: DateTime<Utc>, resolved: &mut Resolved) {
    let ages = flights.iter().flat_map(|flight| &flight.flights.admissions);
    let ages = ages.map(|one| (now - one.admitted_at).to_std().unwrap_or_default());
    let oldest = ages.clone().max().unwrap_or_default();
    resolved.stuck = ages.filter(|age| *age > STUCK_AFTER).count();
    metrics::gauge!(metric::IN_FLIGHT_OLDEST.name).set(oldest.as_secs_f64());
    metrics::gauge!(metric::STUCK.name).set(resolved.stuck as f64);
    let queued = flights.iter().flat_map(|flight| &flight.queued.admissions);
    let oldest = queued.map(|one| (now - one.admitted_at).to_std().unwrap_or_default()).max();
    metrics::gauge!(metric::QUEUED_OLDEST.name).set(oldest.unwrap_or_default().as_secs_f64());
    if resolved.stuck > 0 {
        let admissions = resolved.stuck;
        warn!(admissions, "admissions were in flight for more than a minute");
    }
}

fn note(first: &mut Option<ResolveError>, template: TemplateId, error: ResolveError) {
    let text = format!("template {template}: {}", runtime::report(&error));
    runtime::seldom!("admissions are not resolved", text);
    first.get_or_insert(error);
}
