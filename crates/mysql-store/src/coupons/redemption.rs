//! `redemption`: what coupons were redeemed for. Rows are only added: a redemption, and at most one rollback that ends
//! it. A redemption *stands* while no rollback undoes it. Both are written in the transaction that changes the coupon.

use chrono::{DateTime, Utc};
use coupon::{CouponId, RedemptionId, TemplateId, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection};

use crate::{
    StoreError,
    coupons::{redemption_order::OrderName, user_coupon::UserCoupon},
    datetime::{NullableTime, datetime},
    rows,
};

/// Code of a redemption.
pub(crate) const REDEEM: i8 = 1;
/// Code of a rollback.
pub(crate) const ROLLBACK: i8 = 2;

/// Most redemptions of one order that are read at once. A checkout's order has at most a fiftieth of them; single uses
/// of many users under one name may be more.
pub const OF_ORDER_MAX: u32 = 1_000;

/// Actor of a redemption by a shopper's own token, at a till. Such a redemption belongs to no order of the shop's
/// checkout, since the shopper chose the order's name.
pub const USER: &str = "user";

/// Money of a coupon's redemption, in minor units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    /// The order's amount before any discount.
    pub amount: i64,
    /// What this coupon took off.
    pub discount: i64,
    /// ISO 4217 code.
    pub currency: String,
}

/// A redemption to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// Rises with time, and within an order in the order of application.
    pub id: RedemptionId,
    pub coupon: &'a UserCoupon,
    pub order_ref: &'a str,
    /// `None`: the caller did not say what the order costs.
    pub money: Option<&'a Money>,
    /// `platform` or `key:ID`; [`USER`].
    pub actor: &'a str,
    pub at: DateTime<Utc>,
}

/// A recorded redemption, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redemption {
    pub id: RedemptionId,
    pub coupon_id: CouponId,
    pub template_id: TemplateId,
    pub user_id: UserId,
    /// `None`: the caller did not say what the order costs.
    pub money: Option<Money>,
    pub at: DateTime<Utc>,
    /// `None`: it stands.
    pub rolled_back: Option<RolledBack>,
}

/// The end of a redemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    pub at: DateTime<Utc>,
    /// `None`: no reason was given.
    pub reason: Option<String>,
}

/// How many redemptions an order has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct OrderCounts {
    /// All of them, standing or not.
    pub made: i64,
    /// Those that stand.
    pub standing: i64,
}

/// Records a redemption, in the transaction that uses the coupon.
pub async fn add(transaction: &mut MySqlConnection, new: New<'_>) -> Result<(), StoreError> {
    add_all(transaction, &[new]).await
}

/// Records redemptions, in the transaction that uses the coupons.
pub async fn add_all(transaction: &mut MySqlConnection, all: &[New<'_>]) -> Result<(), StoreError> {
    for run in rows::runs(all) {
        let sql = rows::repeat(
            "insert into redemption (id, kind, merchant_id, order_ref, coupon_id, template_id, user_id, \
             amount, discount, currency, actor, created_at) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ", ",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for New { id, coupon, order_ref, money, actor, at } in run {
            query = query
                .bind(id.0)
                .bind(REDEEM)
                .bind(coupon.merchant_id.0)
                .bind(order_ref.as_bytes())
                .bind(coupon.id.0)
                .bind(coupon.template_id.0)
                .bind(coupon.user_id.0)
                .bind(money.map(|money| money.amount))
                .bind(money.map(|money| money.discount))
                .bind(money.map(|money| money.currency.as_str()))
                .bind(*actor)
                .bind(datetime(*at));
        }
        let done = query.execute(&mut *transaction).await;
        done.map_err(StoreError::query("record redemptions"))?;
    }
    Ok(())
}

/// Ends a coupon's standing redemption for an order, in the transaction that gives the coupon back. Does nothing if none
/// stands: the coupon was not used for the order, or before redemptions were recorded.
pub async fn roll_back(
    transaction: &mut MySqlConnection,
    id: RedemptionId,
    coupon: CouponId,
    order_ref: &str,
    actor: &str,
    reason: Option<&str>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into redemption (id, kind, undoes, merchant_id, order_ref, coupon_id, template_id, \
         user_id, amount, discount, currency, actor, reason, created_at) \
         select ?, ?, made.id, made.merchant_id, made.order_ref, made.coupon_id, made.template_id, \
         made.user_id, made.amount, made.discount, made.currency, ?, ?, ? from redemption made \
         left join redemption undone on undone.undoes = made.id \
         where made.coupon_id = ? and made.order_ref = ? and made.kind = ? and undone.id is null \
         order by made.id desc limit 1",
    )
    .bind(id.0)
    .bind(ROLLBACK)
    .bind(actor)
    .bind(reason)
    .bind(datetime(now))
    .bind(coupon.0)
    .bind(order_ref.as_bytes())
    .bind(REDEEM)
    .execute(transaction)
    .await
    .map_err(StoreError::query("record a rollback"))?;
    Ok(())
}

#[derive(FromRow)]
struct Row {
    id: i64,
    coupon_id: i64,
    template_id: i64,
    user_id: i64,
    amount: Option<i64>,
    discount: Option<i64>,
    currency: Option<String>,
    created_at: DateTime<Utc>,
    #[sqlx(try_from = "NullableTime")]
    undone_at: Option<DateTime<Utc>>,
    reason: Option<String>,
}

/// Query for an order's redemptions, each with its rollback.
const COLUMNS: &str = "select made.id, made.coupon_id, made.template_id, made.user_id, made.amount, made.discount, \
     made.currency, made.created_at, undone.created_at as undone_at, undone.reason \
     from redemption made left join redemption undone on undone.undoes = made.id \
     where made.merchant_id = ? and made.order_ref = ? and made.kind = ? and made.actor <> ?";

