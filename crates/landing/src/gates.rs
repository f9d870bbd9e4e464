//! The gates of a process: which epochs it knows, how it asks for a look at one, and how a change of a
//! template reaches its gate. The task that looks is the [`crate::keeper`].

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex as Lock, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, Template, TemplateId, TemplateState};
use mysql_store::{MySqlPool, connect, stock};
use redis_gate::{Gate, Phase};
use runtime::{Backoff, FailPoints};
use tokio::sync::{Mutex, MutexGuard, Notify, mpsc};
use tracing::debug;

use crate::{
    keeper::Keeper,
    movements,
    rebuild::{RebuildError, Rebuilt, rebuild},
};

/// How long before its window opens a template's gate is loaded, unless somebody says otherwise: a
/// million users take seconds to load, and an outage right then takes minutes.
pub const PRELOAD: Duration = Duration::from_mins(5);

/// How long a change of a template waits for its gate, and how often it looks while another process
/// loads it: a million users take seconds.
pub const SHOW_MAX: Duration = Duration::from_secs(10);
const SHOW_LOOK: Duration = Duration::from_millis(20);

/// How long a claim waits for a gate that was wrong: a look and a rebuild of a small template. A larger
/// one answers as being loaded.
pub const MEND_MAX: Duration = Duration::from_secs(3);

/// How long a gate whose rebuild failed is left alone, from the first failure to the many: each try raises the epoch and
/// gives up what was admitted under the one before.
const REBUILD_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Requests that may wait; more are of no use, since one look covers all templates.
pub(crate) const REQUESTS_MAX: usize = 1024;

/// The gates of a process: the epochs it knows, and the requests to look at one.
#[derive(Clone)]
pub struct Gates {
    pool: MySqlPool,
    gate: Gate,
    holder: Arc<str>,
    preload: Duration,
    points: FailPoints,
    epochs: Arc<Lock<HashMap<TemplateId, Epoch>>>,
    requests: mpsc::Sender<Request>,
    /// Notified after every look.
    looked: Arc<Notify>,
    /// Held while a gate is looked at and rebuilt: the keeper does not begin anew what a publish has
    /// just loaded.
    rebuilding: Arc<Mutex<()>>,
    /// Gates whose rebuild failed here, and when they are tried again.
    failed: Arc<Lock<HashMap<TemplateId, (Backoff, Instant)>>>,
}

/// Why a gate is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) template: TemplateId,
    /// This epoch was found to be wrong: rebuild it if it is still the gate's.
    pub(crate) wrong: Option<Epoch>,
}

impl Gates {
    /// The gates, and the task that keeps them; `holder` names this process. The fail points are those of
    /// [`rebuild`]. A gate is loaded `preload` before its window opens ([`PRELOAD`]), the same in all
    /// processes: one with less unloads what another loads.
    pub fn new(
        pool: MySqlPool,
        gate: Gate,
        holder: &str,
        preload: Duration,
        points: FailPoints,
    ) -> (Self, Keeper) {
        let (requests, queue) = mpsc::channel(REQUESTS_MAX);
        let gates = Self {
            pool,
            gate,
            holder: holder.into(),
            preload,
            points,
            epochs: Arc::default(),
            requests,
            looked: Arc::default(),
            rebuilding: Arc::default(),
            failed: Arc::default(),
        };
        (gates.clone(), Keeper::new(gates, queue))
    }

    /// The gate's scripts.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The newest epoch that this process has heard of.
    pub fn known(&self, template: TemplateId) -> Epoch {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.get(&template).copied().unwrap_or(Epoch::UNKNOWN)
    }

    /// Hears of an epoch; what is known only rises. Answers whether it is news.
    pub fn learn(&self, template: TemplateId, epoch: Epoch) -> bool {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.entry(template).or_default();
        let news = epoch > *known;
        *known = epoch.max(*known);
        news
    }

    /// Asks for a look at a gate: it did not answer as loaded, or promised more than MySQL had. After a
    /// cut it may; one that is wrong is found by the look, and rebuilt.
    pub fn ask_look(&self, template: TemplateId) {
        self.request(Request { template, wrong: None });
    }

    /// Says that the gate of this epoch holds something that MySQL contradicts.
    pub fn report_wrong(&self, template: TemplateId, epoch: Epoch) {
        self.request(Request { template, wrong: Some(epoch) });
    }

    /// Whether a template's gate should be loaded at `now`: published or paused, and its window near or
    /// open. Whoever asks for anything else is answered from the template itself.
    pub fn wants(&self, template: &Template, now: DateTime<Utc>) -> bool {
        matches!(template.state, TemplateState::Published | TemplateState::Paused)
            && template.window.starts_at <= now + self.preload
            && now < template.window.ends_at
    }

    /// Resolves after the next look at the gates.
    pub async fn next_look(&self) {
        self.looked.notified().await;
    }

