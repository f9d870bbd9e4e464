//! What an operator does with templates: create, look, publish, pause, resume, end.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use coupon::{Template, TemplateId, TemplateState};
use mysql_store::{connect, template};
use tracing::{info, warn};

use crate::{
    auth::Operator,
    body::{Body, Params, PathId},
    claims::unknown_template,
    cursor::{self, Page, PageParams},
    problem::Problem,
    state::App,
    template_json::{NewTemplate, TemplateJson},
};

/// Who stands in the movements of a template's stock; operators get names with their keys.
pub(crate) const ACTOR: &str = "operator";

/// `POST /v1/templates`
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    Body(new): Body<NewTemplate>,
) -> Result<Response, Problem> {
    let total = new.total_stock;
    let draft = new.into_draft(app.ids.template()?, operator.merchant_id)?;
    let mut connection = connect::acquire(&app.pool).await?;
    let created = template::create(&mut connection, &draft, total, ACTOR, app.clock.now());
    connect::within(created).await?;
    info!(template.id = %draft.id, "created a template");
    let mut response = (StatusCode::CREATED, Json(TemplateJson::from(&draft))).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/templates/{}", draft.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /v1/templates`
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<PageParams>,
) -> Result<Json<Page<TemplateJson>>, Problem> {
    let limit = params.limit()?;
    let before = cursor::parse(params.cursor.as_ref())?;
    let mut connection = connect::acquire(&app.pool).await?;
    let mut templates =
        template::page(&mut connection, operator.merchant_id, before, limit + 1).await?;
    let more = templates.len() > limit as usize;
    templates.truncate(limit as usize);
    let next = templates.last().filter(|_| more).map(|template| template.id.to_string());
    Ok(Json(Page::new(templates.iter().map(TemplateJson::from).collect(), next)))
}

/// `GET /v1/templates/{id}`
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Json<TemplateJson>, Problem> {
    Ok(Json(TemplateJson::from(&owned(&app, operator, id).await?)))
}

/// `POST /v1/templates/{id}/{verb}`: publish, pause, resume, end.
pub(crate) async fn change_state(
    State(app): State<App>,
    operator: Operator,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Json<TemplateJson>, Problem> {
    let id = id.parse().map_err(|_| unknown_template())?;
    let (from, next) = match verb.as_str() {
        "publish" => (TemplateState::Draft, TemplateState::Published),
        "resume" => (TemplateState::Paused, TemplateState::Published),
        "pause" => (TemplateState::Published, TemplateState::Paused),
        "end" => (TemplateState::Published, TemplateState::Ended),
        _ => {
            let detail = "A template can be told to publish, pause, resume or end.";
            return Err(Problem::not_found("NOT_FOUND", detail));
        }
    };
    let before = owned(&app, operator, id).await?;
    // The same call again, after its answer was lost, is the same answer.
    let after = if before.state == next {
        before
    } else {
        allowed(&before, from, next, &verb)?;
        apply(&app, operator, before, next).await?
    };
    app.templates.apply(after.clone());
    show_gate(&app, &after).await?;
    Ok(Json(TemplateJson::from(&after)))
}

/// `end` also ends a paused template; every other verb has one state it starts from.
fn allowed(
    before: &Template,
    from: TemplateState,
    next: TemplateState,
    verb: &str,
) -> Result<(), Problem> {
    let starts_here = before.state == from || next == TemplateState::Ended;
    if starts_here && before.state.may_become(next) {
        return Ok(());
    }
    let state = before.state.word();
    let detail = format!("The template is {state}: it cannot {verb}.");
    Err(Problem::conflict("INVALID_TRANSITION", "Not in this state", detail).with("state", state))
}

async fn apply(
    app: &App,
    operator: Operator,
    before: Template,
    next: TemplateState,
) -> Result<Template, Problem> {
    let mut connection = connect::acquire(&app.pool).await?;
    let changed = template::change_state(&mut connection, &before, next, app.clock.now());
    if !connect::within(changed).await? {
        let detail = "Somebody changed the template at the same time. Look at it and try again.";
        return Err(Problem::conflict("CHANGED_MEANWHILE", "Changed meanwhile", detail));
    }
    drop(connection);
    info!(template.id = %before.id, from = before.state.word(), to = next.word(), "changed a template");
    owned(app, operator, before.id).await
}

/// The guard row is exact already: the gate's state is the fast path. A gate that gives something is
/// waited for; of one that does not, or that cannot be reached now, the keeper takes care.
async fn show_gate(app: &App, template: &Template) -> Result<(), Problem> {
    let wanted = app.gates.wants(template, app.clock.now());
    let gives = template.state == TemplateState::Published && wanted;
    let shown = if gives {
        app.gates.show(template).await
    } else {
        app.gates.tell(template).await.map(|_| true)
    };
    let shown = shown.unwrap_or_else(|error| {
        let error = runtime::report(&error);
        warn!(template.id = %template.id, error, "the gate does not know a template's state");
        !gives
    });
    if shown {
        return Ok(());
    }
    app.gates.ask_look(template.id);
    let detail = "The change is made; its gate is not loaded yet, and will be by itself.";
    Err(Problem::unavailable("GATE_LOADING", detail))
}

/// The operator's template; another merchant's is as good as none.
pub(crate) async fn owned(
    app: &App,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    let mut connection = connect::acquire(&app.pool).await?;
    template::get(&mut connection, id)
        .await?
        .filter(|template| template.merchant_id == operator.merchant_id)
        .ok_or_else(unknown_template)
}
