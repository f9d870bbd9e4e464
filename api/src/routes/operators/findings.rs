//! What a reconciler found wrong: lists, single findings, and their acceptance. What belongs to the platform only its own
//! key sees.

use axum::{Json, extract::State};
use coupon::{Epoch, FindingAbout, FindingId, FindingKind, FindingState, MerchantId, TemplateId};
use mysql_store::{
    StoreError, connect,
    finding::{self, Filter, Finding},
    finding_decision::{self, Decided},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, Part},
        extract::{Body, Params, PathId},
        instant::instant,
        schemas::{self, Cursor, Id, Instant},
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        operators::desk::changes::{ReasonRequest, valid_reason},
    },
    state::App,
};

/// Names every merchant, in a list.
const ALL: &str = "all";

/// Something that is not as it should be, as the last look judged it.
#[derive(Serialize, ToSchema)]
#[schema(as = Finding, examples(json!({
    "id": "2123985068924862470", "merchant_id": "1", "kind": "account", "state": "open",
    "template_id": "2123985067360387072", "epoch": 3, "expected": "873", "seen": "875", "coupons": 2,
    "money_minor": 1000, "line": "template 2123985067360387072: stock 875, movements 1000 - landed 127", "looks": 4,
    "first_seen": "2026-11-30T08:00:00.000Z", "last_seen": "2026-11-30T11:00:00.000Z"
})))]
pub(crate) struct FindingBody {
    #[schema(value_type = Id)]
    id: String,
    /// The template's merchant; 1 for what belongs to the platform.
    #[schema(value_type = Id)]
    merchant_id: String,
    #[schema(value_type = schemas::FindingKind)]
    kind: &'static str,
    #[schema(value_type = schemas::FindingState)]
    state: &'static str,
    /// Absent: it is about no template.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<String>,
    /// The user whom it is about.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// The claim that it is about.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_id: Option<String>,
    /// The epoch of the gate or stock that was judged.
    #[schema(value_type = i64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    /// The version of the row that was judged.
    #[schema(value_type = i64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    /// What should be there. Empty: only the sentence says it.
    expected: String,
    /// What is there.
    seen: String,
    /// How many coupons it is about; 0: it is no matter of their number.
    coupons: i64,
    /// What these are worth at most, in minor units of the template's currency. Absent: not known.
    #[schema(value_type = i64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    money_minor: Option<i64>,
    /// A sentence for people.
    line: String,
    /// How often it was found.
    looks: i64,
    #[schema(value_type = Instant)]
    first_seen: String,
    #[schema(value_type = Instant)]
    last_seen: String,
    /// When it was accepted, repaired or overtaken.
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<String>,
    /// By whom: `key:` and a key's id, `platform`, or `reconciler`.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    /// Why, in the operator's words.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindingParams {
    kind: Option<String>,
    state: Option<String>,
    template_id: Option<TemplateId>,
    /// A merchant's id, or [`ALL`].
    merchant_id: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /v1/findings`
#[utoipa::path(
    get,
    path = "/v1/findings",
    operation_id = "list_findings",
    tag = "Operations",
    summary = "List what the reconciler found, the newest first",
    description = "A page looks at 10,000 findings at most. So with a filter it may have fewer than asked for, or none, while \
                   `next_cursor` leads on. What belongs to the platform, such as users' lists, only its own key sees.",
    security(("operator_key" = [])),
    params(
        ("kind" = Option<schemas::FindingKind>, Query, description = "Only findings of this kind."),
        ("state" = Option<schemas::FindingState>, Query, description = "Only findings in this state."),
        ("template_id" = Option<Id>, Query, description = "Only findings about this template."),
        ("merchant_id" = Option<String>, Query, description = "Whose; another than one's own, and `all`, is for the platform's key."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the newest.")
    ),
    responses((status = 200, description = "A page.", body = Page<FindingBody>)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_STATUS INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<FindingParams>,
) -> Result<Json<Page<FindingBody>>, Problem> {
    let limit = cursor::limit(params.limit)?;
    let before: Option<FindingId> = cursor::parse(params.cursor.as_ref())?;
    let filter = Filter {
        merchant: merchant(operator, params.merchant_id.as_deref())?,
        with_platforms: is_the_platform(operator),
        template: params.template_id,
        kind: cursor::one_of(
            "a `kind`",
            params.kind.as_deref(),
            &FindingKind::ALL,
            FindingKind::word,
        )?,
        state: cursor::one_of(
            "a `state`",
            params.state.as_deref(),
            &FindingState::ALL,
            FindingState::word,
        )?,
    };
    let page = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        // One extra row shows whether there is a next page.
        finding::page(&mut connection, &filter, before, limit + 1).await
    });
    let finding::Page { findings, down_to } = page.await?;
    let part = Part::of(findings, limit, |finding| finding.id);
    let part = Part { next: part.next.or(down_to), ..part };
    Ok(Json(part.page(|finding| FindingBody::of(&finding))))
}

/// `GET /v1/findings/{id}`
#[utoipa::path(
    get,
    path = "/v1/findings/{id}",
    operation_id = "get_finding",
    tag = "Operations",
    summary = "Look at a finding",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The finding.")),
    responses((status = 200, description = "The finding as it stands.", body = FindingBody)),
    extensions(("x-problems" = json!("FINDING_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<FindingId>,
) -> Result<Json<FindingBody>, Problem> {
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        finding::get(&mut connection, id).await
    });
    let finding = seen(operator, read.await?)?;
    Ok(Json(FindingBody::of(&finding)))
}

/// `POST /v1/findings/{id}/accept`
#[utoipa::path(
    post,
    path = "/v1/findings/{id}/accept",
    operation_id = "accept_finding",
    tag = "Operations",
    summary = "Leave a finding as it is",
    description = "It is not open any more, and repairs nothing. If it is later about another number of coupons or, where \
                   their number does not matter, about something else, it is open again. The same call again is the same \
                   answer, and the first reason stays.",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The finding.")),
    request_body = ReasonRequest,
    responses((status = 200, description = "It is accepted.", body = FindingBody)),
    extensions(("x-problems" = json!(
        "FINDING_NOT_FOUND FINDING_DECIDED INVALID_CHANGE HOURLY_QUOTA_EXCEEDED OVERLOADED"
    )))
)]
pub(crate) async fn accept(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<FindingId>,
    Body(request): Body<ReasonRequest>,
) -> Result<Json<FindingBody>, Problem> {
    valid_reason(&request.reason)?;
    let work = || accept_once(&app, operator, id, &request.reason);
    let finding = connect::within(connect::retried(work, Problem::is_contended)).await?;
    Ok(Json(FindingBody::of(&finding)))
}

async fn accept_once(
    app: &App,
    operator: Operator,
    id: FindingId,
    reason: &str,
) -> Result<Finding, Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    let finding = seen(operator, finding::get_locked(&mut transaction, id).await?)?;
    match finding.state {
        FindingState::Accepted => return Ok(finding),
        FindingState::Open => {}
        decided @ (FindingState::Repairing | FindingState::Repaired | FindingState::Overtaken) => {
            return Err(not_open(decided));
        }
    }
    let by = operator.actor();
    let decided = Decided { by: &by, reason, at: app.clock.now() };
    if !finding_decision::accept(&mut transaction, id, decided).await? {
        return Err(StoreError::Contended.into());
    }
    let accepted = finding::get(&mut transaction, id).await?.ok_or(StoreError::Contended)?;
    let action = Action {
        merchant_id: accepted.found.merchant_id,
        name: "finding.accept".to_owned(),
        target: format!("findings/{id}"),
        before: Some(json!(FindingBody::of(&finding))),
        after: Some(json!(FindingBody::of(&accepted))),
    };
    audit::record(app, operator, &mut transaction, action).await?;
    app.commit(transaction).await?;
    info!(finding.id = %id, "accepted a finding");
    Ok(accepted)
}

/// Returns a finding that this operator may see. Any other is not found.
fn seen(operator: Operator, finding: Option<Finding>) -> Result<Finding, Problem> {
    let is_seen = |finding: &Finding| {
        let own = finding.found.merchant_id == operator.merchant_id;
        is_the_platform(operator) || own && !finding.found.kind.is_platforms()
    };
    let unknown = || Problem::new(Code::FindingNotFound, "You have no such finding.");
    finding.filter(is_seen).ok_or_else(unknown)
}

fn is_the_platform(operator: Operator) -> bool {
    operator.key_id.is_none()
}

/// Whose findings are asked for. `None`: all merchants'.
fn merchant(operator: Operator, asked: Option<&str>) -> Result<Option<MerchantId>, Problem> {
    if asked == Some(ALL) {
        operator.needs_platform()?;
        return Ok(None);
    }
    let asked = asked.map(str::parse::<MerchantId>).transpose().map_err(|_| {
        let detail = "The query string: merchant_id: use a merchant's id, or `all`.";
        Problem::new(Code::MalformedQuery, detail)
    })?;
    operator.merchant(asked).map(Some)
}

fn not_open(state: FindingState) -> Problem {
    let state = state.word();
    let detail = format!("The finding is {state}. Only an open one can be accepted.");
    Problem::new(Code::FindingDecided, detail).with("state", state)
}

impl FindingBody {
    fn of(finding: &Finding) -> Self {
        let found = &finding.found;
        let user = match found.about {
            FindingAbout::User(id) => Some(id.to_string()),
            FindingAbout::Template | FindingAbout::Claim(_) => None,
        };
        let claim = match found.about {
            FindingAbout::Claim(id) => Some(id.to_string()),
            FindingAbout::Template | FindingAbout::User(_) => None,
        };
        Self {
            id: finding.id.to_string(),
            merchant_id: found.merchant_id.to_string(),
            kind: found.kind.word(),
            state: finding.state.word(),
            template_id: found.template.map(|id| id.to_string()),
            user_id: user,
            claim_id: claim,
            epoch: found.epoch.map(|Epoch(number)| number),
            version: found.version,
            expected: found.expected.clone(),
            seen: found.seen.clone(),
            coupons: found.coupons,
            money_minor: found.money,
            line: found.line.clone(),
            looks: finding.looks,
            first_seen: instant(finding.first_seen),
            last_seen: instant(finding.last_seen),
            decided_at: finding.decided_at.map(instant),
            decided_by: finding.decided_by.clone(),
            reason: finding.reason.clone(),
        }
    }
}
