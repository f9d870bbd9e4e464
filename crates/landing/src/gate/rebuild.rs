//! Rebuilds a gate that is lost, wrong or doubtful. There is one primitive: a new epoch.
//!
//! 1. MySQL's epoch rises. No older admission can land any more.
//! 2. `begin.lua` makes the gate loading(E), unless it knows E or a later epoch. From then on older epochs are not read
//!    any more, and their keys are removed at once, so that the gate takes its memory once, not twice.
//! 3. Stock, last movement and taken numbers are read, unless MySQL's epoch is no longer E. `load.lua` writes only
//!    while the gate is exactly loading(E).
//! 4. `open.lua` opens only from exactly loading(E). A state set meanwhile stays if it is newer, and movements made
//!    meanwhile are applied afterwards.
//!
//! Each step alone prevents a paused rebuilder from replacing a newer gate with an older snapshot.

use std::{
    io,
    time::{Duration, Instant},
};

use coupon::{Epoch, TemplateId, UserId};
use mysql_store::{MySqlConnection, MySqlPool, StoreError, connect, lease, stock, template};
use redis_gate::{Gate, GateError, LOAD_USERS_MAX, OpenFacts};
use runtime::{Backoff, FailPoints};
use thiserror::Error;
use tracing::info;

use crate::{gate::movements, metric};

/// Duration of the lease that keeps other processes from the same rebuild; renewed after every page.
const LEASE: Duration = Duration::from_secs(5);

/// Longest wait of a load for memory of the older epoch that Redis is still freeing, and the pauses between attempts.
/// Freeing a million entries takes Redis about a second.
const MEMORY_MAX: Duration = Duration::from_secs(5);
const MEMORY_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Label values of the metric for ended rebuilds.
pub(crate) const RESULTS: [&str; 3] = ["open", "left", "failed"];

/// How a rebuild ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The gate is open in this epoch.
    Open(Epoch),
    /// Another process is rebuilding it.
    Elsewhere,
    /// A newer epoch has begun; its rebuilder opens the gate.
    Overtaken,
    NoTemplate,
}

