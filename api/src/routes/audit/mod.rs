//! The audit record: one line for each action of an operator, written in the action's own transaction, or before an
//! action that is not done in MySQL.

pub(crate) mod idempotency;

use std::ops::Range;

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, AuditId, CLOCK_SKEW_MAX, MerchantId};
use landing::ids;
use mysql_store::{
    MySqlConnection,
    audit::{self, By, Entry, Filter, Named},
    connect,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, Part},
        extract::Params,
        instant::{RequestInstant, instant},
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    routes::audit::idempotency::{Answer, Known, Once},
    state::App,
};

/// An action to be recorded.
#[derive(Clone)]
pub(crate) struct Action {
    /// The merchant that owns the changed object.
    pub(crate) merchant_id: MerchantId,
    /// A noun and a verb, e.g. `template.publish`.
    pub(crate) name: String,
    /// Path of the changed object, below `/v1`.
    pub(crate) target: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct AuditParams {
    limit: Option<u32>,
    cursor: Option<String>,
    target: Option<String>,
    merchant_id: Option<MerchantId>,
    /// A key's id, or `platform`.
    key_id: Option<String>,
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
}

/// Names the platform's own key, which has no id.
const PLATFORM_KEY: &str = "platform";

/// A line of the audit record.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry, examples(json!({
    "id": "2123985067360387073", "at": "2026-11-27T07:58:00.000Z", "action": "stock.move",
    "target": "templates/2123985067360387072", "merchant_id": "1", "key_id": "2123985066110484480", "key_name": "Ann",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "before": { "total": 1000, "stock": 873 },
    "after": { "seq": 2, "delta": 500, "reason": "The second batch is printed.", "total": 1500, "stock": 1373 }
})))]
pub(crate) struct EntryJson {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Instant)]
    at: String,
    /// A noun and a verb: `template.create`, `clone`, `publish`, `pause`, `resume`, `end`, `edit`, `delete`; `stock.move`;
    /// `key.create`, `rotate`, `revoke`; `coupon.lock`, `use`, `unuse`, `revoke`, `extend`, `replace`; `redemption.cancel`
    /// of a whole order; `claim.cancel` by the shop; `ban.lift`; `job.create`, `cancel`; `merchant.create`;
    /// `gate.rebuild`, `end_drain`; `view.rebuild`; `dead_letter.replay`; `finding.accept`.
    action: String,
    /// Path of the changed object, below `/v1`, to the 60th character.
    target: String,
    /// The merchant that owns the changed object.
    #[schema(value_type = Id)]
    merchant_id: String,
    /// The key that did it. Null: the platform's own key.
    #[schema(value_type = Option<Id>, required = true)]
    key_id: Option<String>,
    /// Name of that key. Null: the platform's own key.
    #[schema(required = true)]
    key_name: Option<String>,
    /// Trace id of the request. Null: it had none.
    #[schema(required = true)]
    trace_id: Option<String>,
    /// The object before the action, as its own route shows it. Null: there was none.
    #[schema(value_type = Option<Object>, required = true)]
    before: Option<Value>,
    /// The object after the action. Null: a repair that was requested, and whose end was not recorded.
    #[schema(value_type = Option<Object>, required = true)]
    after: Option<Value>,
}

/// Records an action and counts it against its merchant's hourly quota. Call it in the transaction of the action, or
/// before an action that is not done in MySQL. Call it near the transaction's end, since the row that counts is locked
/// until then.
pub(crate) async fn record(
    app: &App,
    operator: Operator,
    transaction: &mut MySqlConnection,
    action: Action,
) -> Result<AuditId, Problem> {
    let now = app.clock.now();
    app.quotas.count(transaction, operator, &action.name, now).await?;
    let entry = entry(app, operator, action, now)?;
    audit::record(transaction, &entry).await?;
    Ok(entry.id)
}

/// Returns the line of an action that counts against no quota.
pub(crate) fn entry(
    app: &App,
    operator: Operator,
    action: Action,
    now: DateTime<Utc>,
) -> Result<Entry, Problem> {
    Ok(action.entry(app.ids.audit()?, operator.key_id, operator.trace_id, now))
}

impl Action {
    /// Returns its line, by this key.
    pub(crate) fn entry(
        self,
        id: AuditId,
        key_id: Option<ApiKeyId>,
        trace_id: Option<u128>,
        at: DateTime<Utc>,
    ) -> Entry {
        Entry {
            id,
            merchant_id: self.merchant_id,
            key_id,
            action: self.name,
            target: self.target,
            before: self.before.map(|value| value.to_string()),
            after: self.after.map(|value| value.to_string()),
            trace_id: trace_id.map(|id| format!("{id:032x}")),
            at,
        }
    }
}

/// The line of an action that is not done in MySQL.
pub(crate) struct Line {
    pub(crate) id: AuditId,
    /// The object before the action, as the line has it.
    pub(crate) before: Option<Value>,
}

/// What [`begin`] found.
pub(crate) enum Begun {
    /// The action is to be done, under this line.
    Recorded(Line),
    /// An equal request did it.
    Answered(Answer),
}

