//! Changes of single coupons by a support desk: revoke, extend, replace.
//!
//! Each is a guarded update of one row, like a use, so of a use, a flip and a revocation only the first succeeds. The
//! functions are called in a transaction together with the action's line of the audit record.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, MerchantId, MoveState, TemplateId, expiry_shard};
use sqlx::{FromRow, MySqlConnection};

use crate::{StoreError, confirmed_at, coupons::user_coupon::UserCoupon, datetime::datetime};

/// Result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It took effect now. The coupon as it is.
    Done(UserCoupon),
    /// An earlier identical call had the same effect. The coupon as it is.
    Stands(UserCoupon),
    /// An order uses it.
    Used(UserCoupon),
    /// Its validity has ended.
    Expired(UserCoupon),
    /// It was cancelled.
    Cancelled(UserCoupon),
    /// It is held, and not confirmed yet.
    Held(UserCoupon),
    /// It was not confirmed in time.
    Lapsed(UserCoupon),
    /// The requested end is not later than its present one.
    NotLater(UserCoupon),
    /// Issued coupons of its template are being moved to another validity, which could undo the change.
    Moving(UserCoupon),
}

/// Result of a replacement: what became of the coupon, and the one in its place, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    pub change: Change,
    pub replacement: Option<UserCoupon>,
}

#[derive(FromRow)]
struct ByClock {
    #[sqlx(flatten)]
    coupon: UserCoupon,
    server_now: DateTime<Utc>,
}

/// Returns a merchant's coupon.
pub async fn get(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    sqlx::query_as("select * from user_coupon where id = ? and merchant_id = ?")
        .bind(id.0)
        .bind(merchant.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the coupon"))
}

/// Returns a merchant's coupon, locked until the transaction ends.
pub async fn hold(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    sqlx::query_as("select * from user_coupon where id = ? and merchant_id = ? for update")
        .bind(id.0)
        .bind(merchant.0)
        .fetch_optional(transaction)
        .await
        .map_err(StoreError::query("hold the coupon"))
}

/// Revokes a coupon that [`hold`] has locked. It must be unused, and valid by the caller's clock and the server's.
///
/// # Errors
/// A statement fails. Roll back then.
pub async fn revoke(
    transaction: &mut MySqlConnection,
    held: &UserCoupon,
    now: DateTime<Utc>,
) -> Result<Change, StoreError> {
    let revoked = sqlx::query(
        "update user_coupon force index (primary) set status = ?, version = version + 1, changed_at = ? \
         where id = ? and status = ? and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3))",
    )
    .bind(CouponStatus::Cancelled.code())
    .bind(datetime(now))
    .bind(held.id.0)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("revoke the coupon"))?;
    let coupon = read_again(transaction, held.id).await?.coupon;
    Ok(match coupon.status {
        CouponStatus::Cancelled if revoked.rows_affected() == 1 => Change::Done(coupon),
        CouponStatus::Cancelled => Change::Stands(coupon),
        CouponStatus::Used => Change::Used(coupon),
        // The row is locked: if it is unused, only its end prevented the change.
        CouponStatus::Unused | CouponStatus::Expired => Change::Expired(coupon),
        CouponStatus::Held => Change::Held(coupon),
        CouponStatus::Lapsed => Change::Lapsed(coupon),
    })
}

/// Moves the end of a coupon that [`hold`] has locked to `valid_until`. It must be unused, valid by both clocks, and
/// end before `valid_until`.
///
/// Refused while the template's issued coupons are being moved to another validity: the move may not have reached this
/// coupon yet, and would overwrite the extension. A move that begins later wins.
///
/// # Errors
/// A statement fails. Roll back then.
pub async fn extend(
    transaction: &mut MySqlConnection,
    held: &UserCoupon,
    valid_until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Change, StoreError> {
    let changes = held.status == CouponStatus::Unused && held.valid_until != valid_until;
    if changes && is_moving(transaction, held.template_id).await? {
        return Ok(Change::Moving(held.clone()));
    }
    let extended = sqlx::query(
        "update user_coupon force index (primary) set valid_until = ?, version = version + 1, changed_at = ? \
         where id = ? and status = ? and valid_until < ? \
         and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3))",
    )
    .bind(datetime(valid_until))
    .bind(datetime(now))
    .bind(held.id.0)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(valid_until))
    .bind(datetime(now))
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("extend the coupon"))?;
    let ByClock { coupon, server_now } = read_again(transaction, held.id).await?;
    if extended.rows_affected() == 1 {
        return Ok(Change::Done(coupon));
    }
    Ok(match coupon.status {
        CouponStatus::Used => Change::Used(coupon),
        CouponStatus::Cancelled => Change::Cancelled(coupon),
        CouponStatus::Unused if coupon.valid_until > now.max(server_now) => {
            if coupon.valid_until == valid_until {
                Change::Stands(coupon)
            } else {
                Change::NotLater(coupon)
            }
        }
        CouponStatus::Unused | CouponStatus::Expired => Change::Expired(coupon),
        CouponStatus::Held => Change::Held(coupon),
        CouponStatus::Lapsed => Change::Lapsed(coupon),
    })
}

