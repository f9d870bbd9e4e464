//! Operators' requests about templates: create and get. The other requests have files of their own.

pub(crate) mod clone;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod expected;
pub(crate) mod export;
pub(crate) mod gate_news;
pub(crate) mod halt;
pub(crate) mod history;
pub(crate) mod history_lists;
pub(crate) mod ledger;
pub(crate) mod ledger_list;
pub(crate) mod list;
mod name_search;
pub(crate) mod state_change;
pub(crate) mod validity;

use axum::{extract::State, http::StatusCode};
use coupon::{Template, TemplateId};
use mysql_store::{MySqlConnection, connect, stock, template};
use serde_json::{Value, json};
use tracing::info;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        etag::Tagged,
        extract::{Body, PathId},
        schemas::{Id, RequestId},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Begun, Known, Once},
        },
        bodies::{
            template_json::{NewTemplate, TemplateJson},
            template_rows::ShownTemplate,
        },
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
    let new = New { draft: &draft, total, cloned_from: None };
    let create = || create_once(&app, operator, &once, &new);
    connect::within(connect::retried(create, Problem::is_contended)).await
}

/// A template to be created.
struct New<'a> {
    draft: &'a Template,
    /// Its first stock.
    total: i64,
    /// The template whose terms it has.
    cloned_from: Option<TemplateId>,
}

async fn create_once(
    app: &App,
    operator: Operator,
    once: &Once,
    new: &New<'_>,
) -> Result<Answer, Problem> {
    let New { draft, total, cloned_from } = *new;
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return Ok(answer);
    }
    let actor = operator.actor();
    let now = app.clock.now();
    if draft.window.ends_at > now {
        app.quotas.one_more_open_template(&mut transaction, operator, now).await?;
    }
    template::create(&mut transaction, draft, total, &actor, now).await?;
    let body = TemplateJson::from(draft);
    let mut after = json!(body);
    after["total_stock"] = json!(total);
    let mut verb = "create";
    if let Some(source) = cloned_from {
        after["cloned_from"] = json!(source.to_string());
        verb = "clone";
    }
    audit::record(app, operator, &mut transaction, action(draft, verb, None, after)).await?;
    let answer = Answer::new(StatusCode::CREATED, &body)
        .of_version(draft.version)
        .at(format!("/v1/templates/{}", draft.id));
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    info!(template.id = %draft.id, "created a template");
    Ok(answer)
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
        (status = 200, description = "The template, with its total stock.", body = ShownTemplate,
            headers(("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Tagged<ShownTemplate>, Problem> {
    let template = seen(&app, operator, id).await?;
    let total = stock(&app, id).await?.total;
    Ok(Tagged { version: template.version, body: ShownTemplate::of(&template, total) })
}

/// Another request changed the template, which has this version now.
pub(crate) fn changed_meanwhile(version: i64) -> Problem {
    let detail = "The template is not of this version any more. Look at it and try again.";
    Problem::new(Code::ChangedMeanwhile, detail).with("version", version)
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

/// Returns a template that the operator may see: its own, or any merchant's if it is on call.
pub(crate) async fn seen(
    app: &App,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        seen_on(&mut connection, operator, id).await
    })
    .await
}

async fn seen_on(
    connection: &mut MySqlConnection,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    template::get(connection, id)
        .await?
        .filter(|template| operator.sees(template.merchant_id))
        .ok_or_else(unknown_template)
}

/// Returns the operator's template. Another merchant's is not found.
pub(crate) async fn owned(
    app: &App,
    operator: Operator,
    id: TemplateId,
) -> Result<Template, Problem> {
    connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        owned_on(&mut connection, operator, id).await
    })
    .await
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

/// Returns a template's stock in MySQL.
pub(crate) async fn stock(app: &App, id: TemplateId) -> Result<stock::Stock, Problem> {
    let row = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        stock::get(&mut connection, id).await
    });
    row.await?.ok_or_else(unknown_template)
}
