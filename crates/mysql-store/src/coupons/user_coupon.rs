//! `user_coupon`: one coupon of one user. Pages and view rebuilds are in [`crate::coupons::user_view`].

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, MerchantId, TemplateId, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, mysql::MySqlRow};

use crate::{
    StoreError,
    code::Code,
    datetime::{NullableTime, datetime},
    rows,
};

/// A coupon's row.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct UserCoupon {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
    /// The user's number for it; the coupon's own id if the template has no limit, or if it was
    /// returned or is a replacement.
    pub claim_no: i64,
    /// The claim that created it.
    #[sqlx(try_from = "i64")]
    pub claim_id: ClaimId,
    /// The template's owner.
    #[sqlx(try_from = "i64")]
    pub merchant_id: MerchantId,
    /// As stored; [`CouponStatus::at`] returns the current status.
    #[sqlx(try_from = "Code")]
    pub status: CouponStatus,
    /// Rises by one with each change.
    pub version: i64,
    /// Shard of the user ([`coupon::expiry_shard()`]), fixed when the coupon was issued.
    pub expiry_shard: u8,
    pub claimed_at: DateTime<Utc>,
    /// When the row last changed.
    pub changed_at: DateTime<Utc>,
    pub valid_from: DateTime<Utc>,
    /// Exclusive.
    pub valid_until: DateTime<Utc>,
    #[sqlx(try_from = "NullableTime")]
    pub used_at: Option<DateTime<Utc>>,
    /// The order it was used for; for a coupon that is not used, the last order that gave it back.
    pub order_ref: Option<String>,
    /// W3C traceparent of its claim.
    pub trace_parent: Option<String>,
    /// The number it was issued with, if it was returned. Since then its `claim_no` is its own id.
    pub issued_no: Option<i64>,
}

/// Result of using a coupon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// It is now used for this order.
    Used(UserCoupon),
    /// An earlier identical call used it for this order.
    Replayed(UserCoupon),
    /// It is used for another order.
    UsedElsewhere(UserCoupon),
    /// This order gave it back: a late use must not take it again.
    GivenBack(UserCoupon),
    /// Its validity has ended.
    Expired(UserCoupon),
    /// Its validity has not begun.
    NotYetValid(UserCoupon),
    /// It was cancelled.
    Cancelled(UserCoupon),
    /// It is held, and not confirmed yet.
    Held(UserCoupon),
    /// It was not confirmed in time.
    Lapsed(UserCoupon),
    /// The user has no such coupon.
    NotFound,
}

/// Result of giving a coupon back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unuse {
    /// This order does not use it now, and cannot use it any more.
    GivenBack(UserCoupon),
    /// An earlier identical call had the same effect.
    Replayed(UserCoupon),
    /// It is used for another order.
    UsedElsewhere(UserCoupon),
    /// Its validity has ended: it does not change.
    Expired(UserCoupon),
    /// It was cancelled: it does not change.
    Cancelled(UserCoupon),
    /// It is held, and not confirmed yet.
    Held(UserCoupon),
    /// It was not confirmed in time.
    Lapsed(UserCoupon),
    /// The user has no such coupon.
    NotFound,
}

/// Attempts to change a coupon against concurrent changes. A further attempt is needed only when the update found the
/// coupon unfit and the read after it found it fit, that is, after two more changes of the same coupon.
const TRIES_MAX: u32 = 16;

/// Returns a user's coupon.
pub async fn get(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    find(connection, "select * from user_coupon where id = ? and user_id = ?", user, id).await
}

/// Returns a user's coupon, locked until the transaction ends.
pub async fn hold(
    transaction: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    let sql = "select * from user_coupon where id = ? and user_id = ? for update";
    find(transaction, sql, user, id).await
}

async fn find<T>(
    connection: &mut MySqlConnection,
    sql: &'static str,
    user: UserId,
    id: CouponId,
) -> Result<Option<T>, StoreError>
where
    T: for<'r> FromRow<'r, MySqlRow> + Send + Unpin,
{
    let query = sqlx::query_as(sql).bind(id.0).bind(user.0);
    query.fetch_optional(connection).await.map_err(StoreError::query("read the coupon"))
}

