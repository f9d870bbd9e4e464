//! `redemption_order`: the orders that used coupons, together or singly, or were cancelled. The row is an order's lock,
//! so of two calls that exclude each other the second finds what the first did.
//!
//! A call locks the order's row first ([`hold`]) and then coupons, by id. Uses of single stackable coupons share the
//! lock, so many users may use one order's name. Before an order has a row there is nothing to lock: a call then
//! creates the row as the last of its changes ([`add`]), and of several such calls all but one begin again. Last, so
//! that a refusal leaves no row behind, and no call waits for a row that is rolled back: those that waited would keep
//! locks on its gap, and block each other.

use chrono::{DateTime, Utc};
use coupon::{MerchantId, UserId};
use sqlx::{FromRow, MySqlConnection};

use crate::{
    StoreError,
    datetime::{NullableTime, datetime},
};

/// SHA-256 of a request.
pub type Digest = [u8; 32];

/// An order, as one merchant names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderName<'a> {
    pub merchant_id: MerchantId,
    /// Compared byte by byte.
    pub order_ref: &'a str,
}

/// What was redeemed for an order by one request for all of its coupons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redeemed {
    /// Of the request.
    pub digest: Digest,
    pub user_id: UserId,
    /// The order before any discount, in minor units.
    pub amount: i64,
    /// ISO 4217 code.
    pub currency: String,
    pub at: DateTime<Utc>,
}

/// An order's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// `None`: no request redeemed several of its coupons together.
    pub redeemed: Option<Redeemed>,
    /// Since when it redeems nothing any more.
    pub cancelled_at: Option<DateTime<Utc>>,
}

/// Lock mode of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Exclusive.
    Alone,
    /// Together with other calls that hold it in this mode.
    Shared,
}

#[derive(FromRow)]
struct Row {
    digest: Option<Vec<u8>>,
    user_id: Option<i64>,
    amount: Option<i64>,
    currency: Option<String>,
    #[sqlx(try_from = "NullableTime")]
    redeemed_at: Option<DateTime<Utc>>,
    #[sqlx(try_from = "NullableTime")]
    cancelled_at: Option<DateTime<Utc>>,
}

const COLUMNS: &str = "select digest, user_id, amount, currency, redeemed_at, cancelled_at \
                       from redemption_order where merchant_id = ? and order_ref = ?";

/// Returns an order, locked until the transaction ends. If it has no row, nothing is locked.
///
/// # Errors
/// The statement fails, or another call for the order took too long ([`StoreError::is_conflict`]).
pub async fn hold(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    how: Hold,
) -> Result<Option<Order>, StoreError> {
    let lock = match how {
        Hold::Alone => " for update",
        // MariaDB does not know `for share`.
        Hold::Shared => " lock in share mode",
    };
    read(transaction, name, lock).await
}

/// Returns an order, or `None` if it has no row.
pub async fn find(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
) -> Result<Option<Order>, StoreError> {
    read(connection, name, "").await
}

async fn read(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    lock: &str,
) -> Result<Option<Order>, StoreError> {
    let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{COLUMNS}{lock}")))
        .bind(name.merchant_id.0)
        .bind(name.order_ref.as_bytes())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read an order"))?;
    row.map(Order::try_from).transpose()
}

/// Creates the row of an order that [`hold`] did not find, locked exclusively from then on. Returns false if another
/// call was faster: what this one has read may be outdated, so roll it back and begin again.
///
/// # Errors
/// The statement fails, or another call for the order took too long ([`StoreError::is_conflict`]).
pub async fn add(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let added = sqlx::query(
        "insert into redemption_order (merchant_id, order_ref, created_at) values (?, ?, ?)",
    )
    .bind(name.merchant_id.0)
    .bind(name.order_ref.as_bytes())
    .bind(datetime(now))
    .execute(transaction)
    .await
    .map_err(StoreError::query("add an order"));
    match added {
        Ok(_) => Ok(true),
        Err(error) if error.duplicate_key().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Records what one request redeemed for an order whose row is locked.
pub async fn record(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    redeemed: &Redeemed,
) -> Result<(), StoreError> {
    sqlx::query(
        "update redemption_order set digest = ?, user_id = ?, amount = ?, currency = ?, redeemed_at = ? \
         where merchant_id = ? and order_ref = ? and digest is null",
    )
    .bind(redeemed.digest.as_slice())
    .bind(redeemed.user_id.0)
    .bind(redeemed.amount)
    .bind(&redeemed.currency)
    .bind(datetime(redeemed.at))
    .bind(name.merchant_id.0)
    .bind(name.order_ref.as_bytes())
    .execute(transaction)
    .await
    .map_err(StoreError::query("record what an order redeemed"))?;
    Ok(())
}

/// Cancels an order whose row is locked. The first cancellation's time stays. Returns whether this is the first.
pub async fn cancel(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let cancelled = sqlx::query(
        "update redemption_order set cancelled_at = ? \
         where merchant_id = ? and order_ref = ? and cancelled_at is null",
    )
    .bind(datetime(now))
    .bind(name.merchant_id.0)
    .bind(name.order_ref.as_bytes())
    .execute(transaction)
    .await
    .map_err(StoreError::query("cancel an order"))?;
    Ok(cancelled.rows_affected() == 1)
}

impl TryFrom<Row> for Order {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let Row { digest, user_id, amount, currency, redeemed_at, cancelled_at } = row;
        let redeemed = match (digest, user_id, amount, currency, redeemed_at) {
            (None, ..) => None,
            (Some(digest), Some(user), Some(amount), Some(currency), Some(at)) => {
                let digest = digest.try_into().map_err(|_| {
                    StoreError::unreadable("an order whose digest has another length")
                })?;
                Some(Redeemed { digest, user_id: UserId(user), amount, currency, at })
            }
            _ => return Err(StoreError::unreadable("an order that was redeemed in part")),
        };
        Ok(Self { redeemed, cancelled_at })
    }
}
