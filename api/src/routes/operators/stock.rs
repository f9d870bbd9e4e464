//! A template's stock in MySQL and in the gate, with the conservation identity total = gate stock + in flight + held + confirmed.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::TemplateId;
use mysql_store::{StoreError, connect, ledger_totals};
use redis_gate::{Gate, GateError, Meta, Phase};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{extract::PathId, schemas::Id},
    problem::Problem,
    routes::operators::templates,
    state::App,
};

/// A template's stock in MySQL and in its gate.
#[derive(Serialize, ToSchema)]
#[schema(as = Stock, examples(json!({
    "total": 1000, "landed": 127, "stock": 873, "held": 5, "confirmed": 122, "epoch": 3, "queued_epoch": 3,
    "in_flight": 0, "in_flight_oldest_ms": null, "gate_stock": 873, "drift": 0
})))]
pub(crate) struct StockJson {
    /// Sum of all stock movements.
    total: i64,
    /// Coupons that have landed in MySQL, without those that came back.
    landed: i64,
    /// Those of them that are held. Null: more than 10,000 coupons, too many to count at each look.
    #[schema(required = true)]
    held: Option<i64>,
    /// The others of them, whatever became of them. Null: as `held`.
    #[schema(required = true)]
    confirmed: Option<i64>,
    /// `total` minus `landed`.
    stock: i64,
    /// The gate's epoch, according to MySQL.
    epoch: i64,
    /// The epoch whose queued claims land. Below `epoch`: the gate waits until those of the older one have landed.
    queued_epoch: i64,
    /// Admissions that have not landed yet. Null: the gate is not loaded.
    #[schema(required = true)]
    in_flight: Option<u64>,
    /// Age of the oldest of these in milliseconds: how far MySQL is behind the gate. Null: there is none.
    #[schema(required = true)]
    in_flight_oldest_ms: Option<i64>,
    /// What the gate has left to give. Null: the gate is not loaded.
    #[schema(required = true)]
    gate_stock: Option<i64>,
    /// MySQL's stock minus the gate's, while nothing is in flight and both include the same movements; otherwise null.
    /// 0 in a quiet system.
    #[schema(required = true)]
    drift: Option<i64>,
}

/// `GET /v1/templates/{id}/stock`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/stock",
    operation_id = "get_stock",
    tag = "Stock",
    summary = "How much is left: total = gate stock + in flight + held + confirmed",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The template.")),
    responses((status = 200, description = "The stock.", body = StockJson)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
) -> Result<Json<StockJson>, Problem> {
    let template = templates::seen(&app, operator, id).await?;
    let gate = app.gates.gate();
    let before = Look::at(gate, id).await;
    let row = templates::stock(&app, id).await?;
    let held = if template.hold.holds() { held(&app, id).await? } else { Some(0) };
    let landed = row.total.saturating_sub(row.stock);
    let mut json = StockJson {
        total: row.total,
        landed,
        held,
        // Coupons that came back between the two reads count as neither held nor confirmed.
        confirmed: held.map(|held| (landed - held).max(0)),
        stock: row.stock,
        epoch: row.epoch.0,
        queued_epoch: row.queued_epoch.0,
        in_flight: None,
        in_flight_oldest_ms: None,
        gate_stock: None,
        drift: None,
    };
    let after = Look::at(gate, id).await;
    if let Some(Look { meta, in_flight }) = &after {
        json.gate_stock = Some(meta.stock);
        json.in_flight = *in_flight;
        let since = oldest_in_flight(gate, id, meta).await.ok().flatten();
        json.in_flight_oldest_ms = since.map(|at| (app.clock.now() - at).num_milliseconds().max(0));
        // A claim that was admitted and landed between the two looks is no drift.
        let quiet = *in_flight == Some(0) && before == after && meta.movement == row.movement;
        json.drift = quiet.then_some(row.stock.saturating_sub(meta.stock));
    }
    Ok(Json(json))
}

/// Counts a template's held coupons. `None`: there are too many to count.
async fn held(app: &App, id: TemplateId) -> Result<Option<i64>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        ledger_totals::held(&mut connection, id).await
    })
    .await
}

/// An open gate at one moment.
#[derive(PartialEq)]
struct Look {
    meta: Meta,
    in_flight: Option<u64>,
}

impl Look {
    /// Returns `None` if the gate is not open or does not answer. In-flight admissions are counted after the stock is
    /// read: if there are none, everything that the stock lacks has landed.
    async fn at(gate: &Gate, template: TemplateId) -> Option<Self> {
        let meta = gate.meta(template).await.ok()??;
        if meta.phase != Phase::Open {
            return None;
        }
        let in_flight = gate.in_flight_count(template, meta.epoch).await.ok();
        Some(Self { meta, in_flight })
    }
}

/// Returns when the oldest admission in flight was made.
async fn oldest_in_flight(
    gate: &Gate,
    template: TemplateId,
    meta: &Meta,
) -> Result<Option<DateTime<Utc>>, GateError> {
    let oldest = gate.in_flight(template, meta.epoch, DateTime::<Utc>::MAX_UTC, 0, 1).await?;
    Ok(oldest.admissions.first().map(|admission| admission.admitted_at))
}
