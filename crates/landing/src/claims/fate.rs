//! Determines the fate of a claim, for a user's poll URL or an operator.
//!
//! An answer is definite only if nothing can change it: a row in MySQL (landed, rejected or fenced), or an id that no
//! claim can have. An unknown admission that is older than the resolver's grace is fenced here, as the resolver would
//! do: its gate may have been rebuilt meanwhile, and then no in-flight entry leads the resolver to it. A claim that may
//! be queued is not fenced, since an accepted claim lands; an open gate shows whether it may be. A client with a
//! receipt learns more from [`queued_fate`].

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CLOCK_SKEW_MAX, ClaimId, TemplateId, UserId};
use mysql_store::{
    MySqlPool, StoreError, connect, fence,
    look_up::{self, ClaimFate},
    stock, template,
};
use redis_gate::{Gate, GateError, RequestState};
use thiserror::Error;

use super::queued_fate::may_be_queued;
pub use super::queued_fate::{QueuedFate, queued_fate};
use crate::{gate::resolver::GRACE, ids};

/// The claim to look up.
#[derive(Debug, Clone, Copy)]
pub struct ClaimQuery {
    pub id: ClaimId,
    /// Its template, if the caller names it. Only then the gate can show that the claim is in flight.
    pub template: Option<TemplateId>,
    /// Its user, if a user asks about their own claim.
    pub user: Option<UserId>,
}

/// The fate of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// MySQL has decided; this is final.
    Decided(ClaimFate),
    /// The claim is in flight, or nothing rules that out.
    Processing {
        /// The owner, if known.
        user: Option<UserId>,
        /// When it was admitted or, if that is unknown, when its id was made.
        at: DateTime<Utc>,
    },
    /// No claim, or none of this template, can have this id.
    Never,
    /// The caller named no template, and MySQL has no row of the claim, or only a fence. A fence binds only its own
    /// template, which may not be the claim's.
    TemplateNeeded,
}

/// The fate cannot be determined.
#[derive(Debug, Error)]
pub enum FateError {
    #[error("a claim's outcome cannot be read from MySQL")]
    Store(#[from] StoreError),
    /// MySQL has decided nothing, and the gate failed.
    #[error("the gate cannot say whether a claim is under way")]
    Gate(#[from] GateError),
}

/// Determines the fate of a claim. A claim that has been unknown for longer than the resolver's grace is searched for in
/// the gate and then fenced, if `may_fence` allows it: the search reads every admission under way, and each fence adds a
/// row.
///
/// # Errors
/// MySQL or the gate is unreachable, so nothing definite can be said.
pub async fn fate(
    pool: &MySqlPool,
    gate: &Gate,
    asked: ClaimQuery,
    now: DateTime<Utc>,
    may_fence: impl FnOnce() -> bool,
) -> Result<Fate, FateError> {
    // Read the gate first and MySQL second, so that a landing in between is seen.
    let in_gate = match asked.template {
        Some(template) => in_gate(gate, template, asked).await,
        None => Ok(None),
    };
    let decided = decided(pool, asked.id).await?;
    if let Some(fate) = &decided
        && is_final(pool, fate, asked).await?
    {
        if !matches!(fate, ClaimFate::GivenUp { .. }) || asked.template.is_some() {
            return Ok(Fate::Decided(fate.clone()));
        }
        // Read again: the claim may have landed, and its queue been closed, between the two reads.
        if let Some(fate) = self::decided(pool, asked.id).await? {
            return Ok(Fate::Decided(fate));
        }
    }
    let made_at = ids::made_at(asked.id.0);
    if made_at > now + CLOCK_SKEW_MAX || !is_possible(pool, asked, made_at).await? {
        return Ok(Fate::Never);
    }
    let Some(template) = asked.template else { return Ok(Fate::TemplateNeeded) };
    if let Some(processing) = in_gate? {
        return Ok(processing);
    }
    let grace = TimeDelta::from_std(GRACE).unwrap_or(TimeDelta::MAX);
    let age = now - made_at;
    if age < grace || !may_fence() || may_be_queued(pool, gate, template, asked.id, age).await? {
        return Ok(Fate::Processing { user: asked.user, at: made_at });
    }
    // The user's entry does not show another user's claim, which this user's query must not end.
    if asked.user.is_some()
        && let Some(processing) = in_flight(gate, template, asked.id).await?
    {
        return Ok(processing);
    }
    // The fence needs only UNIQUE(id). An operator who does not know the user places it under user 0.
    let user = asked.user.unwrap_or(UserId(0));
    let processing = Fate::Processing { user: asked.user, at: made_at };
    if decided.is_some() {
        let given_up = given_up_behind_other(pool, asked.id, template, user).await?;
        return Ok(given_up.map_or(processing, Fate::Decided));
    }
    fence(pool, template, user, asked.id, now).await?;
    match self::decided(pool, asked.id).await? {
        Some(decided) if is_final(pool, &decided, asked).await? => Ok(Fate::Decided(decided)),
        _ => Ok(processing),
    }
}

/// Decides a claim that is not queued and whose id is taken by a fence in another template. It is given up in its own
/// template too, because only a queued claim lands despite such a fence. It may have landed before the check of the
/// queue, so the row is read again.
async fn given_up_behind_other(
    pool: &MySqlPool,
    id: ClaimId,
    template_id: TemplateId,
    user_id: UserId,
) -> Result<Option<ClaimFate>, StoreError> {
    let decided = decided(pool, id).await?;
    Ok(decided.map(|fate| match fate {
        ClaimFate::GivenUp { at, .. } => ClaimFate::GivenUp { id, template_id, user_id, at },
        other => other,
    }))
}

/// Returns whether nothing can change this fate of the claim. A fence binds only its own template: if the caller names
/// none, the claim may be queued in any other.
async fn is_final(
    pool: &MySqlPool,
    fate: &ClaimFate,
    asked: ClaimQuery,
) -> Result<bool, StoreError> {
    let ClaimFate::GivenUp { template_id, .. } = fate else { return Ok(true) };
    if let Some(template) = asked.template {
        return Ok(template == *template_id);
    }
    let is_other_open = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        stock::is_other_open(&mut connection, *template_id).await
    });
    is_other_open.await.map(|other| !other)
}

