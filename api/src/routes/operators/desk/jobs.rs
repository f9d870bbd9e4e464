//! Jobs: `GET /v1/jobs`, `GET /v1/jobs/{id}`, its rows, and the cancellation.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use coupon::{JobId, JobState, RowOutcome};
use mysql_store::{
    MySqlConnection, connect,
    job::{self, Job},
    job_list,
    job_row::{self, JobRow},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::changes::{ReasonRequest, valid_reason};
use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, Page, Part},
        extract::{Body, Params, PathId},
        instant::instant,
        schemas::{self, Cursor, Id, Instant},
    },
    jobs::under_way,
    problem::Problem,
    routes::audit::{self, Action},
    state::App,
};

/// A job, as it was created. It consists of values that never change: a replay has the same bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = Job, examples(json!({
    "id": "2123985068924862466", "template_id": "2123985067360387072", "rows": 10000, "quantity": 1,
    "reason": "Ticket 4713: the mailing failed.", "from_stock": true, "created_at": "2026-11-27T08:00:00.000Z"
})))]
pub(crate) struct JobBody {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Id)]
    template_id: String,
    /// Number of rows: one for each user that was named.
    rows: u32,
    /// Coupons for each row.
    quantity: u32,
    reason: String,
    /// Whether it grants from the stock. Otherwise coupons were added to the total first.
    from_stock: bool,
    #[schema(value_type = Instant)]
    created_at: String,
}

