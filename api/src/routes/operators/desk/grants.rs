//! `POST /v1/templates/{id}/grants`: coupons for many users, as a job. `crate::jobs` does it.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use coupon::{JobId, RequestId, RowOutcome, Template, TemplateId, TemplateState, limit, text};
use mysql_store::{
    DuplicateKey, MySqlConnection, StoreError, connect,
    job::{self, Digest, Job, NewJob},
    job_row::{self, NewRow},
    stock::{self, NewMovement, Recorded},
};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};
use utoipa::ToSchema;

use super::{given, jobs::JobBody};
use crate::{
    auth::Operator,
    code::Code,
    http::{
        extract::{self, Body, Params, PathId, Upload},
        headers,
        instant::instant,
        schemas::{self, Id},
    },
    problem::Problem,
    routes::{
        audit::{self, Action, idempotency::REPLAYED},
        operators::{
            stock_movements::{self, REASON_CHARS_MAX},
            templates,
        },
    },
    state::App,
};

/// Quota of jobs that have not ended, as problems name it.
const OPEN_JOBS: &str = "open_jobs";

/// Users, and what each of them gets.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGrants, examples(json!({
    "user_ids": ["42", "43"], "quantity": 1, "reason": "Ticket 4713: the mailing failed.", "from_stock": true
})))]
pub(crate) struct GrantsRequest {
    /// The users. Those that are no id, or named before, get an outcome that says so.
    #[schema(min_items = 1, max_items = 50000)]
    user_ids: Vec<String>,
    /// Coupons for each user, at most `max_per_claim`. Default: 1.
    #[schema(minimum = 1, maximum = 100)]
    quantity: Option<i64>,
    /// The reason, for people who read the audit record. Needed, here or in the query string.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: Option<String>,
    /// `false`: as many coupons as the users may get are added to the total first. They are not reserved: users who claim
    /// meanwhile may take some. What is left over is taken back at the end, except what a claim was already admitted for,
    /// once nothing is in the template's queue and its gate is loaded. If that takes ten minutes, nothing is taken back.
    /// Default: `true`.
    from_stock: Option<bool>,
    /// Where the template holds its coupons, `true` is needed: what is granted is confirmed from the start, since nobody pays for it.
    confirmed: Option<bool>,
}

/// Parameters of a job whose body is lines of users.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantsParams {
    quantity: Option<i64>,
    reason: Option<String>,
    from_stock: Option<bool>,
    confirmed: Option<bool>,
}

/// A job, as requested.
struct GrantJob {
    template_id: TemplateId,
    rows: Vec<NewRow>,
    quantity: u32,
    reason: String,
    from_stock: bool,
    request_id: RequestId,
    digest: Digest,
    /// The digest of jobs from before 2026-11-27, which includes the caller's key.
    digest_with_caller: Digest,
}

