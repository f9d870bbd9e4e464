//! Finds the outboxes with claims, for all workers of the process, and measures what waits.
//!
//! It scans Redis instead of reading which templates queue: an outbox may hold claims after its template went back to
//! direct, or after its gate was lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coupon::TemplateId;
use metrics::gauge;
use redis_gate::{Gate, GateError};
use runtime::Part;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::{OLDEST, WAITING};

/// The templates whose outbox is not empty.
pub(crate) type Waiting = Arc<BTreeSet<TemplateId>>;

/// Interval between checks of the known outboxes: the longest wait of a quiet template's first claim.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Interval between searches for outboxes, which scan all keys of Redis.
const SCAN_EVERY: Duration = Duration::from_secs(1);

/// Interval at which the oldest age is shown.
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// The greatest age of a claim that workers have read since the last report.
#[derive(Debug, Default)]
pub(crate) struct Ages(Mutex<Option<Duration>>);

impl Ages {
    /// Records a claim of this age.
    pub(crate) fn saw(&self, age: Duration) {
        let mut oldest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *oldest = Some(oldest.map_or(age, |known| known.max(age)));
    }

    fn take(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The task that finds outboxes with claims.
pub(crate) struct Outboxes {
    gate: Gate,
    health: Part,
    ages: Arc<Ages>,
    waiting: watch::Sender<Waiting>,
    known: Vec<TemplateId>,
    /// When the outboxes were last searched for.
    scanned: Option<Instant>,
    /// The oldest age shown, and when.
    oldest: (Duration, Instant),
}

impl Outboxes {
    /// Makes the task. `health` shows whether the gate answers; `waiting` gets the outboxes that have claims.
    pub(crate) fn new(
        gate: Gate,
        health: Part,
        ages: Arc<Ages>,
        waiting: watch::Sender<Waiting>,
    ) -> Self {
        let oldest = (Duration::ZERO, Instant::now());
        Self { gate, health, ages, waiting, known: Vec::new(), scanned: None, oldest }
    }

    /// Checks the outboxes until `stop`.
    pub(crate) async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.look().await {
                Ok(lengths) => self.show(&lengths),
                Err(error) => {
                    // The gate may be another one when it answers again.
                    self.scanned = None;
                    gauge!(WAITING.name).set(f64::NAN);
                    self.health.not_ready(runtime::report(&error));
                }
            }
            if stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Returns the lengths of all outboxes that can be reached.
    ///
    /// # Errors
    /// No server of the gates answers.
    async fn look(&mut self) -> Result<BTreeMap<TemplateId, u64>, GateError> {
        if self.scanned.is_none_or(|at| at.elapsed() >= SCAN_EVERY) {
            self.known = self.gate.outboxes().await?;
            self.scanned = Some(Instant::now());
        }
        let mut lengths = BTreeMap::new();
        let mut failed = None;
        for (template, length) in self.known.iter().zip(self.gate.outbox_lens(&self.known).await) {
            match length {
                Ok(length) => {
                    lengths.insert(*template, length);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if lengths.is_empty() => Err(error),
            Some(error) => {
                runtime::seldom!("some outboxes cannot be reached", runtime::report(&error));
                Ok(lengths)
            }
            None => Ok(lengths),
        }
    }

    fn show(&mut self, lengths: &BTreeMap<TemplateId, u64>) {
        let filled = lengths.iter().filter(|(_, length)| **length > 0);
        let filled: BTreeSet<TemplateId> = filled.map(|(template, _)| *template).collect();
        let total: u64 = lengths.values().sum();
        self.waiting.send_if_modified(|waiting| {
            let is_new = **waiting != filled;
            if is_new {
                *waiting = Arc::new(filled);
            }
            is_new
        });
        gauge!(WAITING.name).set(total as f64);
        self.health.ready();
        self.health.set_status(json!({ "waiting": total }));
        let (shown, at) = self.oldest;
        if at.elapsed() >= SHOW_EVERY {
            // No worker handled a claim, so the oldest has aged by the elapsed time.
            let left_alone = if total > 0 { shown + at.elapsed() } else { Duration::ZERO };
            let oldest = self.ages.take().unwrap_or(left_alone);
            gauge!(OLDEST.name).set(oldest.as_secs_f64());
            self.oldest = (oldest, Instant::now());
        }
    }
}
