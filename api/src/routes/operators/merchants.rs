//! Merchants, which own templates and keys. Only the platform creates them.

use axum::{Json, extract::State, http::StatusCode};
use coupon::{MerchantId, text};
use mysql_store::{
    connect,
    merchant::{self, Merchant, PLATFORM},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, PageParams, Part},
        extract::{Body, Params},
        instant::instant,
        schemas::{self, Id, Instant, RequestId},
    },
    problem::Problem,
    routes::audit::{
        self, Action,
        idempotency::{Answer, Begun, Known, Once},
    },
    state::App,
};

/// Longest name, in characters: the length of the `varchar(100)` column.
const NAME_CHARS_MAX: usize = 100;

/// Request to create a merchant.
#[derive(Deserialize, Serialize, ToSchema)]
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
    params(("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")),
    request_body = NewMerchant,
    responses((status = 201, description = "The merchant. The same key again is the same answer.", body = MerchantJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_MERCHANT IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED")))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    Body(new): Body<NewMerchant>,
) -> Result<Answer, Problem> {
    operator.needs_platform()?;
    let once = once.asking(&new);
    if let Some(wrong) = text::wrong(&new.name, NAME_CHARS_MAX) {
        let problem = Problem::new(Code::InvalidMerchant, format!("name: {wrong}."));
        return Err(problem.with("field", "name"));
    }
    let create = || create_once(&app, operator, &once, &new.name);
    connect::within(connect::retried(create, Problem::is_contended)).await
}

async fn create_once(
    app: &App,
    operator: Operator,
    once: &Once,
    name: &str,
) -> Result<Answer, Problem> {
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return Ok(answer);
    }
    let merchant =
        Merchant { id: app.ids.merchant()?, name: name.to_owned(), created_at: app.clock.now() };
    let body = MerchantJson::from(&merchant);
    let action = Action {
        // The platform owns the list of merchants.
        merchant_id: PLATFORM,
        name: "merchant.create".to_owned(),
        target: format!("merchants/{}", merchant.id),
        before: None,
        after: Some(json!(body)),
    };
    merchant::create(&mut transaction, &merchant).await?;
    audit::record(app, operator, &mut transaction, action).await?;
    let answer = Answer::new(StatusCode::CREATED, &body);
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    info!(merchant.id = %merchant.id, "created a merchant");
    Ok(answer)
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
        ("cursor" = Option<schemas::Cursor>, Query, description = "Where the page begins; absent: at the newest.")
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
    let part = Part::of(merchants.await?, limit, |merchant| merchant.id);
    Ok(Json(part.page(|merchant| MerchantJson::from(&merchant))))
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