/// `POST /v1/templates/{id}/grants`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/grants",
    operation_id = "grant_coupons",
    tag = "Support",
    summary = "Grant coupons to many users",
    description = "Creates a job, which claims for each user under the template's window, limit and stock. What it \
                   grants is never held. The users may \
                   also come as lines, `text/plain` or `application/x-ndjson`, with the rest in the query string. A user \
                   who cannot get the coupons is an outcome of the job and no mistake of the request.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("Idempotency-Key" = schemas::RequestId, Header, description = "A new one for each job, the same one with a retry."),
        ("quantity" = Option<i64>, Query, description = "As in the body, for a body of lines."),
        ("reason" = Option<String>, Query, description = "As in the body, for a body of lines."),
        ("from_stock" = Option<bool>, Query, description = "As in the body, for a body of lines."),
        ("confirmed" = Option<bool>, Query, description = "As in the body, for a body of lines.")
    ),
    request_body = GrantsRequest,
    responses(
        (status = 202, description = "The job has begun. The same key again is the same answer.", body = JobBody,
            headers(
                ("Location" = String, description = "Where it can be watched."),
                ("Idempotency-Replayed" = String, description = "`true`: the answer of an earlier request.")
            ))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND IDEMPOTENCY_KEY_MISSING IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED \
         INVALID_GRANTS INVALID_TRANSITION NOT_OPEN CLOSED ENDED TOTAL_TOO_LARGE QUOTA_EXCEEDED \
         HOURLY_QUOTA_EXCEEDED OVERLOADED"
    )))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    Params(params): Params<GrantsParams>,
    headers: HeaderMap,
    upload: Upload,
) -> Result<Response, Problem> {
    let template = templates::owned(&app, operator, id).await?;
    let request_id = headers::idempotency_key(&headers)?.ok_or_else(|| {
        let detail = "Send a new `Idempotency-Key` with each job, and the same one with a retry.";
        Problem::new(Code::IdempotencyKeyMissing, detail)
    })?;
    let wanted = GrantJob::read(&template, operator, request_id, params, &upload)?;
    let work = || create_once(&app, operator, &template, &wanted);
    let (job, replayed) = connect::within(connect::retried(work, Problem::is_contended)).await?;
    if !replayed {
        info!(job.id = %job.id, template.id = %id, rows = job.total_rows, "created a job of grants");
        // The gate would otherwise hear of the added coupons later, from the topic.
        if job.added > 0
            && let Err(error) = app.gates.catch_up(id).await
        {
            let error = runtime::report(&error);
            warn!(template.id = %id, error, "the gate will hear of a movement later");
        }
    }
    let mut response = (StatusCode::ACCEPTED, Json(JobBody::of(&job))).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/jobs/{}", job.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Creates the job, or returns the one that was created under the same key. True marks the latter.
async fn create_once(
    app: &App,
    operator: Operator,
    template: &Template,
    wanted: &GrantJob,
) -> Result<(Job, bool), Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    if let Some(known) = known(&mut transaction, operator, wanted).await? {
        return Ok((known, true));
    }
    let now = app.clock.now();
    allowed(template, app.sale_clock.now())?;
    let id = app.ids.job()?;
    let actor = operator.actor();
    let created = job::create(&mut transaction, &wanted.as_job(id, operator, &actor), now).await;
    if let Err(error) = created {
        // An equal request was faster; the insert waited for it.
        if error.duplicate_key() != Some(DuplicateKey::Other) {
            return Err(error.into());
        }
        let known = known(&mut transaction, operator, wanted).await?;
        return Ok((known.ok_or(StoreError::Contended)?, true));
    }
    job_row::create(&mut transaction, id, &wanted.rows).await?;
    let mut open = job::open(&mut transaction, operator.merchant_id).await?;
    if open.len() > limit::JOBS_OPEN_MAX {
        open.retain(|other| *other != id);
        return Err(too_many(&open));
    }
    add_stock(app, operator, &mut transaction, id, wanted, now).await?;
    let job = job::get(&mut transaction, operator.merchant_id, id).await?;
    let job = job.ok_or(StoreError::Contended)?;
    let action = Action {
        merchant_id: operator.merchant_id,
        name: "job.create".to_owned(),
        target: format!("jobs/{id}"),
        before: None,
        after: Some(json!(JobBody::of(&job))),
    };
    audit::record(app, operator, &mut transaction, action).await?;
    app.commit(transaction).await?;
    Ok((job, false))
}

/// Returns the job under the key of the request, if there is one. Refuses a key of another job.
async fn known(
    transaction: &mut MySqlConnection,
    operator: Operator,
    wanted: &GrantJob,
) -> Result<Option<Job>, Problem> {
    let known = job::by_request(transaction, operator.merchant_id, &wanted.request_id).await?;
    let is_other =
        |job: &Job| job.digest != wanted.digest && job.digest != wanted.digest_with_caller;
    if known.as_ref().is_some_and(is_other) {
        let detail = "This `Idempotency-Key` was used for another job. Send a new one, unless this is meant to be \
                      that job: then send its template, users, quantity and reason as they were.";
        return Err(Problem::new(Code::IdempotencyKeyReused, detail));
    }
    Ok(known)
}

/// Refuses a job if no row of it could get anything. For a paused template the job waits.
fn allowed(template: &Template, now: DateTime<Utc>) -> Result<(), Problem> {
    match template.state {
        TemplateState::Draft => {
            let detail = "The template is a draft, which gives out nothing. Publish it first.";
            let state = template.state.word();
            return Err(Problem::new(Code::InvalidTransition, detail).with("state", state));
        }
        TemplateState::Ended => {
            return Err(Problem::new(Code::Ended, "The template has ended."));
        }
        TemplateState::Published | TemplateState::Paused => {}
    }
    let window = template.window;
    if now >= window.ends_at {
        let detail =
            "The claim window is over. Move its end, `claim_ends_at`, before you grant coupons.";
        return Err(Problem::new(Code::Closed, detail));
    }
    if now < window.starts_at {
        let at = instant(window.starts_at);
        let detail = format!("The claim window opens at {at}. Grant coupons from then on.");
        return Err(Problem::new(Code::NotOpen, detail).with("opens_at", at));
    }
    Ok(())
}

