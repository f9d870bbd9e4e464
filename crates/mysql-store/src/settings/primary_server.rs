//! `primary_server`: the server on which the rows were last used. It has one row.
//!
//! A server that is promoted may lack its predecessor's newest commits. Redis does not: its gates and views may be of a
//! history that MySQL has lost. So when another server answers, all of them begin anew, above every number that may have
//! been given in the lost history.

use chrono::{DateTime, NaiveDateTime, Utc};
use coupon::{Epoch, TemplateState};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, connect, datetime::datetime};

/// How far a failover raises the epochs of gates and the generations of views. A gate or a view's Redis gets a new number
/// at most once a second, so this covers a quarter of an hour of commits that the new server lacks.
pub const RAISE: i64 = 1_000;

const _: () = assert!(RAISE < Epoch::LEAP_MAX);

/// Expression for the server that executes the statement: its server id, which differs between servers that replicate;
/// on MySQL also its uuid. MariaDB ignores such a comment of this version.
pub(crate) const SERVER: &str =
    "cast(concat(@@global.server_id /*!80000 , '/', @@global.server_uuid */) as char)";

/// Another server than before has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    pub from: String,
    pub to: String,
}

/// Compares the server that answers with the one that answered before. If it is another one, raises the epochs of all
/// templates that have not ended, in the transaction that records the server: every gate is then behind, and is rebuilt.
/// Returns the failover to the process that recorded it.
///
/// # Errors
/// A statement failed, also because the server takes no writes, or another transaction was in the way.
pub async fn notice(connection: &mut MySqlConnection) -> Result<Option<Failover>, StoreError> {
    let sql = format!("select {SERVER}, (select server from primary_server where id = 1)");
    let (to, from): (String, Option<String>) = sqlx::query_as(AssertSqlSafe(sql))
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::query("read which server answers"))?;
    let Some(from) = from else {
        sqlx::query("insert ignore into primary_server values (1, ?, 0, utc_timestamp(3), 1)")
            .bind(&to)
            .execute(connection)
            .await
            .map_err(StoreError::query("record which server answers"))?;
        return Ok(None);
    };
    if from == to {
        return Ok(None);
    }
    let mut transaction = connect::begin_on(connection).await?;
    let sql = format!(
        "update primary_server set server = ?, failovers = failovers + 1, since = utc_timestamp(3), \
         searched = 0 \
         where id = 1 and server = ? and ? = {SERVER}"
    );
    let recorded = sqlx::query(AssertSqlSafe(sql))
        .bind(&to)
        .bind(&from)
        .bind(&to)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::query("record which server answers"))?;
    if recorded.rows_affected() == 0 {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
        return Ok(None);
    }
    // Drafts too: the lost history may have published them.
    sqlx::query(
        "update template_stock s join coupon_template t on t.id = s.template_id \
         set s.epoch = s.epoch + ? where t.state <> ?",
    )
    .bind(RAISE)
    .bind(TemplateState::Ended.code())
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("raise the epochs behind a failover"))?;
    transaction.commit().await.map_err(StoreError::query("record a failover"))?;
    Ok(Some(Failover { from, to }))
}

/// Returns when another server answered for the first time, if the topic was not searched since for claims that it lost.
pub async fn unsearched(
    connection: &mut MySqlConnection,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let since: Option<NaiveDateTime> =
        sqlx::query_scalar("select since from primary_server where id = 1 and searched = 0")
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("read whether lost claims were searched for"))?;
    Ok(since.map(|since| since.and_utc()))
}

/// Records that the search behind this failover has ended.
pub async fn searched(
    connection: &mut MySqlConnection,
    since: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query("update primary_server set searched = 1 where id = 1 and since = ?")
        .bind(datetime(since))
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::query("record that lost claims were searched for"))
}

/// Returns whether a gate of this epoch may be of a history that MySQL has lost, given MySQL's epoch.
pub fn may_be_of_lost_history(gate: Epoch, of_mysql: Epoch) -> bool {
    gate > of_mysql || of_mysql.0.saturating_sub(gate.0) >= RAISE
}
