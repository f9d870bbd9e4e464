//! Merchants: who owns templates and keys. Only the platform makes them.

use axum::{Json, extract::State, http::StatusCode};
use coupon::MerchantId;
use mysql_store::{
    connect,
    merchant::{self, Merchant, PLATFORM},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    audit::{self, Action},
    auth::Operator,
    body::{Body, Params},
    cursor::{self, Page, PageParams},
    instant::instant,
    openapi::{self, Id, Instant},
    problem::Problem,
    state::App,
};

/// Longest name, in characters: the `varchar(100)` that holds it.
const NAME_CHARS_MAX: usize = 100;

/// What the platform sends to create a merchant.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "name": "A shop" })))]
pub(crate) struct NewMerchant {
    #[schema(min_length = 1, max_length = 100, pattern = "\\S")]
    name: String,
}

/// A merchant.
#[derive(Serialize, ToSchema)]
#[schema(as = Merchant, examples(json!({
    "id": "2123985064051081216", "name": "A shop", "created_at": "2026-11-20T09:15:00.000Z"
})))]
pub(crate) struct MerchantJson {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    #[schema(value_type = Instant)]
    created_at: String,
}

/// `POST /v1/merchants`
#[utoipa::path(
    post,
    path = "/v1/merchants",
    operation_id = "create_merchant",
    tag = "Keys",
    summary = "Create a merchant",
    security(("operator_key" = [])),
    request_body = NewMerchant,
    responses((status = 201, description = "The merchant.", body = MerchantJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_MERCHANT OVERLOADED")))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    Body(new): Body<NewMerchant>,
) -> Result<(StatusCode, Json<MerchantJson>), Problem> {
    operator.needs_platform()?;
    if new.name.trim().is_empty() || new.name.chars().count() > NAME_CHARS_MAX {
        let detail = format!("name: use 1 to {NAME_CHARS_MAX} characters.");
        return Err(Problem::invalid("INVALID_MERCHANT", detail).with("field", "name"));
    }
    let merchant =
        Merchant { id: app.ids.merchant()?, name: new.name, created_at: app.clock.now() };
    let body = MerchantJson::from(&merchant);
    let action = Action {
        // The list of merchants is the platform's.
        merchant_id: PLATFORM,
        name: "merchant.create".to_owned(),
        target: format!("merchants/{}", merchant.id),
        before: None,
        after: Some(json!(body)),
    };
    connect::within(async {
        let mut transaction = connect::begin(&app.pool).await?;
        merchant::create(&mut transaction, &merchant).await?;
        audit::record(&app, operator, &mut transaction, action).await?;
        Ok::<_, Problem>(connect::commit(transaction).await?)
    })
    .await?;
    info!(merchant.id = %merchant.id, "created a merchant");
    Ok((StatusCode::CREATED, Json(body)))
}

/// `GET /v1/merchants`
#[utoipa::path(
    get,
    path = "/v1/merchants",
    operation_id = "list_merchants",
    tag = "Keys",
    summary = "List merchants, the newest first",
    security(("operator_key" = [])),
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<openapi::Cursor>, Query, description = "Where the page begins; absent: at the newest.")
    ),
    responses((status = 200, description = "A page.", body = Page<MerchantJson>)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<PageParams>,
) -> Result<Json<Page<MerchantJson>>, Problem> {
    operator.needs_platform()?;
    let limit = params.limit()?;
    let before: Option<MerchantId> = cursor::parse(params.cursor.as_ref())?;
    let merchants = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        merchant::page(&mut connection, before, limit + 1).await
    });
    let mut merchants = merchants.await?;
    let more = merchants.len() > limit as usize;
    merchants.truncate(limit as usize);
    let next = merchants.last().filter(|_| more).map(|merchant| merchant.id.to_string());
    Ok(Json(Page::new(merchants.iter().map(MerchantJson::from).collect(), next)))
}

impl From<&Merchant> for MerchantJson {
    fn from(merchant: &Merchant) -> Self {
        Self {
            id: merchant.id.to_string(),
            name: merchant.name.clone(),
            created_at: instant(merchant.created_at),
        }
    }
}
