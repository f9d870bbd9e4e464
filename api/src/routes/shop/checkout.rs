//! What the calls of a checkout share: reading its requests, holding its coupons, and saying why they do not fit.

use chrono::{DateTime, Utc};
use coupon::{
    CouponId, UserId, limit,
    money::{Inapplicable, Spend, written},
};
use mysql_store::{
    MySqlConnection,
    checkout::{self, Terms},
    redemption::{self, Money},
    redemption_order::{self, OrderName},
    user_coupon::UserCoupon,
};
use serde_json::json;

use crate::{
    auth::Operator,
    code::Code,
    http::instant::instant,
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::coupon_json::{self, CouponJson},
    },
    state::App,
};

/// A coupon with its terms. Its row is locked, unless it is only looked at.
pub(crate) struct LockedRow {
    pub(crate) coupon: UserCoupon,
    pub(crate) terms: Terms,
}

/// Returns the user whom a request names.
pub(crate) fn user(text: &str) -> Result<UserId, Problem> {
    text.parse().map_err(|_| {
        Problem::new(Code::InvalidUserId, "Use the user's id in `user_id`, a number in quotes.")
    })
}

pub(crate) fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(Code::InvalidRedemption, format!("{field}: {problem}.")).with("field", field)
}

/// Checks an order's amount and currency.
pub(crate) fn spend(amount: i64, currency: &str) -> Result<Spend<'_>, Problem> {
    let most = limit::AMOUNT_MAX;
    if !(0..=most).contains(&amount) {
        return Err(invalid("amount", &format!("use 0 to {most}, in minor units")));
    }
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(invalid("currency", "use three capital letters, e.g. EUR"));
    }
    Ok(Spend { amount, currency })
}

/// Reads and locks the shop's coupons, by id. With `user`, they must be this user's. A coupon that is not found is named
/// in the problem.
pub(crate) async fn lock_rows(
    transaction: &mut MySqlConnection,
    shop: Operator,
    ids: &[CouponId],
    user: Option<UserId>,
) -> Result<Vec<LockedRow>, Problem> {
    let mut coupons = checkout::lock_rows(transaction, shop.merchant_id, ids).await?;
    coupons.retain(|coupon| is_of(coupon, user));
    let terms = checkout::terms(transaction, ids).await?;
    let mut locked = Vec::with_capacity(ids.len());
    for &id in ids {
        let coupon = coupons.iter().find(|coupon| coupon.id == id).cloned();
        let terms = terms.iter().find(|terms| terms.coupon == id).cloned();
        let (coupon, terms) =
            coupon.zip(terms).ok_or_else(|| named(coupon_json::not_found(), id))?;
        locked.push(LockedRow { coupon, terms });
    }
    Ok(locked)
}

/// Returns whether the coupon is this user's, if one is named.
pub(crate) fn is_of(coupon: &UserCoupon, user: Option<UserId>) -> bool {
    user.is_none_or(|user| user == coupon.user_id)
}

/// Says in a problem which coupon it is about.
pub(crate) fn named(problem: Problem, coupon: CouponId) -> Problem {
    problem.with("coupon_id", coupon.to_string())
}

