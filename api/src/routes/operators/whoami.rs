//! Whose key a request carries, and what it may do.

use axum::{Json, extract::State};
use coupon::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::AnyOperator,
    http::{
        instant::instant,
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    state::App,
};

/// A caller, as the api knows it.
#[derive(Serialize, ToSchema)]
#[schema(as = Whoami, examples(json!({
    "key_id": "2123985066110484480", "name": "Checkout", "merchant_id": "2123985064051081216",
    "scopes": ["redeem"], "ends_at": null
})))]
pub(crate) struct WhoamiJson {
    /// Null: the platform's own key.
    #[schema(value_type = Option<Id>, required = true)]
    key_id: Option<String>,
    /// The key's name; `platform` for the platform's own.
    name: String,
    #[schema(value_type = Id)]
    merchant_id: String,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<&'static str>,
    /// When the key expires, or ends because it is being replaced. Null: never.
    #[schema(value_type = Option<Instant>, required = true)]
    ends_at: Option<String>,
}

/// `GET /v1/whoami`: for any key that is accepted, whatever its scopes.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    operation_id = "whoami",
    tag = "Keys",
    summary = "Whose key this is, and what it may do",
    security(("operator_key" = [])),
    responses((status = 200, description = "The caller.", body = WhoamiJson))
)]
pub(crate) async fn get(
    State(app): State<App>,
    AnyOperator(operator): AnyOperator,
) -> Result<Json<WhoamiJson>, Problem> {
    Ok(Json(WhoamiJson {
        key_id: operator.key_id.map(|id| id.to_string()),
        name: app.auth.name_of(operator).await?,
        merchant_id: operator.merchant_id.to_string(),
        scopes: operator.scopes().iter().map(Scope::word).collect(),
        ends_at: operator.ends_at.map(instant),
    }))
}
