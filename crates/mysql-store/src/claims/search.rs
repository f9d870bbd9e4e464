//! A merchant's coupons by order, user, template or status, in pages.
//!
//! Each page follows one index and reads a bounded number of rows, whatever the filters. The caller filters a page's
//! rows, so a page may be short although more follow.

use coupon::{ClaimId, CouponId, MerchantId, TemplateId, UserId};
use sqlx::{FromRow, MySqlConnection, Row as _, mysql::MySqlRow};

use super::look_up;
use crate::{
    StoreError,
    coupons::user_coupon::UserCoupon,
    listed::{Listed, listed},
};

/// Most rows read for one page: some hundred kilobytes, and a few milliseconds of the server.
pub const ROWS_MAX: u32 = 1_000;

/// The index that a search follows, with its first columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along<'a> {
    /// The coupons of an order, the newest first: those that it uses, and those that it was the last to give back.
    Order(&'a str),
    /// A user's coupons, the newest first.
    User(UserId),
    /// A template's coupons, by user and number; of one user only, if named.
    Template(TemplateId, Option<UserId>),
}

/// Position of a coupon in any of these orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub user: UserId,
    /// The coupon's number, [`UserCoupon::claim_no`].
    pub number: i64,
    pub id: CouponId,
}

impl Position {
    /// Position of the coupon.
    pub fn of(coupon: &UserCoupon) -> Self {
        Self { user: coupon.user_id, number: coupon.claim_no, id: coupon.id }
    }

    fn of_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let id = CouponId(row.try_get("id")?);
        Ok(Self { user: UserId(row.try_get("user_id")?), number: row.try_get("claim_no")?, id })
    }
}

/// Returns the next coupons of a merchant behind a position, at most `limit` and [`ROWS_MAX`]. Without `behind`, starts
/// at the beginning. Names those that cannot be read.
pub async fn page(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    along: Along<'_>,
    behind: Option<Position>,
    limit: u32,
) -> Result<Vec<Found>, StoreError> {
    let limit = limit.min(ROWS_MAX);
    match along {
        Along::Order(order_ref) => of_order(connection, merchant, order_ref, behind, limit).await,
        Along::User(user) => {
            let before = behind.map(|behind| behind.id);
            let found = look_up::coupons_of(connection, merchant, user, before, limit).await?;
            let at = |one| match one {
                Listed::Row(coupon) => Listed::Row(coupon),
                // A user's coupons are ordered by their ids alone.
                Listed::Unreadable(id) => Listed::Unreadable(Position { user, number: 0, id }),
            };
            Ok(found.into_iter().map(at).collect())
        }
        Along::Template(template, user) => {
            of_template(connection, merchant, template, user, behind, limit).await
        }
    }
}

/// Whose a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct FoundClaim {
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
}

/// Returns whose a claim of a merchant is. It must have a row: it landed, was rejected or was given up.
pub async fn claim_of(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    id: ClaimId,
) -> Result<Option<FoundClaim>, StoreError> {
    sqlx::query_as(
        "select claim.template_id, claim.user_id from claim force index (uq_claim_id) \
         straight_join coupon_template template on template.id = claim.template_id \
         where claim.id = ? and template.merchant_id = ?",
    )
    .bind(id.0)
    .bind(merchant.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("find a claim"))
}

/// A coupon, or the position of one that cannot be read.
pub type Found = Listed<UserCoupon, Position>;

/// The column's collation also matches other texts, e.g. in another case, so the bytes are compared too.
async fn of_order(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    order_ref: &str,
    behind: Option<Position>,
    limit: u32,
) -> Result<Vec<Found>, StoreError> {
    sqlx::query(
        "select * from user_coupon force index (ix_order) \
         where merchant_id = ? and order_ref = ? and id < ? \
         and cast(order_ref as binary) = cast(? as binary) order by id desc limit ?",
    )
    .bind(merchant.0)
    .bind(order_ref)
    .bind(behind.map_or(i64::MAX, |behind| behind.id.0))
    .bind(order_ref)
    .bind(limit)
    .fetch_all(connection)
    .await
    .and_then(|rows| listed(&rows, UserCoupon::from_row, Position::of_row))
    .map_err(StoreError::query("look for an order's coupons"))
}

/// First the rest of the last user's, then those of the following users: one comparison of both columns would not be a
/// bounded read of the index.
async fn of_template(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    template: TemplateId,
    user: Option<UserId>,
    behind: Option<Position>,
    limit: u32,
) -> Result<Vec<Found>, StoreError> {
    let after = behind.map_or((user.map_or(-1, |user| user.0), i64::MIN), |behind| {
        (behind.user.0, behind.number)
    });
    // Beyond every user, if only one is asked for.
    let others = if user.is_some() { i64::MAX } else { after.0 };
    let mut rows: Vec<Found> = sqlx::query(
        "(select * from user_coupon force index (uq_number) where template_id = ? and user_id = ? \
          and claim_no > ? and merchant_id = ? order by claim_no limit ?) union all \
         (select * from user_coupon force index (uq_number) where template_id = ? and user_id > ? \
          and merchant_id = ? order by user_id, claim_no limit ?)",
    )
    .bind(template.0)
    .bind(after.0)
    .bind(after.1)
    .bind(merchant.0)
    .bind(limit)
    .bind(template.0)
    .bind(others)
    .bind(merchant.0)
    .bind(limit)
    .fetch_all(connection)
    .await
    .and_then(|rows| listed(&rows, UserCoupon::from_row, Position::of_row))
    .map_err(StoreError::query("look for a template's coupons"))?;
    // A union guarantees no order.
    rows.sort_unstable_by_key(|row| {
        let Position { user, number, .. } = row.position(Position::of);
        (user, number)
    });
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}