/// Rejects a coupon that another order keeps.
pub(crate) fn not_kept_by_another(terms: &Terms, order_ref: Option<&str>) -> Result<(), Problem> {
    match &terms.lock {
        Some(lock) if order_ref != Some(lock.order_ref.as_str()) => {
            let until = instant(lock.until);
            let detail = format!("Another order's checkout keeps the coupon until {until}.");
            let problem = Problem::new(Code::CouponLocked, detail).with("locked_until", until);
            Err(named(problem, terms.coupon))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the problem of a coupon that does not apply to an order.
pub(crate) fn inapplicable(terms: &Terms, why: Inapplicable) -> Problem {
    let problem = match why {
        Inapplicable::Currency => {
            let currency = terms.discount.currency.as_str();
            let detail = format!("The coupon is for orders in {currency}.");
            Problem::new(Code::CurrencyMismatch, detail).with("currency", currency)
        }
        Inapplicable::MinimumSpend => {
            let least = terms.discount.minimum_spend;
            let money = written::amount(least, &terms.discount.currency);
            let detail = format!("The coupon needs an order of {money} or more.");
            Problem::new(Code::BelowMinimum, detail).with("minimum_spend_minor", least)
        }
        Inapplicable::NotStackable => {
            Problem::new(Code::NotStackable, "The coupon excludes every other one in its order.")
        }
    };
    named(problem, terms.coupon)
}

/// The order has used the coupon already.
pub(crate) fn used_already() -> Problem {
    Problem::new(Code::CouponUsed, "The coupon was used for this order before.")
}

/// Rejects a coupon that the order has redeemed and given back. The coupon's row names only the last order that gave it
/// back, and a late use may come after another order's return.
pub(crate) async fn not_given_back(
    connection: &mut MySqlConnection,
    name: OrderName<'_>,
    coupon: CouponId,
) -> Result<(), Problem> {
    if redemption::was_given_back(connection, name, coupon).await? {
        return Err(order_cancelled());
    }
    Ok(())
}

pub(crate) fn order_cancelled() -> Problem {
    Problem::new(
        Code::OrderCancelled,
        "This order gave its coupons back and cannot use them again. Send another `order_ref`.",
    )
}

pub(crate) fn order_redeemed() -> Problem {
    let detail = "This order has redeemed other coupons, or for another amount or currency.";
    Problem::new(Code::OrderRedeemed, detail)
}

/// A coupon's change by a checkout, to be recorded.
pub(crate) struct Change<'a> {
    pub(crate) before: &'a UserCoupon,
    pub(crate) after: &'a UserCoupon,
    pub(crate) order_ref: &'a str,
    pub(crate) at: DateTime<Utc>,
}

impl Change<'_> {
    /// Records a use: the redemption, and its line of the audit record. Removes the order's lock.
    pub(crate) async fn used(
        &self,
        app: &App,
        shop: Operator,
        transaction: &mut MySqlConnection,
        money: Option<&Money>,
    ) -> Result<(), Problem> {
        let actor = shop.actor();
        let new = redemption::New {
            id: app.ids.redemption()?,
            coupon: self.after,
            order_ref: self.order_ref,
            money,
            actor: &actor,
            at: self.at,
        };
        redemption::add(transaction, new).await?;
        checkout::unlock(transaction, self.after.id, self.order_ref).await?;
        audit::record(app, shop, transaction, self.use_for(money)).await?;
        Ok(())
    }

    /// The action of a use, for the audit record.
    pub(crate) fn use_for(&self, money: Option<&Money>) -> Action {
        let mut action = self.action("coupon.use");
        if let (Some(money), Some(after)) = (money, &mut action.after) {
            after["amount"] = json!(money.amount);
            after["discount"] = json!(money.discount);
            after["currency"] = json!(money.currency);
        }
        action
    }

    /// Records a return: the rollback of the redemption, if one stands, and the line of the audit record.
    pub(crate) async fn given_back(
        &self,
        app: &App,
        shop: Operator,
        transaction: &mut MySqlConnection,
        reason: Option<&str>,
    ) -> Result<(), Problem> {
        let id = app.ids.redemption()?;
        let coupon = self.after.id;
        let order_ref = self.order_ref;
        let actor = shop.actor();
        redemption::roll_back(transaction, id, coupon, order_ref, &actor, reason, self.at).await?;
        checkout::unlock(transaction, coupon, order_ref).await?;
        let mut action = self.action("coupon.unuse");
        if let (Some(reason), Some(after)) = (reason, &mut action.after) {
            after["reason"] = json!(reason);
        }
        audit::record(app, shop, transaction, action).await?;
        Ok(())
    }

    fn action(&self, name: &str) -> Action {
        let shown = |coupon: &UserCoupon| {
            let mut shown = json!(CouponJson::of(coupon, self.at));
            shown["user_id"] = json!(coupon.user_id.to_string());
            // The list shows the order of a used coupon only; the record also shows which order gave it back.
            shown["order_ref"] = json!(coupon.order_ref);
            shown
        };
        Action {
            merchant_id: self.after.merchant_id,
            name: name.to_owned(),
            target: format!("coupons/{}", self.after.id),
            before: Some(shown(self.before)),
            after: Some(shown(self.after)),
        }
    }
}

/// Creates the row of an order that had none when the call began, as the last of its changes.
pub(crate) async fn create_order(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    if redemption_order::add(transaction, name, now).await? {
        Ok(())
    } else {
        Err(Problem::overtaken())
    }
}

/// An order of the shop, by its name.
pub(crate) fn order_of(shop: Operator, order_ref: &str) -> OrderName<'_> {
    OrderName { merchant_id: shop.merchant_id, order_ref }
}
