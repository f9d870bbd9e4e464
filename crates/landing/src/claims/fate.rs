//! Determines the fate of a claim, for a user's poll URL or an operator.
//!
//! An answer is definite only if nothing can change it: a row in MySQL (landed, rejected or fenced), or an id that no
//! claim can have. An unknown admission that is older than the resolver's grace is fenced here, as the resolver would
//! do: its gate may have been rebuilt meanwhile, and then no in-flight entry leads the resolver to it. A claim that may
//! be queued is not fenced, since an accepted claim lands; an open gate shows whether it may be. A client with a
//! receipt learns more from [`queued_fate`].

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CLOCK_SKEW_MAX, ClaimId, MerchantId, TemplateId, UserId};
use mysql_store::{
    MySqlPool, StoreError, connect, fence,
    look_up::{self, ClaimFate},
    lost_claim, stock, template,
};
use redis_gate::{Gate, GateError, RequestState};
use thiserror::Error;

use super::queued_fate::{QueuedClaim, may_be_queued};
pub use super::queued_fate::{QueuedFate, queued_fate};
use crate::{gate::resolver::GRACE, ids};

/// The claim to look up.
#[derive(Debug, Clone, Copy)]
pub struct ClaimQuery {
    pub id: ClaimId,
    /// Its template, if the caller names it. Only then the gate can show that the claim is in flight.
    pub template: Option<TemplateId>,
    pub asker: Asker,
}

/// Who asks. Others' claims are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A user, about their own claim.
    User(UserId),
    /// An operator, about a claim of this merchant's templates.
    Merchant(MerchantId),
}

impl Asker {
    fn user(self) -> Option<UserId> {
        match self {
            Self::User(user) => Some(user),
            Self::Merchant(_) => None,
        }
    }
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

/// The fate cannot be determined now.
#[derive(Debug, Error)]
pub enum FateError {
    #[error("a claim's outcome cannot be read from MySQL")]
    Store(#[from] StoreError),
    /// MySQL has decided nothing, and the gate failed.
    #[error("the gate cannot say whether a claim is under way")]
    Gate(#[from] GateError),
    /// Nothing is known of the claim, and the caller has searched for too many such claims.
    #[error("too many claims that nothing is known of were looked up; the next may be in {wait:?}")]
    TooMany { wait: Duration },
}

/// The user of a fence that a lookup placed: who asks for an id need not be whose claim it is. The fence needs only
/// UNIQUE(id).
const NOBODY: UserId = UserId(0);

/// Determines the fate of a claim. A claim that has been unknown for longer than the resolver's grace is searched for in
/// the gate and then fenced, if `may_fence` allows it: the search reads every admission under way, and each fence adds a
/// row. `may_fence` fails with the time until it allows another one.
///
/// # Errors
/// MySQL or the gate is unreachable, or `may_fence` fails. Nothing is said then: *on its way* would contradict an earlier
/// answer that the claim is given up.
pub async fn fate(
    pool: &MySqlPool,
    gate: &Gate,
    asked: ClaimQuery,
    now: DateTime<Utc>,
    may_fence: impl FnOnce() -> Result<(), Duration>,
) -> Result<Fate, FateError> {
    // Read the gate first and MySQL second, so that a landing in between is seen.
    let in_gate = match asked.template {
        Some(template) => in_gate(gate, template, asked).await,
        None => Ok(None),
    };
    if let Some(fate) = own(pool, asked).await? {
        return Ok(Fate::Decided(fate));
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
    let user = asked.asker.user();
    let may_be_queued = async || {
        let claim = QueuedClaim { template, id: asked.id, asked_by: user, age };
        may_be_queued(pool, gate, claim).await
    };
    let processing = Fate::Processing { user, at: made_at };
    if age < grace {
        return Ok(processing);
    }
    let lost = lost(pool, asked).await?;
    if lost.is_none() {
        may_fence().map_err(|wait| FateError::TooMany { wait })?;
    }
    // What landed from the queue and is lost may land again.
    if may_be_queued().await? {
        return Ok(processing);
    }
    if let Some(lost) = lost {
        return Ok(Fate::Decided(lost));
    }
    // The user's entry does not show another user's claim, which this user's query must not end.
    if user.is_some()
        && let Some(processing) = in_flight(gate, template, asked.id).await?
    {
        return Ok(processing);
    }
    // If the id has a row already, somebody else's or a fence, nothing is placed.
    fence(pool, template, asked.id, now).await?;
    if let Some(fate) = own(pool, asked).await? {
        return Ok(Fate::Decided(fate));
    }
    // Only a queued claim lands in spite of a fence in another template, and this one is not queued.
    let id = asked.id;
    let at = made_at + grace;
    Ok(Fate::Decided(ClaimFate::GivenUp { id, template_id: template, user_id: NOBODY, at }))
}

/// Returns what MySQL has decided of a claim of the asker's, if that is final.
async fn own(pool: &MySqlPool, asked: ClaimQuery) -> Result<Option<ClaimFate>, StoreError> {
    let Some(fate) = decided(pool, asked.id).await? else { return Ok(None) };
    if !is_own(pool, &fate, asked.asker).await? || !is_final(pool, &fate, asked).await? {
        return Ok(None);
    }
    if !matches!(fate, ClaimFate::GivenUp { .. }) || asked.template.is_some() {
        return Ok(Some(fate));
    }
    // Read again: the claim may have landed, and its queue been closed, between the two reads.
    decided(pool, asked.id).await
}

/// Returns the claim of the asker's that was answered with success and that a failover of MySQL lost.
async fn lost(pool: &MySqlPool, asked: ClaimQuery) -> Result<Option<ClaimFate>, StoreError> {
    let lost = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        lost_claim::get(&mut connection, asked.id).await
    });
    let Some(lost) = lost.await? else { return Ok(None) };
    Ok(is_own(pool, &lost, asked.asker).await?.then_some(lost))
}

/// Returns whether it is the fate of a claim of the asker's. A fence that a lookup placed is nobody's.
async fn is_own(pool: &MySqlPool, fate: &ClaimFate, asker: Asker) -> Result<bool, StoreError> {
    let user = match fate {
        ClaimFate::Landed(claim) => claim.user_id,
        ClaimFate::Rejected { user_id, .. }
        | ClaimFate::Lost { user_id, .. }
        | ClaimFate::GivenUp { user_id, .. } => *user_id,
    };
    match asker {
        Asker::User(asker) => Ok(user == asker),
        Asker::Merchant(_) if user == NOBODY => Ok(false),
        Asker::Merchant(merchant) => {
            let template = connect::within(async {
                let mut connection = connect::acquire(pool).await?;
                template::get(&mut connection, fate.template_id()).await
            });
            Ok(template.await?.is_some_and(|template| template.merchant_id == merchant))
        }
    }
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
    let Some(user) = asked.asker.user() else { return in_flight(gate, template, asked.id).await };
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
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let fenced = connect::retried(
        || async {
            let mut connection = connect::acquire(pool).await?;
            fence::place(&mut connection, template, NOBODY, id, now).await
        },
        StoreError::is_conflict,
    );
    connect::within(fenced).await.map(drop)
}
