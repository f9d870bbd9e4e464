//! The story of a claim, for support: each hop with its time, from records that the hops leave anyway. Nothing is
//! written for it; it is read on request.
//!
//! - Ids say when the claim was received and when a lander began with it ([`made_at`]).
//! - The claim's row says when the gate admitted it, and the stock behind it; so does its message.
//! - The topic of claims has its message if it was queued, and the topic of coupons the event of its first coupon, with
//!   the landing's place in the binlog. Both are found by partition and time, within limits.
//! - The view says whether the list shows it, and the coupons' rows say how each ended.
//!
//! Only MySQL is needed. A hop is unknown while the server with its record is away, or after its topic has deleted it.

pub(crate) mod facts;
pub(crate) mod hop;
pub(crate) mod hops;
pub(crate) mod usual;

mod messages;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponStatus, TemplateId, UserId};
use landing::ids::made_at;
use mysql_store::{MySqlPool, StoreError, connect, stock, story, user_coupon::UserCoupon};
use redis_view::{PageAnswer, PageRequest, ViewStore};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use topic::TopicNames;

use self::facts::{Admitted, End, Facts, Known, Relayed, Seen};

/// Stories at a time. Each is two clients of Kafka with a thread each, for seconds if a topic is busy.
const TURNS: usize = 4;

/// Longest wait for a turn.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Longest wait for the view, which usually answers within a millisecond.
const VIEW_MAX: Duration = Duration::from_secs(1);

/// Reads what claims' ways left behind.
pub(crate) struct Stories {
    brokers: String,
    names: TopicNames,
    turns: Arc<Semaphore>,
}

/// The claim whose story is asked for, and its outcome as far as it is known.
#[derive(Debug, Clone)]
pub(crate) struct StorySubject {
    pub(crate) id: ClaimId,
    pub(crate) template: TemplateId,
    /// `None`: not known.
    pub(crate) user: Option<UserId>,
    pub(crate) end: End,
    /// When the gate admitted it, as the gate itself says of a claim that is under way.
    pub(crate) in_gate_since: Option<DateTime<Utc>>,
}

/// Why there is no story.
#[derive(Debug)]
pub(crate) enum StoryError {
    /// Too many stories are being read.
    Busy,
    Store(StoreError),
}

/// What MySQL has of a claim, apart from its outcome.
struct Rows {
    admitted: Option<story::Admitted>,
    coupons: Vec<UserCoupon>,
    /// Whether claims of the template were ever queued.
    ever_queued: bool,
}

/// Permit to read a story. The reading threads hold clones, because they go on after their client has left.
type Turn = Arc<OwnedSemaphorePermit>;

impl Stories {
    pub(crate) fn new(brokers: &str, topic_prefix: &str) -> Self {
        let names = TopicNames::new(topic_prefix);
        let turns = Arc::new(Semaphore::new(TURNS));
        Self { brokers: brokers.to_owned(), names, turns }
    }

    /// Reads what a claim's way left behind.
    ///
    /// # Errors
    /// MySQL does not answer, or too many stories are being read.
    pub(crate) async fn read(
        &self,
        pool: &MySqlPool,
        view: &ViewStore,
        asked: &StorySubject,
        now: DateTime<Utc>,
    ) -> Result<Facts, StoryError> {
        let turn = match timeout(TURN_MAX, Arc::clone(&self.turns).acquire_owned()).await {
            Ok(Ok(permit)) => Arc::new(permit),
            _ => return Err(StoryError::Busy),
        };
        let rows = rows(pool, asked).await.map_err(StoryError::Store)?;
        let (relayed, change, seen) = tokio::join!(
            self.relayed(&turn, asked, rows.ever_queued),
            self.change(&turn, asked),
            seen(view, asked, &rows.coupons, now),
        );
        Ok(Facts {
            received_at: made_at(asked.id.0),
            admitted: admitted(asked, &rows, &relayed),
            relayed,
            end: asked.end.clone(),
            change,
            seen,
            coupons: rows.coupons,
        })
    }
}

async fn rows(pool: &MySqlPool, asked: &StorySubject) -> Result<Rows, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        let admitted = story::admitted(&mut connection, asked.id, asked.template).await?;
        let coupons = match &asked.end {
            End::Landed(ids) => story::coupons(&mut connection, ids).await?,
            End::UnderWay | End::Rejected { .. } | End::Lost { .. } | End::GivenUp { .. } => {
                Vec::new()
            }
        };
        let facts = stock::queue_facts(&mut connection, asked.template).await?;
        Ok(Rows { admitted, coupons, ever_queued: facts.is_some_and(|facts| facts.ever_queued) })
    })
    .await
}

/// Returns what is known of an admission: by the claim's row, else its message, else the gate.
fn admitted(asked: &StorySubject, rows: &Rows, relayed: &Known<Relayed>) -> Known<Admitted> {
    if let Some(row) = rows.admitted
        && let Some(at) = row.admitted_at
    {
        return Known::Is(Admitted { at, stock: stock_of(row.left_after, row.quantity) });
    }
    if let Known::Is(relayed) = relayed {
        return Known::Is(relayed.admitted);
    }
    if let Some(at) = asked.in_gate_since {
        return Known::Is(Admitted { at, stock: None });
    }
    Known::Unknown(match &asked.end {
        End::UnderWay => "neither the gate nor the topic shows it".to_owned(),
        End::Lost { .. } => "a failover of MySQL lost it".to_owned(),
        End::GivenUp { .. } => "a claim that was given up leaves no record of it".to_owned(),
        End::Landed(_) | End::Rejected { .. } => {
            "the row is of before admissions were recorded".to_owned()
        }
    })
}

/// Returns the stock before an admission and behind it.
fn stock_of(left_after: Option<i64>, quantity: u32) -> Option<(i64, i64)> {
    left_after.map(|left| (left.saturating_add(i64::from(quantity)), left))
}

/// Asks the view whether it knows the claim's coupons. It forgets those that have ended.
async fn seen(
    view: &ViewStore,
    asked: &StorySubject,
    coupons: &[UserCoupon],
    now: DateTime<Utc>,
) -> Known<Seen> {
    let Some(user) = asked.user.filter(|_| matches!(asked.end, End::Landed(_))) else {
        return Known::Never("it has no coupons");
    };
    let unused = coupons.iter().find(|coupon| coupon.status == CouponStatus::Unused);
    let Some(unused) = unused else {
        return Known::Unknown(
            "its coupons have ended, and the list shows them no more".to_owned(),
        );
    };
    let request = PageRequest { limit: 1, cursor: None, after: Some(unused.id), now };
    match timeout(VIEW_MAX, view.page(user, &request)).await {
        Ok(Ok(PageAnswer::Page(_))) => Known::Is(Seen::Listed),
        Ok(Ok(PageAnswer::Cold)) => Known::Is(Seen::Cold),
        Ok(Ok(PageAnswer::Unknown)) => Known::NotYet("the view does not know its coupon yet"),
        Ok(Err(error)) => {
            runtime::seldom!("the view cannot be asked for a story", runtime::report(&error));
            Known::Unknown("the view's Redis cannot be read at the moment".to_owned())
        }
        Err(_) => Known::Unknown("the view's Redis did not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests;
