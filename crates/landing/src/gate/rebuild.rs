//! Rebuilds a gate that is lost, wrong or doubtful. The only means is a new epoch.
//!
//! 1. MySQL's epoch rises, above the gate's too: a gate may know a later one, if it is damaged, or if MySQL has lost its
//!    newest transactions. No older direct admission can land any more.
//! 2. `begin.lua` makes the gate loading(E), unless it has E or a later epoch. From then on older epochs are not read
//!    any more, and their keys are removed at once, so that the gate never takes memory for two epochs.
//! 3. If the template was ever queued, claims that were queued before land first, under their own epoch (`drain.rs`).
//! 4. MySQL's `queued_epoch` becomes E, unless its epoch is no longer E. No older queued claim can land any more. The
//!    gate may have been lost during a drain, so E is then begun once more; a gate that is loading E stays as it is.
//! 5. Only now the users are read. First comes the last movement m₀; then taken numbers, rejected keys and lapses, page
//!    by page; last the stock and its last movement m₁, in one statement, unless MySQL's epoch is no longer E. Numbers
//!    that returns after m₀ gave back are cleared again. `load.lua` writes only while the gate is exactly loading(E).
//! 6. `open.lua` opens only from exactly loading(E). A state set meanwhile stays if it is newer, and movements made
//!    meanwhile are applied afterwards.
//!
//! Each step alone prevents a paused rebuilder from replacing a newer gate with an older snapshot. After the end of a
//! template the first three steps close its queue, and no gate is opened.

use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

use chrono::DateTime;
use coupon::{Epoch, Template, TemplateId};
use mysql_store::{
    MySqlConnection, MySqlPool, StoreError, connect, lease,
    stock::{self, Stock},
    template,
};
use redis_gate::{Gate, GateError, OpenFacts};
use runtime::FailPoints;
use thiserror::Error;
use tracing::info;

use crate::{
    gate::{
        drain::{self, Drained},
        drains::Drains,
        goal::{Aim, Goal},
        load::{self, Answered},
        lost_claims, movements,
    },
    metric,
    queue::ClaimQueue,
};

/// Duration of the lease that keeps other processes from the same rebuild; renewed after every page and during a drain.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How a rebuild ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The gate is open in this epoch.
    Open(Epoch),
    /// Another process is rebuilding it, or has done so since this one looked.
    Elsewhere,
    /// A newer epoch has begun; its rebuilder opens the gate.
    Overtaken,
    NoTemplate,
    /// The template is over, and its queue is closed. There is no gate.
    Closed,
}

