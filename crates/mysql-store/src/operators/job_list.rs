//! A merchant's jobs, in pages.

use coupon::{JobId, JobState, MerchantId};
use sqlx::{AssertSqlSafe, FromRow as _, MySqlConnection, Row as _};

use crate::{
    StoreError,
    listed::{Listed, listed},
    operators::job::{COLUMNS, Job},
};

/// Returns a merchant's jobs with ids below `before`, the newest first, at most `limit`; only those in one state, if named.
/// Names those that cannot be read.
pub async fn page(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    state: Option<JobState>,
    before: Option<JobId>,
    limit: u32,
) -> Result<Vec<Listed<Job, JobId>>, StoreError> {
    let (index, of_state) = match state {
        Some(_) => ("ix_merchant_state", "and state = ? "),
        None => ("ix_merchant", ""),
    };
    let sql = format!(
        "select {COLUMNS} from job force index ({index}) \
         where merchant_id = ? {of_state}and id < ? order by id desc limit ?"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(merchant.0);
    let query = state.into_iter().fold(query, |query, state| query.bind(state.code()));
    query
        .bind(before.map_or(i64::MAX, |id| id.0))
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| listed(&rows, Job::from_row, |row| row.try_get("id").map(JobId)))
        .map_err(StoreError::query("list jobs"))
}
