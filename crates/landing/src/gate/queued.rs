//! Settles queued requests that MySQL has decided, and finds those that are in neither outbox nor topic.
//!
//! The claim landers report each landing and rejection to the gate, if it answers. This task makes up for lost reports.
//! It leaves a request without a row alone: normally its claim is in the outbox or in the topic, and lands. A new epoch
//! is needed only if the claim is in neither, for example because the broker refused it for good. That is proven by
//! four steps in this order: the claim is not in the outbox; the partition's end is noted; the committed offset has
//! passed it; MySQL still has no row.

use std::collections::{HashMap, HashSet};

use coupon::{ClaimId, ClaimState, Epoch, TemplateId, UnknownCode};
use mysql_store::{claim_states, connect};
use redis_gate::{Flights, GateError};
use tracing::{debug, warn};

use crate::{
    gate::resolver::{ResolveError, Resolved, Resolver, Watch},
    lander::settler::SETTLE_MAX,
    metric,
};

/// Largest outbox that is searched for a claim. A larger one is still being published, and the check is repeated later.
const OUTBOX_READ_MAX: u64 = 10_000;

/// Text in the gate's `unreadable` field when a queued request needs a new epoch.
const CARRIED_BY_NOBODY: &str = "a queued claim that nobody carries";

/// Queued requests of a gate that were in no outbox when the end of their partition was noted.
#[derive(Debug)]
pub(super) struct Uncarried {
    epoch: Epoch,
    end: i64,
    ids: HashSet<ClaimId>,
}

/// The queued requests of one template's gate that are to be resolved.
pub(super) struct QueuedFlights {
    pub(super) template: TemplateId,
    pub(super) epoch: Epoch,
    pub(super) flights: Flights,
}

impl Resolver {
    /// Ends the queued requests that MySQL has decided, and requests a new epoch if one is in neither outbox nor topic.
    /// The second part is skipped while the queue is unreachable.
    pub(super) async fn resolve_queued(
        &self,
        watch: &mut Watch,
        queued: &QueuedFlights,
        answers: bool,
        resolved: &mut Resolved,
    ) -> Result<(), ResolveError> {
        let template = queued.template;
        let epoch = queued.epoch;
        let mut noted = watch.uncarried.remove(&template).filter(|noted| noted.epoch == epoch);
        // Read before the rows.
        let reached = match noted.as_mut().filter(|_| answers) {
            Some(noted) => {
                let reach = self.queue.reach(template).await;
                reach.map(|reach| reach.has_passed(&mut noted.end))
            }
            None => Ok(false),
        };
        let open = self.end_queued(queued, resolved).await?;
        let reached = reached?;
        match noted {
            Some(noted) if !reached => {
                watch.uncarried.insert(template, noted);
            }
            Some(noted) if open.iter().any(|id| noted.ids.contains(id)) => {
                warn!(template.id = %template, gate.epoch = %epoch, "nobody carries a queued claim");
                self.gate.mark_unreadable(template, epoch, CARRIED_BY_NOBODY).await?;
            }
            Some(_) | None if !answers => {}
            Some(_) | None => {
                // The ids were read before the outbox, and the outbox before the end.
                let ids = self.not_in_outbox(template, open).await?;
                if !ids.is_empty() {
                    let end = self.queue.end(template).await?;
                    watch.uncarried.insert(template, Uncarried { epoch, end, ids });
                }
            }
        }
        Ok(())
    }

    /// Returns those of `open` that the outbox does not hold; none while it is too large to be read.
    async fn not_in_outbox(
        &self,
        template: TemplateId,
        open: Vec<ClaimId>,
    ) -> Result<HashSet<ClaimId>, GateError> {
        let missing: HashSet<ClaimId> = open.into_iter().collect();
        if missing.is_empty() || self.gate.outbox_len(template).await? > OUTBOX_READ_MAX {
            return Ok(HashSet::new());
        }
        self.gate.missing_in_outbox(template, missing).await
    }

    /// Settles requests that landed, releases those that were rejected or fenced, and returns those that MySQL does not
    /// know. A request whose row this version cannot read is decided, but how is unknown: it is left alone and not
    /// returned.
    pub(super) async fn end_queued(
        &self,
        queued: &QueuedFlights,
        resolved: &mut Resolved,
    ) -> Result<Vec<ClaimId>, ResolveError> {
        let template = queued.template;
        let epoch = queued.epoch;
        let admissions = &queued.flights.admissions;
        let ids: Vec<ClaimId> = admissions.iter().map(|one| one.id).collect();
        if ids.is_empty() {
            return Ok(ids);
        }
        let states = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            claim_states::of_ids(&mut connection, template, &ids).await
        });
        let states: HashMap<ClaimId, Result<ClaimState, UnknownCode>> = states.await?;
        let mut landed = Vec::new();
        let mut open = Vec::new();
        for one in admissions {
            match states.get(&one.id) {
                Some(Ok(ClaimState::Landed)) => landed.push((one.user, one.id)),
                Some(Ok(ClaimState::Rejected | ClaimState::Void)) => {
                    self.points.reach("resolver.before_release").await?;
                    self.gate.release(template, epoch, one.user, one.id).await?;
                    resolved.released += 1;
                    count("released", 1);
                }
                Some(Err(unknown)) => {
                    let why = format!("template {template}, claim {}: {unknown}", one.id);
                    runtime::seldom!("a queued claim is not resolved: its row cannot be read", why);
                    count("unreadable", 1);
                }
                None => open.push(one.id),
            }
        }
        for landed in landed.chunks(SETTLE_MAX) {
            self.points.reach("resolver.before_settle").await?;
            self.gate.settle(template, epoch, landed).await?;
            resolved.settled += landed.len();
            count("settled", landed.len() as u64);
            debug!(template.id = %template, claims = landed.len(), "settled queued claims");
        }
        Ok(open)
    }
}

fn count(action: &'static str, claims: u64) {
    metrics::counter!(metric::RESOLVED.name, "action" => action).increment(claims);
}
