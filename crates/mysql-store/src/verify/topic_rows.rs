//! Expected contents of the topics of templates and movements: chunked reads by primary key.

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId};
use sqlx::{FromRow, MySqlConnection, Row};

use super::read_all;
use crate::{
    StoreError,
    code::Code,
    templates::{movement::Kind, template},
};

/// The part of a movement that is compared with its topic.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MovementRow {
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    /// 1 for the first of a template.
    pub seq: i64,
    /// Change of the total.
    pub delta: i64,
    #[sqlx(try_from = "Code")]
    pub kind: Kind,
    /// Change of the stock; `None`: as `delta`.
    pub delta_stock: Option<i64>,
    /// What users get back, as stored.
    pub returned: Option<String>,
}

/// A template's row, with the times that [`Template`] lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRow {
    pub template: Template,
    pub created_at: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
}

/// Returns templates with ids above `after`, at most `limit`, by id.
///
/// # Errors
/// The statement fails, or a row does not have the format of this version.
pub async fn templates_after(
    connection: &mut MySqlConnection,
    after: i64,
    limit: u32,
) -> Result<Vec<TemplateRow>, StoreError> {
    let rows = sqlx::query("select * from coupon_template where id > ? order by id limit ?")
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await;
    read_all("read a chunk of templates", rows, |row| {
        Ok(TemplateRow {
            template: template::from_row(row)?,
            created_at: row.try_get("created_at")?,
            changed_at: row.try_get("changed_at")?,
        })
    })
}

/// Returns movements after (`template`, `seq`), at most `limit`, by primary key.
///
/// # Errors
/// The statement fails.
pub async fn movements_after(
    connection: &mut MySqlConnection,
    template: i64,
    seq: i64,
    limit: u32,
) -> Result<Vec<MovementRow>, StoreError> {
    sqlx::query_as(
        "select template_id, seq, delta, kind, delta_stock, returned from stock_movement \
         where template_id > ? or (template_id = ? and seq > ?) order by template_id, seq limit ?",
    )
    .bind(template)
    .bind(template)
    .bind(seq)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a chunk of movements"))
}
