//! Decides whether an order may redeem coupons. The redemption and the look before it ([`super::validation`]) ask the same
//! functions in the same order, so both say the same:
//!
//! 1. each coupon is the shop's and the user's ([`checkout::lock_rows`], or a look without locks);
//! 2. the order may redeem, or has redeemed just this ([`order`]);
//! 3. each coupon may be used for it, no other order keeps one of them, and they fit what it costs ([`coupons`]).
//!
//! So a refusal of the order, which no other coupon would change, comes before one of a coupon.

use chrono::{DateTime, Utc};
use coupon::{
    CouponId, CouponStatus, UserId,
    money::{self, Applied, Offer, Spend},
};
use mysql_store::{
    MySqlConnection, checkout as store, desk,
    redemption::{self, Redemption},
    redemption_order::{Digest, Order, OrderName, Redeemed},
    user_coupon::{Use, refused_use},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    auth::Operator,
    code::Code,
    problem::Problem,
    routes::{
        bodies::coupon_json,
        shop::{
            checkout::{self, LockedRow},
            redemption::done,
        },
    },
};

/// What is asked of an order.
pub(crate) struct OrderRedemption<'a> {
    /// `None`: the order has no name yet. It can only be looked at.
    pub(crate) order_ref: Option<&'a str>,
    /// `None`: any user who has all of the coupons.
    pub(crate) user: Option<UserId>,
    pub(crate) spend: Spend<'a>,
    /// By id, each once.
    pub(crate) coupons: Vec<CouponId>,
}

/// What an order has redeemed.
pub(crate) struct Replay {
    pub(crate) redeemed: Redeemed,
    /// In the order of application.
    pub(crate) redemptions: Vec<Redemption>,
}

/// The time of a judgement.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    /// By the caller's clock.
    pub(crate) here: DateTime<Utc>,
    /// By the database server's.
    pub(crate) server: DateTime<Utc>,
}

impl OrderRedemption<'_> {
    /// Identifies what is asked of the order.
    pub(crate) fn digest(&self) -> Digest {
        let asked = json!([self.spend.amount, self.spend.currency, self.coupons]);
        Sha256::digest(asked.to_string()).into()
    }
}

/// Returns what an order has redeemed, if it is just what is asked, or `None` if it may redeem.
///
/// # Errors
/// It may not. If one of the coupons is not found, that is said instead.
pub(crate) async fn order(
    connection: &mut MySqlConnection,
    shop: Operator,
    order: &Order,
    asked: &OrderRedemption<'_>,
) -> Result<Option<Replay>, Problem> {
    let Some(order_ref) = asked.order_ref else { return Ok(None) };
    let name = checkout::order_of(shop, order_ref);
    match known(connection, name, order, asked).await {
        Err(refused) if matches!(refused.code(), Code::OrderCancelled | Code::OrderRedeemed) => {
            found(connection, shop, asked).await?;
            Err(refused)
        }
        known => known,
    }
}

async fn known(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    order: &Order,
    asked: &OrderRedemption<'_>,
) -> Result<Option<Replay>, Problem> {
    if order.cancelled_at.is_some() {
        return Err(checkout::order_cancelled());
    }
    let Some(redeemed) = &order.redeemed else {
        // Coupons that were used one by one have no amounts, which a sum would need.
        let stands = redemption::stands(connection, name).await?;
        return if stands { Err(checkout::order_redeemed()) } else { Ok(None) };
    };
    let is_same =
        redeemed.digest == asked.digest() && asked.user.is_none_or(|user| user == redeemed.user_id);
    if !is_same {
        return Err(checkout::order_redeemed());
    }
    let redemptions = redemption::together(connection, name, redeemed.user_id).await?;
    if redemptions.iter().any(|one| one.rolled_back.is_some()) {
        return Err(checkout::order_cancelled());
    }
    Ok(Some(Replay { redeemed: redeemed.clone(), redemptions }))
}

/// Checks that all coupons are the shop's and, if one is named, the user's. Locks nothing.
async fn found(
    connection: &mut MySqlConnection,
    shop: Operator,
    asked: &OrderRedemption<'_>,
) -> Result<(), Problem> {
    for id in &asked.coupons {
        let coupon = store::find(connection, shop.merchant_id, *id).await?;
        if coupon.is_none_or(|coupon| !checkout::is_of(&coupon, asked.user)) {
            return Err(checkout::named(coupon_json::not_found(), *id));
        }
    }
    Ok(())
}

/// Returns what each coupon takes off, in the order of application. Rows that are not locked may change right after.
///
/// # Errors
/// One of them may not be used for the order, or does not fit it.
pub(crate) async fn coupons(
    connection: &mut MySqlConnection,
    shop: Operator,
    rows: &[LockedRow],
    asked: &OrderRedemption<'_>,
    clocks: Clocks,
) -> Result<Vec<Applied>, Problem> {
    for LockedRow { coupon, .. } in rows {
        // An order without a name cannot have used the coupon or given it back.
        let order_ref = asked.order_ref.unwrap_or_default();
        if let Some(refused) = refused_use(coupon.clone(), order_ref, clocks.here, clocks.server) {
            let problem = refusal(connection, refused).await?;
            return Err(checkout::named(problem, coupon.id));
        }
        if let Some(order_ref) = asked.order_ref {
            let name = checkout::order_of(shop, order_ref);
            let stays = checkout::not_given_back(connection, name, coupon.id).await;
            stays.map_err(|problem| checkout::named(problem, coupon.id))?;
        }
    }
    for LockedRow { terms, .. } in rows {
        checkout::not_kept_by_another(terms, asked.order_ref)?;
    }
    applied(rows, asked.spend)
}

/// Returns the problem of a coupon that the order cannot use together with others. One that it has used was used alone, by
/// a call or at a till, and has no part in a sum. Of one that the desk has replaced, since the order's checkout looked, it
/// names the coupon that its user has instead.
pub(crate) async fn refusal(
    connection: &mut MySqlConnection,
    refused: Use,
) -> Result<Problem, Problem> {
    if let Use::Cancelled(coupon) = &refused
        && let Some(other) = desk::last_replacement(connection, coupon.id).await?
        && other.status == CouponStatus::Unused
    {
        return Ok(coupon_json::replaced(other.id));
    }
    Ok(done(refused).err().unwrap_or_else(checkout::used_already))
}

/// Returns what each coupon takes off, in the order of application.
fn applied(rows: &[LockedRow], spend: Spend<'_>) -> Result<Vec<Applied>, Problem> {
    let offers: Vec<Offer<'_>> = rows.iter().map(offer).collect();
    money::apply(spend, &offers).map_err(|(coupon, why)| {
        let terms = rows.iter().map(|row| &row.terms).find(|terms| terms.coupon == coupon);
        terms.map_or_else(checkout::order_redeemed, |terms| checkout::inapplicable(terms, why))
    })
}

/// What a coupon offers an order.
pub(super) fn offer(row: &LockedRow) -> Offer<'_> {
    let terms = &row.terms;
    Offer { coupon: terms.coupon, discount: &terms.discount, stackable: terms.stackable }
}
