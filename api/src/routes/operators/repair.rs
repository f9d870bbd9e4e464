//! Lookups and repairs by operators: a user's coupons, a view, a gate.
//!
//! Views and gates are derived: each repair reads MySQL again, changes nothing in it but a gate's epoch, and is safe
//! while users claim and read. So all of these requests may be sent again.

use std::time::Duration;

use axum::{Json, extract::State, http::StatusCode};
use coupon::{CouponId, Epoch, TemplateId, UserId};
use landing::gates::SHOW_MAX;
use mysql_store::{connect, look_up};
use redis_gate::Meta;
use redis_view::Rebuilt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, PageParams, Part},
        extract::{Params, PathId},
        schemas::{Cursor, Id, RequestId},
    },
    problem::Problem,
    routes::{
        audit::{
            self, Action, Begun,
            idempotency::{Answer, Once},
        },
        bodies::coupon_json::{self, CouponJson, ShownCoupon},
        operators::templates,
    },
    state::App,
};

/// Interval between checks of a gate or a view that another process may be rebuilding.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a request waits for a view's rebuild: longer than one of 100,000 coupons takes, shorter than a caller
/// waits.
const REBUILD_WAIT: Duration = Duration::from_secs(8);

/// A view that was rebuilt.
#[derive(Serialize, ToSchema)]
#[schema(as = RebuiltView, examples(json!({ "user_id": "42" })))]
pub(crate) struct ViewBody {
    #[schema(value_type = Id)]
    user_id: String,
}

/// A gate that was rebuilt.
#[derive(Serialize, ToSchema)]
#[schema(as = RebuiltGate, examples(json!({ "template_id": "2123985067360387072", "epoch": 4 })))]
pub(crate) struct GateBody {
    #[schema(value_type = Id)]
    template_id: String,
    /// The gate's new epoch. Nothing that was admitted under an older one can land.
    epoch: i64,
}

/// `GET /v1/users/{id}/coupons`: those of the operator's own templates, in any status.
#[utoipa::path(
    get,
    path = "/v1/users/{id}/coupons",
    operation_id = "list_user_coupons",
    tag = "Operations",
    summary = "Look up a user's coupons",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The user."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the newest.")
    ),
    responses((status = 200, description = "Those of one's own templates, whatever became of them.", body = Page<ShownCoupon>)),
    extensions(("x-problems" = json!("INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn coupons(
    State(app): State<App>,
    operator: Operator,
    PathId(user): PathId<UserId>,
    Params(params): Params<PageParams>,
) -> Result<Json<Page<ShownCoupon>>, Problem> {
    let limit = params.limit()?;
    let before: Option<CouponId> = cursor::parse(params.cursor.as_ref())?;
    let now = app.clock.now();
    let rows = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        // One extra row shows whether there is a next page.
        let merchant = operator.merchant_id;
        look_up::coupons_of(&mut connection, merchant, user, before, limit + 1).await
    });
    let Part { rows, unreadable, next } = Part::of(rows.await?, limit, |row| row.id);
    let next = next.map(|id| id.to_string());
    let coupons = rows.iter().map(|row| (row.template_id, CouponJson::of(row, now))).collect();
    let shown = coupon_json::shown(&app.templates, coupons).await;
    Ok(Json(Page::new(shown, next).without(unreadable)))
}

