//! The gates of a process: the epochs it knows, requests to check a gate, and how a template's changes reach its gate.
//! The task that checks is the [`crate::gate::keeper`].

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex as Lock, MutexGuard as LockGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, Template, TemplateId, TemplateState};
use mysql_store::{MySqlPool, StoreError, connect, stock};
use redis_gate::{Gate, Meta, Phase};
use runtime::FailPoints;
use tokio::sync::{Mutex, MutexGuard, Notify, mpsc};
use tracing::debug;

use crate::{
    gate::{attempts::Attempts, keeper::Keeper, movements, rebuild::RebuildError},
    queue::ClaimQueue,
    sold_out::SoldOut,
};

/// Default time before its window opens at which a template's gate is loaded. A million users take seconds to load; an
/// outage at that time may take minutes.
pub const PRELOAD: Duration = Duration::from_mins(5);

/// Longest time for which a change of a template waits while another process loads the gate: a million users take
/// seconds.
pub const SHOW_MAX: Duration = Duration::from_secs(10);

/// Interval between checks of such a gate.
const SHOW_LOOK: Duration = Duration::from_millis(20);

/// Longest time for which a claim waits for the repair of a wrong gate: a check and a rebuild of a small template. If a
/// larger one takes longer, the claim is answered that the gate is loading.
pub const MEND_MAX: Duration = Duration::from_secs(3);

/// Requests that may wait. More are of no use, since one check covers all templates.
pub(crate) const REQUESTS_MAX: usize = 1024;

#[derive(Clone)]
pub struct Gates {
    pool: MySqlPool,
    gate: Gate,
    queue: Arc<dyn ClaimQueue>,
    sold_out: SoldOut,
    pub(super) holder: Arc<str>,
    preload: Duration,
    pub(super) points: FailPoints,
    epochs: Arc<Lock<HashMap<TemplateId, Epoch>>>,
    requests: mpsc::Sender<Request>,
    /// Notified after every check.
    looked: Arc<Notify>,
    /// Held while a gate is checked and rebuilt, so that the keeper does not rebuild what a publish has just loaded.
    rebuilding: Arc<Mutex<()>>,
    not_loaded: Arc<Lock<NotLoaded>>,
    /// Rebuilds that this process is making, or that failed a moment ago.
    pub(super) attempts: Arc<Attempts>,
    /// Pauses that were made at gates and are not known to be in MySQL.
    halts: Arc<Lock<HashMap<TemplateId, Arc<[u8]>>>>,
    /// Templates that are over and whose queues are known closed, or were never used, and their versions.
    pub(super) queues_closed: Arc<Lock<HashMap<TemplateId, i64>>>,
}

/// Age from which the last check says nothing any more: several checks, or the loading of a large gate.
const CHECK_AGE_MAX: Duration = Duration::from_secs(20);

/// Templates whose gate was wanted and not loaded at the last check, and when their windows open.
#[derive(Default)]
struct NotLoaded {
    templates: Vec<(TemplateId, DateTime<Utc>)>,
    /// When the check ended. `None`: it failed, or there was none yet.
    checked: Option<Instant>,
}

/// Why a gate is to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) template: TemplateId,
    /// This epoch was found wrong: rebuild it if the gate still has it.
    pub(crate) wrong: Option<Epoch>,
}

impl Gates {
    /// Creates the gates and the task that keeps them; `queue` carries what they queue, `holder` names this process.
    /// The fail points are those of [`rebuild`](crate::rebuild::rebuild). A gate is loaded `preload` before its window
    /// opens ([`PRELOAD`]). `preload` must be the same in all processes: one with a smaller value unloads what another
    /// loads.
    pub fn new(
        pool: MySqlPool,
        gate: Gate,
        queue: Arc<dyn ClaimQueue>,
        holder: &str,
        preload: Duration,
        points: FailPoints,
    ) -> (Self, Keeper) {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let gates = Self {
            pool,
            sold_out: SoldOut::new(&gate),
            gate,
            queue,
            holder: holder.into(),
            preload,
            points,
            epochs: Arc::default(),
            requests,
            looked: Arc::default(),
            rebuilding: Arc::default(),
            not_loaded: Arc::default(),
            attempts: Arc::default(),
            halts: Arc::default(),
            queues_closed: Arc::default(),
        };
        (gates.clone(), Keeper::new(gates, asked))
    }

    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the queue of accepted claims.
    pub(crate) fn queue(&self) -> &Arc<dyn ClaimQueue> {
        &self.queue
    }

