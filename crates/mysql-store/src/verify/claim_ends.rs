//! Reads the ends of claims that were accepted.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, RejectReason};
use sqlx::{MySqlConnection, QueryBuilder};

use crate::{StoreError, code::Code, datetime::NullableTime};

/// Claims in one statement.
const IDS_MAX: usize = 1_000;

/// The row of a claim, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimEnd {
    pub state: ClaimState,
    /// Only of a rejected claim.
    pub reason: Option<RejectReason>,
    /// Number of coupons, requested ones for a rejected claim; 0 for a fence.
    pub quantity: u32,
    /// When the gate admitted it, if the row says so.
    pub admitted_at: Option<DateTime<Utc>>,
    /// Stock left at the gate after this admission, if the row says so.
    pub left_after: Option<i64>,
}

/// Returns the rows of these claims. One without a row is left out: it is under way, or came too late.
///
/// # Errors
/// A statement fails.
pub async fn ends_of(
    connection: &mut MySqlConnection,
    ids: &[ClaimId],
) -> Result<HashMap<ClaimId, ClaimEnd>, StoreError> {
    let mut ends = HashMap::with_capacity(ids.len());
    for chunk in ids.chunks(IDS_MAX) {
        let mut query = QueryBuilder::new(
            "select id, state, reason, quantity, admitted_at, left_after from claim where id in (",
        );
        let mut list = query.separated(", ");
        for id in chunk {
            list.push_bind(id.0);
        }
        query.push(")");
        let rows = query
            .build_query_as::<(i64, Code, Option<Code>, i32, NullableTime, Option<i64>)>()
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the ends of claims"))?;
        for (id, state, reason, quantity, admitted_at, left_after) in rows {
            let end = ClaimEnd {
                state: ClaimState::try_from(state)?,
                reason: reason.map(RejectReason::try_from).transpose()?,
                quantity: quantity.unsigned_abs(),
                admitted_at: admitted_at.into(),
                left_after,
            };
            ends.insert(ClaimId(id), end);
        }
    }
    Ok(ends)
}