/// Revokes a coupon that [`hold`] has locked, and issues one with the id `new` in its place: of the same template, user
/// and claim, with the same validity and the same place on the user's list. Its number is its own id, beyond every limit.
/// It takes no stock. The keys of `coupon_replacement` allow one replacement of each coupon.
///
/// Refused while a move of the template's issued coupons is under way: a chunk that was read and is not written yet
/// would miss the replacement. The template's row is locked, so that no move begins meanwhile.
///
/// # Errors
/// A statement fails. Roll back then.
pub async fn replace(
    transaction: &mut MySqlConnection,
    held: &UserCoupon,
    new: CouponId,
    now: DateTime<Utc>,
) -> Result<Replaced, StoreError> {
    if held.status == CouponStatus::Unused {
        lock_template(transaction, held.template_id).await?;
        if is_moving(transaction, held.template_id).await? {
            return Ok(Replaced { change: Change::Moving(held.clone()), replacement: None });
        }
    }
    match revoke(transaction, held, now).await? {
        Change::Done(revoked) => {
            issue_instead(transaction, &revoked, new, now).await?;
            let replacement = Some(read_again(transaction, new).await?.coupon);
            Ok(Replaced { change: Change::Done(revoked), replacement })
        }
        Change::Stands(cancelled) => {
            let replacement = replacement_of(transaction, cancelled.id).await?;
            let change = match &replacement {
                Some(_) => Change::Stands(cancelled),
                None => Change::Cancelled(cancelled),
            };
            Ok(Replaced { change, replacement })
        }
        change => Ok(Replaced { change, replacement: None }),
    }
}

async fn issue_instead(
    transaction: &mut MySqlConnection,
    revoked: &UserCoupon,
    new: CouponId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, \
         version, expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
         values (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
    )
    .bind(new.0)
    .bind(revoked.template_id.0)
    .bind(revoked.user_id.0)
    .bind(new.0)
    .bind(revoked.claim_id.0)
    .bind(revoked.merchant_id.0)
    .bind(CouponStatus::Unused.code())
    .bind(expiry_shard(revoked.user_id))
    .bind(datetime(revoked.claimed_at))
    .bind(datetime(now))
    .bind(datetime(revoked.valid_from))
    .bind(datetime(revoked.valid_until))
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("issue a replacement"))?;
    let confirmed_at = confirmed_at::confirmed_at(transaction, revoked.id).await?;
    sqlx::query(
        "insert into coupon_replacement (coupon_id, replacement_id, template_id, created_at, \
         usable_since) values (?, ?, ?, ?, ?)",
    )
    .bind(revoked.id.0)
    .bind(new.0)
    .bind(revoked.template_id.0)
    .bind(datetime(now))
    .bind(confirmed_at.map(datetime))
    .execute(transaction)
    .await
    .map_err(StoreError::query("record a replacement"))?;
    Ok(())
}

/// Returns the coupon that replaces another one, if there is one.
pub async fn replacement_of(
    connection: &mut MySqlConnection,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    sqlx::query_as(
        "select coupon.* from coupon_replacement replaced \
         join user_coupon coupon on coupon.id = replaced.replacement_id where replaced.coupon_id = ?",
    )
    .bind(id.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read a replacement"))
}

/// Returns the coupon at the end of a coupon's chain of replacements, if its user can use it or has used it.
pub async fn last_replacement(
    connection: &mut MySqlConnection,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    let mut last = None;
    let mut next = replacement_of(connection, id).await?;
    // Each replacement was made by an operator's call, so a chain is short.
    while let Some(coupon) = next {
        next = replacement_of(connection, coupon.id).await?;
        last = Some(coupon);
    }
    let ends = [CouponStatus::Unused, CouponStatus::Used];
    Ok(last.filter(|coupon| ends.contains(&coupon.status)))
}

/// Returns the coupon that another one replaces, if it is a replacement.
pub async fn replaced_by(
    connection: &mut MySqlConnection,
    replacement: CouponId,
) -> Result<Option<CouponId>, StoreError> {
    let id: Option<i64> =
        sqlx::query_scalar("select coupon_id from coupon_replacement where replacement_id = ?")
            .bind(replacement.0)
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("read what a coupon replaces"))?;
    Ok(id.map(CouponId))
}

/// Locks the template until the transaction ends, so that no edit, and so no move of its coupons, begins.
async fn lock_template(
    transaction: &mut MySqlConnection,
    template: TemplateId,
) -> Result<(), StoreError> {
    sqlx::query("select id from coupon_template where id = ? for update")
        .bind(template.0)
        .fetch_optional(transaction)
        .await
        .map_err(StoreError::query("hold the template"))?;
    Ok(())
}

async fn is_moving(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(
        "select version from validity_move where template_id = ? and state = ? limit 1",
    )
    .bind(template.0)
    .bind(MoveState::UnderWay.code())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("look for a move of coupons"))?;
    Ok(found.is_some())
}

/// Reads a locked coupon, and the server's time.
async fn read_again(connection: &mut MySqlConnection, id: CouponId) -> Result<ByClock, StoreError> {
    sqlx::query_as("select *, utc_timestamp(3) as server_now from user_coupon where id = ?")
        .bind(id.0)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read the coupon"))
}