/// A gate could not be brought in line with MySQL. A gate that was being rebuilt stays closed until another rebuild
/// succeeds.
#[derive(Debug, Error)]
pub enum RebuildError {
    #[error("a gate could not be brought to what MySQL says: MySQL failed")]
    Store(#[from] StoreError),
    #[error("a gate could not be brought to what MySQL says: the gate failed")]
    Gate(#[from] GateError),
    #[error("a gate could not be brought to what MySQL says: interrupted")]
    FailPoint(#[from] io::Error),
}

/// Rebuilds the gate of `template` on behalf of `holder`, unless another process is rebuilding it. The fail points are
/// `rebuild.before_epoch` (inside the transaction), `rebuild.before_begin`, `rebuild.before_read` and
/// `rebuild.before_open`.
///
/// # Errors
/// MySQL or the gate failed.
pub async fn rebuild(
    pool: &MySqlPool,
    gate: &Gate,
    template: TemplateId,
    holder: &str,
    points: &FailPoints,
) -> Result<Rebuilt, RebuildError> {
    let started = Instant::now();
    let name = format!("rebuild:{template}");
    let mut connection = connect::acquire(pool).await?;
    if !connect::within(lease::take(&mut connection, &name, holder, LEASE)).await? {
        return Ok(Rebuilt::Elsewhere);
    }
    let rebuilt = match raise_epoch(pool, template, points).await {
        Ok(Some(epoch)) => {
            run(&mut connection, gate, (template, epoch), (&name, holder), points).await
        }
        Ok(None) => Ok(Rebuilt::NoTemplate),
        Err(error) => Err(error),
    };
    // A failed connection is not used again; the lease expires.
    if !matches!(rebuilt, Err(RebuildError::Store(_))) {
        connect::within(lease::release(&mut connection, &name, holder)).await?;
    }
    let result = match &rebuilt {
        Ok(Rebuilt::Open(epoch)) => {
            let seconds = started.elapsed().as_secs_f64();
            info!(template.id = %template, gate.epoch = %epoch, seconds, "opened a gate");
            metrics::histogram!(metric::REBUILD_SECONDS).record(seconds);
            "open"
        }
        Ok(_) => "left",
        Err(_) => "failed",
    };
    metrics::counter!(metric::REBUILDS, "result" => result).increment(1);
    rebuilt
}

/// Raises MySQL's epoch. Returns `None` if there is no such template.
async fn raise_epoch(
    pool: &MySqlPool,
    template: TemplateId,
    points: &FailPoints,
) -> Result<Option<Epoch>, RebuildError> {
    connect::within(async {
        let mut transaction = connect::begin(pool).await?;
        let epoch = stock::next_epoch(&mut transaction, template).await?;
        points.reach("rebuild.before_epoch").await?;
        connect::commit(transaction).await?;
        Ok(epoch)
    })
    .await
}

async fn run(
    connection: &mut MySqlConnection,
    gate: &Gate,
    (template_id, epoch): (TemplateId, Epoch),
    lease: (&str, &str),
    points: &FailPoints,
) -> Result<Rebuilt, RebuildError> {
    points.reach("rebuild.before_begin").await?;
    if !gate.begin(template_id, epoch).await? {
        return Ok(Rebuilt::Overtaken);
    }
    points.reach("rebuild.before_read").await?;
    // Read after `begin`: from here on, changes of the template's state reach the gate by their version.
    let template = connect::within(template::get(connection, template_id)).await?;
    let stock = connect::within(stock::get(connection, template_id)).await?;
    let (Some(template), Some(stock)) = (template, stock) else { return Ok(Rebuilt::NoTemplate) };
    if stock.epoch != epoch {
        return Ok(Rebuilt::Overtaken);
    }
    // Without a limit there are no numbers to load; every refusal checks MySQL instead.
    if template.per_user_limit > 0 {
        match load(connection, gate, template_id, epoch, lease).await {
            Ok(true) => {}
            Ok(false) => return Ok(Rebuilt::Overtaken),
            Err(error) => {
                // Remove the unfinished load, so that it does not obstruct the next attempt. If Redis is unreachable,
                // that attempt removes it.
                drop(gate.discard(template_id, epoch).await);
                return Err(error);
            }
        }
    }
    let facts = OpenFacts {
        version: template.version,
        state: template.state,
        starts_at: template.window.starts_at,
        ends_at: template.window.ends_at,
        limit: template.per_user_limit,
        stock: stock.stock,
        movement: stock.movement,
    };
    points.reach("rebuild.before_open").await?;
    if !gate.open(template_id, epoch, &facts).await? {
        return Ok(Rebuilt::Overtaken);
    }
    movements::catch_up(connection, gate, template_id).await?;
    Ok(Rebuilt::Open(epoch))
}

/// Copies the taken numbers into the gate, page by page. Returns whether the gate was loading this epoch until the end.
async fn load(
    connection: &mut MySqlConnection,
    gate: &Gate,
    template: TemplateId,
    epoch: Epoch,
    (lease_name, holder): (&str, &str),
) -> Result<bool, RebuildError> {
    let first = stock::taken_numbers_after(connection, template, UserId(-1));
    let mut users = connect::within(first).await?;
    while let Some((last, _)) = users.last() {
        // Reads the next page while this one loads; both take about as long.
        let (loading, next) = tokio::join!(
            load_page(gate, template, epoch, &users),
            connect::within(stock::taken_numbers_after(connection, template, *last)),
        );
        if !loading? {
            return Ok(false);
        }
        users = next?;
        connect::within(lease::take(connection, lease_name, holder, LEASE)).await?;
    }
    Ok(true)
}

async fn load_page(
    gate: &Gate,
    template: TemplateId,
    epoch: Epoch,
    users: &[(UserId, Vec<u8>)],
) -> Result<bool, GateError> {
    let started = Instant::now();
    let mut backoff = Backoff::new(MEMORY_PAUSE.0, MEMORY_PAUSE.1);
    for chunk in users.chunks(LOAD_USERS_MAX) {
        loop {
            match gate.load(template, epoch, chunk).await {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(error) if error.is_out_of_memory() && started.elapsed() < MEMORY_MAX => {
                    backoff.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}
