//! What has become of a claim, for whoever asks later: its user by the poll URL, or an operator.
//!
//! An answer is definite only where nothing can change it: a row in MySQL, landed or fenced, or an id that no claim can
//! have. Where nothing is known of an admission that is older than the resolver's grace, it is fenced here, as the
//! resolver would: its gate may have been rebuilt meanwhile, and then no in-flight entry leads the resolver to it.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, TemplateId, UserId};
use mysql_store::{
    MySqlPool, StoreError,
    claim::{self, Fence},
    connect,
    look_up::{self, ClaimFate},
    template,
};
use redis_gate::{Gate, GateError, RequestState};
use thiserror::Error;

use crate::{ids, resolver::GRACE};

/// By how much the clocks of two processes may differ in what is told from ids alone. No clock that tokens and claim
/// windows are judged by is wrong for long by as much as a day, while minutes go unnoticed.
const SKEW_MAX: TimeDelta = TimeDelta::days(1);

/// Which claim is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Its id.
    pub id: ClaimId,
    /// Its template, if it is said: only there it is known that a claim is on its way.
    pub template: Option<TemplateId>,
    /// Its user, if a user asks for his own.
    pub user: Option<UserId>,
}

/// What has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// MySQL has decided, for good.
    Decided(ClaimFate),
    /// It is on its way, or nothing says that it cannot be.
    Processing {
        /// Whose it is, where the gate knows it.
        user: Option<UserId>,
        /// When it was admitted, or by its id made.
        at: DateTime<Utc>,
    },
    /// No claim can have this id, or none of this template.
    Never,
    /// MySQL knows nothing of it, and where it may be on its way is not said.
    TemplateNeeded,
}

/// It cannot be told.
#[derive(Debug, Error)]
pub enum FateError {
    /// MySQL failed.
    #[error("what has become of a claim cannot be read from MySQL")]
    Store(#[from] StoreError),
    /// MySQL has decided nothing, and the gate failed.
    #[error("whether a claim is on its way cannot be asked of the gate")]
    Gate(#[from] GateError),
}

/// Tells what has become of a claim. One that nothing is known of for longer than the resolver's grace is fenced first, if
/// `may_fence` allows it: a fence is a row.
///
/// # Errors
/// Nothing definite can be said while MySQL or the gate is away.
pub async fn fate(
    pool: &MySqlPool,
    gate: &Gate,
    asked: Asked,
    now: DateTime<Utc>,
    may_fence: impl FnOnce() -> bool,
) -> Result<Fate, FateError> {
    // The gate first, MySQL second: what lands in between is then seen.
    let in_gate = match asked.template {
        Some(template) => in_gate(gate, template, asked).await,
        None => Ok(None),
    };
    if let Some(decided) = decided(pool, asked.id).await? {
        return Ok(Fate::Decided(decided));
    }
    let made_at = ids::made_at(asked.id.0);
    if made_at > now + SKEW_MAX || !is_possible(pool, asked, made_at).await? {
        return Ok(Fate::Never);
    }
    let Some(template) = asked.template else { return Ok(Fate::TemplateNeeded) };
    if let Some(processing) = in_gate? {
        return Ok(processing);
    }
    let grace = TimeDelta::from_std(GRACE).unwrap_or(TimeDelta::MAX);
    if now - made_at < grace || !may_fence() {
        return Ok(Fate::Processing { user: asked.user, at: made_at });
    }
    // A user's entry says nothing of somebody else's claim, and nobody ends that by asking for it.
    if asked.user.is_some()
        && let Some(processing) = in_flight(gate, template, asked.id).await?
    {
        return Ok(processing);
    }
    // UNIQUE(id) alone makes the fence: an operator who does not know the user places it under nobody's.
    let user = asked.user.unwrap_or(UserId(0));
    fence(pool, template, user, asked.id, now).await?;
    match decided(pool, asked.id).await? {
        Some(decided) => Ok(Fate::Decided(decided)),
        None => Ok(Fate::Processing { user: asked.user, at: made_at }),
    }
}

async fn decided(pool: &MySqlPool, id: ClaimId) -> Result<Option<ClaimFate>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        look_up::claim_fate(&mut connection, id).await
    })
    .await
}

/// A claim is made after its template, so its id is the later one; without a template, after the oldest there is.
async fn is_possible(
    pool: &MySqlPool,
    asked: Asked,
    made_at: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let first = match asked.template {
        Some(template) => Some(template),
        None => {
            connect::within(async {
                let mut connection = connect::acquire(pool).await?;
                template::oldest(&mut connection).await
            })
            .await?
        }
    };
    Ok(first.is_some_and(|first| ids::made_at(first.0) <= made_at + SKEW_MAX))
}

/// A user's claim is a pending request of his entry; anybody's is an admission in flight.
async fn in_gate(
    gate: &Gate,
    template: TemplateId,
    asked: Asked,
) -> Result<Option<Fate>, GateError> {
    let Some(user) = asked.user else { return in_flight(gate, template, asked.id).await };
    let Some(meta) = gate.meta(template).await? else { return Ok(None) };
    let entry = gate.entry(template, meta.epoch, user).await?;
    let pending = entry.is_some_and(|entry| {
        entry.requests.iter().any(|one| one.id == asked.id && one.state == RequestState::Pending)
    });
    let at = ids::made_at(asked.id.0);
    Ok(pending.then_some(Fate::Processing { user: Some(user), at }))
}

/// Anybody's claim, if it is on its way.
async fn in_flight(
    gate: &Gate,
    template: TemplateId,
    id: ClaimId,
) -> Result<Option<Fate>, GateError> {
    let Some(meta) = gate.meta(template).await? else { return Ok(None) };
    let found = gate.find_in_flight(template, meta.epoch, id).await?;
    Ok(found.map(|one| Fate::Processing { user: Some(one.user), at: one.admitted_at }))
}

/// Makes sure that a claim never lands, unless it has. Whoever is landing it just now is waited for.
pub(super) async fn fence(
    pool: &MySqlPool,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<Fence, StoreError> {
    let fence = connect::retried(
        || async {
            let mut connection = connect::acquire(pool).await?;
            claim::fence(&mut connection, template, user, id, now).await
        },
        StoreError::is_conflict,
    );
    connect::within(fence).await
}
