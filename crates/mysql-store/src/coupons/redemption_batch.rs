//! Redemptions of many orders in one transaction, each statement for all of them. The caller locks and checks the
//! coupons, and rolls back if a statement changes fewer rows than it names: then each order is redeemed alone.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, MerchantId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{
    StoreError,
    coupons::redemption_order::{OrderName, Redeemed},
    datetime::datetime,
    rows,
};

/// Returns those of a merchant's orders that have a row, or redemptions from before orders had rows. Locks nothing.
pub async fn known_orders(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    order_refs: &[&str],
) -> Result<Vec<String>, StoreError> {
    let filled = rows::filled(order_refs);
    if filled.is_empty() {
        return Ok(Vec::new());
    }
    let head = "select order_ref from redemption_order where merchant_id = ? and order_ref in (";
    let with_rows = rows::repeat(head, "?", ", ", filled.len(), ")");
    // One row of each name: many users may share one.
    let one = "(select order_ref from redemption where merchant_id = ? and order_ref = ? limit 1)";
    let redeemed = rows::repeat("", one, " union all ", filled.len(), "");
    let sql = format!("{with_rows} union {redeemed}");
    let mut query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(merchant.0);
    query = filled.iter().fold(query, |query, order_ref| query.bind(order_ref.as_bytes()));
    for order_ref in &filled {
        query = query.bind(merchant.0).bind(order_ref.as_bytes());
    }
    let known: Vec<Vec<u8>> = query
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read which orders are known"))?;
    Ok(known.into_iter().map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
}

/// Uses coupons whose rows are locked, each for its order, if they are unused, and valid by the caller's clock and the
/// server's. Returns how many.
pub async fn use_all(
    transaction: &mut MySqlConnection,
    uses: &[(CouponId, &str)],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut used = 0;
    for run in rows::runs(uses) {
        let orders = rows::repeat("case id ", "when ? then ?", " ", run.len(), " end");
        let head = format!(
            "update user_coupon force index (primary) set status = ?, version = version + 1, \
             changed_at = ?, used_at = ?, order_ref = {orders} where status = ? and valid_from <= ? \
             and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3)) and id in ("
        );
        let mut query = sqlx::query(AssertSqlSafe(rows::repeat(&head, "?", ", ", run.len(), ")")))
            .bind(CouponStatus::Used.code())
            .bind(datetime(now))
            .bind(datetime(now));
        for (coupon, order_ref) in run {
            query = query.bind(coupon.0).bind(*order_ref);
        }
        query = query.bind(CouponStatus::Unused.code()).bind(datetime(now)).bind(datetime(now));
        query = run.iter().fold(query, |query, (coupon, _)| query.bind(coupon.0));
        let done = query.execute(&mut *transaction).await;
        used += done.map_err(StoreError::query("use the coupons of orders"))?.rows_affected();
    }
    Ok(used)
}

/// Lifts the locks on coupons whose rows are locked, whichever orders placed them.
pub async fn unlock_all(
    transaction: &mut MySqlConnection,
    coupons: &[CouponId],
) -> Result<(), StoreError> {
    if coupons.is_empty() {
        return Ok(());
    }
    let filled = rows::filled(coupons);
    let sql =
        rows::repeat("delete from coupon_lock where coupon_id in (", "?", ", ", filled.len(), ")");
    let query = filled.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(id.0));
    query.execute(transaction).await.map_err(StoreError::query("lift the locks of coupons"))?;
    Ok(())
}

/// Creates the rows of new orders with what they redeemed, as the last of the transaction's changes. `orders` must be
/// sorted by name, so that two transactions with the same orders wait for each other in one order. Returns false if one
/// of them has a row by now: roll back.
pub async fn add_orders(
    transaction: &mut MySqlConnection,
    orders: &[(OrderName<'_>, &Redeemed)],
) -> Result<bool, StoreError> {
    for run in rows::runs(orders) {
        let sql = rows::repeat(
            "insert into redemption_order (merchant_id, order_ref, digest, user_id, amount, currency, \
             redeemed_at, created_at) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?)",
            ", ",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (name, redeemed) in run {
            query = query
                .bind(name.merchant_id.0)
                .bind(name.order_ref.as_bytes())
                .bind(redeemed.digest.as_slice())
                .bind(redeemed.user_id.0)
                .bind(redeemed.amount)
                .bind(&redeemed.currency)
                .bind(datetime(redeemed.at))
                .bind(datetime(redeemed.at));
        }
        let added = query.execute(&mut *transaction).await.map_err(StoreError::query("add orders"));
        match added {
            Ok(_) => {}
            Err(error) if error.duplicate_key().is_some() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
