//! `POST /v1/templates/{id}/clone`: a draft with the terms of another template.

use axum::extract::State;
use coupon::{Template, TemplateId, TemplateState, limit};
use mysql_store::{connect, stock};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{
        extract::{Body, PathId},
        instant::RequestInstant,
        schemas::{Id, RequestId},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::idempotency::{Answer, Once},
        bodies::template_json::{self, TemplateJson},
        operators::templates::{New, create_once, owned_on},
    },
    state::App,
};

/// Suffix of a copy's default name.
const OF_A_COPY: &str = " (copy)";

/// Request to clone a template: the fields in which the copy differs.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TemplateClone, examples(json!({
    "name": "Spring sale", "claim_starts_at": "2027-03-20T08:00:00Z", "claim_ends_at": "2037-03-21T08:00:00Z"
})))]
pub(crate) struct CloneRequest {
    /// The copy's name. Default: the template's, and "(copy)".
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    name: Option<String>,
    /// Number of coupons to give out. Default: the template's present total.
    #[schema(minimum = 0, maximum = 1000000000)]
    total_stock: Option<i64>,
    /// When claims open. Default: as the template's.
    claim_starts_at: Option<RequestInstant>,
    /// When claims close, exclusive. Default: as the template's.
    claim_ends_at: Option<RequestInstant>,
}

/// `POST /v1/templates/{id}/clone`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/clone",
    operation_id = "clone_template",
    tag = "Templates",
    summary = "Clone a template, as a draft",
    description = "The copy has every term of the template, in whatever state that is, and none of its claims.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")
    ),
    request_body = Option<CloneRequest>,
    responses(
        (status = 201, description = "The draft. The same key again is the same answer.", body = TemplateJson,
            headers(("Location" = String, description = "Where it is."), ("ETag" = String, description = "Its version, for `If-Match`.")))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TEMPLATE QUOTA_EXCEEDED HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn clone(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<TemplateId>,
    Body(request): Body<CloneRequest>,
) -> Result<Answer, Problem> {
    let once = once.asking(&request);
    // The template may have changed, or be gone, since the request was answered.
    if let Some(answer) = once.answered(&app, operator).await? {
        return Ok(answer);
    }
    let read = async {
        let mut connection = connect::acquire(&app.pool).await?;
        let template = owned_on(&mut connection, operator, id).await?;
        let stock = stock::get(&mut connection, id).await?.ok_or_else(unknown_template)?;
        Ok::<_, Problem>((template, stock.total))
    };
    let (template, total) = connect::within(read).await?;
    let copy = request.applied_to(template, app.ids.template()?)?;
    let total = request.total_stock.unwrap_or(total);
    if !(0..=limit::STOCK_MAX).contains(&total) {
        let problem = format!("use 0 to {}", limit::STOCK_MAX);
        return Err(template_json::invalid("total_stock", problem));
    }
    let new = New { draft: &copy, total, cloned_from: Some(id) };
    let create = || create_once(&app, operator, &once, &new);
    connect::within(connect::retried(create, Problem::is_contended)).await
}

impl CloneRequest {
    /// Returns the copy. Whatever the request does not name is the template's.
    fn applied_to(&self, template: Template, id: TemplateId) -> Result<Template, Problem> {
        let mut window = template.window;
        if let Some(at) = self.claim_starts_at {
            window.starts_at = at.0;
        }
        if let Some(at) = self.claim_ends_at {
            window.ends_at = at.0;
        }
        let copy = Template {
            id,
            name: self.name.clone().unwrap_or_else(|| name_of_copy(&template.name)),
            window,
            state: TemplateState::Draft,
            version: 1,
            ..template
        };
        template_json::validate(&copy)?;
        Ok(copy)
    }
}

/// Returns the name of a copy, cut so that it is not too long.
fn name_of_copy(name: &str) -> String {
    let room = limit::NAME_CHARS_MAX.saturating_sub(OF_A_COPY.chars().count());
    let kept: String = name.chars().take(room).collect();
    format!("{kept}{OF_A_COPY}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_copy_says_so_and_is_never_too_long() {
        assert_eq!(name_of_copy("A sale"), "A sale (copy)");
        let copy = name_of_copy(&"ö".repeat(limit::NAME_CHARS_MAX));
        assert_eq!(copy.chars().count(), limit::NAME_CHARS_MAX);
        assert!(copy.ends_with(OF_A_COPY));
    }
}