    /// Returns this process's memory of templates that are sold out.
    pub fn sold_out(&self) -> &SoldOut {
        &self.sold_out
    }

    /// Returns the newest epoch that this process knows.
    pub fn known(&self, template: TemplateId) -> Epoch {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.get(&template).copied().unwrap_or(Epoch::UNKNOWN)
    }

    /// Records an epoch; the known epoch only rises. Returns whether this one is newer.
    pub fn learn(&self, template: TemplateId, epoch: Epoch) -> bool {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.entry(template).or_default();
        let news = epoch > *known;
        *known = epoch.max(*known);
        drop(epochs);
        if news {
            self.sold_out.forget(template);
        }
        news
    }

    /// Lowers the known epoch to MySQL's, as read after it was learned. Only a damaged gate tells of a later one; its
    /// epoch would otherwise be sent to each gate after it, which would seem to be behind.
    pub(super) fn correct(&self, template: TemplateId, of_mysql: Epoch) {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = epochs.get_mut(&template) {
            *known = of_mysql.min(*known);
        }
    }

    /// Requests a check of a gate that was not loaded, or that promised more than MySQL had. The latter is normal after
    /// a cut; if the check finds the gate wrong, it rebuilds it.
    pub fn ask_look(&self, template: TemplateId) {
        self.request(Request { template, wrong: None });
    }

    /// Reports that the gate of this epoch holds something that MySQL contradicts.
    pub fn report_wrong(&self, template: TemplateId, epoch: Epoch) {
        self.request(Request { template, wrong: Some(epoch) });
    }

    /// Returns whether a template's gate should be loaded at `now`: it is published or paused, and its window is near
    /// or open. Claims of other templates need no gate, except while claims of their queue may still land.
    pub fn wants(&self, template: &Template, now: DateTime<Utc>) -> bool {
        matches!(template.state, TemplateState::Published | TemplateState::Paused)
            && template.window.starts_at <= now + self.preload
            && now < template.window.ends_at
    }

    /// Returns the templates whose gate was wanted and not loaded at the last check, and when their windows open. `None`:
    /// it is not known, because the check failed or is too old.
    pub fn not_loaded(&self) -> Option<Vec<(TemplateId, DateTime<Utc>)>> {
        let last = self.not_loaded.lock().unwrap_or_else(PoisonError::into_inner);
        last.checked.filter(|at| at.elapsed() < CHECK_AGE_MAX).map(|_| last.templates.clone())
    }

