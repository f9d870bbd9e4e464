//! `primary_server`: the server on which the rows were last used. It has one row.
//!
//! A server that is promoted may lack its predecessor's newest commits. Redis does not: its gates and views may be of a
//! history that MySQL has lost. So when another server answers, all of them begin anew, above every number that may have
//! been given in the lost history.

use chrono::{DateTime, NaiveDateTime, Utc};
use coupon::{Epoch, TemplateState};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, mysql::MySqlArguments, query::Query};

use crate::{StoreError, connect, datetime::datetime};

/// How far a failover raises the epochs of gates and the generations of views. A gate or a view's Redis gets a new number
/// at most once a second, so this covers a quarter of an hour of commits that the new server lacks.
pub const RAISE: i64 = 1_000;

const _: () = assert!(RAISE < Epoch::LEAP_MAX);

/// How long after its window a template's gate is kept or removed by the keepers; later it is a stray.
pub const GATE_STAYS_HOURS: u32 = 24;

/// Expression for the server that executes the statement: its server id, which differs between servers that replicate;
/// on MySQL also its uuid. MariaDB ignores such a comment of this version.
pub(crate) const SERVER: &str =
    "cast(concat(@@global.server_id /*!80000 , '/', @@global.server_uuid */) as char)";

/// Interval of `seen`. A replica that takes over has one of its primary's, and all that was committed before it.
const SEEN_EVERY_SECONDS: i64 = 60;

/// Another server than before has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    pub from: String,
    pub to: String,
}

/// Compares the server that answers with the one that answered before. If it is another one, raises the epochs of all
/// templates whose gates may be there, in the transaction that records the server: every gate is then behind, and is rebuilt.
/// Returns the failover to the process that recorded it. If it is the same server, records each minute that it was seen,
/// unless claims that a failover lost are still to be searched for.
///
/// # Errors
/// A statement failed, also because the server takes no writes, or another transaction was in the way.
pub async fn notice(connection: &mut MySqlConnection) -> Result<Option<Failover>, StoreError> {
    let sql = format!(
        "select {SERVER}, server, searched = 1 and seen < utc_timestamp(3) - interval ? second \
         from (select 1 as here) one left join primary_server on id = 1"
    );
    let (to, from, is_old): (String, Option<String>, Option<bool>) =
        sqlx::query_as(AssertSqlSafe(sql))
            .bind(SEEN_EVERY_SECONDS)
            .fetch_one(&mut *connection)
            .await
            .map_err(StoreError::query("read which server answers"))?;
    let Some(from) = from else {
        let first = "insert ignore into primary_server (id, server, failovers, since, seen, searched) \
                     values (1, ?, 0, utc_timestamp(3), utc_timestamp(3), 1)";
        return execute(connection, sqlx::query(first).bind(&to)).await.map(|_| None);
    };
    if from == to {
        if is_old == Some(true) {
            let see = format!(
                "update primary_server set seen = utc_timestamp(3) \
                 where id = 1 and searched = 1 and server = {SERVER}"
            );
            execute(connection, sqlx::query(AssertSqlSafe(see))).await?;
        }
        return Ok(None);
    }
    let mut transaction = connect::begin_on(connection).await?;
    let sql = format!(
        "update primary_server set server = ?, failovers = failovers + 1, since = utc_timestamp(3), \
         searched = 0 \
         where id = 1 and server = ? and ? = {SERVER}"
    );
    let record = sqlx::query(AssertSqlSafe(sql)).bind(&to).bind(&from).bind(&to);
    if execute(&mut transaction, record).await? == 0 {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
        return Ok(None);
    }
    // Drafts too: the lost history may have published them. And those whose gates may not be gone yet: the claims of
    // their last seconds may be lost.
    sqlx::query(
        "update template_stock s join coupon_template t on t.id = s.template_id \
         set s.epoch = s.epoch + ? \
         where t.state <> ? or t.claim_ends_at > utc_timestamp(3) - interval ? hour",
    )
    .bind(RAISE)
    .bind(TemplateState::Ended.code())
    .bind(i64::from(GATE_STAYS_HOURS))
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("raise the epochs behind a failover"))?;
    transaction.commit().await.map_err(StoreError::query("record a failover"))?;
    Ok(Some(Failover { from, to }))
}

/// A failover behind which nobody has yet searched for what it lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsearched {
    /// When the new server answered for the first time.
    pub since: DateTime<Utc>,
    /// All that was committed before is there.
    pub seen: DateTime<Utc>,
}

/// Returns the last failover, if what it lost was not searched for since.
pub async fn unsearched(
    connection: &mut MySqlConnection,
) -> Result<Option<Unsearched>, StoreError> {
    let row: Option<(NaiveDateTime, NaiveDateTime)> =
        sqlx::query_as("select since, seen from primary_server where id = 1 and searched = 0")
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("read whether lost claims were searched for"))?;
    Ok(row.map(|(since, seen)| Unsearched { since: since.and_utc(), seen: seen.and_utc() }))
}

/// Records that the search behind this failover has ended.
pub async fn searched(
    connection: &mut MySqlConnection,
    since: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "update primary_server set searched = 1, seen = utc_timestamp(3) where id = 1 and since = ?",
    )
        .bind(datetime(since))
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::query("record that lost claims were searched for"))
}

/// Executes one statement on the row, and returns how many rows it changed.
async fn execute(
    connection: &mut MySqlConnection,
    statement: Query<'_, MySql, MySqlArguments>,
) -> Result<u64, StoreError> {
    statement
        .execute(connection)
        .await
        .map(|done| done.rows_affected())
        .map_err(StoreError::query("record which server answers"))
}

/// Returns whether a gate of this epoch may be of a history that MySQL has lost, given MySQL's epoch.
pub fn may_be_of_lost_history(gate: Epoch, of_mysql: Epoch) -> bool {
    gate > of_mysql || of_mysql.0.saturating_sub(gate.0) >= RAISE
}
