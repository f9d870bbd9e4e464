//! `GET /v1/templates/{id}/report`: a sale in one answer, from the statistics of claims and from MySQL.

use std::time::Duration;

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, money::written};
use mysql_store::{
    connect,
    redemption_totals::{self, Totals},
    status_counts::{self, StatusCounts},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant as Moment;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{
        extract::{Params, PathId},
        instant::{RequestInstant, instant},
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    routes::operators::{
        reports::{
            figures::{FiguresJson, KnownJson, time},
            span::{self, SpanQuery},
            unavailable,
        },
        templates,
    },
    state::App,
    stats::history::Known,
};

/// Most points of the course: a line of a terminal.
const POINTS: i64 = 60;

/// How long coupons are counted, and again how long redemptions are added up: no longer than a person waits, and
/// together within the 8 s of a request that reads. What was counted until then is answered.
const COUNT_FOR: Duration = Duration::from_secs(2);

/// A sale.
#[derive(Serialize, ToSchema)]
#[schema(as = Report, examples(json!({
    "template_id": "2123985067360387072", "name": "A sale", "state": "published",
    "claim_starts_at": "2026-11-27T08:00:00.000Z", "claim_ends_at": "2026-11-28T08:00:00.000Z",
    "from": "2026-11-27T07:00:00.000Z", "to": "2026-11-28T09:00:00.000Z", "complete": true,
    "known_from": "2026-11-27T07:00:00.000Z", "known_to": "2026-11-28T09:00:00.000Z",
    "answers": {
        "requests": 5950, "landed": 1000, "replayed": 129, "accepted": 0,
        "refused": { "LIMIT_REACHED": 60, "SOLD_OUT": 4761 }, "unknown": {}, "p50_ms": 50, "p99_ms": 500,
        "landed_p99_ms": 500, "peak_per_second": 4498, "peak_at": "2026-11-27T08:00:01.000Z",
        "sold_out_at": "2026-11-27T08:00:01.000Z", "sold_out_after_ms": 1000,
        "course": { "from": "2026-11-27T08:00:00.000Z", "step_seconds": 1, "requests": [1452, 4498] }
    },
    "stock": { "total": 1000, "landed": 1000, "left": 0 },
    "coupons": {
        "counted": 1000, "all_counted": true, "unused": 0, "used": 100, "expired": 900, "cancelled": 0, "held": 0,
        "lapsed": 0, "others": 0, "used_percent": 10.0, "expired_percent": 90.0
    },
    "redemption": {
        "redeemed": 100, "discount": 50000, "revenue": 450000, "currency": "EUR", "discount_text": "€500.00",
        "revenue_text": "€4500.00", "all_counted": true
    }
})))]
pub(crate) struct ReportJson {
    #[schema(value_type = Id)]
    template_id: String,
    name: String,
    #[schema(value_type = schemas::TemplateState)]
    state: &'static str,
    #[schema(value_type = Instant)]
    claim_starts_at: String,
    #[schema(value_type = Instant)]
    claim_ends_at: String,
    /// Begin of the span of `answers`.
    #[schema(value_type = Instant)]
    from: String,
    /// Its end, exclusive.
    #[schema(value_type = Instant)]
    to: String,
    #[serde(flatten)]
    known: KnownJson,
    /// What claims were answered. Null: the statistics cannot be read at the moment.
    #[schema(required = true)]
    answers: Option<SaleJson>,
    stock: TakenJson,
    coupons: CouponsJson,
    redemption: RedemptionJson,
}

/// What claims were answered.
#[derive(Serialize, ToSchema)]
#[schema(as = SaleAnswers)]
pub(crate) struct SaleJson {
    #[serde(flatten)]
    figures: FiguresJson,
    /// Answers of the busiest second.
    peak_per_second: u64,
    /// The busiest second. Null: there are no answers.
    #[schema(value_type = Option<Instant>, required = true)]
    peak_at: Option<String>,
    /// The first second in which a claim was answered `SOLD_OUT`. Null: none was.
    #[schema(value_type = Option<Instant>, required = true)]
    sold_out_at: Option<String>,
    /// From the begin of the claim window to `sold_out_at`; less than a second too early.
    #[schema(required = true)]
    sold_out_after_ms: Option<i64>,
    course: CourseJson,
}

