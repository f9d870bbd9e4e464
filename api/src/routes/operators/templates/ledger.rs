//! `GET /v1/templates/{id}/ledger`: everything that changed a template's stock, the newest first.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use coupon::TemplateId;
use mysql_store::{
    connect,
    ledger_totals::{self, Totals},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        accept::{self, Form},
        cursor::{self, Page},
        extract::{Params, PathId},
        schemas::{self, Cursor, Id, LedgerKind},
    },
    problem::{Problem, unknown_template},
    routes::operators::templates::{
        export,
        ledger_list::{self, EntryKind, EntryRow, Ledger},
        owned,
    },
    state::App,
};

#[derive(Deserialize)]
pub(crate) struct LedgerParams {
    limit: Option<u32>,
    cursor: Option<String>,
    kind: Option<String>,
    format: Option<String>,
}

/// A page of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(examples(example))]
pub(crate) struct LedgerPage {
    data: Vec<EntryRow>,
    /// Cursor of the next page. Null: this is the last page.
    #[schema(value_type = Option<Cursor>, required = true)]
    next_cursor: Option<String>,
    has_more: bool,
    /// Entries that cannot be read, because a value of theirs is damaged: `claim` and its id, or `movement` and its
    /// number. Absent: there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    /// Sums over the whole ledger, of every kind. Only on the first page, and not if the kind of a movement cannot be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LedgerTotals)]
    totals: Option<LedgerTotals>,
}

fn example() -> Value {
    let first = json!({ "kind": "total", "movements": 1, "quantity": 1000, "total_change": 1000 });
    json!({
        "data": [ledger_list::example()], "next_cursor": null, "has_more": false,
        "totals": { "claims": -1, "kinds": [first], "stock": 999 },
    })
}

/// Sums over a template's ledger. `claims` and the quantities of `kinds` together are the stock.
#[derive(Serialize, ToSchema)]
pub(crate) struct LedgerTotals {
    /// What landed claims took from the stock: 0 or less.
    #[schema(maximum = 0)]
    claims: i64,
    /// Movements, by kind.
    kinds: Vec<LedgerKindTotal>,
    /// The stock now.
    stock: i64,
}

/// Sums over the movements of one kind.
#[derive(Serialize, ToSchema)]
pub(crate) struct LedgerKindTotal {
    #[schema(value_type = LedgerKind)]
    kind: &'static str,
    /// Number of movements.
    #[schema(minimum = 0)]
    movements: i64,
    /// Sum of the changes of the stock.
    quantity: i64,
    /// Sum of the changes of the total.
    total_change: i64,
}

/// `GET /v1/templates/{id}/ledger`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/ledger",
    operation_id = "get_ledger",
    tag = "Stock",
    summary = "What changed a template's stock, the newest first",
    description = "Landed claims, changes of the total, returns, and lifted bans. A page may be short, even empty, and \
        still have a next one, because a page passes over at most 200,000 claims of all templates. A claim that lands from a queue while pages are read may be missed: its time is that of its \
        admission. With `format=csv`, or `Accept: application/x-ndjson` or `text/csv`: all of them, as a stream without \
        pages.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the newest."),
        ("kind" = Option<schemas::LedgerKind>, Query, description = "Only entries of this kind."),
        ("format" = Option<schemas::LedgerFormat>, Query, description = "`csv`: all of them as a table, whatever `Accept` says.")
    ),
    responses((
        status = 200,
        description = "A page; the first one with sums. Or the whole ledger as a table.",
        content(
            (LedgerPage = "application/json"),
            (String = "text/csv", example = "at,kind,quantity,total_change,claim_id,seq,user_id,actor,reason\r\n\
              2026-11-24T18:20:47.886Z,total,1000,1000,,1,,platform,created\r\n")
        )
    )),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Params(params): Params<LedgerParams>,
) -> Result<Response, Problem> {
    owned(&app, operator, id).await?;
    let LedgerParams { limit, cursor, kind, format } = params;
    let list = Ledger { template: id, kind: kind.as_deref().map(read_kind).transpose()? };
    let headers = of_format(headers, format.as_deref())?;
    if Form::preferred(&headers).unwrap_or(Form::Page) != Form::Page {
        return export::answer(&app, operator, id, &headers, limit, cursor.as_ref(), list).await;
    }
    let limit = cursor::limit(limit)?;
    let behind = cursor::parse(cursor.as_ref())?;
    let totals = if behind.is_none() { totals(&app, id).await? } else { None };
    let page = export::page(&app.pool, &list, behind, limit).await?;
    let Page { data, next_cursor, has_more, unreadable } = page;
    Ok(Json(LedgerPage { data, next_cursor, has_more, unreadable, totals }).into_response())
}

async fn totals(app: &App, id: TemplateId) -> Result<Option<LedgerTotals>, Problem> {
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        ledger_totals::totals(&mut connection, id).await
    });
    match read.await {
        Err(error) if error.is_unreadable() => Ok(None),
        read => read?.map(|totals| Some(LedgerTotals::of(totals))).ok_or_else(unknown_template),
    }
}

fn read_kind(word: &str) -> Result<EntryKind, Problem> {
    EntryKind::from_word(word).ok_or_else(|| {
        let detail = "The query string: kind: use claim, total, return or lift.";
        Problem::new(Code::MalformedQuery, detail)
    })
}

/// Returns the headers of a request that wants this form.
fn of_format(mut headers: HeaderMap, format: Option<&str>) -> Result<HeaderMap, Problem> {
    match format {
        None => {}
        Some("csv") => {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept::CSV));
        }
        Some(_) => {
            let detail = "The query string: format: use csv, or leave it out.";
            return Err(Problem::new(Code::MalformedQuery, detail));
        }
    }
    Ok(headers)
}

impl LedgerTotals {
    fn of(totals: Totals) -> Self {
        let kinds = totals.kinds.iter().map(|total| LedgerKindTotal {
            kind: EntryKind::Movement(total.kind).word(),
            movements: total.movements,
            quantity: total.delta_stock,
            total_change: total.delta,
        });
        Self { claims: -totals.claimed, kinds: kinds.collect(), stock: totals.stock }
    }
}
