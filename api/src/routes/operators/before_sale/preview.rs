//! `POST /v1/templates/preview`: what shoppers would see of a template that is not created yet. It changes nothing.

use axum::{Json, extract::State};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{DiscountKind, Template, TemplateId, TemplateState, Validity};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{extract::Body, instant::instant},
    problem::Problem,
    routes::{bodies::template_json::NewTemplate, shop::page::ShopTemplate},
    state::App,
};

/// Id of a template that does not exist.
const NONE_YET: TemplateId = TemplateId(0);

/// The discount that takes off everything, in hundredths of a percent.
const ALL_OF_IT: i64 = 10_000;

/// A window that is longer than this is probably not meant: a year was mistaken.
const WINDOW_USUAL_MAX: TimeDelta = TimeDelta::days(366);

/// What shoppers would see of a template, and what is probably not meant.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePreview, examples(example))]
pub(crate) struct PreviewJson {
    /// The shop's page once the template is published and nothing is claimed. Its `id` is `0`: there is none yet.
    shop: ShopTemplate,
    /// What is accepted but probably not meant, for people.
    warnings: Vec<String>,
}

fn example() -> Value {
    json!({
        "shop": {
            "id": "0", "name": "A sale", "state": "upcoming",
            "discount": {
                "kind": "amount_off", "amount_off_minor": 500, "cap_minor": null, "minimum_spend_minor": 2000,
                "currency": "EUR"
            },
            "discount_text": "€5.00 off, from €20.00",
            "per_user_limit": 1, "max_per_claim": 1, "hold_ms": 0,
            "claim_starts_at": "2026-11-27T08:00:00.000Z",
            "claim_ends_at": "2026-11-28T08:00:00.000Z", "valid_for_ms": 604_800_000, "left": 1000, "total": 1000,
            "opens_in_ms": 86_400_000
        },
        "warnings": ["total_stock: there is nothing to give out yet."]
    })
}

/// `POST /v1/templates/preview`
#[utoipa::path(
    post,
    path = "/v1/templates/preview",
    operation_id = "preview_template",
    tag = "Templates",
    summary = "What shoppers would see of a template",
    description = "Takes the body of a new template, refuses what its creation would refuse, and changes nothing.",
    security(("operator_key" = [])),
    request_body = NewTemplate,
    responses((status = 200, description = "The shop's page, and warnings.", body = PreviewJson)),
    extensions(("x-problems" = json!("INVALID_TEMPLATE")))
)]
pub(crate) async fn preview(
    State(app): State<App>,
    operator: Operator,
    Body(new): Body<NewTemplate>,
) -> Result<Json<PreviewJson>, Problem> {
    let total = new.total_stock;
    let draft = new.into_draft(NONE_YET, operator.merchant_id)?;
    let now = app.sale_clock.now();
    let warnings = warnings(&draft, total, now);
    let published = Template { state: TemplateState::Published, ..draft };
    Ok(Json(PreviewJson { shop: ShopTemplate::untouched(&published, total, now), warnings }))
}

/// Returns what is accepted of a template but probably not meant.
fn warnings(template: &Template, total: i64, now: DateTime<Utc>) -> Vec<String> {
    let mut warnings: Vec<String> = template.discount.warning().into_iter().collect();
    let discount = &template.discount;
    if discount.kind == DiscountKind::PercentOff
        && discount.value == ALL_OF_IT
        && discount.cap.is_none()
    {
        warnings
            .push("discount.percent_off: 100 % without a cap makes every order free.".to_owned());
    }
    let is_amount = discount.kind == DiscountKind::AmountOff;
    if is_amount && discount.minimum_spend < discount.value {
        let words =
            "discount.minimum_spend_minor: an order that costs less than the discount is free.";
        warnings.push(words.to_owned());
    }
    if total == 0 {
        warnings.push("total_stock: there is nothing to give out yet.".to_owned());
    }
    if template.per_user_limit == 0 {
        let words = "per_user_limit: 0 is no limit, so one user may claim everything.";
        warnings.push(words.to_owned());
    }
    let window = template.window;
    if window.ends_at <= now {
        let ended = instant(window.ends_at);
        warnings.push(format!("claim_ends_at: the window ended at {ended}, so nobody can claim."));
    } else if window.starts_at <= now {
        warnings.push("claim_starts_at: claims open as soon as it is published.".to_owned());
    }
    if window.ends_at - window.starts_at > WINDOW_USUAL_MAX {
        let days = (window.ends_at - window.starts_at).num_days();
        warnings.push(format!("claim_ends_at: claims are open for {days} days."));
    }
    warnings.extend(of_validity(template, now));
    warnings
}

fn of_validity(template: &Template, now: DateTime<Utc>) -> Option<String> {
    let Validity::Absolute { until, .. } = template.validity else { return None };
    let shown = instant(until);
    if until <= now {
        return Some(format!("valid_until: it was at {shown}, so it cannot be published."));
    }
    (until < template.window.ends_at).then(|| {
        format!("valid_until: coupons that are claimed after {shown} could never be used.")
    })
}

#[cfg(test)]
mod tests {
    use coupon::Window;

    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn usual() -> Template {
        let starts_at = now() + TimeDelta::days(1);
        let mut template = testkit::draft(NONE_YET, now());
        template.discount.minimum_spend = 2_000;
        template.window = Window { starts_at, ends_at: starts_at + TimeDelta::days(1) };
        template
    }

    fn until(days: i64) -> Validity {
        Validity::Absolute {
            from: now() - TimeDelta::days(1),
            until: now() + TimeDelta::days(days),
        }
    }

    #[test]
    fn what_is_probably_not_meant_is_named_by_its_field_and_a_usual_sale_has_no_warning() {
        type Change = fn(&mut Template);
        let cases: [(Change, &str); 10] = [
            (|_| (), ""),
            (|it| it.discount.minimum_spend = 499, "discount.minimum_spend_minor"),
            (
                |it| {
                    it.discount.kind = DiscountKind::PercentOff;
                    it.discount.value = ALL_OF_IT;
                },
                "discount.percent_off",
            ),
            (
                |it| {
                    it.discount.kind = DiscountKind::PercentOff;
                    it.discount.value = 20;
                },
                "discount.percent_off",
            ),
            (|it| it.per_user_limit = 0, "per_user_limit"),
            (|it| it.window.starts_at = now(), "claim_starts_at"),
            (
                |it| {
                    it.window.starts_at = now() - TimeDelta::days(2);
                    it.window.ends_at = now();
                },
                "claim_ends_at",
            ),
            (|it| it.window.ends_at += TimeDelta::days(366), "claim_ends_at"),
            (|it| it.validity = until(0), "valid_until"),
            (|it| it.validity = until(1), "valid_until"),
        ];
        for (change, field) in cases {
            let mut template = usual();
            change(&mut template);
            let warnings = warnings(&template, 10, now());
            let fields: Vec<&str> =
                warnings.iter().filter_map(|it| Some(it.split_once(": ")?.0)).collect();
            let wanted: Vec<&str> = Some(field).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(fields, wanted, "{warnings:?}");
        }
        assert!(warnings(&usual(), 0, now())[0].starts_with("total_stock: "));
        let mut last = usual();
        last.validity = until(2);
        assert_eq!(warnings(&last, 10, now()), Vec::<String>::new());
    }
}