    /// Reports a wrong gate and waits for the next look at the gates, at most [`MEND_MAX`].
    pub async fn mend(&self, template: TemplateId, epoch: Epoch) {
        // Listening begins before the request: a look is not missed however fast it is.
        let mut looked = pin!(self.looked.notified());
        looked.as_mut().enable();
        self.report_wrong(template, epoch);
        if tokio::time::timeout(MEND_MAX, looked).await.is_err() {
            debug!(template.id = %template, "the gates were not looked at in time");
        }
    }

    /// Gives the gate the state that its template has since this version. Answers whether a loaded gate
    /// knows it now; one that is not loaded reads it from MySQL.
    ///
    /// # Errors
    /// The gate failed; the keeper tries again.
    pub async fn tell(&self, template: &Template) -> Result<bool, RebuildError> {
        let Some(meta) = self.gate.meta(template.id).await? else { return Ok(false) };
        let Template { id, version, state, .. } = *template;
        // Absent: a newer epoch began since, and whoever began it reads the template after that.
        let told = self.gate.set_state(id, meta.epoch, version, state).await?;
        Ok(told.is_some() && meta.phase == Phase::Open)
    }

    /// Makes a loaded gate know this version of its template, whoever loads it. Answers whether one did
    /// within [`SHOW_MAX`]; if not, the keeper goes on.
    ///
    /// # Errors
    /// MySQL or the gate failed; the keeper tries again.
    pub async fn show(&self, template: &Template) -> Result<bool, RebuildError> {
        let started = Instant::now();
        loop {
            {
                let _alone = self.alone().await;
                if self.tell(template).await? {
                    return Ok(true);
                }
                self.rebuild(template.id).await?;
                if self.tell(template).await? {
                    return Ok(true);
                }
            }
            if started.elapsed() >= SHOW_MAX {
                return Ok(false);
            }
            tokio::time::sleep(SHOW_LOOK).await;
        }
    }

    /// Makes the gate one of MySQL's epoch, whoever loads it, after an edit that has raised it. Answers
    /// whether it was within [`SHOW_MAX`]; if not, the keeper goes on.
    ///
    /// # Errors
    /// MySQL or the gate failed; the keeper tries again.
    pub async fn bring_up(&self, template: TemplateId) -> Result<bool, RebuildError> {
        let started = Instant::now();
        loop {
            {
                let _alone = self.alone().await;
                if self.is_up(template).await? {
                    return Ok(true);
                }
                self.rebuild(template).await?;
            }
            if started.elapsed() >= SHOW_MAX {
                return Ok(false);
            }
            tokio::time::sleep(SHOW_LOOK).await;
        }
    }

    /// Whether the gate is open under MySQL's epoch, or a later one.
    async fn is_up(&self, template: TemplateId) -> Result<bool, RebuildError> {
        let stock = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            stock::get(&mut connection, template).await
        });
        let epoch = stock.await?.map_or(Epoch::UNKNOWN, |stock| stock.epoch);
        let Some(meta) = self.gate.meta(template).await? else { return Ok(false) };
        self.learn(template, meta.epoch);
        Ok(meta.is_open() && meta.epoch >= epoch)
    }

    /// Brings the gate's stock up to MySQL's movements.
    ///
    /// # Errors
    /// MySQL or the gate failed; the consumer of the movements tries again, and so does the keeper.
    pub async fn catch_up(&self, template: TemplateId) -> Result<(), RebuildError> {
        let mut connection = connect::acquire(&self.pool).await?;
        movements::catch_up(&mut connection, &self.gate, template).await
    }

    /// One rebuild or look of this process at a time.
    pub(crate) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.rebuilding.lock().await
    }

    pub(crate) fn preload(&self) -> Duration {
        self.preload
    }

    pub(crate) fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Wakes those who wait for a look.
    pub(crate) fn looked(&self) {
        self.looked.notify_waiters();
    }

    /// Rebuilds the gate, unless another process is at it or it failed a moment ago, and learns its epoch.
    pub(crate) async fn rebuild(&self, template: TemplateId) -> Result<(), RebuildError> {
        let resting = {
            let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get(&template).is_some_and(|(_, again)| Instant::now() < *again)
        };
        if resting {
            return Ok(());
        }
        let rebuilt = rebuild(&self.pool, &self.gate, template, &self.holder, &self.points).await;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &rebuilt {
            Ok(Rebuilt::Open(epoch)) => {
                failed.remove(&template);
                self.learn(template, *epoch);
            }
            Ok(_) => {}
            Err(_) => {
                let first = || (Backoff::new(REBUILD_AGAIN.0, REBUILD_AGAIN.1), Instant::now());
                let (backoff, again) = failed.entry(template).or_insert_with(first);
                *again = Instant::now() + backoff.next_wait();
            }
        }
        rebuilt.map(|_| ())
    }

    fn request(&self, request: Request) {
        // Full: a look is due anyway, and the next refused claim asks again.
        if self.requests.try_send(request).is_err() {
            debug!(template.id = %request.template, "a look at the gates is due already");
        }
    }
}