/// Requests over the span that was asked for, in at most 61 steps; without one, over the sale: the seconds in which 98 of
/// 100 claims were answered.
#[derive(Serialize, ToSchema)]
#[schema(as = Course)]
pub(crate) struct CourseJson {
    #[schema(value_type = Instant)]
    from: String,
    step_seconds: i64,
    requests: Vec<u64>,
}

/// The stock, of the whole life of the template.
#[derive(Serialize, ToSchema)]
#[schema(as = TakenStock)]
pub(crate) struct TakenJson {
    total: i64,
    landed: i64,
    left: i64,
}

/// The template's coupons by status, of its whole life.
#[derive(Serialize, ToSchema)]
#[schema(as = CouponCounts)]
pub(crate) struct CouponsJson {
    /// Coupons counted, in whichever status.
    counted: u64,
    /// Whether these are all: counting ends after two seconds.
    all_counted: bool,
    unused: u64,
    used: u64,
    expired: u64,
    /// Revoked, replaced by another coupon, or cancelled with their claim.
    cancelled: u64,
    /// Not confirmed yet, and still held.
    held: u64,
    /// Not confirmed in time.
    lapsed: u64,
    /// In a status that this version does not know.
    others: u64,
    /// Of `unused`, `used` and `expired` together, to a tenth: the others could not be used. Null: there are none.
    #[schema(required = true)]
    used_percent: Option<f64>,
    #[schema(required = true)]
    expired_percent: Option<f64>,
}

/// What the template's coupons were redeemed for, of its whole life, without what was rolled back. Money is in minor
/// units of `currency`.
#[derive(Serialize, ToSchema)]
#[schema(as = RedemptionTotals)]
pub(crate) struct RedemptionJson {
    redeemed: i64,
    /// Discount given.
    discount: i64,
    /// What the orders were left to pay.
    revenue: i64,
    currency: String,
    /// `discount` in the currency's units, for people.
    discount_text: String,
    /// `revenue` in the currency's units, for people.
    revenue_text: String,
    /// Whether these are all: adding up ends after two seconds, with the redemptions that were made first.
    all_counted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportParams {
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
}

/// `GET /v1/templates/{id}/report?from=&to=`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/report",
    operation_id = "get_report",
    tag = "Reports",
    summary = "A sale in one answer: requests, peak, refusals, use, money",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("from" = Option<Instant>, Query, description = "Begin of `answers`. Default: an hour before the claim window, at most 30 days ago."),
        ("to" = Option<Instant>, Query, description = "Its end, exclusive, at most 366 days later. Default: now, or an hour after the claim window; with a `from`: now.")
    ),
    responses((status = 200, description = "The report. Without the statistics `answers` is null.", body = ReportJson)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_SPAN OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    Params(ReportParams { from, to }): Params<ReportParams>,
) -> Result<Json<ReportJson>, Problem> {
    let template = templates::owned(&app, operator, id).await?;
    let now = app.clock.now();
    let is_asked = from.is_some() || to.is_some();
    let span = SpanQuery::asked(from, to, None).span(&template.window, now, POINTS)?;
    let history = &app.stats.history;
    // Held until MySQL is read too: reports must not take its connections from claims.
    let turn = history.turn(template.merchant_id).await.map_err(|error| unavailable(&error))?;
    let known = history.read(turn.clone(), id, span, now.timestamp());
    let (known, rows) = tokio::join!(known, rows(&app, &template, now));
    drop(turn);
    let (stock, coupons, redemption) = rows?;
    // Without statistics, the answer still has MySQL's figures.
    let known = known.map_err(|error| unavailable(&error)).ok();
    Ok(Json(ReportJson {
        template_id: id.to_string(),
        name: template.name.clone(),
        state: template.state.word(),
        claim_starts_at: instant(template.window.starts_at),
        claim_ends_at: instant(template.window.ends_at),
        from: time(span.from),
        to: time(span.to),
        known: KnownJson::of(known.as_ref()),
        answers: known.as_ref().map(|known| sale(known, template.window.starts_at, is_asked)),
        stock,
        coupons,
        redemption,
    }))
}

