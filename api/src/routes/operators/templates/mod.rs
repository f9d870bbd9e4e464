//! Operators' requests about templates: create, list, get, publish, pause, resume, end.

pub(crate) mod edit;
pub(crate) mod validity;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
};
use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, TemplateState};
use mysql_store::{MySqlConnection, connect, template};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, PageParams},
        etag::{IfMatch, Tagged},
        extract::{Body, Params, PathId},
        schemas::{self, Cursor, Id, RequestId, TemplateVerb},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Known, Once},
        },
        bodies::template_json::{NewTemplate, TemplateJson},
    },
    state::App,
};

/// `POST /v1/templates`
#[utoipa::path(
    post,
    path = "/v1/templates",
    operation_id = "create_template",
    tag = "Templates",
    summary = "Create a template, as a draft",
    security(("operator_key" = [])),
    params(("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")),
    request_body = NewTemplate,
    responses(
        (status = 201, description = "The draft. The same key again is the same answer.", body = TemplateJson,
            headers(("Location" = String, description = "Where it is."), ("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!(
        "INVALID_TEMPLATE QUOTA_EXCEEDED HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    Body(new): Body<NewTemplate>,
) -> Result<Answer, Problem> {
    let once = once.asking(&new);
    let total = new.total_stock;
    let draft = new.into_draft(app.ids.template()?, operator.merchant_id)?;
    let create = || create_once(&app, operator, &once, (&draft, total));
    connect::within(connect::retried(create, Problem::is_contended)).await
}

async fn create_once(
    app: &App,
    operator: Operator,
    once: &Once,
    (draft, total): (&Template, i64),
) -> Result<Answer, Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    if let Known::Answer(answer) = once.begin(app, operator, &mut transaction).await? {
        return Ok(answer);
    }
    let (actor, now) = (operator.actor(), app.clock.now());
    if draft.window.ends_at > now {
        app.quotas.one_more_open_template(&mut transaction, operator, now).await?;
    }
    template::create(&mut transaction, draft, total, &actor, now).await?;
    let body = TemplateJson::from(draft);
    let mut after = json!(body);
    after["total_stock"] = json!(total);
    audit::record(app, operator, &mut transaction, action(draft, "create", None, after)).await?;
    let answer = Answer::new(StatusCode::CREATED, &body)
        .of_version(draft.version)
        .at(format!("/v1/templates/{}", draft.id));
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    info!(template.id = %draft.id, "created a template");
    Ok(answer)
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
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer, whatever others did meanwhile.")
    ),
    responses(
        (status = 200, description = "The template in its new state. The same call again is the same answer.", body = TemplateJson,
            headers(("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TRANSITION VALIDITY_OVER IF_MATCH_INVALID PRECONDITION_FAILED CHANGED_MEANWHILE \
         HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED GATE_LOADING OVERLOADED"
    )))
)]
pub(crate) async fn change_state(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    Path((id, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Answer, Problem> {
    let id = id.parse().map_err(|_| unknown_template())?;
    let (from, next) = match verb.as_str() {
        "publish" => (TemplateState::Draft, TemplateState::Published),
        "resume" => (TemplateState::Paused, TemplateState::Published),
        "pause" => (TemplateState::Published, TemplateState::Paused),
        "end" => (TemplateState::Published, TemplateState::Ended),
        _ => {
            let detail = "A template can be told to publish, pause, resume or end.";
            return Err(Problem::new(Code::NotFound, detail));
        }
    };
    let change = Change { id, verb, from, next, if_match: IfMatch::of(&headers)? };
    let apply = || change.apply(&app, operator, &once);
    let answer = connect::within(connect::retried(apply, Problem::is_contended)).await?;
    // The current state, which may be newer than the answer to this request.
    let current = owned(&app, operator, id).await?;
    app.templates.apply(current.clone());
    show_gate(&app, &current).await?;
    Ok(answer)
}

/// A requested change of a template's state.
struct Change {
    id: TemplateId,
    verb: String,
    from: TemplateState,
    next: TemplateState,
    if_match: IfMatch,
}

impl Change {
    async fn apply(&self, app: &App, operator: Operator, once: &Once) -> Result<Answer, Problem> {
        let mut transaction = connect::begin(&app.pool).await?;
        if let Known::Answer(answer) = once.begin(app, operator, &mut transaction).await? {
            return Ok(answer);
        }
        let before = owned_on(&mut transaction, operator, self.id).await?;
        // A repeated call whose answer was lost gets the same answer.
        let stands = before.state == self.next && self.if_match.admits(before.version - 1);
        if !stands {
            self.if_match.check(before.version)?;
        }
        let after = if before.state == self.next {
            before
        } else {
            self.make(app, operator, &mut transaction, &before).await?
        };
        let answer = Answer::new(StatusCode::OK, &TemplateJson::from(&after));
        let answer = answer.of_version(after.version);
        once.end(operator, &mut transaction, &answer).await?;
        app.commit(transaction).await?;
        Ok(answer)
    }

    async fn make(
        &self,
        app: &App,
        operator: Operator,
        transaction: &mut MySqlConnection,
        before: &Template,
    ) -> Result<Template, Problem> {
        let now = app.clock.now();
        self.allowed(before, now)?;
        if !template::change_state(transaction, before, self.next, now).await? {
            let current = owned_on(transaction, operator, self.id).await?.version;
            self.if_match.check(current)?;
            return Err(changed_meanwhile(current));
        }
        let after = Template { state: self.next, version: before.version + 1, ..before.clone() };
        let [was, is] = [before, &after].map(|template| json!(TemplateJson::from(template)));
        let action = action(before, &self.verb, Some(was), is);
        audit::record(app, operator, transaction, action).await?;
        let (from, to) = (before.state.word(), self.next.word());
        info!(template.id = %self.id, from, to, "changed a template");
        Ok(after)
    }

    /// Checks that the change is allowed. `end` also ends a paused template; every other verb starts from one state.
    fn allowed(&self, before: &Template, now: DateTime<Utc>) -> Result<(), Problem> {
        let starts_here = before.state == self.from || self.next == TemplateState::Ended;
        if !starts_here || !before.state.may_become(self.next) {
            let state = before.state.word();
            let detail = format!("The template is {state}: it cannot {}.", self.verb);
            let problem = Problem::new(Code::InvalidTransition, detail);
            return Err(problem.with("state", state));
        }
        if self.next == TemplateState::Published && before.validity.is_over(now) {
            let detail = "No coupon of it could be used any more: edit its validity first.";
            return Err(Problem::new(Code::ValidityOver, detail));
        }
        Ok(())
    }
}

/// Somebody else changed the template, which has this version now.
pub(crate) fn changed_meanwhile(version: i64) -> Problem {
    let detail = "The template is not of this version any more. Look at it and try again.";
    Problem::new(Code::ChangedMeanwhile, detail).with("version", version)
}

/// The change is made, and claims wait for the gate.
pub(crate) fn gate_loading() -> Problem {
    let detail = "The change is made; its gate is not loaded yet, and will be by itself.";
    Problem::unavailable(Code::GateLoading, detail)
}

/// Name of a template in the audit record.
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

/// Updates the gate's state. MySQL's guard is already exact, and the gate is the fast path. If the template gives out
/// coupons, waits for its gate, and answers that it is loading if that fails. Any other gate that cannot be updated is
/// left to the keeper.
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

/// Returns the operator's template. Another merchant's is not found.
pub(crate) async fn owned(
    app: &App,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    owned_on(&mut *connect::acquire(&app.pool).await?, operator, id).await
}

async fn owned_on(
    connection: &mut MySqlConnection,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    template::get(connection, id)
        .await?
        .filter(|template| template.merchant_id == operator.merchant_id)
        .ok_or_else(unknown_template)
}
