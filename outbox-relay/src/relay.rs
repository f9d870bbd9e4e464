//! One round at one outbox: read, publish, remove.

use std::{sync::Arc, time::Duration};

use coupon::{AcceptAfter, TemplateId};
use futures::future::join_all;
use metrics::{counter, histogram};
use redis_gate::{Gate, OutboxEntry, OutboxFrom, OutboxRead};
use runtime::{
    FailPoints,
    trace::{self, Kind},
};
use tokio::time::Instant;
use topic::{ClaimsProducer, TopicError};
use tracing::{info, warn};

use crate::{
    dead_letter::DeadLetters,
    metrics::{RELAYED, RETRIES, SECONDS, TAKEN_OVER},
    outboxes::Ages,
    pace::{BATCH, Pace, Round, TAKE_OVER_AFTER},
};

/// Time that messages wait for others, to share a request: far less than a claim's way to MySQL.
pub(crate) const LINGER: Duration = Duration::from_millis(2);

/// Age from which the relay publishes a claim with `accept_after` topic. The api that admitted such a claim publishes
/// it within milliseconds, unless the api died.
const LEFT_ALONE: Duration = Duration::from_secs(2);

/// What the workers of a process share.
pub(crate) struct Relay {
    pub(crate) gate: Gate,
    pub(crate) claims: ClaimsProducer,
    pub(crate) letters: DeadLetters,
    pub(crate) ages: Arc<Ages>,
    pub(crate) points: FailPoints,
}

impl Relay {
    /// Makes a round as `worker`, and returns the pace of the next one.
    pub(crate) async fn round(&self, worker: &str, template: TemplateId, mut pace: Pace) -> Pace {
        match self.relay(worker, template, &pace).await {
            Ok(round) => pace.went(&round, Instant::now()),
            Err(error) => {
                counter!(RETRIES.name).increment(1);
                let error = runtime::report(error.as_ref());
                runtime::seldom!("queued claims wait in their outbox", error);
                pace.failed(Instant::now());
            }
        }
        pace
    }

    async fn relay(
        &self,
        worker: &str,
        template: TemplateId,
        pace: &Pace,
    ) -> anyhow::Result<Round> {
        let mut round = Round::default();
        let takes_over = pace.takes_over(Instant::now());
        let takes_over = takes_over && self.take_over(worker, template).await?;
        // Entries that were taken over are now among this worker's leftovers.
        if pace.leftovers || takes_over {
            let from = OutboxFrom::Leftovers;
            let read = self.gate.read_outbox(template, worker, from, BATCH).await?;
            // There may be more of them.
            round.leftovers = !read.entries.is_empty();
            self.publish_all(template, read, &mut round).await?;
        }
        if round.reads_on() {
            let read = self.gate.read_outbox(template, worker, OutboxFrom::New, BATCH).await?;
            self.publish_all(template, read, &mut round).await?;
        }
        Ok(round)
    }

    /// Takes over entries that another worker has not finished for longer than a lease. Returns whether there were
    /// any.
    async fn take_over(&self, worker: &str, template: TemplateId) -> anyhow::Result<bool> {
        let taken =
            self.gate.take_over_outbox(template, worker, TAKE_OVER_AFTER, BATCH).await?.entries;
        if !taken.is_empty() {
            counter!(TAKEN_OVER.name).increment(taken.len() as u64);
            let claims = taken.len();
            info!(template.id = template.0, claims, worker, "claims were taken over");
        }
        Ok(!taken.is_empty())
    }

    /// Publishes the entries that are due, and removes those that the topic has. An error leaves the others pending.
    async fn publish_all(
        &self,
        template: TemplateId,
        read: OutboxRead,
        round: &mut Round,
    ) -> anyhow::Result<()> {
        let OutboxRead { run, entries } = read;
        let Some(oldest) = entries.iter().map(|entry| entry.age).max() else { return Ok(()) };
        let began = Instant::now();
        self.ages.saw(oldest);
        self.points.reach("relay.after_read").await?;
        round.read += entries.len();
        round.is_full |= entries.len() >= BATCH;
        let (due, young): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| due_in(entry).is_zero());
        if let Some(first) = young.iter().map(due_in).min() {
            round.keep_young(first);
            // The next read would give the same ones.
            round.is_full = false;
        }
        let sent = join_all(due.iter().map(|entry| self.publish(template, entry))).await;
        let mut done = Vec::new();
        let mut failed = None;
        for (entry, sent) in due.into_iter().zip(sent) {
            match sent {
                Ok(()) => done.push(entry.id),
                Err(error) => failed = Some(error),
            }
        }
        if !done.is_empty() {
            self.points.reach("relay.after_ack").await?;
            if self.gate.trim_outbox(template, &run, &done).await? {
                counter!(RELAYED.name).increment(done.len() as u64);
                histogram!(SECONDS.name).record((oldest + began.elapsed()).as_secs_f64());
            } else {
                // After a restore these ids belong to other claims, and the published ones may be in the outbox again.
                warn!(template.id = template.0, "Redis is of another run: nothing was removed");
                round.leftovers = true;
            }
            self.points.reach("relay.after_trim").await?;
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Publishes one entry, or sets it aside if that can never succeed. The entry may then be removed.
    async fn publish(&self, template: TemplateId, entry: &OutboxEntry) -> Result<(), TopicError> {
        let queued = match &entry.claim {
            Ok(queued) => queued,
            Err(error) => return self.letters.unreadable(template, &entry.id, error).await,
        };
        let parent = queued.admission.claim.trace_parent.as_deref();
        let mut span = trace::follow("outbox-relay.publish", Kind::Producer, parent);
        match self.claims.publish(queued).await {
            Ok(position) => {
                span.set("messaging.system", "kafka");
                span.set("messaging.destination.partition.id", position.partition.to_string());
                span.set("messaging.kafka.offset", position.offset);
                Ok(())
            }
            Err(error) if error.is_refused_for_good() => self.letters.refused(queued, &error).await,
            Err(error) => Err(error),
        }
    }
}

/// Returns how long an entry is left alone; zero: it is due.
fn due_in(entry: &OutboxEntry) -> Duration {
    let is_apis = matches!(&entry.claim, Ok(queued) if queued.accept_after == AcceptAfter::Topic);
    if is_apis { LEFT_ALONE.saturating_sub(entry.age) } else { Duration::ZERO }
}