/// `POST /v1/users/{id}/view-rebuild`
#[utoipa::path(
    post,
    path = "/v1/users/{id}/view-rebuild",
    operation_id = "rebuild_view",
    tag = "Operations",
    summary = "Make a user's list anew from MySQL",
    description = "503 `VIEW_UNAVAILABLE` after 8 s: the rebuild of a very long list then goes on by itself.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The user."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it one that was done is not done again.")
    ),
    responses((status = 200, description = "It is made anew.", body = ViewBody)),
    extensions(("x-problems" = json!(
        "VIEW_UNAVAILABLE HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn view(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(user): PathId<UserId>,
) -> Result<Answer, Problem> {
    let away = || {
        let detail = "The view's Redis did not answer, or the rebuild is under way still: here, where it goes on \
                      by itself, or in another process. MySQL answers the user meanwhile. Send the request again.";
        Problem::new(Code::ViewUnavailable, detail)
    };
    let action = action(operator, "view.rebuild", format!("users/{user}"), None);
    let line = match audit::begin(&app, operator, &once, action).await? {
        Begun::Recorded(line) => line,
        Begun::Answered(answer) => return Ok(answer),
    };
    app.view.store().drop_view(user).await.map_err(|error| {
        warn!(user.id = %user, error = runtime::report(&error), "a view could not be dropped");
        away()
    })?;
    match timeout(REBUILD_WAIT, reread(&app, user)).await {
        Ok(Rebuilt::Whole) => {
            let answer = Answer::new(StatusCode::OK, &ViewBody { user_id: user.to_string() });
            let after = json!({ "rebuilt": true });
            let answer = audit::end(&app, operator, &once, line.id, after, answer).await?;
            info!(user.id = %user, "rebuilt a view on request");
            Ok(answer)
        }
        Ok(Rebuilt::TooMany) => {
            Err(Problem::new(Code::Overloaded, "Too many lists are being read. Try again."))
        }
        Ok(Rebuilt::Unread) => Err(Problem::no_store()),
        Ok(Rebuilt::Elsewhere | Rebuilt::Overtaken | Rebuilt::Failed) | Err(_) => Err(away()),
    }
}

/// Reads a view again from MySQL, after it was dropped. Others that drop it at the same time overtake each other's reads:
/// the last one is whole for all, since each drops it once.
async fn reread(app: &App, user: UserId) -> Rebuilt {
    loop {
        match app.view.rebuild(user, app.clock.now()).await {
            Rebuilt::Elsewhere | Rebuilt::Overtaken => sleep(LOOK_EVERY).await,
            rebuilt => return rebuilt,
        }
    }
}

/// `POST /v1/templates/{id}/gate-rebuild`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/gate-rebuild",
    operation_id = "rebuild_gate",
    tag = "Operations",
    summary = "Make a template's gate anew from MySQL",
    description = "Safe while users claim. 409 `NO_GATE` while the template gives out nothing.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it one that was done is not done again.")
    ),
    responses((status = 200, description = "It is made anew, and gives.", body = GateBody)),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND NO_GATE GATE_UNAVAILABLE GATE_LOADING HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn gate(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<TemplateId>,
) -> Result<Answer, Problem> {
    let template = templates::owned(&app, operator, id).await?;
    if let Some(answer) = once.answered(&app, operator).await? {
        return Ok(answer);
    }
    if !app.gates.wants(&template, app.sale_clock.now()) {
        let detail = "The template gives nothing now, so it has no gate: one is loaded shortly before \
                      its window opens.";
        return Err(Problem::new(Code::NoGate, detail));
    }
    let present = templates::stock(&app, id).await?.epoch;
    let epochs = json!({ "epoch": present.0 });
    let action = action(operator, "gate.rebuild", templates::target(id), Some(epochs));
    let line = match audit::begin(&app, operator, &once, action).await? {
        Begun::Recorded(line) => line,
        Begun::Answered(answer) => return Ok(answer),
    };
    // As the line has it: equal requests rebuild the same gate, which happens once.
    let before = line.before.and_then(|before| before["epoch"].as_i64()).map_or(present, Epoch);
    let epoch = rebuilt(&app, id, before).await?;
    let body = GateBody { template_id: id.to_string(), epoch: epoch.0 };
    let answer = Answer::new(StatusCode::OK, &body);
    let after = json!({ "epoch": epoch.0 });
    let answer = audit::end(&app, operator, &once, line.id, after, answer).await?;
    info!(template.id = %id, gate.epoch = %epoch, "rebuilt a gate on request");
    Ok(answer)
}

/// Has the keeper rebuild the gate of this epoch, as one that MySQL contradicts. Returns the new epoch.
async fn rebuilt(app: &App, id: TemplateId, before: Epoch) -> Result<Epoch, Problem> {
    let deadline = Instant::now() + SHOW_MAX;
    loop {
        app.gates.mend(id, before).await;
        let meta = match app.gates.gate().meta(id).await {
            // Until the keeper has replaced it.
            Err(error) if error.is_of_keys() => None,
            meta => meta.map_err(|error| {
                warn!(template.id = %id, error = runtime::report(&error), "a gate is not rebuilt");
                let detail = "The gate's Redis did not answer. Send the request again.";
                Problem::new(Code::GateUnavailable, detail)
            })?,
        };
        let newer = meta.filter(Meta::is_open).map(|meta| meta.epoch);
        // A damaged gate has an epoch that MySQL does not know.
        if let Some(epoch) = newer.filter(|epoch| *epoch > before)
            && epoch <= templates::stock(app, id).await?.epoch
        {
            return Ok(epoch);
        }
        if Instant::now() >= deadline {
            let detail = "The rebuild is under way and goes on by itself.";
            return Err(Problem::new(Code::GateLoading, detail));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Returns the record of a repair, which is written before the repair begins.
fn action(operator: Operator, name: &str, target: String, before: Option<Value>) -> Action {
    let merchant_id = operator.merchant_id;
    Action { merchant_id, name: name.to_owned(), target, before, after: None }
}
