//! Progress of issued coupons that follow a change of their template's validity ([`crate::routes::operators::templates::edit`]).
//! expiry-worker moves those that can still be used, which takes seconds to minutes.

use axum::{Json, extract::State};
use coupon::TemplateId;
use mysql_store::{
    StoreError, connect,
    validity_move::{self, ValidityMove},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        extract::PathId,
        instant::instant,
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    routes::{
        bodies::template_json::ValidityJson,
        operators::templates::{self, seen},
    },
    state::App,
};

/// What happens to the coupons issued before a change.
#[derive(Serialize, ToSchema)]
#[schema(as = IssuedCoupons)]
pub(crate) struct IssuedBody {
    follow: bool,
    /// Number of these coupons.
    count: i64,
    /// Path that shows how far they have followed.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}

/// Progress of issued coupons that follow a change of the validity: the last one that asked for it.
#[derive(Serialize, ToSchema)]
#[schema(as = ValidityMove, examples(json!({
    "template_id": "2123985067360387072", "version": 3, "state": "under_way",
    "valid_for_ms": 1209600000, "total": 20000, "looked_at": 5120, "moved": 5019,
    "started_at": "2026-11-27T12:00:00.000Z", "ended_at": null
})))]
pub(crate) struct MoveBody {
    #[schema(value_type = Id)]
    template_id: String,
    /// The template's version after that change.
    version: i64,
    #[schema(value_type = schemas::MoveState)]
    state: &'static str,
    #[serde(flatten)]
    validity: ValidityJson,
    /// Coupons issued before the change.
    total: i64,
    /// Coupons checked so far, including those claimed after the change.
    looked_at: i64,
    /// Coupons moved. The others were used, had expired, or had this validity already.
    moved: i64,
    #[schema(value_type = Option<Instant>, required = true)]
    started_at: Option<String>,
    #[schema(value_type = Option<Instant>, required = true)]
    ended_at: Option<String>,
}

/// `GET /v1/templates/{id}/validity-move`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/validity-move",
    operation_id = "get_validity_move",
    tag = "Templates",
    summary = "How far issued coupons have followed a change of validity",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The template.")),
    responses((status = 200, description = "The last move.", body = MoveBody)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND MOVE_NOT_FOUND")))
)]
pub(crate) async fn progress(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Json<MoveBody>, Problem> {
    seen(&app, operator, id).await?;
    let last = last(&app, id).await?.ok_or_else(|| {
        let detail = "No change of this template's validity was to be followed by its coupons.";
        Problem::new(Code::MoveNotFound, detail)
    })?;
    Ok(Json(MoveBody::from(&last)))
}

/// Returns what the change to this version means for issued coupons.
pub(crate) async fn issued(app: &App, id: TemplateId, version: i64) -> Result<IssuedBody, Problem> {
    if let Some(followed) = move_of(app, id, version).await? {
        let progress = Some(progress_url(id));
        return Ok(IssuedBody { follow: true, count: followed.total, progress });
    }
    let stock = templates::stock(app, id).await?;
    Ok(IssuedBody { follow: false, count: stock.total.saturating_sub(stock.stock), progress: None })
}

/// Returns the move that the change to this version began.
pub(crate) async fn move_of(
    app: &App,
    id: TemplateId,
    version: i64,
) -> Result<Option<ValidityMove>, Problem> {
    Ok(last(app, id).await?.filter(|last| last.version == version))
}

async fn last(app: &App, id: TemplateId) -> Result<Option<ValidityMove>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        validity_move::last(&mut connection, id).await
    })
    .await
}

pub(crate) fn progress_url(id: TemplateId) -> String {
    format!("/v1/templates/{id}/validity-move")
}

impl From<&ValidityMove> for MoveBody {
    fn from(last: &ValidityMove) -> Self {
        Self {
            template_id: last.template_id.to_string(),
            version: last.version,
            state: last.state.word(),
            validity: ValidityJson::from(&last.validity),
            total: last.total,
            looked_at: last.looked_at,
            moved: last.moved,
            started_at: last.started_at.map(instant),
            ended_at: last.ended_at.map(instant),
        }
    }
}
