//! The loop of one lander: takes a batch, lands it, sets dead letters aside, stores the offset.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use coupon::QueuedClaim;
use landing::queued::{PING_EVERY, QueuedEnd, QueuedLander};
use metrics::histogram;
use runtime::{Clock, FailPoints};
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use topic::{
    ClaimsBatch, ClaimsReader, Producer, TopicError, TopicNames, decode_claim, encode_claim,
};
use tracing::error;

use crate::{dead_letter::DeadLetter, lanes::Lanes, metrics::DELAY, spans};

/// Messages per batch: a transaction of claims for one coupon each.
const BATCH_MAX: usize = 1000;

/// Time for an unfinished batch to land once the process is to stop. The partition's next owner lands the rest.
pub(crate) const LAST_BATCH_MAX: Duration = Duration::from_secs(5);

/// A batch that takes longer than this is stuck, usually behind a stock row that another transaction has locked. A
/// spare lander takes its place for the other partitions.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Shortest time between commits of offsets. A rebuild that drains waits for a commit, and users' positions change only
/// with one.
const COMMIT_EVERY: Duration = Duration::from_millis(50);

/// The state that the landers of this process share.
pub(crate) struct Work<'a> {
    pub(crate) reader: &'a ClaimsReader,
    /// One for each lander that may be at work; the others are spares.
    pub(crate) places: Semaphore,
    /// Held by the lander that asks for the next batch.
    pub(crate) turn: Mutex<()>,
    pub(crate) lanes: &'a Lanes,
    pub(crate) producer: &'a Producer,
    pub(crate) names: &'a TopicNames,
    pub(crate) clock: &'a Clock,
    pub(crate) points: &'a FailPoints,
    pub(crate) stop: &'a CancellationToken,
    /// Notified when an offset was stored.
    pub(crate) stored: Notify,
}

/// A message of the batch, for its dead letter.
struct Origin {
    offset: i64,
    key: Vec<u8>,
}

impl Work<'_> {
    /// Lands batches until `stop`, over the connection that `connecting` makes.
    pub(crate) async fn run(
        &self,
        connecting: impl Future<Output = QueuedLander>,
    ) -> anyhow::Result<()> {
        let Some(mut lander) = self.stop.run_until_cancelled(connecting).await else {
            return Ok(());
        };
        loop {
            let (place, batch) = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                next = self.next() => next.context("consuming failed")?,
                () = tokio::time::sleep(PING_EVERY) => {
                    if self.stop.run_until_cancelled(lander.ping()).await.is_none() {
                        return Ok(());
                    }
                    continue;
                }
            };
            let mut landing = Box::pin(self.land(&mut lander, batch));
            let mut stopped = pin!(self.stopped_long_ago());
            let landed = tokio::select! {
                landed = &mut landing => Some(landed),
                () = tokio::time::sleep(STUCK_AFTER) => None,
                () = &mut stopped => return Ok(()),
            };
            drop(place);
            if let Some(landed) = landed {
                landed?;
                continue;
            }
            tokio::select! {
                landed = landing => landed?,
                () = stopped => return Ok(()),
            }
        }
    }

    /// Commits stored offsets soon after each batch. Never returns.
    pub(crate) async fn commit(&self) {
        loop {
            self.stored.notified().await;
            if let Err(error) = self.reader.commit_now().await {
                // The client commits every second anyway.
                runtime::seldom!("landed offsets are not committed yet", runtime::report(&error));
            }
            tokio::time::sleep(COMMIT_EVERY).await;
        }
    }

    /// Takes the next batch, when there is a place for this lander and it is its turn to wait. Cancel-safe.
    async fn next(&self) -> Result<(Option<SemaphorePermit<'_>>, ClaimsBatch), TopicError> {
        // Never closed.
        let place = self.places.acquire().await.ok();
        let _turn = self.turn.lock().await;
        Ok((place, self.reader.next_batch(BATCH_MAX).await?))
    }

    async fn stopped_long_ago(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(LAST_BATCH_MAX).await;
    }

    /// Lands a batch however long it takes. Its offset is stored last.
    async fn land(&self, lander: &mut QueuedLander, batch: ClaimsBatch) -> anyhow::Result<()> {
        let ClaimsBatch { partition, messages } = batch;
        let count = messages.len();
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return Ok(()) };
        let next_offset = last.offset + 1;
        self.lanes.begin(partition, first.offset, first.at, Instant::now());
        self.points.reach("lander.after_take").await?;
        let mut claims = Vec::new();
        let mut origins = Vec::new();
        let mut letters = Vec::new();
        for message in messages {
            let offset = message.offset;
            let key = message.key;
            match message.body {
                Ok(claim) => {
                    claims.push(claim);
                    origins.push(Origin { offset, key });
                }
                Err(payload) => {
                    let reason = decode_claim(&payload).err().map(|error| runtime::report(&error));
                    let reason = reason.unwrap_or_default();
                    let trace_parent = None;
                    letters.push(DeadLetter {
                        source: self.names.claims(),
                        partition,
                        offset,
                        key,
                        payload,
                        trace_parent,
                        reason,
                    });
                }
            }
        }
        let spans = spans::of(&claims);
        let ends = lander.land(&claims).await;
        drop(spans);
        self.points.reach("lander.after_commit").await?;
        self.measure_delay(&claims);
        let landed = claims.iter().zip(ends).zip(origins);
        letters
            .extend(landed.filter_map(|((claim, end), origin)| {
                self.letter_of(partition, claim, end, origin)
            }));
        for letter in &letters {
            self.put_aside(letter).await;
        }
        self.points.reach("lander.before_offset").await?;
        self.reader.done(partition, next_offset);
        self.lanes.end(partition, next_offset, count, Instant::now());
        self.stored.notify_one();
        Ok(())
    }

    async fn put_aside(&self, letter: &DeadLetter) {
        letter.put_aside(self.producer, self.names).await;
        error!(
            topic.partition = letter.partition,
            topic.offset = letter.offset,
            reason = letter.reason,
            "a queued claim cannot be read or landed: put aside"
        );
    }

    fn measure_delay(&self, claims: &[QueuedClaim]) {
        let Some(oldest) = claims.iter().map(|claim| claim.admitted_at).min() else { return };
        let delay = crate::delay(self.clock.now(), oldest);
        histogram!(DELAY.name).record(delay.as_secs_f64());
    }

    fn letter_of(
        &self,
        partition: i32,
        claim: &QueuedClaim,
        end: QueuedEnd,
        Origin { offset, key }: Origin,
    ) -> Option<DeadLetter> {
        let reason = end.dead_letter()?.to_owned();
        let trace_parent = claim.admission.claim.trace_parent.clone();
        let source = self.names.claims();
        let payload = encode_claim(claim);
        Some(DeadLetter { source, partition, offset, key, payload, trace_parent, reason })
    }
}