#[derive(FromRow)]
struct ByClock {
    #[sqlx(flatten)]
    coupon: UserCoupon,
    server_now: DateTime<Utc>,
}

/// Returns a user's coupon and the server's time at the same moment.
async fn get_by_clock(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<(UserCoupon, DateTime<Utc>)>, StoreError> {
    let sql =
        "select *, utc_timestamp(3) as server_now from user_coupon where id = ? and user_id = ?";
    let row: Option<ByClock> = find(connection, sql, user, id).await?;
    Ok(row.map(|row| (row.coupon, row.server_now)))
}

/// Uses a coupon for an order. Idempotent for the same order.
///
/// The validity must not have ended by the caller's clock or the server's. A refusal is based on a single read of the
/// row. If that shows no reason to refuse any more, the use is tried again.
///
/// # Errors
/// A statement fails. Whether the coupon was used is unknown; the same call may be repeated.
pub async fn use_for_order(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
    order_ref: &str,
    now: DateTime<Utc>,
) -> Result<Use, StoreError> {
    for _ in 0..TRIES_MAX {
        let used = try_use(connection, user, id, order_ref, now).await?;
        let read = get_by_clock(connection, user, id).await?;
        let Some((coupon, server_now)) = read else { return Ok(Use::NotFound) };
        if used {
            return Ok(Use::Used(coupon));
        }
        if let Some(refused) = refused_use(coupon, order_ref, now, server_now) {
            return Ok(refused);
        }
    }
    Err(StoreError::Contended)
}

/// Locks by the primary key, like every writer: locking by an index of the user's coupons could deadlock.
async fn try_use(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
    order_ref: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let used = sqlx::query(
        "update user_coupon force index (primary) set status = ?, version = version + 1, changed_at = ?, used_at = ?, \
         order_ref = ? where id = ? and user_id = ? and status = ? and valid_from <= ? \
         and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3)) \
         and (order_ref is null or cast(order_ref as binary) <> cast(? as binary))",
    )
    .bind(CouponStatus::Used.code())
    .bind(datetime(now))
    .bind(datetime(now))
    .bind(order_ref)
    .bind(id.0)
    .bind(user.0)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .bind(datetime(now))
    .bind(order_ref)
    .execute(connection)
    .await
    .map_err(StoreError::query("use the coupon"))?;
    Ok(used.rows_affected() == 1)
}

/// Returns why a coupon in this state cannot be used for this order, or `None` if it can. `now` is by the caller's
/// clock, `server_now` by the server's.
pub fn refused_use(
    coupon: UserCoupon,
    order_ref: &str,
    now: DateTime<Utc>,
    server_now: DateTime<Utc>,
) -> Option<Use> {
    let same_order = coupon.order_ref.as_deref() == Some(order_ref);
    let over = coupon.valid_until <= now.max(server_now);
    match coupon.status {
        CouponStatus::Used if same_order => Some(Use::Replayed(coupon)),
        CouponStatus::Used => Some(Use::UsedElsewhere(coupon)),
        CouponStatus::Unused if coupon.valid_from > now => Some(Use::NotYetValid(coupon)),
        CouponStatus::Unused if same_order => Some(Use::GivenBack(coupon)),
        CouponStatus::Unused if !over => None,
        CouponStatus::Unused | CouponStatus::Expired => Some(Use::Expired(coupon)),
        CouponStatus::Cancelled => Some(Use::Cancelled(coupon)),
        CouponStatus::Held if !over => Some(Use::Held(coupon)),
        CouponStatus::Held | CouponStatus::Lapsed => Some(Use::Lapsed(coupon)),
    }
}

/// Returns why a use of a user's coupon would be refused now, or [`Use::Replayed`]; `None` if it would be made. An empty
/// `order_ref` stands for an order that has no name yet. Changes nothing.
pub async fn refusal(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
    order_ref: &str,
    now: DateTime<Utc>,
) -> Result<Option<Use>, StoreError> {
    let read = get_by_clock(connection, user, id).await?;
    let Some((coupon, server_now)) = read else { return Ok(Some(Use::NotFound)) };
    Ok(refused_use(coupon, order_ref, now, server_now))
}

/// Gives back a coupon that was used for a cancelled order. Idempotent for the same order. The coupon must still be
/// valid by both clocks; after its end it stays used.
///
/// The row records the order even if it has not used the coupon: its use may still be on the way, and must not take
/// effect after the cancellation. A later order that is cancelled replaces it.
///
/// # Errors
/// A statement fails. Whether the coupon was given back is unknown; the same call may be repeated.
pub async fn unuse_for_order(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
    order_ref: &str,
    now: DateTime<Utc>,
) -> Result<Unuse, StoreError> {
    for _ in 0..TRIES_MAX {
        let given_back = try_unuse(connection, user, id, order_ref, now).await?;
        let read = get_by_clock(connection, user, id).await?;
        let Some((coupon, server_now)) = read else { return Ok(Unuse::NotFound) };
        if given_back {
            return Ok(Unuse::GivenBack(coupon));
        }
        if let Some(refused) = refused_unuse(coupon, order_ref, now.max(server_now)) {
            return Ok(refused);
        }
    }
    Err(StoreError::Contended)
}

async fn try_unuse(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
    order_ref: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // Compared as bytes, because the column's collation ignores case.
    let given_back = sqlx::query(
        "update user_coupon force index (primary) set status = ?, version = version + 1, changed_at = ?, used_at = null, \
         order_ref = ? where id = ? and user_id = ? and ( \
         (status = ? and cast(order_ref as binary) = cast(? as binary)) or (status = ? \
         and (order_ref is null or cast(order_ref as binary) <> cast(? as binary)))) \
         and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3))",
    )
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .bind(order_ref)
    .bind(id.0)
    .bind(user.0)
    .bind(CouponStatus::Used.code())
    .bind(order_ref)
    .bind(CouponStatus::Unused.code())
    .bind(order_ref)
    .bind(datetime(now))
    .execute(connection)
    .await
    .map_err(StoreError::query("give the coupon back"))?;
    Ok(given_back.rows_affected() == 1)
}

/// Returns why a coupon in this state is not given back by this order, or `None` if it can be. `now` is the later of
/// both clocks.
fn refused_unuse(coupon: UserCoupon, order_ref: &str, now: DateTime<Utc>) -> Option<Unuse> {
    let same_order = coupon.order_ref.as_deref() == Some(order_ref);
    let over = coupon.valid_until <= now;
    match coupon.status {
        CouponStatus::Used if !same_order => Some(Unuse::UsedElsewhere(coupon)),
        CouponStatus::Unused | CouponStatus::Expired | CouponStatus::Cancelled if same_order => {
            Some(Unuse::Replayed(coupon))
        }
        CouponStatus::Cancelled => Some(Unuse::Cancelled(coupon)),
        CouponStatus::Held if !over => Some(Unuse::Held(coupon)),
        CouponStatus::Held | CouponStatus::Lapsed => Some(Unuse::Lapsed(coupon)),
        CouponStatus::Used | CouponStatus::Unused if !over => None,
        CouponStatus::Used | CouponStatus::Unused | CouponStatus::Expired => {
            Some(Unuse::Expired(coupon))
        }
    }
}

/// Returns the versions of those of these coupons that there are.
pub async fn versions(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
) -> Result<HashMap<CouponId, i64>, StoreError> {
    let mut found = HashMap::new();
    for run in rows::runs(ids) {
        let head = "select id, version from user_coupon where id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ")");
        let query = sqlx::query_as(AssertSqlSafe(sql));
        let query = run.iter().fold(query, |query, id| query.bind(id.0));
        let rows: Vec<(i64, i64)> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the versions of coupons"))?;
        found.extend(rows.into_iter().map(|(id, version)| (CouponId(id), version)));
    }
    Ok(found)
}