/// A job and its progress.
#[derive(Serialize, ToSchema)]
#[schema(as = JobProgress, examples(example))]
pub(crate) struct ProgressBody {
    #[serde(flatten)]
    job: JobBody,
    #[schema(value_type = schemas::JobState)]
    state: &'static str,
    /// Rows without an outcome so far.
    pending: i64,
    /// Number of rows by outcome. Outcomes of no row are absent.
    #[schema(value_type = Object)]
    outcomes: BTreeMap<&'static str, i64>,
    /// Code of the error that its rows wait for to pass, e.g. `PAUSED`.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

/// A job in a list. Its progress is in the job itself, since its rows would have to be counted.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedJob, examples(listed_example))]
pub(crate) struct ListedBody {
    #[serde(flatten)]
    job: JobBody,
    #[schema(value_type = schemas::JobState)]
    state: &'static str,
    /// Code of the error that its rows wait for to pass, e.g. `PAUSED`. Null: nothing.
    #[schema(required = true)]
    waits_for: Option<String>,
    /// Null: it has not ended.
    #[schema(value_type = Option<Instant>, required = true)]
    ended_at: Option<String>,
}

/// A row of a job.
#[derive(Serialize, ToSchema)]
#[schema(as = JobRow, examples(json!({
    "row": 1, "user_id": "42", "outcome": "granted", "claim_id": "2123985068924862465"
})))]
pub(crate) struct RowBody {
    /// 1 for the first.
    row: u32,
    /// Absent if the row is no user id.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// What the row is instead of a user id, its first 64 characters.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<String>,
    #[schema(value_type = schemas::RowOutcome)]
    outcome: &'static str,
    /// The claim of a granted row.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    state: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowParams {
    outcome: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

fn example() -> Value {
    json!({
        "id": "2123985068924862466", "template_id": "2123985067360387072", "rows": 10000, "quantity": 1,
        "reason": "Ticket 4713: the mailing failed.", "from_stock": true, "created_at": "2026-11-27T08:00:00.000Z",
        "state": "running", "pending": 4000, "outcomes": { "granted": 5990, "limit_reached": 10 },
    })
}

fn listed_example() -> Value {
    json!({
        "id": "2123985068924862466", "template_id": "2123985067360387072", "rows": 10000, "quantity": 1,
        "reason": "Ticket 4713: the mailing failed.", "from_stock": true, "created_at": "2026-11-27T08:00:00.000Z",
        "state": "running", "waits_for": null, "ended_at": null,
    })
}

/// `GET /v1/jobs`
#[utoipa::path(
    get,
    path = "/v1/jobs",
    operation_id = "list_jobs",
    tag = "Support",
    summary = "List jobs, the newest first",
    security(("operator_key" = [])),
    params(
        ("state" = Option<schemas::JobState>, Query, description = "Only those in this state."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the newest.")
    ),
    responses((status = 200, description = "A page.", body = Page<ListedBody>)),
    extensions(("x-problems" = json!("INVALID_STATUS INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<ListedBody>>, Problem> {
    let limit = cursor::limit(params.limit)?;
    let before: Option<JobId> = cursor::parse(params.cursor.as_ref())?;
    let state =
        cursor::one_of("a `state`", params.state.as_deref(), &JobState::ALL, JobState::word)?;
    let jobs = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        // One extra row shows whether there is a next page.
        job_list::page(&mut connection, operator.merchant_id, state, before, limit + 1).await
    });
    let part = Part::of(jobs.await?, limit, |job| job.id);
    Ok(Json(part.page(|job| ListedBody::of(&job))))
}

/// `GET /v1/jobs/{id}`
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    operation_id = "get_job",
    tag = "Support",
    summary = "Look at a job and its progress",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The job.")),
    responses((status = 200, description = "The job as it stands.", body = ProgressBody)),
    extensions(("x-problems" = json!("JOB_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<JobId>,
) -> Result<Json<ProgressBody>, Problem> {
    let read = async {
        let mut connection = connect::acquire(&app.pool).await?;
        progress(&mut connection, operator, id).await
    };
    connect::within(read).await.map(Json)
}

/// `GET /v1/jobs/{id}/rows`
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/rows",
    operation_id = "list_job_rows",
    tag = "Support",
    summary = "List what became of a job's rows, in their order",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The job."),
        ("outcome" = Option<schemas::RowOutcome>, Query, description = "Only rows of this outcome."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first.")
    ),
    responses((status = 200, description = "A page.", body = Page<RowBody>)),
    extensions(("x-problems" = json!("JOB_NOT_FOUND INVALID_STATUS INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn rows(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<JobId>,
    Params(params): Params<RowParams>,
) -> Result<Json<Page<RowBody>>, Problem> {
    let limit = cursor::limit(params.limit)?;
    let after: Option<u32> = cursor::parse(params.cursor.as_ref())?;
    let outcome = cursor::one_of(
        "an `outcome`",
        params.outcome.as_deref(),
        &RowOutcome::ALL,
        RowOutcome::word,
    )?;
    let read = async {
        let mut connection = connect::acquire(&app.pool).await?;
        let job = job::get(&mut connection, operator.merchant_id, id).await?;
        let job = job.ok_or_else(not_found)?;
        // One extra row shows whether there is a next page.
        let after = after.unwrap_or(0);
        Ok(job_row::page(&mut connection, job.id, outcome, after, limit + 1).await?)
    };
    let rows = connect::within::<_, Problem>(read).await?;
    Ok(Json(Part::of(rows, limit, |row| row.row_no).page(RowBody::from)))
}

/// `POST /v1/jobs/{id}/cancel`
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    operation_id = "cancel_job",
    tag = "Support",
    summary = "Cancel a job",
    description = "What was granted stays granted. Rows that are under way are finished, which can take some seconds; all \
                   others are `cancelled`. A job that has ended stays as it is. The same call again is the same answer.",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The job.")),
    request_body = ReasonRequest,
    responses((status = 200, description = "It is cancelled, or had ended.", body = ProgressBody)),
    extensions(("x-problems" = json!("JOB_NOT_FOUND INVALID_CHANGE HOURLY_QUOTA_EXCEEDED OVERLOADED")))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<JobId>,
    Body(request): Body<ReasonRequest>,
) -> Result<Json<ProgressBody>, Problem> {
    valid_reason(&request.reason)?;
    let work = || async {
        let mut transaction = connect::begin(&app.pool).await?;
        if job::cancel(&mut transaction, operator.merchant_id, id, under_way()).await? {
            let action = Action {
                merchant_id: operator.merchant_id,
                name: "job.cancel".to_owned(),
                target: format!("jobs/{id}"),
                before: Some(json!({ "state": "running" })),
                after: Some(json!({ "state": "cancelling", "reason": request.reason })),
            };
            audit::record(&app, operator, &mut transaction, action).await?;
            app.commit(transaction).await?;
            info!(job.id = %id, "cancelled a job");
        }
        Ok::<_, Problem>(())
    };
    connect::within(connect::retried(work, Problem::is_contended)).await?;
    let read = async {
        let mut connection = connect::acquire(&app.pool).await?;
        progress(&mut connection, operator, id).await
    };
    connect::within(read).await.map(Json)
}

async fn progress(
    connection: &mut MySqlConnection,
    operator: Operator,
    id: JobId,
) -> Result<ProgressBody, Problem> {
    let job = job::get(connection, operator.merchant_id, id).await?.ok_or_else(not_found)?;
    let counts = job::counts(connection, id).await?;
    Ok(ProgressBody::of(&job, &counts))
}

fn not_found() -> Problem {
    Problem::new(Code::JobNotFound, "You have no such job.")
}

impl JobBody {
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            id: job.id.to_string(),
            template_id: job.template_id.to_string(),
            rows: job.total_rows,
            quantity: job.quantity,
            reason: job.reason.clone(),
            from_stock: job.from_stock,
            created_at: instant(job.created_at),
        }
    }
}

impl ListedBody {
    fn of(job: &Job) -> Self {
        Self {
            job: JobBody::of(job),
            state: job.state.word(),
            waits_for: job.waits_for.clone(),
            ended_at: job.ended_at.map(instant),
        }
    }
}

impl ProgressBody {
    fn of(job: &Job, counts: &[(RowOutcome, i64)]) -> Self {
        let is_pending = |outcome: RowOutcome| outcome == RowOutcome::Pending;
        let pending = counts.iter().find(|(outcome, _)| is_pending(*outcome));
        let decided = counts.iter().filter(|(outcome, _)| !is_pending(*outcome));
        Self {
            job: JobBody::of(job),
            state: job.state.word(),
            pending: pending.map_or(0, |(_, count)| *count),
            outcomes: decided.map(|(outcome, count)| (outcome.word(), *count)).collect(),
            waits_for: job.waits_for.clone(),
            ended_at: job.ended_at.map(instant),
        }
    }
}

impl From<JobRow> for RowBody {
    fn from(row: JobRow) -> Self {
        Self {
            row: row.row_no,
            user_id: row.user_id.map(|id| id.to_string()),
            given: row.given,
            outcome: row.outcome.word(),
            claim_id: row.claim_id.map(|id| id.to_string()),
        }
    }
}