async fn decided(pool: &MySqlPool, id: ClaimId) -> Result<Option<ClaimFate>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        look_up::claim_fate(&mut connection, id).await
    })
    .await
}

/// A claim is made after its template, so its id must be later than the template's; without a template, later than the
/// oldest template's.
async fn is_possible(
    pool: &MySqlPool,
    asked: ClaimQuery,
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
    Ok(first.is_some_and(|first| ids::made_at(first.0) <= made_at + CLOCK_SKEW_MAX))
}

/// Looks for a user's claim among the pending requests of the entry, and for any other among the admissions in flight.
async fn in_gate(
    gate: &Gate,
    template: TemplateId,
    asked: ClaimQuery,
) -> Result<Option<Fate>, GateError> {
    let Some(user) = asked.user else { return in_flight(gate, template, asked.id).await };
    let Some(meta) = gate.meta(template).await? else { return Ok(None) };
    let entry = gate.entry(template, meta.epoch, user).await?;
    let pending = entry.is_some_and(|entry| {
        let mut of_id = entry.requests.iter().filter(|one| one.id == asked.id);
        of_id.any(|one| matches!(one.state, RequestState::Pending | RequestState::Queued))
    });
    let at = ids::made_at(asked.id.0);
    Ok(pending.then_some(Fate::Processing { user: Some(user), at }))
}

/// Looks for a claim of any user in flight.
async fn in_flight(
    gate: &Gate,
    template: TemplateId,
    id: ClaimId,
) -> Result<Option<Fate>, GateError> {
    let Some(meta) = gate.meta(template).await? else { return Ok(None) };
    let found = gate.find_in_flight(template, meta.epoch, id).await?;
    Ok(found.map(|one| Fate::Processing { user: Some(one.user), at: one.admitted_at }))
}

/// Fences a claim so that it never lands in this template, unless it has landed. Waits for a landing that is under way.
async fn fence(
    pool: &MySqlPool,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let fenced = connect::retried(
        || async {
            let mut connection = connect::acquire(pool).await?;
            fence::place(&mut connection, template, user, id, now).await
        },
        StoreError::is_conflict,
    );
    connect::within(fenced).await.map(drop)
}
