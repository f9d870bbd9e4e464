//! The task that keeps the gates in order. Each check rebuilds gates that are lost, behind MySQL, wrong or of another
//! run of Redis; repairs state and stock if a process changed them in MySQL and died before it updated the gate; and
//! closes the queues (`over.rs`) and unloads the gates that are no longer needed. Unchanged gates are checked together
//! (`unchanged_gates.rs`), and accounts are compared in `audit.rs`.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId};
use metrics::counter;
use mysql_store::{
    Readable, StoreError, connect,
    primary_server::{self, Failover},
    stock::{self, QueueFacts},
    template::{self, Watched},
};
use redis_gate::{Meta, Unloaded};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    gate::{
        audit::Account,
        gates::{Gates, REQUESTS_MAX, Request},
        movements,
        rebuild::RebuildError,
        unchanged_gates::UnchangedGates,
        wrong::Contained,
    },
    metric,
};

/// Interval between checks of every watched gate; a claim may request a check earlier. A check finds, for example, a
/// gate whose rebuilder died after its first step.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a gate stays loaded when it is not wanted any more. It answers claims meanwhile, until the template's topic
/// has announced the end to every process.
pub const UNLOAD_AFTER: Duration = Duration::from_mins(1);

/// How long after its window MySQL's list still contains a template; far longer than [`UNLOAD_AFTER`]. Gates left
/// behind by a longer outage are found in Redis itself ([`STRAYS_EVERY`]).
pub(super) const TAIL: Duration = Duration::from_hours(primary_server::GATE_STAYS_HOURS as u64);

/// Interval between scans of Redis for gates that are no longer on the list; the first check scans too. Their memory is
/// not urgent.
const STRAYS_EVERY: Duration = Duration::from_hours(1);

/// Keeps the gates of one process; [`Keeper::run`] is its loop.
pub struct Keeper {
    /// How long a gate stays loaded when it is not wanted any more.
    pub unload_after: Duration,
    gates: Gates,
    queue: mpsc::Receiver<Request>,
    /// Requests from the queue, for the next check.
    requests: Vec<Request>,
    unwanted: HashMap<TemplateId, Unwanted>,
    /// The last queue that it began to close.
    pub(super) closed_up_to: Option<TemplateId>,
    /// When Redis was last scanned.
    scanned: Option<Instant>,
    /// The accounts of the open gates at the previous check.
    pub(super) accounts: HashMap<TemplateId, Account>,
    /// Coupons that the gates certainly lack, as of this check.
    pub(super) missing: i64,
    /// Gates that the last check of which the templates could be read wants and finds not loaded, and when their windows open.
    not_loaded: Vec<(TemplateId, DateTime<Utc>)>,
    /// Gates that were found correct with nothing in flight.
    pub(super) unchanged: UnchangedGates,
    /// The movements that the gates contained at the previous check.
    pub(super) contained: HashMap<TemplateId, Contained>,
}

/// A gate that is not wanted any more, as far as this process knows.
#[derive(Clone, Copy)]
enum Unwanted {
    Since(Instant),
    Gone,
}

impl Keeper {
    pub(crate) fn new(gates: Gates, queue: mpsc::Receiver<Request>) -> Self {
        Self {
            unload_after: UNLOAD_AFTER,
            gates,
            queue,
            requests: Vec::new(),
            unwanted: HashMap::new(),
            closed_up_to: None,
            scanned: None,
            accounts: HashMap::new(),
            missing: 0,
            not_loaded: Vec::new(),
            unchanged: UnchangedGates::default(),
            contained: HashMap::new(),
        }
    }

