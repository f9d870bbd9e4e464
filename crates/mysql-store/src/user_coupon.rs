//! `user_coupon`: one coupon of one user. Pages and view rebuilds are in [`crate::user_view`].

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, MerchantId, TemplateId, UserId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{StoreError, datetime::datetime, template::code_of};

/// A coupon's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCoupon {
    /// Its id.
    pub id: CouponId,
    /// Of which template.
    pub template_id: TemplateId,
    /// Whose.
    pub user_id: UserId,
    /// Which of the user's numbers; its own id where the template has no limit.
    pub claim_no: i64,
    /// The claim that made it.
    pub claim_id: ClaimId,
    /// The template's owner.
    pub merchant_id: MerchantId,
    /// As written; [`CouponStatus::at`] says what it is now.
    pub status: CouponStatus,
    /// Rises by one with every change.
    pub version: i64,
    /// Its user's id modulo 64.
    pub expiry_shard: u8,
    /// When it was claimed.
    pub claimed_at: DateTime<Utc>,
    /// When its row last changed.
    pub changed_at: DateTime<Utc>,
    /// From when it is valid.
    pub valid_from: DateTime<Utc>,
    /// Until when, exclusive.
    pub valid_until: DateTime<Utc>,
    /// When it was used.
    pub used_at: Option<DateTime<Utc>>,
    /// The order it was used for; of one that is not used, the last order that gave it back.
    pub order_ref: Option<String>,
    /// W3C traceparent of its claim.
    pub trace_parent: Option<String>,
}

/// How an attempt to use a coupon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// It is used for this order now.
    Used(UserCoupon),
    /// An earlier identical call had used it for this order.
    Replayed(UserCoupon),
    /// It was used for another order.
    UsedElsewhere(UserCoupon),
    /// This order gave it back: a use that comes late must not take it again.
    GivenBack(UserCoupon),
    /// Its validity has ended.
    Expired(UserCoupon),
    /// Its validity has not begun.
    NotYetValid(UserCoupon),
    /// The user has no such coupon.
    NotFound,
}

/// How an attempt to give a coupon back ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unuse {
    /// This order does not use it now, and cannot any more.
    GivenBack(UserCoupon),
    /// The same since an earlier identical call.
    Replayed(UserCoupon),
    /// It was used for another order.
    UsedElsewhere(UserCoupon),
    /// Its validity has ended: it stays as it is.
    Expired(UserCoupon),
    /// The user has no such coupon.
    NotFound,
}

/// How often a change of a coupon is tried against others that undo each other's reason to refuse it. Each try that
/// is refused and then finds nothing in its way has seen two more changes of one coupon.
const TRIES_MAX: u32 = 16;

/// A user's coupon.
///
/// # Errors
/// The statement fails.
pub async fn get(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    let sql = "select * from user_coupon where id = ? and user_id = ?";
    let row = find(connection, sql, user, id).await?;
    row.map(|row| from_row(&row)).transpose()
}

/// A user's coupon, which nobody else changes until the transaction ends.
///
/// # Errors
/// The statement fails.
pub async fn hold(
    transaction: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    let sql = "select * from user_coupon where id = ? and user_id = ? for update";
    let row = find(transaction, sql, user, id).await?;
    row.map(|row| from_row(&row)).transpose()
}

async fn find(
    connection: &mut MySqlConnection,
    sql: &'static str,
    user: UserId,
    id: CouponId,
) -> Result<Option<MySqlRow>, StoreError> {
    let query = sqlx::query(sql).bind(id.0).bind(user.0);
    query.fetch_optional(connection).await.map_err(StoreError::query("read the coupon"))
}

