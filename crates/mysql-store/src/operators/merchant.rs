//! `merchant`: the owners of templates and keys.

use chrono::{DateTime, Utc};
use coupon::MerchantId;
use sqlx::{FromRow, MySqlConnection, Row as _};

use crate::{
    StoreError,
    datetime::datetime,
    listed::{Listed, listed},
};

/// The platform's own merchant, which the migration creates.
pub const PLATFORM: MerchantId = MerchantId(1);

#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Merchant {
    #[sqlx(try_from = "i64")]
    pub id: MerchantId,
    pub name: String,
    pub created_at: DateTime<Utc>,
}

/// Creates a merchant.
pub async fn create(
    connection: &mut MySqlConnection,
    merchant: &Merchant,
) -> Result<(), StoreError> {
    sqlx::query("insert into merchant (id, name, created_at) values (?, ?, ?)")
        .bind(merchant.id.0)
        .bind(&merchant.name)
        .bind(datetime(merchant.created_at))
        .execute(connection)
        .await
        .map_err(StoreError::query("create the merchant"))?;
    Ok(())
}

/// Returns the merchants with ids below `before`, the newest first. Names those that cannot be read.
pub async fn page(
    connection: &mut MySqlConnection,
    before: Option<MerchantId>,
    limit: u32,
) -> Result<Vec<Listed<Merchant, MerchantId>>, StoreError> {
    sqlx::query("select * from merchant where id < ? order by id desc limit ?")
        .bind(before.map_or(i64::MAX, |id| id.0))
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| listed(&rows, Merchant::from_row, |row| row.try_get("id").map(MerchantId)))
        .map_err(StoreError::query("read the merchants"))
}

/// Locks the merchant's row until the transaction ends, which serializes changes of its keys.
/// Returns whether the merchant exists.
pub(crate) async fn lock(
    connection: &mut MySqlConnection,
    id: MerchantId,
) -> Result<bool, StoreError> {
    let row = sqlx::query("select id from merchant where id = ? for update")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("lock the merchant"))?;
    Ok(row.is_some())
}