    /// Checks the gates until `stop`.
    pub async fn run(mut self, clock: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        loop {
            if let Err(error) = self.look(clock()).await {
                self.gates.note_not_loaded(None);
                // A gate that an operator pauses meanwhile is looked at behind the outage.
                self.unchanged = UnchangedGates::default();
                runtime::seldom!("the gates could not be looked at", runtime::report(&error));
                // What was not loaded is not known to be loaded now, and its window comes nearer.
                show_next_opening(&self.not_loaded, clock());
            }
            self.gates.looked();
            self.requests.clear();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.queue.recv_many(&mut self.requests, REQUESTS_MAX) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Returns the coupons of MySQL's stock that the open gates certainly lacked at the last check.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    /// Checks every gate once.
    ///
    /// # Errors
    /// MySQL failed, or no server of the gates answers. An error at one gate is logged and does not keep the others from
    /// being checked, and neither does a master of a cluster that is away.
    pub async fn look(&mut self, now: DateTime<Utc>) -> Result<(), RebuildError> {
        let longest = self.gates.attempts.longest_drain();
        metrics::gauge!(metric::DRAIN_OLDEST.name).set(longest.as_secs_f64());
        // One locked row must not keep all other gates from being looked at.
        if let Err(error) = self.notice_failover().await {
            runtime::seldom!("it is not known whether MySQL failed over", runtime::report(&error));
        }
        let near = now + self.gates.preload();
        let watched = connect::within(async {
            let mut connection = connect::acquire(self.gates.pool()).await?;
            template::watched(&mut connection, near, now - TAIL).await
        });
        let Readable { rows: watched, unreadable } = watched.await?;
        for id in &unreadable {
            let why = format!("template {id}: its row cannot be read by this version");
            runtime::seldom!("a gate is not kept", why);
        }
        let mut unclosed = self.unclosed(now).await?;
        let ids = watched.iter().map(|one| one.template.id).chain(unreadable);
        let ids: HashSet<TemplateId> = ids.collect();
        self.unwanted.retain(|id, _| ids.contains(id));
        self.accounts.retain(|id, _| ids.contains(id));
        self.contained.retain(|id, _| ids.contains(id));
        self.missing = 0;
        self.not_loaded.clear();
        let reach = self.gates.gate().reach().await;
        let reach = reach.inspect_err(|_| self.show_none_loaded(&watched, now))?;
        unclosed.retain(|id| reach.has(*id));
        let wanted = |one: &&Watched| self.gates.wants(&one.template, now);
        let asked: HashSet<TemplateId> = self.requests.iter().map(|one| one.template).collect();
        let all = watched.iter().filter(wanted).filter(|one| !asked.contains(&one.template.id));
        let all = all.filter(|one| reach.has(one.template.id));
        let passed = self.unchanged.pass_over(self.gates.gate(), all).await;
        for watched in watched {
            let id = watched.template.id;
            let is_wanted = self.gates.wants(&watched.template, now);
            let looked = if passed.contains(&id) {
                Ok(())
            } else if let Err(error) = reach.to(id) {
                Err(error.into())
            } else if is_wanted {
                self.unwanted.remove(&id);
                let kept = self.keep_audited(&watched).await;
                self.replace_unreadable(id, kept).await
            } else {
                // The gate of an open queue is removed once the queue is closed.
                let may_go = !unclosed.contains(&id);
                let unloaded = self.unload(&watched, may_go, now).await;
                self.replace_unreadable(id, unloaded).await
            };
            if let Err(error) = looked {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("a gate is not kept", why);
                if is_wanted && self.not_loaded.iter().all(|(noted, _)| *noted != id) {
                    self.not_loaded.push((id, watched.template.window.starts_at));
                }
            }
        }
        self.close_queues(&unclosed).await;
        metrics::gauge!(metric::MISSING_STOCK.name).set(self.missing as f64);
        self.show_not_loaded(now);
        if self.scanned.is_none_or(|scanned| scanned.elapsed() >= STRAYS_EVERY) {
            self.unload_strays(&ids, now).await?;
            let keys = self.gates.gate().remove_stale().await?;
            if keys > 0 {
                info!(keys, "removed what older epochs of gates had left behind");
            }
            self.scanned = Some(Instant::now());
        }
        Ok(())
    }

    /// Lets every gate begin anew if another server of MySQL answers than before.
    async fn notice_failover(&self) -> Result<(), RebuildError> {
        let notice = || async {
            let mut connection = connect::acquire(self.gates.pool()).await?;
            primary_server::notice(&mut connection).await
        };
        let noticed = connect::within(connect::retried(notice, StoreError::is_conflict)).await?;
        if let Some(Failover { from, to }) = noticed {
            counter!(metric::FAILOVERS.name).increment(1);
            warn!(from, to, "another server of MySQL answers: every gate begins anew");
        }
        Ok(())
    }

    /// Publishes the gates that are wanted and not loaded, and in how many seconds the first of them is needed.
    fn show_not_loaded(&mut self, now: DateTime<Utc>) {
        show_next_opening(&self.not_loaded, now);
        self.gates.note_not_loaded(Some(self.not_loaded.clone()));
    }

    /// Publishes in how many seconds the first wanted gate is needed, as if none were loaded: their server is away, and
    /// a window that opens meanwhile opens without one. What is loaded is not known.
    fn show_none_loaded(&mut self, watched: &[Watched], now: DateTime<Utc>) {
        let wanted = watched.iter().filter(|one| self.gates.wants(&one.template, now));
        self.not_loaded =
            wanted.map(|one| (one.template.id, one.template.window.starts_at)).collect();
        show_next_opening(&self.not_loaded, now);
        self.gates.note_not_loaded(None);
    }

    /// Keeps a gate; rebuilds it if its account is wrong.
    async fn keep_audited(&mut self, watched: &Watched) -> Result<(), RebuildError> {
        let is_right = self.keep(watched).await?;
        if self.audit(watched, is_right).await? {
            let _alone = self.gates.alone().await;
            self.gates.rebuild_wrong(watched.template.id).await?;
        }
        Ok(())
    }

    /// Rebuilds the gate of a template if its keys could not be read, whether it is wanted or not: only a new epoch gets
    /// rid of them.
    pub(super) async fn replace_unreadable(
        &self,
        id: TemplateId,
        kept: Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        match kept {
            Err(RebuildError::Gate(error)) if error.is_of_keys() => {
                error!(template.id = %id, error = runtime::report(&error), "a gate cannot be read");
                counter!(metric::UNREADABLE.name).increment(1);
                let _alone = self.gates.alone().await;
                self.gates.rebuild_wrong(id).await
            }
            kept => kept,
        }
    }

    /// Returns whether the gate was found right.
    async fn keep(&mut self, watched: &Watched) -> Result<bool, RebuildError> {
        let gates = self.gates.clone();
        let _alone = gates.alone().await;
        let template = &watched.template;
        let stock = &watched.stock;
        // Read after MySQL: `holds_too_much` and what is in `wrong.rs` rely on this order.
        let meta = self.gates.gate().meta(template.id).await?;
        self.gates.note_halt_of(template.id, meta.as_ref());
        let open = |meta: &Meta| meta.is_open() && meta.epoch >= stock.epoch;
        let is_closed = !meta.as_ref().is_some_and(open);
        let unreadable = meta.as_ref().filter(|meta| meta.of_this_run);
        if let Some(what) = unreadable.and_then(|meta| meta.unreadable.as_ref()) {
            error!(template.id = %template.id, what, "something in a gate cannot be read");
            counter!(metric::UNREADABLE.name).increment(1);
            self.gates.rebuild_wrong(template.id).await?;
        } else if is_closed && self.gates.halt_of(template.id).is_none() {
            // A gate that an operator paused, and that was lost, stays closed until MySQL has the pause. Otherwise the
            // gate is loading, or its rebuilder died while loading. In the first case the rebuilder holds the lease,
            // and this rebuild is skipped.
            self.gates.rebuild(template.id).await?;
        }
        if is_closed && !self.gates.gate().meta(template.id).await?.is_some_and(|meta| open(&meta))
        {
            self.not_loaded.push((template.id, template.window.starts_at));
        }
        let Some(meta) = meta.filter(|meta| open(meta) && meta.unreadable.is_none()) else {
            return Ok(false);
        };
        if !self.is_of_mysql(template.id, &meta, stock).await?
            || self.is_wrong(watched, &meta).await?
            || self.holds_too_much(template.id, &meta, stock).await?
        {
            self.gates.rebuild_wrong(template.id).await?;
            return Ok(false);
        }
        // Before the gate gets a mode that queues.
        if stock.queued_epoch < stock.epoch {
            self.bring_queue_up(template.id, meta.epoch).await?;
            return Ok(true);
        }
        if meta.version < template.version {
            self.gates.send_state(template).await?;
        }
        if meta.movement < stock.movement {
            let mut connection = connect::acquire(self.gates.pool()).await?;
            match movements::catch_up(&mut connection, self.gates.gate(), template.id).await {
                Err(error) if error.is_of_movements() => {
                    let error = runtime::report(&error);
                    error!(template.id = %template.id, error, "a gate's movements cannot be applied");
                    drop(connection);
                    self.gates.rebuild_wrong(template.id).await?;
                    return Ok(false);
                }
                caught_up => caught_up?,
            }
        }
        Ok(true)
    }

    /// Makes queued claims of an open gate able to land. A process of a version without queues may have rebuilt the
    /// gate without raising the epoch of queued claims. Claims that an older gate has queued must land first, so if
    /// there may be such claims, the gate is rebuilt.
    async fn bring_queue_up(&self, template: TemplateId, epoch: Epoch) -> Result<(), RebuildError> {
        let mut connection = connect::acquire(self.gates.pool()).await?;
        // Read after the gate, because a rebuild of this version sets the epoch before it opens the gate.
        let facts = connect::within(stock::queue_facts(&mut connection, template)).await?;
        let is_behind = |facts: &QueueFacts| facts.epoch == epoch && facts.queued_epoch < epoch;
        match facts.filter(is_behind) {
            None => {}
            Some(QueueFacts { ever_queued: true, .. }) => self.gates.replace(template).await?,
            Some(_) => {
                let set = stock::set_queued_epoch(&mut connection, template, epoch);
                if connect::within(set).await? {
                    info!(template.id = %template, gate.epoch = %epoch, "claims it queues land now");
                }
            }
        }
        Ok(())
    }

    /// Returns the highest epoch of a template's gate that was reported wrong since the last check.
    pub(super) fn reported_wrong(&self, template: TemplateId) -> Option<Epoch> {
        let reported = self.requests.iter().filter(|request| request.template == template);
        reported.filter_map(|request| request.wrong).max()
    }

    /// Writes the final state to a gate that is no longer needed. If it `may_go`, removes it after a while, once
    /// nothing is in flight.
    async fn unload(
        &mut self,
        Watched { template, stock }: &Watched,
        may_go: bool,
        now: DateTime<Utc>,
    ) -> Result<(), RebuildError> {
        let id = template.id;
        let unwanted = self.unwanted.entry(id).or_insert_with(|| Unwanted::Since(Instant::now()));
        let Unwanted::Since(since) = *unwanted else { return Ok(()) };
        let gate = self.gates.gate();
        let Some(meta) = gate.meta(id).await? else {
            *unwanted = Unwanted::Gone;
            return Ok(());
        };
        self.gates.note_halt_of(id, Some(&meta));
        // What MySQL has lost of its claims is noted before it goes.
        if primary_server::may_be_of_lost_history(meta.epoch, stock.epoch) {
            let _alone = self.gates.alone().await;
            return self.gates.rebuild_wrong(id).await;
        }
        if meta.version < template.version {
            self.gates.send_state(template).await?;
        }
        if may_go
            && since.elapsed() >= self.unload_after
            && gate.unload(id, meta.epoch, now).await? == Unloaded::Gone
        {
            info!(template.id = %id, "unloaded a gate that gives nothing any more");
            *unwanted = Unwanted::Gone;
        }
        Ok(())
    }
}

/// Publishes in how many seconds the first of these windows opens.
fn show_next_opening(not_loaded: &[(TemplateId, DateTime<Utc>)], now: DateTime<Utc>) {
    let first = not_loaded.iter().map(|(_, opens_at)| *opens_at).min();
    let seconds = first.map_or(f64::NAN, |opens_at| (opens_at - now).as_seconds_f64());
    metrics::gauge!(metric::NOT_LOADED_OPENS.name).set(seconds);
}