/// A gate could not be made equal to MySQL. A gate that was being rebuilt stays closed until another rebuild succeeds.
#[derive(Debug, Error)]
pub enum RebuildError {
    #[error("a gate could not be brought to what MySQL says: MySQL failed")]
    Store(#[from] StoreError),
    #[error("a gate could not be brought to what MySQL says: the gate failed")]
    Gate(#[from] GateError),
    /// A movement that the gate lacks is missing in MySQL. Only a rebuild, which reads the stock, helps.
    #[error("a stock movement that a gate needs is missing in MySQL")]
    MovementMissing,
    #[error("a gate could not be brought to what MySQL says: interrupted")]
    FailPoint(#[from] io::Error),
}

impl RebuildError {
    /// Returns whether a movement that the gate needs is missing or cannot be read, however often it is asked for. A
    /// rebuild needs no movements: it reads the stock.
    pub(crate) fn is_of_movements(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unreadable(),
            Self::MovementMissing => true,
            Self::Gate(_) | Self::FailPoint(_) => false,
        }
    }
}

/// The context of a rebuild of one template's gate.
pub(crate) struct RebuildContext<'a> {
    pub(crate) pool: &'a MySqlPool,
    pub(crate) gate: &'a Gate,
    pub(crate) queue: &'a dyn ClaimQueue,
    /// What it shares with the other drains of its process.
    pub(crate) drains: &'a Drains,
    pub(crate) template: TemplateId,
    pub(crate) aim: Aim,
    /// The name of its lease, and the process that holds it.
    pub(crate) lease: String,
    pub(crate) holder: &'a str,
    pub(crate) points: &'a FailPoints,
}

/// A rebuild after its first steps.
#[derive(Debug)]
pub(crate) enum Begun {
    Ended(Rebuilt),
    /// The gate is loading this epoch. Claims that were queued before it must land first, however long that takes.
    Drains(Epoch),
}

impl<'a> RebuildContext<'a> {
    pub(crate) fn new(
        pool: &'a MySqlPool,
        gate: &'a Gate,
        queue: &'a dyn ClaimQueue,
        drains: &'a Drains,
        goal: Goal,
        holder: &'a str,
        points: &'a FailPoints,
    ) -> Self {
        let Goal { template, aim } = goal;
        let lease = format!("rebuild:{template}");
        Self { pool, gate, queue, drains, template, aim, lease, holder, points }
    }
}

/// Rebuilds the gate of `template` on behalf of `holder`, unless another process is rebuilding it. Waits until the
/// claims that were queued before have landed, however long that takes. The fail points are `rebuild.before_lease`,
/// `rebuild.before_epoch` (inside the transaction), `rebuild.before_begin`, `rebuild.before_drain`, `rebuild.before_queued_epoch`,
/// `rebuild.before_read` and `rebuild.before_open`.
///
/// # Errors
/// MySQL or the gate failed.
pub async fn rebuild(
    pool: &MySqlPool,
    gate: &Gate,
    queue: &dyn ClaimQueue,
    template: TemplateId,
    holder: &str,
    points: &FailPoints,
) -> Result<Rebuilt, RebuildError> {
    let started = Instant::now();
    let goal = Goal { template, aim: Aim::Replace };
    let drains = Drains::default();
    let context = RebuildContext::new(pool, gate, queue, &drains, goal, holder, points);
    match begin(&context, started).await? {
        Begun::Ended(rebuilt) => Ok(rebuilt),
        Begun::Drains(epoch) => finish(&context, epoch, started).await,
    }
}

/// Takes the lease, raises the epoch and begins it at the gate. The gate of a template that was never queued is then
/// loaded and opened at once; any other keeps the lease for [`finish`].
pub(crate) async fn begin(
    context: &RebuildContext<'_>,
    started: Instant,
) -> Result<Begun, RebuildError> {
    context.points.reach("rebuild.before_lease").await?;
    let mut connection = connect::acquire(context.pool).await?;
    let taken = lease::take(&mut connection, &context.lease, context.holder, LEASE);
    if !connect::within(taken).await? {
        return Ok(Begun::Ended(Rebuilt::Elsewhere));
    }
    match raise_and_begin(&mut connection, context).await {
        Ok(Begun::Drains(epoch)) => Ok(Begun::Drains(epoch)),
        Ok(Begun::Ended(rebuilt)) => {
            ended(&mut connection, context, started, Ok(rebuilt)).await.map(Begun::Ended)
        }
        Err(error) => ended(&mut connection, context, started, Err(error)).await.map(Begun::Ended),
    }
}

async fn raise_and_begin(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
) -> Result<Begun, RebuildError> {
    if context.aim == Aim::Open && is_open(connection, context).await? {
        return Ok(Begun::Ended(Rebuilt::Elsewhere));
    }
    lost_claims::search(connection, context).await?;
    match raise_epoch(context).await? {
        Some(epoch) => begin_epoch(connection, context, epoch).await,
        None => Ok(Begun::Ended(Rebuilt::NoTemplate)),
    }
}

/// Returns whether the gate is open under MySQL's epoch. Read under the lease: a process that saw the gate while
/// another one was loading it would close it again just after its template was reported as published.
async fn is_open(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
) -> Result<bool, RebuildError> {
    let stock = connect::within(stock::get(connection, context.template)).await?;
    let meta = match context.gate.meta(context.template).await {
        Err(error) if error.is_of_keys() => return Ok(false),
        meta => meta?,
    };
    let (Some(stock), Some(meta)) = (stock, meta) else { return Ok(false) };
    Ok(meta.is_open() && meta.unreadable.is_none() && meta.epoch == stock.epoch)
}

/// Ends a rebuild that has to wait for the queue.
///
/// # Errors
/// MySQL or the gate failed after the wait. During the wait they may be away.
pub(crate) async fn finish(
    context: &RebuildContext<'_>,
    epoch: Epoch,
    started: Instant,
) -> Result<Rebuilt, RebuildError> {
    context.points.reach("rebuild.before_drain").await?;
    let drained = drain::drain(context, epoch).await;
    let mut connection = connect::acquire(context.pool).await?;
    let rebuilt = match drained {
        Drained::Overtaken => Ok(Rebuilt::Overtaken),
        Drained::Empty if context.aim == Aim::Close => close(&mut connection, context, epoch).await,
        Drained::Empty => open(&mut connection, context, epoch, true).await,
    };
    ended(&mut connection, context, started, rebuilt).await
}

/// Releases the lease, and reports how the rebuild ended.
async fn ended(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    started: Instant,
    rebuilt: Result<Rebuilt, RebuildError>,
) -> Result<Rebuilt, RebuildError> {
    let template = context.template;
    // A failed connection is not used again; the lease expires.
    if !matches!(rebuilt, Err(RebuildError::Store(_))) {
        connect::within(lease::release(connection, &context.lease, context.holder)).await?;
    }
    let result = match &rebuilt {
        Ok(Rebuilt::Open(epoch)) => {
            let seconds = started.elapsed().as_secs_f64();
            info!(template.id = %template, gate.epoch = %epoch, seconds, "opened a gate");
            metrics::histogram!(metric::REBUILD_SECONDS.name).record(seconds);
            "open"
        }
        Ok(Rebuilt::Closed) => {
            info!(template.id = %template, "closed the queue of a template that is over");
            "closed"
        }
        Ok(Rebuilt::Elsewhere | Rebuilt::Overtaken | Rebuilt::NoTemplate) => "left",
        Err(_) => "failed",
    };
    metrics::counter!(metric::REBUILDS.name, "result" => result).increment(1);
    rebuilt
}

/// Raises MySQL's epoch above its own and the gate's. Returns `None` if there is no such template.
async fn raise_epoch(context: &RebuildContext<'_>) -> Result<Option<Epoch>, RebuildError> {
    let known = match context.gate.meta(context.template).await {
        Ok(meta) => meta.map_or(Epoch::UNKNOWN, |meta| meta.epoch),
        Err(error) if error.is_of_keys() => Epoch::UNKNOWN,
        Err(error) => return Err(error.into()),
    };
    let raise = || async {
        let mut transaction = connect::begin(context.pool).await?;
        let epoch = stock::next_epoch_above(&mut transaction, context.template, known).await?;
        context.points.reach("rebuild.before_epoch").await?;
        connect::commit(transaction).await?;
        Ok(epoch)
    };
    let conflicts =
        |error: &RebuildError| matches!(error, RebuildError::Store(error) if error.is_conflict());
    connect::within(connect::retried(raise, conflicts)).await
}

async fn begin_epoch(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<Begun, RebuildError> {
    context.points.reach("rebuild.before_begin").await?;
    if !context.gate.begin(context.template, epoch).await? {
        return Ok(Begun::Ended(Rebuilt::Overtaken));
    }
    // Read after `begin`: until then the older gate may have got a mode that queues, and queued a claim.
    let facts = connect::within(stock::queue_facts(connection, context.template)).await?;
    let Some(facts) = facts else { return Ok(Begun::Ended(Rebuilt::NoTemplate)) };
    if facts.ever_queued {
        return Ok(Begun::Drains(epoch));
    }
    open(connection, context, epoch, false).await.map(Begun::Ended)
}

/// Ends the queue of a template that is over, and removes its gate.
async fn close(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<Rebuilt, RebuildError> {
    context.points.reach("rebuild.before_queued_epoch").await?;
    let closed = stock::close_queue(connection, context.template, epoch);
    if !connect::within(closed).await? {
        return Ok(Rebuilt::Overtaken);
    }
    // A loading gate may be removed at any time. If this fails, the keeper unloads it.
    let now = DateTime::UNIX_EPOCH;
    if let Err(error) = context.gate.unload(context.template, epoch, now).await {
        let why = format!("template {}: {}", context.template, runtime::report(&error));
        runtime::seldom!("the gate of a closed queue is not removed yet", why);
    }
    Ok(Rebuilt::Closed)
}

/// Lets queued claims of this epoch land, loads the gate and opens it. If the template was never queued, no queued
/// claim can have been rejected either.
async fn open(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    ever_queued: bool,
) -> Result<Rebuilt, RebuildError> {
    let gate = context.gate;
    let template_id = context.template;
    let points = context.points;
    points.reach("rebuild.before_queued_epoch").await?;
    let set = stock::set_queued_epoch(connection, template_id, epoch);
    if !connect::within(set).await? {
        return Ok(Rebuilt::Overtaken);
    }
    if ever_queued && !gate.begin(template_id, epoch).await? {
        return Ok(Rebuilt::Overtaken);
    }
    points.reach("rebuild.before_read").await?;
    // Read after `begin`: from then on, changes of the template's state reach the gate by their version. Read after
    // `queued_epoch` too: from then on only claims that the gate has admitted in this epoch can land.
    let template = connect::within(template::get(connection, template_id)).await?;
    let Some(template) = template else { return Ok(Rebuilt::NoTemplate) };
    let stock = match load_users(connection, context, epoch, &template, ever_queued).await {
        Ok(Some(stock)) => stock,
        Ok(None) => return Ok(Rebuilt::Overtaken),
        Err(error) => {
            // Remove the unfinished load, so that it does not obstruct the next attempt. If Redis is unreachable, that
            // attempt removes it.
            drop(gate.discard(template_id, epoch).await);
            return Err(error);
        }
    };
    let facts = OpenFacts {
        version: template.version,
        state: template.state,
        mode: template.claim_mode,
        starts_at: template.window.starts_at,
        ends_at: template.window.ends_at,
        limit: template.per_user_limit,
        stock: stock.stock,
        movement: stock.movement,
        lapses_allowed: template.hold.lapses_allowed,
    };
    points.reach("rebuild.before_open").await?;
    if !gate.open(template_id, epoch, &facts).await? {
        return Ok(Rebuilt::Overtaken);
    }
    movements::catch_up(connection, gate, template_id).await?;
    Ok(Rebuilt::Open(epoch))
}

/// Loads the users' entries, and returns the stock that fits them. `None`: another epoch has begun.
async fn load_users(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    template: &Template,
    ever_queued: bool,
) -> Result<Option<Stock>, RebuildError> {
    // Read before the pages: each later return is applied to what they show.
    let first = connect::within(stock::last_movement(connection, template.id)).await?;
    // A claim is looked up before it is queued only if its user's entry says so. Therefore each user whose keys have
    // answers gets one, in every mode: the mode may change while the gate is open.
    let unlimited = template.per_user_limit == 0;
    let which = if unlimited { Answered::All } else { Answered::Rejected };
    if !unlimited && !load::numbers(connection, context, epoch).await? {
        return Ok(None);
    }
    if (unlimited || ever_queued) && !load::answered(connection, context, epoch, which).await? {
        return Ok(None);
    }
    let mut counted = HashMap::new();
    if template.hold.lapses_allowed > 0 {
        let loaded = load::lapses(connection, context, epoch, first).await?;
        let Some(loaded) = loaded else { return Ok(None) };
        counted = loaded;
    }
    // The stock and the last movement that it contains, read at one moment.
    let stock = connect::within(stock::get(connection, template.id)).await?;
    let Some(stock) = stock.filter(|stock| stock.epoch == epoch) else { return Ok(None) };
    let last = stock.movement;
    let applied = load::returned_since(connection, context, epoch, template, first, last, &counted);
    Ok(applied.await?.then_some(stock))
}