    /// Replaces what [`Gates::not_loaded`] returns. `None`: the check failed.
    pub(crate) fn note_not_loaded(&self, seen: Option<Vec<(TemplateId, DateTime<Utc>)>>) {
        let checked = seen.is_some().then(Instant::now);
        let last = NotLoaded { templates: seen.unwrap_or_default(), checked };
        *self.not_loaded.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Notes a pause that was made or found at a gate, so that it is carried over to MySQL.
    pub fn note_halt(&self, template: TemplateId, halt: &[u8]) {
        self.lock_halts().insert(template, halt.into());
    }

    /// Notes the pause that a gate was found with.
    pub(crate) fn note_halt_of(&self, template: TemplateId, meta: Option<&Meta>) {
        if let Some(halt) = meta.and_then(|meta| meta.halt.as_ref()) {
            self.note_halt(template, halt);
        }
    }

    /// Returns the pauses that were noted.
    pub fn halts(&self) -> Vec<(TemplateId, Arc<[u8]>)> {
        self.lock_halts().iter().map(|(id, halt)| (*id, Arc::clone(halt))).collect()
    }

    pub fn halt_of(&self, template: TemplateId) -> Option<Arc<[u8]>> {
        self.lock_halts().get(&template).cloned()
    }

    /// Forgets a pause, unless another one was noted meanwhile.
    pub fn forget_halt(&self, template: TemplateId, halt: &[u8]) {
        self.lock_halts().retain(|id, noted| *id != template || **noted != *halt);
    }

    fn lock_halts(&self) -> LockGuard<'_, HashMap<TemplateId, Arc<[u8]>>> {
        self.halts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the next check of the gates.
    pub async fn next_look(&self) {
        self.looked.notified().await;
    }

    /// Reports a wrong gate and waits until a check of the gates knows another one, at most [`MEND_MAX`].
    pub async fn mend(&self, template: TemplateId, epoch: Epoch) {
        self.report_wrong(template, epoch);
        let mended = async {
            loop {
                // Start listening before the comparison, so that no check is missed.
                let mut looked = pin!(self.looked.notified());
                looked.as_mut().enable();
                if self.known(template) != epoch {
                    return;
                }
                // A check that began before the report has not seen it.
                looked.await;
            }
        };
        if tokio::time::timeout(MEND_MAX, mended).await.is_err() {
            debug!(template.id = %template, "the gate was not mended in time");
        }
    }

    /// Sends the template's state, mode and version to its gate. Returns whether a loaded gate knows it now; a gate
    /// that is not loaded will read it from MySQL.
    ///
    /// # Errors
    /// The gate failed; the keeper tries again.
    pub async fn send_state(&self, template: &Template) -> Result<bool, RebuildError> {
        let Some(meta) = self.gate.meta(template.id).await? else { return Ok(false) };
        let Template { id, version, state, claim_mode, .. } = *template;
        // Absent: a newer epoch has begun, and its rebuilder reads the template after that.
        let known = self.gate.set_state(id, meta.epoch, version, state, claim_mode).await?;
        self.sold_out.forget(id);
        Ok(known.is_some() && meta.phase == Phase::Open)
    }

    /// Ensures that a loaded gate has this version of its template, whichever process loads the gate. Returns whether
    /// it does within [`SHOW_MAX`]; if not, the keeper continues.
    ///
    /// # Errors
    /// MySQL or the gate failed; the keeper tries again.
    pub async fn show(&self, template: &Template) -> Result<bool, RebuildError> {
        let started = Instant::now();
        loop {
            {
                let _alone = self.alone().await;
                if self.send_state(template).await? {
                    return Ok(true);
                }
                self.rebuild(template.id).await?;
                if self.send_state(template).await? {
                    return Ok(true);
                }
            }
            if started.elapsed() >= SHOW_MAX {
                return Ok(false);
            }
            tokio::time::sleep(SHOW_LOOK).await;
        }
    }

    /// Brings the gate to MySQL's epoch after an edit that raised it, whichever process loads the gate. Returns whether
    /// the gate has that epoch within [`SHOW_MAX`]; if not, the keeper continues.
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

    /// Reads MySQL's epoch of a template; unknown if there is no such template.
    pub(super) async fn epoch_of_mysql(&self, template: TemplateId) -> Result<Epoch, StoreError> {
        let stock = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            stock::get(&mut connection, template).await
        });
        Ok(stock.await?.map_or(Epoch::UNKNOWN, |stock| stock.epoch))
    }

    /// Returns whether the gate is open under MySQL's epoch or a later one.
    async fn is_up(&self, template: TemplateId) -> Result<bool, RebuildError> {
        let epoch = self.epoch_of_mysql(template).await?;
        let Some(meta) = self.gate.meta(template).await? else { return Ok(false) };
        // A rebuild may have raised the epoch since MySQL was read. A damaged gate has one that MySQL does not know.
        if meta.epoch > epoch && meta.epoch > self.epoch_of_mysql(template).await? {
            return Ok(false);
        }
        self.learn(template, meta.epoch);
        Ok(meta.is_open() && meta.epoch >= epoch)
    }

    /// Applies MySQL's movements to the gate's stock.
    ///
    /// # Errors
    /// MySQL or the gate failed; the consumer of the movements tries again, and so does the keeper.
    pub async fn catch_up(&self, template: TemplateId) -> Result<(), RebuildError> {
        let mut connection = connect::acquire(&self.pool).await?;
        let caught_up = movements::catch_up(&mut connection, &self.gate, template).await;
        self.sold_out.forget(template);
        caught_up
    }

    /// Allows one rebuild or check at a time in this process.
    pub(crate) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.rebuilding.lock().await
    }

    /// How long before its window opens a gate is loaded.
    pub fn preload(&self) -> Duration {
        self.preload
    }

    pub(crate) fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Wakes the tasks that wait for a check.
    pub(crate) fn looked(&self) {
        self.looked.notify_waiters();
    }

    fn request(&self, request: Request) {
        // The queue is full: a check is due anyway, and the next refused claim requests another.
        if self.requests.try_send(request).is_err() {
            debug!(template.id = %request.template, "a look at the gates is due already");
        }
    }
}
