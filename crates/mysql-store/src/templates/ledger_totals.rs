//! Sums over the ledger of a template's stock, and its coupons that are held now.

use coupon::{CouponStatus, TemplateId};
use sqlx::MySqlConnection;

use crate::{StoreError, code::Code, templates::movement::Kind};

/// Most coupons of a template among which the held ones are counted: as many as a piece of a report. Not measured.
pub const COUNTED_MAX: u32 = 10_000;

/// Sums of the movements of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindTotal {
    pub kind: Kind,
    pub movements: i64,
    /// Sum of the changes of the total.
    pub delta: i64,
    /// Sum of the changes of the stock.
    pub delta_stock: i64,
}

/// Sums over the whole ledger, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// One of each kind that occurs, in the order of their codes.
    pub kinds: Vec<KindTotal>,
    /// Coupons of all landed claims, in any status.
    pub claimed: i64,
    pub stock: i64,
}

/// Returns the sums over a template's ledger, or `None` if it has no stock row. Reads all of its movements.
pub async fn totals(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Totals>, StoreError> {
    let rows: Vec<(Code, i64, i64, i64, Option<i64>)> = sqlx::query_as(
        "select kind, count(*), cast(sum(delta) as signed), \
         cast(sum(coalesce(delta_stock, delta)) as signed), \
         (select stock from template_stock where template_id = ?) \
         from stock_movement where template_id = ? group by kind order by kind",
    )
    .bind(template.0)
    .bind(template.0)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("sum a ledger"))?;
    let Some(stock) = rows.first().and_then(|(.., stock)| *stock) else { return Ok(None) };
    let mut kinds = Vec::with_capacity(rows.len());
    for (kind, movements, delta, delta_stock, _) in rows {
        kinds.push(KindTotal { kind: kind.try_into()?, movements, delta, delta_stock });
    }
    // The stock is what all movements gave, less what claims took.
    let moved: i64 = kinds.iter().map(|total| total.delta_stock).sum();
    Ok(Some(Totals { kinds, claimed: moved - stock, stock }))
}

/// Counts a template's held coupons, those whose hold is over included. `None`: it has more than [`COUNTED_MAX`]
/// coupons, too many to count each time.
pub async fn held(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<i64>, StoreError> {
    let (counted, held): (i64, i64) = sqlx::query_as(
        "select count(*), cast(coalesce(sum(status = ?), 0) as signed) from (select status \
         from user_coupon force index (uq_number) where template_id = ? limit ?) counted",
    )
    .bind(CouponStatus::Held.code())
    .bind(template.0)
    .bind(COUNTED_MAX + 1)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count held coupons"))?;
    Ok((counted <= i64::from(COUNTED_MAX)).then_some(held))
}
