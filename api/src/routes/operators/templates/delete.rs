//! `DELETE /v1/templates/{id}`: deletes a draft, with its rows. A template that was ever published stays for good.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
};
use coupon::{TemplateId, TemplateState};
use mysql_store::{Listed, MySqlConnection, audit as store, connect, template_delete};
use serde_json::json;
use tracing::info;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        etag::IfMatch,
        extract::PathId,
        schemas::{self, Id},
    },
    problem::Problem,
    routes::{
        audit,
        bodies::template_json::TemplateJson,
        operators::templates::{action, changed_meanwhile, owned_on, target},
    },
    state::App,
};

/// Verb of the deletion in the audit record.
const VERB: &str = "delete";

/// `DELETE /v1/templates/{id}`
#[utoipa::path(
    delete,
    path = "/v1/templates/{id}",
    operation_id = "delete_template",
    tag = "Templates",
    summary = "Delete a draft",
    description = "A template that was ever published is not deleted: `end` it.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The draft."),
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the draft that the operator has seen.")
    ),
    responses((status = 204, description = "It is gone. The same call again is the same answer.")),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TRANSITION IF_MATCH_INVALID PRECONDITION_FAILED CHANGED_MEANWHILE \
         HOURLY_QUOTA_EXCEEDED OVERLOADED"
    )))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let if_match = IfMatch::of(&headers)?;
    let remove = || remove(&app, operator, id, &if_match);
    connect::within(connect::retried(remove, Problem::is_contended)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    app: &App,
    operator: Operator,
    id: TemplateId,
    if_match: &IfMatch,
) -> Result<(), Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    let found = owned_on(&mut transaction, operator, id).await;
    // A repeated call whose answer was lost gets the same answer.
    if found.is_err() && was_deleted(&mut transaction, operator, id).await? {
        return Ok(());
    }
    let draft = found?;
    if_match.check(draft.version)?;
    if draft.state != TemplateState::Draft {
        let state = draft.state.word();
        let detail = format!("The template is {state}: only a draft can be deleted.");
        return Err(Problem::new(Code::InvalidTransition, detail).with("state", state));
    }
    if !template_delete::delete(&mut transaction, &draft).await? {
        if was_deleted(&mut transaction, operator, id).await? {
            return Ok(());
        }
        let current = owned_on(&mut transaction, operator, id).await?.version;
        if_match.check(current)?;
        return Err(changed_meanwhile(current));
    }
    let was = json!(TemplateJson::from(&draft));
    let action = action(&draft, VERB, Some(was), json!({ "deleted": true }));
    audit::record(app, operator, &mut transaction, action).await?;
    app.commit(transaction).await?;
    info!(template.id = %id, "deleted a draft");
    Ok(())
}

/// Whether the record says that this operator's merchant has deleted the template. Ids are never given twice.
async fn was_deleted(
    connection: &mut MySqlConnection,
    operator: Operator,
    id: TemplateId,
) -> Result<bool, Problem> {
    let target = target(id);
    let filter = store::Filter { target: Some(&target), ..store::Filter::of(operator.merchant_id) };
    let last = store::page(connection, &filter, None, 1).await?;
    let mut lines = last.lines.iter().filter_map(Listed::row);
    Ok(lines.any(|named| named.entry.action == format!("template.{VERB}")))
}
