//! JSON bodies of orders' redemptions. They consist of stored values, so that a repeated answer has the same bytes.

use mysql_store::{
    redemption::{OrderCounts, Redemption},
    redemption_order::{Order, Redeemed},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::{
    instant::instant,
    schemas::{Id, Instant},
};

/// What an order redeemed, as issued. Money is in minor units of `currency`.
#[derive(Serialize, ToSchema)]
#[schema(as = Redemption, examples(issued))]
pub(crate) struct RedemptionBody {
    order_ref: String,
    #[schema(value_type = Id)]
    user_id: String,
    currency: String,
    /// The order before any discount.
    amount: i64,
    /// The sum of all coupons' discounts.
    discount: i64,
    /// `amount` - `discount`, never below 0.
    left_to_pay: i64,
    #[schema(value_type = Instant)]
    redeemed_at: String,
    /// In the order of application: percentages, amounts, free shipping; equal kinds by id.
    coupons: Vec<RedeemedCoupon>,
}

/// A coupon of an order, and what it took off.
#[derive(Serialize, ToSchema)]
pub(crate) struct RedeemedCoupon {
    #[schema(value_type = Id)]
    coupon_id: String,
    #[schema(value_type = Id)]
    template_id: String,
    /// Minor units. 0 for free shipping: only the shop knows what shipping costs.
    discount: i64,
}

/// An order's redemptions as they stand now. Money is in minor units of `currency`.
#[derive(Serialize, ToSchema)]
#[schema(as = RedemptionState, examples(state))]
pub(crate) struct StateBody {
    order_ref: String,
    /// Null: none of its coupons was redeemed.
    #[schema(value_type = Option<Id>, required = true)]
    user_id: Option<String>,
    /// Null: the coupons were used one by one, without an amount.
    #[schema(required = true)]
    currency: Option<String>,
    /// The order before any discount.
    #[schema(required = true)]
    amount: Option<i64>,
    /// The sum of the discounts that stand.
    #[schema(required = true)]
    discount: Option<i64>,
    /// `amount` - `discount`.
    #[schema(required = true)]
    left_to_pay: Option<i64>,
    /// Since when the order redeems nothing any more. Null: it may.
    #[schema(value_type = Option<Instant>, required = true)]
    cancelled_at: Option<String>,
    /// Redemptions of the order, also those that were rolled back.
    redeemed: i64,
    /// Whether `coupons` has all of these. An answer has the first 1,000, which only single uses of many users under one
    /// name exceed.
    complete: bool,
    coupons: Vec<StateOfCoupon>,
}

/// A coupon of an order: what it took off, and whether it was given back.
#[derive(Serialize, ToSchema)]
pub(crate) struct StateOfCoupon {
    #[schema(value_type = Id)]
    coupon_id: String,
    #[schema(value_type = Id)]
    template_id: String,
    /// Null: it was used without an amount.
    #[schema(required = true)]
    discount: Option<i64>,
    #[schema(value_type = Instant)]
    redeemed_at: String,
    /// Null: the redemption stands.
    #[schema(value_type = Option<Instant>, required = true)]
    rolled_back_at: Option<String>,
    /// Why it was given back, if somebody said.
    #[schema(required = true)]
    reason: Option<String>,
}

/// The coupons that an order gave back.
#[derive(Serialize, ToSchema)]
#[schema(as = Rollback, examples(rolled_back))]
pub(crate) struct RollbackBody {
    order_ref: String,
    /// That of the discounts. Null: none of the coupons was used with an amount.
    #[schema(required = true)]
    currency: Option<String>,
    /// Whether `coupons` has all that the call is about: an answer has the first 1,000 of an order.
    complete: bool,
    coupons: Vec<StateOfCoupon>,
}

/// Example of an answer to a redemption, for the OpenAPI document.
fn issued() -> Value {
    json!({
        "order_ref": "order-2041", "user_id": "42", "currency": "EUR", "amount": 5_000, "discount": 950,
        "left_to_pay": 4_050, "redeemed_at": "2026-11-28T17:42:10.031Z",
        "coupons": [
            { "coupon_id": "2123985068924862464", "template_id": "2123985067360387072", "discount": 450 },
            { "coupon_id": "2123985068924862470", "template_id": "2123985067360387080", "discount": 500 },
        ],
    })
}

/// Example of a coupon in an order's state, for the OpenAPI document.
fn coupon_example() -> Value {
    json!({
        "coupon_id": "2123985068924862464", "template_id": "2123985067360387072", "discount": 450,
        "redeemed_at": "2026-11-28T17:42:10.031Z", "rolled_back_at": "2026-11-29T08:00:00.000Z",
        "reason": "The order was cancelled.",
    })
}

/// Example of an order's state, for the OpenAPI document.
fn state() -> Value {
    json!({
        "order_ref": "order-2041", "user_id": "42", "currency": "EUR", "amount": 5_000, "discount": 0,
        "left_to_pay": 5_000, "cancelled_at": "2026-11-29T08:00:00.000Z", "redeemed": 1, "complete": true,
        "coupons": [coupon_example()],
    })
}

/// Example of an answer to a rollback, for the OpenAPI document.
fn rolled_back() -> Value {
    json!({ "order_ref": "order-2041", "currency": "EUR", "complete": true, "coupons": [coupon_example()] })
}

impl RedemptionBody {
    /// The answer of an order that redeemed these coupons together.
    pub(crate) fn of(order_ref: &str, redeemed: &Redeemed, made: &[Redemption]) -> Self {
        let discount: i64 = made.iter().map(discount_of).sum();
        Self {
            order_ref: order_ref.to_owned(),
            user_id: redeemed.user_id.to_string(),
            currency: redeemed.currency.clone(),
            amount: redeemed.amount,
            discount,
            left_to_pay: redeemed.amount - discount,
            redeemed_at: instant(redeemed.at),
            coupons: made.iter().map(RedeemedCoupon::from).collect(),
        }
    }
}

impl StateBody {
    /// The state of an order with these redemptions, the first of `all`.
    pub(crate) fn of(
        order_ref: &str,
        order: &Order,
        made: &[Redemption],
        all: OrderCounts,
    ) -> Self {
        let redeemed = order.redeemed.as_ref();
        let estimate = made.iter().filter(|one| one.rolled_back.is_none());
        let discount: i64 = estimate.map(discount_of).sum();
        Self {
            order_ref: order_ref.to_owned(),
            user_id: made.first().map(|one| one.user_id.to_string()),
            currency: redeemed.map(|redeemed| redeemed.currency.clone()),
            amount: redeemed.map(|redeemed| redeemed.amount),
            discount: redeemed.map(|_| discount),
            left_to_pay: redeemed.map(|redeemed| redeemed.amount - discount),
            cancelled_at: order.cancelled_at.map(instant),
            redeemed: all.made,
            complete: shows_all(made, all),
            coupons: made.iter().map(StateOfCoupon::from).collect(),
        }
    }
}

impl RollbackBody {
    pub(crate) fn of<'a>(
        order_ref: &str,
        made: impl IntoIterator<Item = &'a Redemption>,
        complete: bool,
    ) -> Self {
        let made: Vec<&Redemption> = made.into_iter().collect();
        let money = made.iter().find_map(|one| one.money.as_ref());
        Self {
            order_ref: order_ref.to_owned(),
            currency: money.map(|money| money.currency.clone()),
            complete,
            coupons: made.into_iter().map(StateOfCoupon::from).collect(),
        }
    }
}

/// Returns whether `made` are all redemptions of their order.
pub(crate) fn shows_all(made: &[Redemption], all: OrderCounts) -> bool {
    i64::try_from(made.len()).is_ok_and(|shown| shown >= all.made)
}

fn discount_of(made: &Redemption) -> i64 {
    made.money.as_ref().map_or(0, |money| money.discount)
}

impl From<&Redemption> for RedeemedCoupon {
    fn from(made: &Redemption) -> Self {
        Self {
            coupon_id: made.coupon_id.to_string(),
            template_id: made.template_id.to_string(),
            discount: discount_of(made),
        }
    }
}

impl From<&Redemption> for StateOfCoupon {
    fn from(made: &Redemption) -> Self {
        let end = made.rolled_back.as_ref();
        Self {
            coupon_id: made.coupon_id.to_string(),
            template_id: made.template_id.to_string(),
            discount: made.money.as_ref().map(|money| money.discount),
            redeemed_at: instant(made.at),
            rolled_back_at: end.map(|end| instant(end.at)),
            reason: end.and_then(|end| end.reason.clone()),
        }
    }
}
