//! Keeps the gates loaded that should be: looks at each template near its window, when asked and
//! periodically, and rebuilds what is lost, behind MySQL, or of another run of Redis.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex as Lock, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, Template, TemplateId};
use mysql_store::{MySqlPool, connect, template};
use redis_gate::{Gate, Phase};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::rebuild::{RebuildError, Rebuilt, rebuild};

/// How long before its window opens a template's gate is loaded.
pub const PRELOAD: Duration = Duration::from_mins(5);

/// How often every watched gate is looked at, besides when a claim asks. A rebuilder that died after
/// its first step is found by this.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a change of a template waits for its gate, and how often it looks while another process
/// loads it: a million users take seconds.
pub const SHOW_MAX: Duration = Duration::from_secs(10);
const SHOW_LOOK: Duration = Duration::from_millis(20);

/// How long a claim waits for a gate that was wrong: a look and a rebuild of a small template. A larger
/// one answers as being loaded.
pub const MEND_MAX: Duration = Duration::from_secs(3);

/// Requests that may wait; more are of no use, since one look covers all templates.
const REQUESTS_MAX: usize = 1024;

/// The gates of a process: the epochs it knows, and the requests to look at one.
#[derive(Clone)]
pub struct Gates {
    pool: MySqlPool,
    gate: Gate,
    holder: Arc<str>,
    epochs: Arc<Lock<HashMap<TemplateId, Epoch>>>,
    requests: mpsc::Sender<Request>,
    /// Notified after every look.
    looked: Arc<Notify>,
    /// Held while a gate is looked at and rebuilt: the keeper does not begin anew what a publish has
    /// just loaded.
    rebuilding: Arc<Mutex<()>>,
}

/// Why a gate is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    template: TemplateId,
    /// This epoch was found to be wrong: rebuild it if it is still the gate's.
    wrong: Option<Epoch>,
}

impl Gates {
    /// The gates, and the task that keeps them; `holder` names this process.
    pub fn new(pool: MySqlPool, gate: Gate, holder: &str) -> (Self, Keeper) {
        let (requests, queue) = mpsc::channel(REQUESTS_MAX);
        let gates = Self {
            pool,
            gate,
            holder: holder.into(),
            epochs: Arc::default(),
            requests,
            looked: Arc::default(),
            rebuilding: Arc::default(),
        };
        (gates.clone(), Keeper { gates, queue })
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

    /// Asks for a look at a gate that did not answer as loaded.
    pub fn ask_look(&self, template: TemplateId) {
        self.request(Request { template, wrong: None });
    }

    /// Says that the gate of this epoch holds something that MySQL contradicts.
    pub fn report_wrong(&self, template: TemplateId, epoch: Epoch) {
        self.request(Request { template, wrong: Some(epoch) });
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

    /// Makes the gate know this version of its template, whoever rebuilds it. Answers whether it did
    /// within [`SHOW_MAX`]; if not, the keeper goes on.
    ///
    /// # Errors
    /// MySQL or the gate failed; the keeper tries again.
    pub async fn show(&self, template: &Template) -> Result<bool, RebuildError> {
        let started = Instant::now();
        loop {
            {
                let _alone = self.rebuilding.lock().await;
                if self.shows(template).await? {
                    return Ok(true);
                }
                if let Rebuilt::Open(epoch) = self.rebuild(template.id).await? {
                    self.learn(template.id, epoch);
                }
                if self.shows(template).await? {
                    return Ok(true);
                }
            }
            if started.elapsed() >= SHOW_MAX {
                return Ok(false);
            }
            tokio::time::sleep(SHOW_LOOK).await;
        }
    }

    async fn shows(&self, template: &Template) -> Result<bool, RebuildError> {
        let meta = self.gate.meta(template.id).await?;
        Ok(meta.is_some_and(|meta| {
            meta.of_this_run && meta.phase == Phase::Open && meta.version >= template.version
        }))
    }

    async fn rebuild(&self, template: TemplateId) -> Result<Rebuilt, RebuildError> {
        rebuild(&self.pool, &self.gate, template, &self.holder).await
    }

    fn request(&self, request: Request) {
        // Full: a look is due anyway, and the next refused claim asks again.
        if self.requests.try_send(request).is_err() {
            debug!(template.id = %request.template, "a look at the gates is due already");
        }
    }
}

/// Whether a template's gate should be loaded at `now`: beyond draft, and its window near or open.
pub fn wants_gate(template: &Template, now: DateTime<Utc>) -> bool {
    template.state != coupon::TemplateState::Draft
        && template.window.starts_at <= now + PRELOAD
        && now < template.window.ends_at
}

/// The task that keeps the gates loaded.
pub struct Keeper {
    gates: Gates,
    queue: mpsc::Receiver<Request>,
}

impl Keeper {
    /// Looks until `stop`.
    pub async fn run(mut self, clock: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        let mut requests = Vec::new();
        loop {
            if let Err(error) = self.look(clock(), &requests).await {
                warn!(error = %error, cause = ?error, "the gates could not be looked at");
            }
            self.gates.looked.notify_waiters();
            requests.clear();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.queue.recv_many(&mut requests, REQUESTS_MAX) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn look(&self, now: DateTime<Utc>, requests: &[Request]) -> Result<(), RebuildError> {
        let mut connection = connect::acquire(&self.gates.pool).await?;
        let watched = template::watched(&mut connection, now + PRELOAD, now).await?;
        drop(connection);
        for watched in watched {
            let id = watched.template.id;
            let reported = requests.iter().filter(|request| request.template == id);
            let wrong = reported.filter_map(|request| request.wrong).max();
            if let Err(error) = self.keep(id, watched.stock.epoch, wrong).await {
                // One gate that fails keeps no other from being looked at.
                warn!(template.id = %id, error = %error, cause = ?error, "a gate is not kept");
            }
        }
        Ok(())
    }

    async fn keep(
        &self,
        template: TemplateId,
        epoch: Epoch,
        wrong: Option<Epoch>,
    ) -> Result<(), RebuildError> {
        let _alone = self.gates.rebuilding.lock().await;
        if self.must_rebuild(template, epoch, wrong).await?
            && let Rebuilt::Open(epoch) = self.gates.rebuild(template).await?
        {
            self.gates.learn(template, epoch);
        }
        Ok(())
    }

    async fn must_rebuild(
        &self,
        template: TemplateId,
        epoch: Epoch,
        wrong: Option<Epoch>,
    ) -> Result<bool, RebuildError> {
        let Some(meta) = self.gates.gate.meta(template).await? else { return Ok(true) };
        if meta.of_this_run && meta.phase == Phase::Open && meta.epoch >= epoch {
            self.gates.learn(template, meta.epoch);
            let complete = self.gates.gate.user_count(template, meta.epoch).await? >= meta.users;
            return Ok(!complete || wrong.is_some_and(|wrong| wrong >= meta.epoch));
        }
        // Being loaded, or left so: whoever is at it holds the lease, and then this rebuild is skipped.
        Ok(true)
    }
}