/// Records an action that is not done in MySQL before it begins, so that its requester is known whatever happens. If
/// the request was begun before under its key, returns the line written then: the action may be under way elsewhere, or
/// have failed, so it is done once more, as that line describes it.
pub(crate) async fn begin(
    app: &App,
    operator: Operator,
    once: &Once,
    action: Action,
) -> Result<Begun, Problem> {
    let record = || async {
        let idempotency::Begun { mut transaction, known } = once.begin(app, operator).await?;
        match known {
            Known::Answer(answer) => return Ok(Begun::Answered(answer)),
            Known::UnderWay(id) => {
                let entry = audit::get(&mut transaction, id).await?;
                let before = entry.and_then(|entry| entry.before);
                let before = before.and_then(|text| serde_json::from_str(&text).ok());
                return Ok(Begun::Recorded(Line { id, before }));
            }
            Known::Nothing => {}
        }
        let id = record(app, operator, &mut transaction, action.clone()).await?;
        once.is_under_way(operator, &mut transaction, id).await?;
        app.commit(transaction).await?;
        Ok::<_, Problem>(Begun::Recorded(Line { id, before: action.before.clone() }))
    };
    connect::within(connect::retried(record, Problem::is_contended)).await
}

/// Records the end of an action that is not done in MySQL, and stores its answer. Returns the answer of the first equal
/// request that ended. If this fails, the call may be sent again: the same work is done once more.
pub(crate) async fn end(
    app: &App,
    operator: Operator,
    once: &Once,
    id: AuditId,
    after: Value,
    answer: Answer,
) -> Result<Answer, Problem> {
    let end = || async {
        let idempotency::Begun { mut transaction, known } = once.begin(app, operator).await?;
        if let Known::Answer(first) = known {
            return Ok(first);
        }
        audit::complete(&mut transaction, id, &after.to_string()).await?;
        once.end(operator, &mut transaction, &answer).await?;
        app.commit(transaction).await?;
        Ok::<_, Problem>(answer.clone())
    };
    connect::within(connect::retried(end, Problem::is_contended)).await
}

/// `GET /v1/audit`
#[utoipa::path(
    get,
    path = "/v1/audit",
    operation_id = "list_audit",
    tag = "Operations",
    summary = "What operators did, the newest first",
    description = "A page looks at 10,000 lines at most. So with a filter it may have fewer lines than asked for, or none, while `next_cursor` leads on.",
    security(("operator_key" = [])),
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<schemas::Cursor>, Query, description = "Where the page begins; absent: at the newest."),
        ("target" = Option<String>, Query, description = "What was changed: the path below `/v1`, e.g. `templates/1`."),
        ("merchant_id" = Option<Id>, Query, description = "Whose; another than one's own is for the platform's key."),
        ("key_id" = Option<schemas::KeyOrPlatform>, Query, description = "Who did it: a key's id, or `platform` for the platform's own key."),
        ("from" = Option<Instant>, Query, description = "Only what was done then or later."),
        ("to" = Option<Instant>, Query, description = "Only what was done before.")
    ),
    responses((status = 200, description = "A page.", body = Page<EntryJson>)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<AuditParams>,
) -> Result<Json<Page<EntryJson>>, Problem> {
    let merchant_id = operator.merchant(params.merchant_id)?;
    let limit = cursor::limit(params.limit)?;
    let before: Option<AuditId> = cursor::parse(params.cursor.as_ref())?;
    let from = params.from.map(|at| at.0);
    let to = params.to.map(|at| at.0);
    let filter = Filter {
        merchant: merchant_id,
        ids: ids_within(from, to),
        target: params.target.as_deref(),
        by: by(params.key_id.as_deref())?,
        from,
        to,
    };
    let page = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        // One extra row shows whether there is a next page.
        audit::page(&mut connection, &filter, before, limit + 1).await
    });
    let audit::Page { lines, down_to } = page.await?;
    let part = Part::of(lines, limit, |line| line.entry.id);
    let part = Part { next: part.next.or(down_to), ..part };
    Ok(Json(part.page(EntryJson::from)))
}

/// Returns the ids that lines of these times may have. A line has the time of the request, by the same clock as its id or
/// by one that differs a little.
fn ids_within(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Range<AuditId> {
    let id = |time: DateTime<Utc>| AuditId(ids::first_at(time));
    let first =
        from.and_then(|from| from.checked_sub_signed(CLOCK_SKEW_MAX)).map_or(AuditId(0), id);
    let last =
        to.and_then(|to| to.checked_add_signed(CLOCK_SKEW_MAX)).map_or(AuditId(i64::MAX), id);
    first..last
}

/// Reads whose actions are asked for.
fn by(key: Option<&str>) -> Result<By, Problem> {
    match key {
        None => Ok(By::Anyone),
        Some(PLATFORM_KEY) => Ok(By::Platform),
        Some(id) => id.parse().map(By::Key).map_err(|_| {
            let detail = "The query string: key_id: use a key's id, or `platform`.";
            Problem::new(Code::MalformedQuery, detail)
        }),
    }
}

impl From<Named> for EntryJson {
    fn from(Named { entry, key_name }: Named) -> Self {
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            id: entry.id.to_string(),
            at: instant(entry.at),
            action: entry.action,
            target: entry.target,
            merchant_id: entry.merchant_id.to_string(),
            key_id: entry.key_id.map(|id| id.to_string()),
            key_name,
            trace_id: entry.trace_id,
            before: json(entry.before),
            after: json(entry.after),
        }
    }
}
