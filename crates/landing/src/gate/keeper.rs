//! The task that keeps the gates in order. Each check rebuilds gates that are lost, behind MySQL, wrong or of another
//! run of Redis; repairs state and stock if a process changed them in MySQL and died before it updated the gate; and
//! unloads gates that are no longer needed. Calm gates are checked together (`calm.rs`).

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, Template, TemplateId};
use metrics::counter;
use mysql_store::{
    connect,
    stock::Stock,
    template::{self, Watched},
};
use redis_gate::{Meta, Unloaded};
use runtime::FailPoints;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    gate::{
        calm::Calm,
        gates::{Gates, REQUESTS_MAX, Request},
        movements,
        rebuild::RebuildError,
        resolver::{GRACE, Resolver},
    },
    metric,
};

/// Interval between checks of every watched gate; a claim may request one earlier. A check finds, for example, a gate
/// whose rebuilder died after its first step.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a gate stays loaded when it is not wanted any more. It answers claims meanwhile, until the template's topic
/// has announced the end to every process.
pub const UNLOAD_AFTER: Duration = Duration::from_mins(1);

/// How long after its window MySQL's list still contains a template; far longer than [`UNLOAD_AFTER`]. Gates left
/// behind by a longer outage are found in Redis itself ([`STRAYS_EVERY`]).
const TAIL: Duration = Duration::from_hours(24);

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
    /// When Redis was last scanned.
    walked: Option<Instant>,
    /// The accounts of the open gates at the previous check.
    accounts: HashMap<TemplateId, Account>,
    /// Coupons that the gates certainly lack, as of this check.
    missing: i64,
    /// Gates that were found correct with nothing in flight.
    calm: Calm,
}

