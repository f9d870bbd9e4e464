//! Lists of templates: chunks in three orders, and the stock of a page.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{CouponStatus, MerchantId, Template, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _};

use crate::{
    StoreError,
    datetime::datetime,
    listed::{Listed, listed},
    rows,
    templates::template::from_row,
};

/// Order of a list. Templates with the same time are ordered by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The latest created first.
    Newest,
    /// By the start of the claim window, the earliest first.
    Starts,
    /// By the end of the claim window, the earliest first.
    Ends,
}

/// A position in a list: behind this template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The time that the list is ordered by; [`Order::Newest`] ignores it.
    pub at: DateTime<Utc>,
    pub id: TemplateId,
}

impl Behind {
    /// The position of a template in a list of this order.
    pub fn of(template: &Template, order: Order) -> Self {
        let at = match order {
            Order::Newest => DateTime::UNIX_EPOCH,
            Order::Starts => template.window.starts_at,
            Order::Ends => template.window.ends_at,
        };
        Self { at, id: template.id }
    }
}

/// Returns the next templates of a merchant, or of all, in this order: at most `limit`, read by an index. Names those that
/// cannot be read.
pub async fn chunk(
    connection: &mut MySqlConnection,
    merchant: Option<MerchantId>,
    order: Order,
    behind: Option<Behind>,
    limit: u32,
) -> Result<Vec<Listed<Template, Behind>>, StoreError> {
    let (index, column) = match (order, merchant) {
        (Order::Newest, Some(_)) => ("ix_merchant", None),
        (Order::Newest, None) => ("primary", None),
        (Order::Starts, Some(_)) => ("ix_merchant_starts", Some("claim_starts_at")),
        (Order::Starts, None) => ("ix_starts", Some("claim_starts_at")),
        (Order::Ends, Some(_)) => ("ix_merchant_ends", Some("claim_ends_at")),
        (Order::Ends, None) => ("ix_ends", Some("claim_ends_at")),
    };
    let of_merchant = if merchant.is_some() { "merchant_id = ? and " } else { "" };
    let (behind_it, sorted) = match column {
        None => ("id < ?".to_owned(), "id desc".to_owned()),
        Some(time) => (format!("({time} > ? or ({time} = ? and id > ?))"), format!("{time}, id")),
    };
    let sql = format!(
        "select * from coupon_template force index ({index}) \
         where {of_merchant}{behind_it} order by {sorted} limit ?"
    );
    let query = sqlx::query(AssertSqlSafe(sql));
    let query = merchant.iter().fold(query, |query, merchant| query.bind(merchant.0));
    let query = if column.is_none() {
        query.bind(behind.map_or(i64::MAX, |behind| behind.id.0))
    } else {
        // No template begins before 1970, and no id is below 0.
        let first = Behind { at: DateTime::UNIX_EPOCH, id: TemplateId(-1) };
        let Behind { at, id } = behind.unwrap_or(first);
        query.bind(datetime(at)).bind(datetime(at)).bind(id.0)
    };
    query
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| {
            listed(&rows, from_row, |row| {
                let at = column.and_then(|column| row.try_get(column).ok());
                let id = TemplateId(row.try_get("id")?);
                Ok(Behind { at: at.unwrap_or(DateTime::UNIX_EPOCH), id })
            })
        })
        .map_err(StoreError::query("read a list of templates"))
}

/// Total and stock of one template: sum of its movements, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub total: i64,
    pub stock: i64,
}

/// Returns the accounts of some templates.
pub async fn accounts(
    connection: &mut MySqlConnection,
    templates: &[TemplateId],
) -> Result<HashMap<TemplateId, Account>, StoreError> {
    // Padded, because the server keeps every prepared statement.
    let ids = rows::filled(templates);
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let head = "select template_id, total, stock from template_stock where template_id in (";
    let statement = rows::repeat(head, "?", ", ", ids.len(), ")");
    let query = sqlx::query_as(AssertSqlSafe(statement));
    let found: Vec<(i64, i64, i64)> = ids
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the stock of templates"))?;
    let account = |(id, total, stock)| (TemplateId(id), Account { total, stock });
    Ok(found.into_iter().map(account).collect())
}

/// Counts the used coupons of a template, but no further than `most`: it reads as many entries of an index.
pub async fn used(
    connection: &mut MySqlConnection,
    template: TemplateId,
    most: u64,
) -> Result<u64, StoreError> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from (select 1 from user_coupon force index (ix_template_status) \
         where template_id = ? and status = ? limit ?) counted",
    )
    .bind(template.0)
    .bind(CouponStatus::Used.code())
    .bind(most)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count a template's used coupons"))?;
    Ok(count.unsigned_abs())
}