fn sale(known: &Known, opened_at: DateTime<Utc>, is_span_asked: bool) -> SaleJson {
    let sums = &known.sums;
    let busy = sums.busy().filter(|_| !is_span_asked);
    let course = busy.map_or(sums.span, |busy| span::of_sale(&busy, POINTS));
    let peak = sums.peak(sums.span.from, sums.span.to);
    let sold_out = sums.sold_out_at();
    SaleJson {
        figures: FiguresJson::from(&sums.whole()),
        peak_per_second: peak.map_or(0, |peak| peak.answers),
        peak_at: peak.map(|peak| time(peak.second)),
        sold_out_at: sold_out.map(time),
        sold_out_after_ms: sold_out.map(|at| (at * 1_000 - opened_at.timestamp_millis()).max(0)),
        course: CourseJson {
            from: time(course.from),
            step_seconds: course.step,
            requests: sums.course(course),
        },
    }
}

/// Reads what MySQL knows of a template.
async fn rows(
    app: &App,
    template: &Template,
    now: DateTime<Utc>,
) -> Result<(TakenJson, CouponsJson, RedemptionJson), Problem> {
    let row = templates::stock(app, template.id).await?;
    let stock = TakenJson {
        total: row.total,
        landed: row.total.saturating_sub(row.stock),
        left: row.stock,
    };
    let redemption = redeemed(app, template).await?;
    let mut counts = StatusCounts::default();
    let mut after = None;
    let until = Moment::now() + COUNT_FOR;
    let all_counted = loop {
        let piece = async {
            let mut connection = connect::acquire(&app.pool).await?;
            let id = template.id;
            let rows_max = status_counts::PIECE;
            status_counts::add_piece(&mut connection, id, after, rows_max, now, &mut counts).await
        };
        after = connect::within(piece).await?;
        if after.is_none() || Moment::now() >= until {
            break after.is_none();
        }
    };
    Ok((stock, CouponsJson::of(&counts, all_counted), redemption))
}

/// Adds up what the template's coupons were redeemed for, for as long as [`COUNT_FOR`].
async fn redeemed(app: &App, template: &Template) -> Result<RedemptionJson, Problem> {
    let mut totals = Totals::default();
    let mut after = None;
    let until = Moment::now() + COUNT_FOR;
    let all_counted = loop {
        let piece = async {
            let mut connection = connect::acquire(&app.pool).await?;
            let id = template.id;
            let rows_max = redemption_totals::PIECE;
            redemption_totals::add_piece(&mut connection, id, after, rows_max, &mut totals).await
        };
        after = connect::within(piece).await?;
        if after.is_none() || Moment::now() >= until {
            break after.is_none();
        }
    };
    let Totals { redeemed, discount, revenue } = totals;
    let currency = template.discount.currency.clone();
    Ok(RedemptionJson {
        redeemed,
        discount,
        revenue,
        discount_text: written::amount(discount, &currency),
        revenue_text: written::amount(revenue, &currency),
        currency,
        all_counted,
    })
}

impl CouponsJson {
    fn of(counts: &StatusCounts, all_counted: bool) -> Self {
        let StatusCounts { unused, used, expired, cancelled, held, lapsed, others } = *counts;
        let usable = unused + used + expired;
        let percent = |count: u64| {
            let tenths = (count * 1_000 + usable / 2).checked_div(usable)?;
            Some(tenths as f64 / 10.0)
        };
        Self {
            counted: counts.all(),
            all_counted,
            unused,
            used,
            expired,
            cancelled,
            held,
            lapsed,
            others,
            used_percent: percent(used),
            expired_percent: percent(expired),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_of_what_could_be_used_to_a_tenth() {
        let counts = StatusCounts { unused: 1, used: 1, expired: 1, ..StatusCounts::default() };
        let json = CouponsJson::of(&counts, true);
        assert_eq!((json.counted, json.used_percent), (3, Some(33.3)));
        let taken = StatusCounts { used: 2, cancelled: 2, held: 3, lapsed: 4, others: 1, ..counts };
        let taken = StatusCounts { unused: 0, expired: 0, ..taken };
        let json = CouponsJson::of(&taken, true);
        let shown = (json.counted, json.used_percent, json.expired_percent);
        assert_eq!(shown, (12, Some(100.0), Some(0.0)), "each was used in its turn");
        let none = CouponsJson::of(&StatusCounts::default(), true);
        assert_eq!((none.used_percent, none.expired_percent), (None, None));
    }
}