/// A gate's side of the conservation identity at one moment.
struct Account {
    epoch: Epoch,
    movement: i64,
    /// Stock left in the gate.
    stock: i64,
    /// The most that its admissions in flight may still take from MySQL.
    in_flight: i64,
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
            walked: None,
            accounts: HashMap::new(),
            missing: 0,
            calm: Calm::default(),
        }
    }

    /// Checks the gates until `stop`.
    pub async fn run(mut self, clock: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        loop {
            if let Err(error) = self.look(clock()).await {
                warn!(error = %error, cause = ?error, "the gates could not be looked at");
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

    /// Returns the coupons of MySQL's stock that the open gates certainly lacked at the last check.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    /// Checks every gate once.
    ///
    /// # Errors
    /// MySQL failed, or Redis failed for a step that concerns all gates. An error at one gate is logged and does not
    /// keep the others from being checked.
    pub async fn look(&mut self, now: DateTime<Utc>) -> Result<(), RebuildError> {
        let near = now + self.gates.preload();
        let watched = connect::within(async {
            let mut connection = connect::acquire(self.gates.pool()).await?;
            template::watched(&mut connection, near, now - TAIL).await
        });
        let watched = watched.await?;
        let ids: HashSet<TemplateId> = watched.iter().map(|one| one.template.id).collect();
        self.unwanted.retain(|id, _| ids.contains(id));
        self.accounts.retain(|id, _| ids.contains(id));
        self.missing = 0;
        let wanted = |one: &&Watched| self.gates.wants(&one.template, now);
        let asked: HashSet<TemplateId> = self.requests.iter().map(|one| one.template).collect();
        let all = watched.iter().filter(wanted).filter(|one| !asked.contains(&one.template.id));
        let passed = self.calm.pass_over(self.gates.gate(), all).await?;
        for watched in watched {
            let id = watched.template.id;
            let looked = if passed.contains(&id) {
                Ok(())
            } else if self.gates.wants(&watched.template, now) {
                self.unwanted.remove(&id);
                self.keep_readable(&watched).await
            } else {
                self.unload(&watched.template, now).await
            };
            if let Err(error) = looked {
                warn!(template.id = %id, error = %error, cause = ?error, "a gate is not kept");
            }
        }
        metrics::gauge!(metric::MISSING_STOCK).set(self.missing as f64);
        if self.walked.is_none_or(|walked| walked.elapsed() >= STRAYS_EVERY) {
            self.unload_strays(&ids, now).await?;
            let keys = self.gates.gate().remove_stale().await?;
            if keys > 0 {
                info!(keys, "removed what older epochs of gates had left behind");
            }
            self.walked = Some(Instant::now());
        }
        Ok(())
    }

    /// Removes loaded gates that are not on the list any more: every api, or Redis, was down for longer than [`TAIL`],
    /// or a process resumed loading one after the others had removed it.
    async fn unload_strays(
        &self,
        watched: &HashSet<TemplateId>,
        now: DateTime<Utc>,
    ) -> Result<(), RebuildError> {
        let gate = self.gates.gate();
        for id in gate.templates().await?.into_iter().filter(|id| !watched.contains(id)) {
            let template = connect::within(async {
                let mut connection = connect::acquire(self.gates.pool()).await?;
                template::get(&mut connection, id).await
            });
            // Other processes may load their gates earlier than this one, and a gate unknown to MySQL must be left
            // alone.
            let over = |template: &Template| template.window.ends_at <= now - TAIL;
            if !template.await?.as_ref().is_some_and(over) {
                continue;
            }
            let resolver = Resolver {
                pool: self.gates.pool().clone(),
                gate: gate.clone(),
                grace: GRACE,
                points: FailPoints::default(),
            };
            if let Err(error) = resolver.look_at(id, now).await {
                warn!(template.id = %id, error = %error, cause = ?error, "not resolved");
                continue;
            }
            let Some(meta) = gate.meta(id).await? else { continue };
            if gate.unload(id, meta.epoch, now).await? == Unloaded::Gone {
                info!(template.id = %id, "unloaded a gate that was forgotten loaded");
            }
        }
        Ok(())
    }

    /// Keeps a gate; rebuilds it if its keys are unreadable.
    async fn keep_readable(&mut self, watched: &Watched) -> Result<(), RebuildError> {
        let kept = match self.keep(watched).await {
            Ok(()) => self.audit(watched).await,
            failed => failed,
        };
        match kept {
            Err(RebuildError::Gate(error)) if error.is_of_keys() => {
                let id = watched.template.id;
                error!(template.id = %id, error = %error, cause = ?error, "a gate cannot be read");
                counter!(metric::UNREADABLE).increment(1);
                let _alone = self.gates.alone().await;
                self.gates.rebuild(id).await
            }
            kept => kept,
        }
    }

    async fn keep(&self, watched: &Watched) -> Result<(), RebuildError> {
        let _alone = self.gates.alone().await;
        let (template, stock) = (&watched.template, &watched.stock);
        // Read after MySQL: `promises_too_much` relies on this order.
        let meta = self.gates.gate().meta(template.id).await?;
        let open = |meta: &Meta| meta.is_open() && meta.epoch >= stock.epoch;
        // The gate is loading, or was left loading. In the first case the rebuilder holds the lease, and this rebuild
        // is skipped.
        let Some(meta) = meta.filter(open) else { return self.gates.rebuild(template.id).await };
        self.gates.learn(template.id, meta.epoch);
        if let Some(what) = &meta.unreadable {
            error!(template.id = %template.id, what, "something in a gate cannot be read");
            counter!(metric::UNREADABLE).increment(1);
            return self.gates.rebuild(template.id).await;
        }
        if self.is_wrong(template.id, &meta).await? || promises_too_much(&meta, stock) {
            return self.gates.rebuild(template.id).await;
        }
        if meta.version < template.version {
            self.gates.tell(template).await?;
        }
        if meta.movement < stock.movement {
            let mut connection = connect::acquire(self.gates.pool()).await?;
            movements::catch_up(&mut connection, self.gates.gate(), template.id).await?;
        }
        Ok(())
    }

    /// Slow audit of the conservation identity, for gates that hold too little: what they lack is never sold. Compares
    /// the gate's account at the previous check with MySQL's stock now. In between, MySQL's stock only falls, except by
    /// movements. If it still exceeds everything that the gate had left or in flight, the difference is certainly
    /// missing.
    async fn audit(&mut self, watched: &Watched) -> Result<(), RebuildError> {
        let (template, stock) = (&watched.template, &watched.stock);
        if let Some(before) = self.accounts.remove(&template.id)
            && (before.epoch, before.movement) == (stock.epoch, stock.movement)
        {
            let missing = stock.stock - before.stock - before.in_flight;
            if missing > 0 {
                warn!(template.id = %template.id, missing, "a gate holds less than MySQL: it will not sell all");
                self.missing += missing;
            }
        }
        let account = self.gates.gate().account(template.id, stock.epoch).await?;
        if let Some((meta, in_flight)) = &account {
            self.calm.note(watched, meta, *in_flight);
        }
        // A gate with at least MySQL's stock lacks nothing.
        if let Some((meta, in_flight)) = account.filter(|(meta, _)| meta.stock < stock.stock) {
            let most = i64::try_from(in_flight).unwrap_or(i64::MAX);
            let in_flight = most.saturating_mul(template.max_per_claim.into());
            let Meta { epoch, movement, stock, .. } = meta;
            self.accounts.insert(template.id, Account { epoch, movement, stock, in_flight });
        }
        Ok(())
    }

    /// Returns whether entries are lost, or the gate's epoch was reported wrong.
    async fn is_wrong(&self, template: TemplateId, meta: &Meta) -> Result<bool, RebuildError> {
        let reported = self.requests.iter().filter(|request| request.template == template);
        let wrong = reported.filter_map(|request| request.wrong).max();
        let users = self.gates.gate().user_count(template, meta.epoch).await?;
        Ok(users < meta.users || wrong.is_some_and(|wrong: Epoch| wrong >= meta.epoch))
    }

    /// Removes a gate that has not been wanted for a while, once nothing is in flight.
    async fn unload(
        &mut self,
        template: &Template,
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
        if meta.version < template.version {
            self.gates.tell(template).await?;
        }
        if since.elapsed() >= self.unload_after
            && gate.unload(id, meta.epoch, now).await? == Unloaded::Gone
        {
            info!(template.id = %id, "unloaded a gate that gives nothing any more");
            *unwanted = Unwanted::Gone;
        }
        Ok(())
    }
}

/// Returns whether the gate has more to give than MySQL had before, so that it admits claims that cannot land. A
/// correct gate never has: it holds MySQL's stock less what is in flight. Between the two reads MySQL's stock only
/// falls, except by movements, and both reads contain the same ones.
fn promises_too_much(meta: &Meta, before: &Stock) -> bool {
    meta.movement == before.movement && meta.stock > before.stock
}