/// Returns the first [`OF_ORDER_MAX`] redemptions of an order of a shop's checkout, in the order in which they were
/// made. Those at a till are left out.
pub async fn of_order(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
) -> Result<Vec<Redemption>, StoreError> {
    let sql = format!("{COLUMNS} order by made.id limit {OF_ORDER_MAX}");
    read(connection, name, sql, &[]).await
}

/// Returns what one request redeemed together for an order, without single uses under its name.
pub async fn together(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    user: UserId,
) -> Result<Vec<Redemption>, StoreError> {
    let sql = format!(
        "{COLUMNS} and made.user_id = {user} and made.amount is not null order by made.id \
         limit {OF_ORDER_MAX}"
    );
    read(connection, name, sql, &[]).await
}

/// Returns the first [`OF_ORDER_MAX`] of an order's redemptions that stand.
pub async fn standing(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
) -> Result<Vec<Redemption>, StoreError> {
    let sql = format!("{COLUMNS} and undone.id is null order by made.id limit {OF_ORDER_MAX}");
    read(connection, name, sql, &[]).await
}

/// Returns an order's redemptions of these coupons, however many others it has.
pub async fn of_coupons(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    coupons: &[CouponId],
) -> Result<Vec<Redemption>, StoreError> {
    if coupons.is_empty() {
        return Ok(Vec::new());
    }
    let filled = rows::filled(coupons);
    let head = format!("{COLUMNS} and made.coupon_id in (");
    let sql = rows::repeat(&head, "?", ", ", filled.len(), ") order by made.id");
    read(connection, name, sql, &filled).await
}

async fn read(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    sql: String,
    coupons: &[CouponId],
) -> Result<Vec<Redemption>, StoreError> {
    let query = sqlx::query_as(AssertSqlSafe(sql))
        .bind(name.merchant_id.0)
        .bind(name.order_ref.as_bytes())
        .bind(REDEEM)
        .bind(USER);
    let rows: Vec<Row> = coupons
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read an order's redemptions"))?;
    Ok(rows.into_iter().map(Redemption::from).collect())
}

/// Returns whether a redemption of an order of a shop's checkout stands.
pub async fn stands(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
) -> Result<bool, StoreError> {
    let sql = format!("{COLUMNS} and undone.id is null limit 1");
    Ok(!read(connection, name, sql, &[]).await?.is_empty())
}

/// Counts the redemptions of an order of a shop's checkout.
pub async fn count(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
) -> Result<OrderCounts, StoreError> {
    sqlx::query_as(
        "select count(*) as made, cast(coalesce(sum(undone.id is null), 0) as signed) as standing \
         from redemption made left join redemption undone on undone.undoes = made.id \
         where made.merchant_id = ? and made.order_ref = ? and made.kind = ? and made.actor <> ?",
    )
    .bind(name.merchant_id.0)
    .bind(name.order_ref.as_bytes())
    .bind(REDEEM)
    .bind(USER)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count an order's redemptions"))
}

/// Returns whether an order of a shop's checkout has redeemed this coupon and given it back. The coupon's row records
/// only the last such order.
pub async fn was_given_back(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    coupon: CouponId,
) -> Result<bool, StoreError> {
    let made = of_coupons(connection, name, &[coupon]).await?;
    Ok(made.iter().any(|one| one.rolled_back.is_some()))
}

/// Returns the actor of a coupon's standing redemption for an order. `None` if none stands: the coupon is not used for
/// the order, or was before redemptions were recorded.
pub async fn made_by(
    connection: &mut MySqlConnection,
    coupon: CouponId,
    order_ref: &str,
) -> Result<Option<String>, StoreError> {
    sqlx::query_scalar(
        "select made.actor from redemption made left join redemption undone on undone.undoes = made.id \
         where made.coupon_id = ? and made.order_ref = ? and made.kind = ? and undone.id is null \
         order by made.id desc limit 1",
    )
    .bind(coupon.0)
    .bind(order_ref.as_bytes())
    .bind(REDEEM)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read who redeemed a coupon"))
}

/// Returns the user's other coupons whose redemptions for an order of a shop's checkout stand.
pub async fn beside(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    coupon: &UserCoupon,
) -> Result<Vec<CouponId>, StoreError> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "select made.coupon_id from redemption made \
         left join redemption undone on undone.undoes = made.id \
         where made.merchant_id = ? and made.order_ref = ? and made.user_id = ? and made.kind = ? \
         and made.actor <> ? and made.coupon_id <> ? and undone.id is null limit ?",
    )
    .bind(name.merchant_id.0)
    .bind(name.order_ref.as_bytes())
    .bind(coupon.user_id.0)
    .bind(REDEEM)
    .bind(USER)
    .bind(coupon.id.0)
    .bind(OF_ORDER_MAX)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read an order's other coupons"))?;
    Ok(ids.into_iter().map(CouponId).collect())
}

impl From<Row> for Redemption {
    fn from(row: Row) -> Self {
        let money = match (row.amount, row.discount, row.currency) {
            (Some(amount), Some(discount), Some(currency)) => {
                Some(Money { amount, discount, currency })
            }
            _ => None,
        };
        Self {
            id: RedemptionId(row.id),
            coupon_id: CouponId(row.coupon_id),
            template_id: TemplateId(row.template_id),
            user_id: UserId(row.user_id),
            money,
            at: row.created_at,
            rolled_back: row.undone_at.map(|at| RolledBack { at, reason: row.reason }),
        }
    }
}
