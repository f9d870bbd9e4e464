//! `job_row`: the users of a job, each with its outcome.

use coupon::{ClaimId, ClaimState, JobId, RowOutcome, TemplateId, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, Row as _};

use crate::{
    StoreError,
    code::Code,
    listed::{Listed, listed},
    rows,
};

/// A row to be created: a user, or the text that is no user id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRow {
    pub user: Option<UserId>,
    pub given: Option<String>,
    /// [`RowOutcome::Pending`], or an outcome known at once.
    pub outcome: RowOutcome,
}

/// A job's row.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct JobRow {
    /// 1 for the first.
    pub row_no: u32,
    /// `None` if the row is no user id.
    pub user_id: Option<i64>,
    /// The row's text if it is no user id.
    pub given: Option<String>,
    #[sqlx(try_from = "Code")]
    pub outcome: RowOutcome,
    /// The claim of a granted row.
    pub claim_id: Option<i64>,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub row_no: u32,
    pub outcome: RowOutcome,
    /// The claim of a granted row.
    pub claim_id: Option<ClaimId>,
}

/// Creates the rows of a job, numbered from 1.
pub async fn create(
    transaction: &mut MySqlConnection,
    job: JobId,
    new: &[NewRow],
) -> Result<(), StoreError> {
    let numbered: Vec<(u32, &NewRow)> = (1..).zip(new).collect();
    for run in rows::runs(&numbered) {
        let sql = rows::repeat(
            "insert into job_row (job_id, row_no, user_id, given, outcome) values ",
            "(?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (number, row) in run {
            query = query
                .bind(job.0)
                .bind(*number)
                .bind(row.user.map(|user| user.0))
                .bind(row.given.as_deref())
                .bind(row.outcome.code());
        }
        query.execute(&mut *transaction).await.map_err(StoreError::query("create a job's rows"))?;
    }
    Ok(())
}

/// Returns the rows of a job behind `after`, in order, at most `limit`; only those of one outcome, if named. Names those that
/// cannot be read by their numbers.
pub async fn page(
    connection: &mut MySqlConnection,
    job: JobId,
    outcome: Option<RowOutcome>,
    after: u32,
    limit: u32,
) -> Result<Vec<Listed<JobRow, u32>>, StoreError> {
    let columns =
        "select cast(row_no as unsigned) as row_no, user_id, given, outcome, claim_id from job_row";
    let query = match outcome {
        Some(outcome) => sqlx::query(AssertSqlSafe(format!(
            "{columns} where job_id = ? and outcome = ? and row_no > ? order by row_no limit ?"
        )))
        .bind(job.0)
        .bind(outcome.code()),
        None => sqlx::query(AssertSqlSafe(format!(
            "{columns} where job_id = ? and row_no > ? order by row_no limit ?"
        )))
        .bind(job.0),
    };
    query
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| listed(&rows, JobRow::from_row, |row| row.try_get("row_no")))
        .map_err(StoreError::query("read a job's rows"))
}

/// Writes the outcomes of pending rows. Rows that have an outcome keep it.
pub async fn write(
    transaction: &mut MySqlConnection,
    job: JobId,
    done: &[Done],
) -> Result<(), StoreError> {
    for run in rows::runs(done) {
        let sql = rows::repeat(
            "update (",
            "select cast(? as signed) as row_no, cast(? as signed) as outcome, cast(? as signed) as claim_id",
            " union all ",
            run.len(),
            ") done straight_join job_row on job_row.job_id = ? and job_row.row_no = done.row_no \
             set job_row.outcome = done.outcome, job_row.claim_id = done.claim_id \
             where job_row.outcome = ?",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for one in run {
            query =
                query.bind(one.row_no).bind(one.outcome.code()).bind(one.claim_id.map(|id| id.0));
        }
        query
            .bind(job.0)
            .bind(RowOutcome::Pending.code())
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::query("write what became of a job's rows"))?;
    }
    Ok(())
}

/// Gives each pending row of a cancelled job its outcome: granted if its claim has landed, cancelled otherwise. Returns
/// how many rows got each. Call it when no process works on the job any more.
pub async fn cancel_rest(
    transaction: &mut MySqlConnection,
    job: JobId,
    template: TemplateId,
) -> Result<[(RowOutcome, u64); 2], StoreError> {
    let granted = sqlx::query(
        "update job_row straight_join claim on claim.template_id = ? and claim.user_id = job_row.user_id \
         and claim.request_id = cast(concat('~g', ?, '-', job_row.row_no) as binary) and claim.state = ? \
         set job_row.outcome = ?, job_row.claim_id = claim.id \
         where job_row.job_id = ? and job_row.outcome = ?",
    )
    .bind(template.0)
    .bind(job.0)
    .bind(ClaimState::Landed.code())
    .bind(RowOutcome::Granted.code())
    .bind(job.0)
    .bind(RowOutcome::Pending.code())
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("look for landed rows of a job"))?;
    let cancelled = sqlx::query("update job_row set outcome = ? where job_id = ? and outcome = ?")
        .bind(RowOutcome::Cancelled.code())
        .bind(job.0)
        .bind(RowOutcome::Pending.code())
        .execute(transaction)
        .await
        .map_err(StoreError::query("cancel a job's rows"))?;
    Ok([
        (RowOutcome::Granted, granted.rows_affected()),
        (RowOutcome::Cancelled, cancelled.rows_affected()),
    ])
}
