//! `GET /v1/templates/{id}/timeseries`: what claims were answered, step by step.

use axum::{Json, extract::State};
use coupon::TemplateId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{
        extract::{Params, PathId},
        instant::RequestInstant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    routes::operators::{
        reports::{
            figures::{FiguresJson, KnownJson, time},
            span::{POINTS_DEFAULT, SpanQuery},
            unavailable,
        },
        templates,
    },
    state::App,
    stats::history::Known,
};

/// What claims of a template were answered, step by step.
#[derive(Serialize, ToSchema)]
#[schema(as = Timeseries, examples(json!({
    "template_id": "2123985067360387072", "from": "2026-11-27T08:00:00.000Z",
    "to": "2026-11-27T08:01:00.000Z", "step_seconds": 60, "complete": true,
    "known_from": "2026-11-27T08:00:00.000Z", "known_to": "2026-11-27T08:01:00.000Z",
    "points": [{
        "at": "2026-11-27T08:00:00.000Z", "requests": 5950, "landed": 1000, "replayed": 129, "accepted": 0,
        "refused": { "LIMIT_REACHED": 60, "SOLD_OUT": 4761 }, "unknown": {}, "peak_per_second": 4498,
        "p50_ms": 50, "p99_ms": 500, "landed_p99_ms": 500
    }]
})))]
pub(crate) struct TimeseriesJson {
    #[schema(value_type = Id)]
    template_id: String,
    /// Begin of the first step: `from` of the request, or up to a step before.
    #[schema(value_type = Instant)]
    from: String,
    /// End of the last step, exclusive.
    #[schema(value_type = Instant)]
    to: String,
    step_seconds: i64,
    #[serde(flatten)]
    known: KnownJson,
    /// One for each step, also for those without a request.
    points: Vec<PointJson>,
}

/// One step.
#[derive(Serialize, ToSchema)]
#[schema(as = TimeseriesPoint)]
pub(crate) struct PointJson {
    /// Begin of the step.
    #[schema(value_type = Instant)]
    at: String,
    /// Answers of its busiest second.
    peak_per_second: u64,
    #[serde(flatten)]
    figures: FiguresJson,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpanParams {
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
    step: Option<i64>,
}

/// `GET /v1/templates/{id}/timeseries?from=&to=&step=`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/timeseries",
    operation_id = "get_timeseries",
    tag = "Reports",
    summary = "What claims were answered, step by step",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("from" = Option<Instant>, Query, description = "Begin. Default: an hour before the claim window, at most 30 days ago."),
        ("to" = Option<Instant>, Query, description = "End, exclusive, at most 366 days later. Default: now, or an hour after the claim window; with a `from`: now."),
        ("step" = Option<i64>, Query, minimum = 1, maximum = 86400, description = "Seconds of a step, for at most 1,500 points. Default: the smallest usual one with at most 300 points.")
    ),
    responses((status = 200, description = "The steps.", body = TimeseriesJson)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_SPAN STATS_UNAVAILABLE OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    Params(SpanParams { from, to, step }): Params<SpanParams>,
) -> Result<Json<TimeseriesJson>, Problem> {
    let template = templates::owned(&app, operator, id).await?;
    let now = app.clock.now();
    let span = SpanQuery::asked(from, to, step).span(&template.window, now, POINTS_DEFAULT)?;
    let history = &app.stats.history;
    let turn = history.turn(template.merchant_id).await.map_err(|error| unavailable(&error))?;
    let known = history.read(turn, id, span, now.timestamp()).await;
    let known = known.map_err(|error| unavailable(&error))?;
    Ok(Json(TimeseriesJson {
        template_id: id.to_string(),
        from: time(span.from),
        to: time(span.to),
        step_seconds: span.step,
        known: KnownJson::of(Some(&known)),
        points: points(&known),
    }))
}

fn points(known: &Known) -> Vec<PointJson> {
    let sums = &known.sums;
    let point = |(begin, answers)| PointJson {
        at: time(begin),
        peak_per_second: sums.peak(begin, begin + sums.span.step).map_or(0, |peak| peak.answers),
        figures: FiguresJson::from(answers),
    };
    sums.span.begins().zip(sums.steps()).map(point).collect()
}
