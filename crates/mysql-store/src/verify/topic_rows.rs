//! Expected contents of the topics of coupons, templates and movements: reads in steps, by primary key.

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId};
use sqlx::{FromRow, MySqlConnection, Row, mysql::MySqlRow};

use super::page::{Page, Reading, after_id, after_pair, id};
use crate::{
    StoreError,
    code::Code,
    coupons::user_coupon::UserCoupon,
    templates::{movement::Kind, template},
};

/// A movement as stored.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MovementRow {
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    /// 1 for the first of a template.
    pub seq: i64,
    #[sqlx(try_from = "Code")]
    pub kind: Kind,
    /// Change of the total.
    pub delta: i64,
    /// Change of the stock; `None`: as `delta`.
    pub delta_stock: Option<i64>,
    /// The list of what users get back, not parsed.
    pub returned: Option<String>,
    pub created_at: DateTime<Utc>,
    pub reason: String,
    pub actor: String,
    /// The key of the request.
    pub request_id: Option<Vec<u8>>,
    /// The total and the stock in the first answer to the request.
    pub total_after: Option<i64>,
    pub stock_after: Option<i64>,
}

/// A template's row, with the times that [`Template`] lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRow {
    pub template: Template,
    pub created_at: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
}

/// Returns coupons with ids of `from` or above, at most `limit`, by id.
pub async fn coupons_from(
    connection: &mut MySqlConnection,
    from: i64,
    limit: u32,
) -> Result<Page<UserCoupon, i64>, StoreError> {
    let rows = sqlx::query("select * from user_coupon where id >= ? order by id limit ?")
        .bind(from)
        .bind(limit)
        .fetch_all(connection)
        .await;
    COUPONS.page("read a chunk of coupons", rows, after_id)
}

/// How coupons are read.
pub(super) const COUPONS: Reading<UserCoupon, i64> =
    Reading { read: |row| UserCoupon::from_row(row), key: id, name: coupon_name };

pub(super) fn coupon_name(id: &i64) -> String {
    format!("coupon {id}")
}

/// Returns templates with ids of `from` or above, at most `limit`, by id.
pub async fn templates_from(
    connection: &mut MySqlConnection,
    from: i64,
    limit: u32,
) -> Result<Page<TemplateRow, i64>, StoreError> {
    let rows = sqlx::query("select * from coupon_template where id >= ? order by id limit ?")
        .bind(from)
        .bind(limit)
        .fetch_all(connection)
        .await;
    let templates = Reading {
        read: |row| {
            Ok(TemplateRow {
                template: template::from_row(row)?,
                created_at: row.try_get("created_at")?,
                changed_at: row.try_get("changed_at")?,
            })
        },
        key: id,
        name: template_name,
    };
    templates.page("read a chunk of templates", rows, after_id)
}

pub(super) fn template_name(id: &i64) -> String {
    format!("template {id}")
}

/// Returns movements from (`template`, `seq`) on, at most `limit`, by primary key.
pub async fn movements_from(
    connection: &mut MySqlConnection,
    template: i64,
    seq: i64,
    limit: u32,
) -> Result<Page<MovementRow, (i64, i64)>, StoreError> {
    let rows = sqlx::query(
        "select * from stock_movement where template_id >= ? and (template_id > ? or seq >= ?) \
         order by template_id, seq limit ?",
    )
    .bind(template)
    .bind(template)
    .bind(seq)
    .bind(limit)
    .fetch_all(connection)
    .await;
    let movements = Reading {
        read: |row| MovementRow::from_row(row),
        key: |row: &MySqlRow| Ok((row.try_get("template_id")?, row.try_get("seq")?)),
        name: |(template, seq): &(i64, i64)| format!("template {template}: movement {seq}"),
    };
    movements.page("read a chunk of movements", rows, after_pair)
}
