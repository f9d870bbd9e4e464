//! What an operator does with templates: create, look, publish, pause, resume, end.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use coupon::{Template, TemplateId, TemplateState};
use mysql_store::{connect, template};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    audit::{self, Action},
    auth::Operator,
    body::{Body, Params, PathId},
    claims::unknown_template,
    cursor::{self, Page, PageParams},
    openapi::{self, Cursor, Id, TemplateVerb},
    precondition::{IfMatch, Tagged},
    problem::Problem,
    state::App,
    template_json::{NewTemplate, TemplateJson},
};

/// `POST /v1/templates`
#[utoipa::path(
    post,
    path = "/v1/templates",
    operation_id = "create_template",
    tag = "Templates",
    summary = "Create a template, as a draft",
    security(("operator_key" = [])),
    request_body = NewTemplate,
    responses(
        (status = 201, description = "The draft.", body = TemplateJson,
            headers(("Location" = String, description = "Where it is."), ("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!("INVALID_TEMPLATE OVERLOADED")))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    Body(new): Body<NewTemplate>,
) -> Result<Response, Problem> {
    let total = new.total_stock;
    let draft = new.into_draft(app.ids.template()?, operator.merchant_id)?;
    let body = TemplateJson::from(&draft);
    let mut after = json!(body);
    after["total_stock"] = json!(total);
    let action = action(&draft, "create", None, after);
    connect::within(async {
        let mut transaction = connect::begin(&app.pool).await?;
        let actor = operator.actor();
        template::create(&mut transaction, &draft, total, &actor, app.clock.now()).await?;
        audit::record(&app, operator, &mut transaction, action).await?;
        app.commit(transaction).await
    })
    .await?;
    info!(template.id = %draft.id, "created a template");
    let tagged = Tagged { version: draft.version, body };
    let mut response = (StatusCode::CREATED, tagged).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/templates/{}", draft.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /v1/templates`
#[utoipa::path(
    get,
    path = "/v1/templates",
    operation_id = "list_templates",
    tag = "Templates",
    summary = "List templates, the newest first",
    security(("operator_key" = [])),
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the newest.")
    ),
    responses((status = 200, description = "A page.", body = Page<TemplateJson>)),
    extensions(("x-problems" = json!("INVALID_LIMIT INVALID_CURSOR")))
)]
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
#[utoipa::path(
    get,
    path = "/v1/templates/{id}",
    operation_id = "get_template",
    tag = "Templates",
    summary = "Get a template",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The template.")),
    responses(
        (status = 200, description = "The template.", body = TemplateJson,
            headers(("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Tagged<TemplateJson>, Problem> {
    Ok(tagged(&owned(&app, operator, id).await?))
}

/// `POST /v1/templates/{id}/{verb}`: publish, pause, resume, end.
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/{verb}",
    operation_id = "change_template_state",
    tag = "Templates",
    summary = "Publish, pause, resume or end a template",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("verb" = TemplateVerb, Path, description = "What it shall do."),
        ("If-Match" = Option<openapi::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen.")
    ),
    responses(
        (status = 200, description = "The template in its new state. The same call again is the same answer.", body = TemplateJson,
            headers(("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TRANSITION IF_MATCH_INVALID PRECONDITION_FAILED CHANGED_MEANWHILE \
         GATE_LOADING OVERLOADED"
    )))
)]
pub(crate) async fn change_state(
    State(app): State<App>,
    operator: Operator,
    Path((id, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Tagged<TemplateJson>, Problem> {
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
    let if_match = IfMatch::of(&headers)?;
    let before = owned(&app, operator, id).await?;
    // The same call again, after its answer was lost, is the same answer.
    let after = if before.state == next && if_match.admits(before.version - 1) {
        before
    } else {
        if_match.check(before.version)?;
        if before.state == next {
            before
        } else {
            allowed(&before, from, next, &verb)?;
            apply(&app, operator, (&before, next), &verb, &if_match).await?
        }
    };
    app.templates.apply(after.clone());
    show_gate(&app, &after).await?;
    Ok(tagged(&after))
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
    (before, next): (&Template, TemplateState),
    verb: &str,
    if_match: &IfMatch,
) -> Result<Template, Problem> {
    let after = Template { state: next, version: before.version + 1, ..before.clone() };
    let [was, is] = [before, &after].map(|template| json!(TemplateJson::from(template)));
    let action = action(before, verb, Some(was), is);
    let change = || async {
        let mut transaction = connect::begin(&app.pool).await?;
        let changed = template::change_state(&mut transaction, before, next, app.clock.now());
        let changed = changed.await?;
        if changed {
            audit::record(app, operator, &mut transaction, action.clone()).await?;
            app.commit(transaction).await?;
        }
        Ok::<_, Problem>(changed)
    };
    let changed = connect::within(connect::retried(change, Problem::is_contended)).await?;
    let current = owned(app, operator, before.id).await?;
    if !changed {
        if_match.check(current.version)?;
        return Err(changed_meanwhile(current.version));
    }
    info!(template.id = %before.id, from = before.state.word(), to = next.word(), "changed a template");
    Ok(current)
}

/// Somebody else changed the template, which is of this version now.
pub(crate) fn changed_meanwhile(version: i64) -> Problem {
    let detail = "The template is not of this version any more. Look at it and try again.";
    Problem::conflict("CHANGED_MEANWHILE", "Changed meanwhile", detail).with("version", version)
}

/// The change stands, and claims wait for the gate.
pub(crate) fn gate_loading() -> Problem {
    let detail = "The change is made; its gate is not loaded yet, and will be by itself.";
    Problem::unavailable("GATE_LOADING", detail)
}

/// A template's name in the record of what operators did.
pub(crate) fn target(id: TemplateId) -> String {
    format!("templates/{id}")
}

fn action(template: &Template, verb: &str, before: Option<Value>, after: Value) -> Action {
    Action {
        merchant_id: template.merchant_id,
        name: format!("template.{verb}"),
        target: target(template.id),
        before,
        after: Some(after),
    }
}

fn tagged(template: &Template) -> Tagged<TemplateJson> {
    Tagged { version: template.version, body: TemplateJson::from(template) }
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
    Err(gate_loading())
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