/// A user's coupon and the server's clock, of one moment.
async fn get_by_clock(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<(UserCoupon, DateTime<Utc>)>, StoreError> {
    let sql =
        "select *, utc_timestamp(3) as server_now from user_coupon where id = ? and user_id = ?";
    let Some(row) = find(connection, sql, user, id).await? else { return Ok(None) };
    let now = row.try_get("server_now").map_err(StoreError::query("read the server's clock"))?;
    Ok(Some((from_row(&row)?, now)))
}

/// Uses a coupon for an order; the same order again is the same answer.
///
/// The law of expiry binds by both clocks: the caller's and the server's. A refusal is made of one reading of the row:
/// where that shows nothing in the way any more, the coupon is tried again.
///
/// # Errors
/// A statement fails; then it is unknown whether the coupon is used, and the same call finds out.
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

/// By the primary key, as every writer locks: by an index of the user's coupons it could deadlock with another.
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

/// Why a coupon in this state cannot be used for this order; absent: nothing stands in the way.
fn refused_use(
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
    }
}

/// Gives a coupon back that was used for an order which is cancelled; the same order again is the same
/// answer. By both clocks it must still be valid: what has expired stays used.
///
/// The order is remembered in the row, also where it has not used the coupon: its use may still be on
/// the way, and must not come true after its cancellation. A later order that does the same replaces it.
///
/// # Errors
/// A statement fails; then it is unknown whether it is given back, and the same call finds out.
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
    // Bytes are compared: the column's collation takes upper for lower case.
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

/// Why a coupon in this state is not given back by this order, at the later of both clocks; absent: nothing stands
/// in the way.
fn refused_unuse(coupon: UserCoupon, order_ref: &str, now: DateTime<Utc>) -> Option<Unuse> {
    let same_order = coupon.order_ref.as_deref() == Some(order_ref);
    let over = coupon.valid_until <= now;
    match coupon.status {
        CouponStatus::Used if !same_order => Some(Unuse::UsedElsewhere(coupon)),
        CouponStatus::Unused | CouponStatus::Expired if same_order => Some(Unuse::Replayed(coupon)),
        CouponStatus::Used | CouponStatus::Unused if !over => None,
        CouponStatus::Used | CouponStatus::Unused | CouponStatus::Expired => {
            Some(Unuse::Expired(coupon))
        }
    }
}

/// Whether the template of a user's coupon lets users redeem it themselves, and the coupon; absent: the user has none.
///
/// # Errors
/// A statement fails.
pub async fn with_self_redeem(
    connection: &mut MySqlConnection,
    user: UserId,
    id: CouponId,
) -> Result<Option<(UserCoupon, bool)>, StoreError> {
    let row = sqlx::query(
        "select coupon.*, template.self_redeem from user_coupon coupon \
         join coupon_template template on template.id = coupon.template_id \
         where coupon.id = ? and coupon.user_id = ?",
    )
    .bind(id.0)
    .bind(user.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the coupon and its template"))?;
    let Some(row) = row else { return Ok(None) };
    let may: i8 = row.try_get("self_redeem").map_err(StoreError::query("read the template"))?;
    Ok(Some((from_row(&row)?, may == 1)))
}

pub(crate) fn from_row(row: &MySqlRow) -> Result<UserCoupon, StoreError> {
    let status = CouponStatus::from_code(code_of(row, "status")?)
        .map_err(|error| StoreError::unreadable(error.to_string()))?;
    let read = || -> Result<_, sqlx::Error> {
        Ok(UserCoupon {
            id: CouponId(row.try_get("id")?),
            template_id: TemplateId(row.try_get("template_id")?),
            user_id: UserId(row.try_get("user_id")?),
            claim_no: row.try_get("claim_no")?,
            claim_id: ClaimId(row.try_get("claim_id")?),
            merchant_id: MerchantId(row.try_get("merchant_id")?),
            status,
            version: row.try_get("version")?,
            expiry_shard: row.try_get("expiry_shard")?,
            claimed_at: row.try_get("claimed_at")?,
            changed_at: row.try_get("changed_at")?,
            valid_from: row.try_get("valid_from")?,
            valid_until: row.try_get("valid_until")?,
            used_at: row.try_get("used_at")?,
            order_ref: row.try_get("order_ref")?,
            trace_parent: row.try_get("trace_parent")?,
        })
    };
    read().map_err(StoreError::query("read a coupon's row"))
}
