//! `GET /v1/me/templates/{id}`: what I have had of a template, and how many I may still claim.

use axum::{Json, extract::State, response::Response};
use coupon::{TemplateId, UserId};
use mysql_store::{connect, holdings};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::User,
    http::{extract::PathId, schemas::Id},
    problem::{Problem, unknown_template},
    state::App,
};

/// A template as one of its users sees it.
#[derive(Serialize, ToSchema)]
#[schema(examples(json!({
    "template_id": "2123985067360387072", "claimed": true, "per_user_limit": 3, "held": 1, "may_claim": 2
})))]
pub(crate) struct MyTemplate {
    #[schema(value_type = Id)]
    template_id: String,
    /// Whether I have had a coupon of it, whatever became of that.
    claimed: bool,
    /// Maximum coupons of it that I may ever claim. 0: no limit.
    #[schema(minimum = 0, maximum = 100)]
    per_user_limit: u32,
    /// Coupons that count against the limit, used and expired ones too. Null: there is no limit.
    #[schema(minimum = 0, required = true)]
    held: Option<u32>,
    /// Coupons that the limit still allows, whether or not the template is open and has any left. Null: there is no
    /// limit.
    #[schema(minimum = 0, required = true)]
    may_claim: Option<u32>,
}

/// `GET /v1/me/templates/{id}`
#[utoipa::path(
    get,
    path = "/v1/me/templates/{id}",
    operation_id = "get_my_template",
    tag = "Claims",
    summary = "Have I claimed, and how many may I still",
    description = "What has landed: a claim that was answered 201 counts, one that is still worked on does not.",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The template.")),
    responses((status = 200, description = "What I have had of it.", body = MyTemplate)),
    extensions(("x-problems" = json!("RATE_LIMITED TEMPLATE_NOT_FOUND OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<TemplateId>,
) -> Response {
    app.read_limit.limited(user, one(&app, user, id)).await
}

async fn one(app: &App, user: UserId, id: TemplateId) -> Result<Json<MyTemplate>, Problem> {
    let template = app.templates.visible(id).await?.ok_or_else(unknown_template)?;
    let limit = template.per_user_limit;
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        holdings::get(&mut connection, user, id, limit).await
    });
    let holdings = read.await?;
    let counted = (limit > 0).then_some(holdings.numbered);
    Ok(Json(MyTemplate {
        template_id: id.to_string(),
        claimed: holdings.any,
        per_user_limit: limit,
        held: counted,
        may_claim: counted.map(|held| limit.saturating_sub(held)),
    }))
}
