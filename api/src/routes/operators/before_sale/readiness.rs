//! `GET /v1/templates/{id}/readiness`: a checklist for the template's next sale. What each item says is decided by
//! [`crate::fleet::readiness`].

use axum::{Json, extract::State};
use chrono::TimeDelta;
use coupon::{ClaimMode, TemplateId};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    fleet::readiness::{Item, Readiness, Sale},
    http::{
        extract::PathId,
        instant::instant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    routes::operators::templates,
    state::App,
};

/// Whether the next sale of a template can begin.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness, examples(example))]
pub(crate) struct ReadinessJson {
    #[schema(value_type = Id)]
    template_id: String,
    /// When it was looked at, by MySQL's clock.
    #[schema(value_type = Instant)]
    now: String,
    /// When claims open, or opened.
    #[schema(value_type = Instant)]
    opens_at: String,
    /// Whether every item is `ok`. Null: none is known to be wrong, but not all are known.
    #[schema(required = true)]
    ready: Option<bool>,
    /// That, and the first item that is not `ok`, for people.
    sentence: String,
    /// `published`, `window`, `validity`, `stock`, `gate`, `servers`, `clocks`, `lists` and `processes`, in this order.
    items: Vec<ItemJson>,
}

/// One item of the checklist.
#[derive(Serialize, ToSchema)]
#[schema(as = ReadinessItem)]
struct ItemJson {
    name: &'static str,
    /// Null: not known.
    #[schema(required = true)]
    ok: Option<bool>,
    /// What is so, for people.
    sentence: String,
    /// What to do, for people. Null: nothing.
    #[schema(required = true)]
    action: Option<String>,
}

fn example() -> Value {
    json!({
        "template_id": "2123985067360387072", "now": "2026-11-27T07:40:00.000Z",
        "opens_at": "2026-11-27T08:00:00.000Z", "ready": false,
        "sentence": "Not ready: The template is a draft, so nobody can claim.",
        "items": [{
            "name": "published", "ok": false, "sentence": "The template is a draft, so nobody can claim.",
            "action": "Publish it: `coupon template publish 2123985067360387072`."
        }]
    })
}

/// `GET /v1/templates/{id}/readiness`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/readiness",
    operation_id = "get_readiness",
    tag = "Templates",
    summary = "Whether the next sale can begin",
    description = "A checklist of the template and of the platform. What it says of the platform's processes is at most some seconds old.",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The template.")),
    responses((status = 200, description = "The checklist, whether or not all is ready.", body = ReadinessJson)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Json<ReadinessJson>, Problem> {
    let template = templates::seen(&app, operator, id).await?;
    let stock = templates::stock(&app, id).await?;
    let meta = app.gates.gate().meta(id).await;
    let seen = app.fleet.recent().await;
    let sale = Sale {
        now: app.sale_clock.now(),
        template: id.to_string(),
        state: template.state,
        window: template.window,
        validity: template.validity,
        may_queue: template.claim_mode != ClaimMode::Direct,
        total: stock.total,
        stock: stock.stock,
        is_gate_loaded: meta.ok().map(|meta| meta.is_some_and(|meta| meta.is_open())),
        preload: TimeDelta::from_std(app.gates.preload()).unwrap_or_default(),
    };
    // Of gates only the template's own counts.
    let readiness = Readiness::of(&sale, &seen.facts(None));
    Ok(Json(ReadinessJson {
        template_id: sale.template,
        now: instant(sale.now),
        opens_at: instant(sale.window.starts_at),
        ready: readiness.ready,
        sentence: readiness.sentence,
        items: readiness.items.into_iter().map(ItemJson::from).collect(),
    }))
}

impl From<Item> for ItemJson {
    fn from(item: Item) -> Self {
        let Item { name, ok, sentence, action } = item;
        Self { name, ok, sentence, action }
    }
}
