//! Counts a template's coupons by status, piece by piece. No index of a template's coupons has both status and
//! deadline: one would cost every landing, use and flip a write, for reports that are read a few times a day.

use chrono::{DateTime, Utc};
use coupon::{CouponStatus, TemplateId};
use sqlx::MySqlConnection;

use crate::{StoreError, code::Code};

/// Rows of a piece: few enough that a caller can stop between two of them, many enough for few round trips.
pub const PIECE: u32 = 10_000;

/// A template's coupons by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// Unused, and valid now or later.
    pub unused: u64,
    pub used: u64,
    /// Including unused ones whose end has passed.
    pub expired: u64,
    /// Revoked or replaced, or cancelled with their claim.
    pub cancelled: u64,
    pub held: u64,
    /// Including held ones whose hold is over.
    pub lapsed: u64,
    /// In a status that this version does not know.
    pub others: u64,
}

/// Where a count stopped, in the order of `uq_number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedTo {
    user: i64,
    number: i64,
}

impl StatusCounts {
    pub fn all(&self) -> u64 {
        let Self { unused, used, expired, cancelled, held, lapsed, others } = self;
        unused + used + expired + cancelled + held + lapsed + others
    }

    fn count(
        &mut self,
        status: Option<CouponStatus>,
        valid_until: DateTime<Utc>,
        now: DateTime<Utc>,
    ) {
        let counted = match status.map(|status| status.at(valid_until, now)) {
            Some(CouponStatus::Unused) => &mut self.unused,
            Some(CouponStatus::Used) => &mut self.used,
            Some(CouponStatus::Expired) => &mut self.expired,
            Some(CouponStatus::Cancelled) => &mut self.cancelled,
            Some(CouponStatus::Held) => &mut self.held,
            Some(CouponStatus::Lapsed) => &mut self.lapsed,
            None => &mut self.others,
        };
        *counted += 1;
    }
}

/// Adds the next `rows_max` coupons of a template, normally [`PIECE`], to `counts`. Begins behind `after`; returns where it stopped, or `None`
/// at the end.
pub async fn add_piece(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: Option<CountedTo>,
    rows_max: u32,
    now: DateTime<Utc>,
    counts: &mut StatusCounts,
) -> Result<Option<CountedTo>, StoreError> {
    let CountedTo { user, number } =
        after.unwrap_or(CountedTo { user: i64::MIN, number: i64::MIN });
    let mut rows: Vec<(i64, i64, Code, DateTime<Utc>)> = sqlx::query_as(PIECE_SQL)
        .bind(template.0)
        .bind(user)
        .bind(number)
        .bind(rows_max)
        .bind(template.0)
        .bind(user)
        .bind(rows_max)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("count a template's coupons"))?;
    // A union guarantees no order.
    rows.sort_unstable_by_key(|(user, number, ..)| (*user, *number));
    let most = usize::try_from(rows_max).unwrap_or(usize::MAX);
    rows.truncate(most);
    for (_, _, status, valid_until) in &rows {
        counts.count(CouponStatus::try_from(*status).ok(), *valid_until, now);
    }
    let last = rows.last().filter(|_| rows.len() == most);
    Ok(last.map(|(user, number, ..)| CountedTo { user: *user, number: *number }))
}

/// First the rest of the last user's coupons, then those of the following users.
const PIECE_SQL: &str = "\
    (select user_id, claim_no, status, valid_until from user_coupon force index (uq_number) \
     where template_id = ? and user_id = ? and claim_no > ? order by claim_no limit ?) \
    union all \
    (select user_id, claim_no, status, valid_until from user_coupon force index (uq_number) \
     where template_id = ? and user_id > ? order by user_id, claim_no limit ?)";
