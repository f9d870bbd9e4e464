//! A template's validity: its change, and how far issued coupons have followed.
//!
//! The change is exact for claims from its answer on: MySQL lets nothing land with the old validity after
//! it. Issued coupons keep theirs, unless they are asked to follow: then expiry-worker moves those that
//! can still be used, which takes seconds to minutes.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, TemplateState, Validity};
use mysql_store::{
    connect, stock,
    validity::{self, Changed},
    validity_move::{self, ValidityMove},
};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    auth::Operator,
    body::{Body, PathId},
    claims::unknown_template,
    instant::instant,
    problem::Problem,
    state::App,
    template_json::{self, TemplateJson, ValidityJson},
    templates::owned,
};

/// What an operator sends to change a template: its validity, as when it is created.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeRequest {
    /// The template's version that the operator has seen.
    version: i64,
    valid_from: Option<DateTime<Utc>>,
    valid_until: Option<DateTime<Utc>>,
    valid_for_ms: Option<i64>,
    #[serde(default)]
    issued_coupons: IssuedCoupons,
}

/// What becomes of coupons that were issued before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IssuedCoupons {
    /// They end when they were to end.
    #[default]
    Keep,
    /// They take the new validity.
    Follow,
}

/// The template after its change, and what becomes of its coupons.
#[derive(Serialize)]
pub(crate) struct ChangedBody {
    #[serde(flatten)]
    template: TemplateJson,
    issued_coupons: IssuedBody,
}

#[derive(Serialize)]
struct IssuedBody {
    follow: bool,
    /// How many there are.
    count: i64,
    /// Where to see how far they have followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}

/// How far issued coupons have followed the last change that asked for it.
#[derive(Serialize)]
pub(crate) struct MoveBody {
    template_id: String,
    /// The template's version since that change.
    version: i64,
    state: &'static str,
    #[serde(flatten)]
    validity: ValidityJson,
    /// Coupons issued before the change.
    total: i64,
    /// Coupons looked at so far, those claimed after the change included.
    looked_at: i64,
    /// Those of them that were moved; the others were used, over, or had this validity already.
    moved: i64,
    started_at: Option<String>,
    ended_at: Option<String>,
}

/// `PATCH /v1/templates/{id}`
pub(crate) async fn change(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    Body(request): Body<ChangeRequest>,
) -> Result<Json<ChangedBody>, Problem> {
    let ChangeRequest { version, valid_from, valid_until, valid_for_ms, issued_coupons } = request;
    let validity = template_json::validity(valid_from, valid_until, valid_for_ms)?;
    let follow = issued_coupons == IssuedCoupons::Follow;
    let next = version.saturating_add(1);
    let before = owned(&app, operator, id).await?;
    // The same call again, after its answer was lost, is the same answer.
    let stands = before.version == next
        && before.validity == validity
        && move_of(&app, id, next).await?.is_some() == follow;
    if !stands {
        allowed(&before, version)?;
        apply(&app, &before, validity, follow).await?;
    }
    let after = owned(&app, operator, id).await?;
    if after.state != TemplateState::Draft {
        app.templates.apply(after.clone());
    }
    let issued_coupons = issued(&app, id, next).await?;
    Ok(Json(ChangedBody { template: TemplateJson::from(&after), issued_coupons }))
}

/// `GET /v1/templates/{id}/validity-move`
pub(crate) async fn progress(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Json<MoveBody>, Problem> {
    owned(&app, operator, id).await?;
    let mut connection = connect::acquire(&app.pool).await?;
    let last = connect::within(validity_move::last(&mut connection, id)).await?;
    let last = last.ok_or_else(|| {
        let detail = "No change of this template's validity was to be followed by its coupons.";
        Problem::not_found("MOVE_NOT_FOUND", detail)
    })?;
    Ok(Json(MoveBody::from(&last)))
}

fn allowed(before: &Template, version: i64) -> Result<(), Problem> {
    if before.state == TemplateState::Ended {
        let detail = "The template is ended: its validity cannot change.";
        return Err(Problem::conflict("INVALID_TRANSITION", "Not in this state", detail)
            .with("state", before.state.word()));
    }
    if before.version == version { Ok(()) } else { Err(changed_meanwhile()) }
}

async fn apply(
    app: &App,
    before: &Template,
    validity: Validity,
    follow: bool,
) -> Result<(), Problem> {
    template_json::validate(&Template { validity, ..before.clone() })?;
    let mut connection = connect::acquire(&app.pool).await?;
    let now = app.clock.now();
    let changed = validity::change(&mut connection, before, &validity, follow, now);
    match connect::within(changed).await? {
        Changed::Done => {
            info!(template.id = %before.id, follow, "changed a template's validity");
            Ok(())
        }
        Changed::Meanwhile => Err(changed_meanwhile()),
        Changed::MoveUnderWay => {
            let detail = "Issued coupons are being moved to an earlier change's validity. Wait until \
                          they are, or let them follow this change too.";
            Err(Problem::conflict("MOVE_UNDER_WAY", "Coupons are being moved", detail)
                .with("progress", progress_url(before.id))
                .retry_after())
        }
    }
}

fn changed_meanwhile() -> Problem {
    let detail = "The template is not of this version any more. Look at it and try again.";
    Problem::conflict("CHANGED_MEANWHILE", "Changed meanwhile", detail)
}

/// What the change to this version means for issued coupons.
async fn issued(app: &App, id: TemplateId, version: i64) -> Result<IssuedBody, Problem> {
    if let Some(followed) = move_of(app, id, version).await? {
        let progress = Some(progress_url(id));
        return Ok(IssuedBody { follow: true, count: followed.total, progress });
    }
    let mut connection = connect::acquire(&app.pool).await?;
    let stock = connect::within(stock::get(&mut connection, id)).await?;
    let stock = stock.ok_or_else(unknown_template)?;
    Ok(IssuedBody { follow: false, count: stock.total - stock.stock, progress: None })
}

/// The move that the change to this version began.
async fn move_of(app: &App, id: TemplateId, version: i64) -> Result<Option<ValidityMove>, Problem> {
    let mut connection = connect::acquire(&app.pool).await?;
    let last = connect::within(validity_move::last(&mut connection, id)).await?;
    Ok(last.filter(|last| last.version == version))
}

fn progress_url(id: TemplateId) -> String {
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
