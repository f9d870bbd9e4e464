//! `reconcile_walk`: how far the walks of a reconciler are. Only one process walks at a time, by a lease; if two do, what
//! they find is recorded once.

use chrono::{DateTime, Utc};
use coupon::TemplateId;
use sqlx::{FromRow, MySqlConnection};

use crate::{
    StoreError,
    datetime::{NullableTime, datetime},
};

/// A walk through templates, users or coupons.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReconcileWalk {
    /// The last template that was looked at; 0 at the beginning.
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    /// The last user or coupon that was looked at; 0 at the beginning.
    pub after_id: i64,
    /// How many were looked at since `begun_at`.
    pub looked: i64,
    pub begun_at: DateTime<Utc>,
    /// When the last whole walk ended. `None`: none has.
    #[sqlx(try_from = "NullableTime")]
    pub passed_at: Option<DateTime<Utc>>,
}

/// Returns how far a walk is. `None`: it never began.
pub async fn get(
    connection: &mut MySqlConnection,
    name: &str,
) -> Result<Option<ReconcileWalk>, StoreError> {
    sqlx::query_as("select * from reconcile_walk where name = ?")
        .bind(name)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read how far a walk is"))
}

/// Stores how far a walk is.
pub async fn put(
    connection: &mut MySqlConnection,
    name: &str,
    walk: &ReconcileWalk,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into reconcile_walk (name, template_id, after_id, looked, begun_at, passed_at) \
         values (?, ?, ?, ?, ?, ?) on duplicate key update template_id = values(template_id), \
         after_id = values(after_id), looked = values(looked), begun_at = values(begun_at), \
         passed_at = values(passed_at)",
    )
    .bind(name)
    .bind(walk.template.0)
    .bind(walk.after_id)
    .bind(walk.looked)
    .bind(datetime(walk.begun_at))
    .bind(walk.passed_at.map(datetime))
    .execute(connection)
    .await
    .map_err(StoreError::query("store how far a walk is"))?;
    Ok(())
}