/// Adds the coupons of a job that does not grant from the stock to the total.
async fn add_stock(
    app: &App,
    operator: Operator,
    transaction: &mut MySqlConnection,
    id: JobId,
    wanted: &GrantJob,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let delta = wanted.added();
    if delta == 0 {
        return Ok(());
    }
    let request_id = RequestId::job_movement(id);
    let actor = operator.actor();
    let new = NewMovement { request_id: &request_id, delta, reason: &wanted.reason, actor: &actor };
    let moved = stock::add_movement(transaction, wanted.template_id, &new, now).await?;
    let (Recorded { seq, total, stock }, _) = stock_movements::recorded(moved)?;
    let action = Action {
        merchant_id: operator.merchant_id,
        name: "stock.move".to_owned(),
        target: templates::target(wanted.template_id),
        before: Some(json!({ "total": total - delta, "stock": stock - delta })),
        after: Some(json!({
            "seq": seq, "delta": delta, "reason": wanted.reason, "total": total, "stock": stock,
            "job_id": id.to_string(),
        })),
    };
    audit::record(app, operator, transaction, action).await?;
    Ok(())
}

fn too_many(open: &[JobId]) -> Problem {
    let most = limit::JOBS_OPEN_MAX;
    let detail = format!(
        "A merchant has at most {most} jobs that have not ended. Wait for one of `jobs`, or cancel it."
    );
    let open: Vec<String> = open.iter().map(ToString::to_string).collect();
    let problem = Problem::new(Code::QuotaExceeded, detail).with("quota", OPEN_JOBS);
    problem.with("limit", most).with("jobs", open)
}

fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(Code::InvalidGrants, format!("{field}: {problem}.")).with("field", field)
}

impl GrantJob {
    fn read(
        template: &Template,
        operator: Operator,
        request_id: RequestId,
        params: GrantsParams,
        upload: &Upload,
    ) -> Result<Self, Problem> {
        let GrantsParams { quantity, reason, from_stock, confirmed } = params;
        let request = if upload.is_json {
            let Body(request) = extract::parse::<GrantsRequest>(&upload.bytes)?;
            request
        } else {
            let user_ids = given::lines(&String::from_utf8_lossy(&upload.bytes));
            GrantsRequest { user_ids, ..GrantsRequest::default() }
        };
        given::held_ones_confirmed(template, request.confirmed.or(confirmed))?;
        let reason = request.reason.or(reason).unwrap_or_default();
        if let Some(wrong) = text::wrong(&reason, REASON_CHARS_MAX) {
            return Err(invalid("reason", &wrong));
        }
        let most = template.max_per_claim.min(limit::QUANTITY_MAX);
        let quantity = request.quantity.or(quantity).unwrap_or(1);
        let quantity = u32::try_from(quantity).ok().filter(|asked| (1..=most).contains(asked));
        let quantity = quantity.ok_or_else(|| {
            invalid("quantity", &format!("use 1 to {most}")).with("max_per_claim", most)
        })?;
        let most = limit::JOB_ROWS_MAX;
        if !(1..=most).contains(&request.user_ids.len()) {
            return Err(invalid("user_ids", &format!("name 1 to {most} users")));
        }
        let from_stock = request.from_stock.or(from_stock).unwrap_or(true);
        let asked = format!("{} {quantity} {from_stock} {reason}\n", template.id);
        let digest_of = |prefix: &[u8]| {
            let mut digest = Sha256::new_with_prefix(prefix).chain_update(&asked);
            for user in &request.user_ids {
                digest.update(user);
                digest.update([0]);
            }
            digest.finalize().into()
        };
        let rows = given::rows(request.user_ids.iter().map(String::as_str));
        // Without the caller: a retry after a key's rotation is still the same job.
        let template_id = template.id;
        let digest = digest_of(b"");
        let digest_with_caller = digest_of(&operator.caller.digest);
        Ok(Self {
            template_id,
            rows,
            quantity,
            reason,
            from_stock,
            request_id,
            digest,
            digest_with_caller,
        })
    }

    /// Coupons to add to the total for it.
    fn added(&self) -> i64 {
        if self.from_stock {
            return 0;
        }
        let pending = self.rows.iter().filter(|row| row.outcome == RowOutcome::Pending).count();
        i64::try_from(pending).unwrap_or(i64::MAX).saturating_mul(i64::from(self.quantity))
    }

    fn as_job<'a>(&'a self, id: JobId, operator: Operator, actor: &'a str) -> NewJob<'a> {
        NewJob {
            id,
            merchant_id: operator.merchant_id,
            template_id: self.template_id,
            request_id: &self.request_id,
            digest: self.digest,
            quantity: self.quantity,
            reason: &self.reason,
            actor,
            key_id: operator.key_id,
            from_stock: self.from_stock,
            added: self.added(),
            total_rows: u32::try_from(self.rows.len()).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_the_document_are_those_of_the_code() {
        let schema = serde_json::to_value(<GrantsRequest as utoipa::PartialSchema>::schema());
        let schema = schema.unwrap();
        assert_eq!(schema["properties"]["user_ids"]["maxItems"], json!(limit::JOB_ROWS_MAX));
        assert_eq!(schema["properties"]["reason"]["maxLength"], json!(REASON_CHARS_MAX));
    }
}
