//! What the conservation of templates is shown by: their stock rows, and how many of their coupons are held, all as of one
//! moment.

use std::collections::HashMap;

use coupon::{CouponStatus, Epoch, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection, MySqlPool};

use crate::{StoreError, connect, rows};

/// Most held coupons of a template that are counted: each is an entry of an index, and the count is made again every
/// second while somebody watches.
pub const HELD_COUNTED_MAX: u32 = 10_000;

/// A template whose balance is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub template: TemplateId,
    /// Whether its held coupons are counted.
    pub with_held: bool,
}

/// A template's account at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Sum of all movements.
    pub total: i64,
    /// Total minus landed coupons that were not returned.
    pub stock: i64,
    pub epoch: Epoch,
    /// Number of the last movement.
    pub movement: i64,
    /// Landed coupons that are held. `None`: not asked for, or more than [`HELD_COUNTED_MAX`].
    pub held: Option<i64>,
}

/// Returns the balances of these templates, all as of one moment. A template without a stock row is absent.
///
/// # Errors
/// MySQL did not answer.
pub async fn balances(
    pool: &MySqlPool,
    asked: &[Asked],
) -> Result<HashMap<TemplateId, Balance>, StoreError> {
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    connect::within(async {
        let mut transaction = connect::begin_snapshot(pool).await?;
        let mut found = accounts(&mut transaction, asked).await?;
        for one in asked.iter().filter(|one| one.with_held) {
            if let Some(balance) = found.get_mut(&one.template) {
                balance.held = held(&mut transaction, one.template).await?;
            }
        }
        connect::commit(transaction).await?;
        Ok(found)
    })
    .await
}

async fn accounts(
    connection: &mut MySqlConnection,
    asked: &[Asked],
) -> Result<HashMap<TemplateId, Balance>, StoreError> {
    // Padded, because the server keeps every prepared statement.
    let ids = rows::filled(asked);
    let head = "select template_id, total, stock, epoch, \
                (select cast(coalesce(max(seq), 0) as signed) from stock_movement \
                 where stock_movement.template_id = template_stock.template_id) as movement \
                from template_stock where template_id in (";
    let statement = rows::repeat(head, "?", ", ", ids.len(), ")");
    let query = sqlx::query_as(AssertSqlSafe(statement));
    let found: Vec<(i64, i64, i64, i64, i64)> = ids
        .iter()
        .fold(query, |query, one| query.bind(one.template.0))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the balances of templates"))?;
    let balance = |(id, total, stock, epoch, movement)| {
        let balance = Balance { total, stock, epoch: Epoch(epoch), movement, held: None };
        (TemplateId(id), balance)
    };
    Ok(found.into_iter().map(balance).collect())
}

/// Counts a template's held coupons, those whose hold is over included.
async fn held(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<i64>, StoreError> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from (select 1 from user_coupon force index (ix_template_status) \
         where template_id = ? and status = ? limit ?) counted",
    )
    .bind(template.0)
    .bind(CouponStatus::Held.code())
    .bind(HELD_COUNTED_MAX + 1)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the held coupons of a template"))?;
    Ok((count <= i64::from(HELD_COUNTED_MAX)).then_some(count))
}
