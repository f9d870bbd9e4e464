//! A coupon, as its owner, checkouts and operators see it.

use std::{collections::HashMap, sync::Arc};

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, Template, TemplateId};
use mysql_store::user_coupon::UserCoupon;
use redis_view::ViewCoupon;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    code::Code,
    http::{
        instant::instant,
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    routes::bodies::discount_json::DiscountJson,
    template_cache::TemplateCache,
};

/// A coupon as its row says it.
#[derive(Serialize, ToSchema)]
#[schema(as = Coupon, examples(json!({
    "id": "2123985068924862464", "template_id": "2123985067360387072",
    "claim_id": "2123985068924862465", "status": "used", "claimed_at": "2026-11-27T08:00:01.207Z",
    "valid_from": "2026-11-27T08:00:01.207Z", "valid_until": "2026-12-04T08:00:01.207Z",
    "used_at": "2026-11-28T17:42:10.031Z", "order_ref": "order-2041"
})))]
pub(crate) struct CouponJson {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    claim_id: String,
    #[schema(value_type = schemas::CouponStatus)]
    status: &'static str,
    #[schema(value_type = Instant)]
    claimed_at: String,
    #[schema(value_type = Instant)]
    valid_from: String,
    #[schema(value_type = Instant)]
    valid_until: String,
    /// When its hold lapses unless it is confirmed. Only of a held or lapsed coupon.
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until: Option<String>,
    /// What is left of its hold, in milliseconds. Only of a held coupon.
    #[schema(value_type = i64, minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pay_within_ms: Option<i64>,
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    used_at: Option<String>,
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    order_ref: Option<String>,
}

/// A coupon with what a shop shows beside it.
#[derive(Serialize, ToSchema)]
#[schema(examples(json!({
    "id": "2123985068924862464", "template_id": "2123985067360387072",
    "claim_id": "2123985068924862465", "status": "unused", "claimed_at": "2026-11-27T08:00:01.207Z",
    "valid_from": "2026-11-27T08:00:01.207Z", "valid_until": "2026-12-04T08:00:01.207Z",
    "template": { "name": "A sale", "discount": {
        "kind": "amount_off", "amount_off_minor": 500, "cap_minor": null, "minimum_spend_minor": 2000, "currency": "EUR"
    }, "discount_text": "€5.00 off, from €20.00" }
})))]
pub(crate) struct ShownCoupon {
    #[serde(flatten)]
    coupon: CouponJson,
    /// Null: not known at the moment. The next answer has it.
    #[schema(required = true)]
    template: Option<CouponTemplate>,
}

/// What a shop shows of a coupon's template, as it is now. The name may have been edited since the claim; the discount
/// is the one that was promised.
#[derive(Serialize, ToSchema)]
pub(crate) struct CouponTemplate {
    name: String,
    discount: DiscountJson,
    /// The discount in plain English, with money in the currency's units, for people.
    discount_text: String,
}

/// Adds to coupons what a shop shows of their templates, from the api's memory.
pub(crate) async fn shown(
    templates: &TemplateCache,
    coupons: Vec<(TemplateId, CouponJson)>,
) -> Vec<ShownCoupon> {
    let ids = coupons.iter().map(|(template, _)| *template).collect();
    let known = templates.at_hand(ids).await;
    let shown = |(template, coupon)| ShownCoupon::of(coupon, &known, template);
    coupons.into_iter().map(shown).collect()
}

impl ShownCoupon {
    fn of(
        coupon: CouponJson,
        known: &HashMap<TemplateId, Arc<Template>>,
        template: TemplateId,
    ) -> Self {
        let template = known.get(&template).map(|template| CouponTemplate {
            name: template.name.clone(),
            discount: DiscountJson::from(&template.discount),
            discount_text: template.discount.words(),
        });
        Self { coupon, template }
    }
}

pub(crate) fn not_found() -> Problem {
    Problem::new(Code::CouponNotFound, "You have no such coupon.")
}

/// The coupon's validity is over.
pub(crate) fn expired(coupon: &UserCoupon) -> Problem {
    let at = instant(coupon.valid_until);
    let detail = format!("The coupon was valid until {at}.");
    Problem::new(Code::CouponExpired, detail).with("valid_until", at)
}

/// A held coupon would be of no use: its template's validity has ended.
pub(crate) fn ended(valid_until: DateTime<Utc>) -> Problem {
    let at = instant(valid_until);
    let detail = format!(
        "The template's coupons were valid until {at}, so a payment could buy nothing. It is taken if the shop \
         lengthens the validity before the hold lapses."
    );
    Problem::new(Code::CouponExpired, detail).with("valid_until", at)
}

/// The coupon was revoked, or given up.
pub(crate) fn cancelled() -> Problem {
    let detail = "The coupon was revoked or cancelled. Another one must be claimed or granted.";
    Problem::new(Code::CouponCancelled, detail)
}

/// The coupon was cancelled, and its user has this one in its place.
pub(crate) fn replaced(by: CouponId) -> Problem {
    let detail = format!("The coupon was cancelled. Its user has {by} in its place: redeem that.");
    Problem::new(Code::CouponCancelled, detail).with("replaced_by", by.to_string())
}

/// The coupon is held, and not confirmed yet.
pub(crate) fn not_confirmed(coupon: &UserCoupon) -> Problem {
    let until = instant(coupon.valid_until);
    let detail = format!("The coupon is held until {until}: its claim must be confirmed first.");
    Problem::new(Code::NotConfirmed, detail).with("held_until", until)
}

/// The coupon's hold ended before it was confirmed.
pub(crate) fn lapsed(coupon: &UserCoupon) -> Problem {
    hold_lapsed(coupon.valid_until)
}

/// The hold ended at this time.
pub(crate) fn hold_lapsed(at: DateTime<Utc>) -> Problem {
    let at = instant(at);
    let detail = format!("The hold lapsed at {at}: the coupon is lost, and cannot be confirmed.");
    Problem::new(Code::HoldLapsed, detail).with("lapsed_at", at)
}

impl CouponJson {
    pub(crate) fn usable(coupon: &ViewCoupon) -> Self {
        Self {
            id: coupon.id.to_string(),
            template_id: coupon.template_id.to_string(),
            claim_id: coupon.claim_id.to_string(),
            status: CouponStatus::Unused.word(),
            claimed_at: instant(coupon.claimed_at),
            valid_from: instant(coupon.valid_from),
            valid_until: instant(coupon.valid_until),
            held_until: None,
            pay_within_ms: None,
            used_at: None,
            order_ref: None,
        }
    }

    /// The rule of expiry decides the status of an unused or held row.
    pub(crate) fn of(row: &UserCoupon, now: DateTime<Utc>) -> Self {
        let used = row.status == CouponStatus::Used;
        let status = row.status.at(row.valid_until, now);
        // A held or lapsed row's end is that of its hold.
        let ended_by_hold = matches!(status, CouponStatus::Held | CouponStatus::Lapsed);
        let left = (row.valid_until - now).num_milliseconds();
        Self {
            id: row.id.to_string(),
            template_id: row.template_id.to_string(),
            claim_id: row.claim_id.to_string(),
            status: status.word(),
            claimed_at: instant(row.claimed_at),
            valid_from: instant(row.valid_from),
            valid_until: instant(row.valid_until),
            held_until: ended_by_hold.then(|| instant(row.valid_until)),
            pay_within_ms: (status == CouponStatus::Held).then_some(left),
            used_at: row.used_at.map(instant),
            order_ref: row.order_ref.clone().filter(|_| used),
        }
    }
}
