//! Accounts of templates: their stock rows, movements, claims and coupons.

use coupon::{ClaimState, Epoch, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use super::read_all;
use crate::StoreError;

/// A template's account, read by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    pub template: TemplateId,
    /// The stock row's total.
    pub total: i64,
    /// The stock row's stock.
    pub stock: i64,
    /// The stock row's epoch.
    pub epoch: Epoch,
    /// Sum of the movements' changes of the total.
    pub moved: i64,
    /// Sum of the movements' changes of the stock.
    pub moved_stock: i64,
    /// Sum of the quantities of landed claims.
    pub landed: i64,
    /// Number of coupons, returned or not, without replacements: a replacement takes no stock, because the unit of the
    /// coupon that it replaces stays taken.
    pub coupons: i64,
    /// Number of returned coupons, replacements included.
    pub returned: i64,
    /// Limit per user; 0 if there is none.
    pub limit: u32,
}

/// The part of an account that is its stock row's and its ledger's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub template: TemplateId,
    /// The stock row's total.
    pub total: i64,
    /// The stock row's stock.
    pub stock: i64,
    /// The stock row's epoch.
    pub epoch: Epoch,
    /// Sum of the movements' changes of the total.
    pub moved: i64,
    /// Sum of the movements' changes of the stock.
    pub moved_stock: i64,
    /// Sum of the quantities of landed claims.
    pub landed: i64,
}

impl Balance {
    /// Returns the part that needs no coupons.
    pub fn account(&self) -> Account {
        let Self { template, total, stock, epoch, moved, moved_stock, landed, .. } = *self;
        Account { template, total, stock, epoch, moved, moved_stock, landed }
    }
}

/// The columns of an [`Account`], of `template_stock stock`. The sums go by primary keys. One code is bound: that of a
/// landed claim.
const ACCOUNT: &str = "stock.template_id, stock.total, stock.stock, stock.epoch, \
     (select cast(coalesce(sum(delta), 0) as signed) from stock_movement movement \
      where movement.template_id = stock.template_id) as moved, \
     (select cast(coalesce(sum(coalesce(delta_stock, delta)), 0) as signed) \
      from stock_movement movement where movement.template_id = stock.template_id) as moved_stock, \
     (select cast(coalesce(sum(quantity), 0) as signed) from claim \
      where claim.template_id = stock.template_id and claim.state = ?) as landed";

fn read_account(row: &MySqlRow) -> Result<Account, sqlx::Error> {
    Ok(Account {
        template: TemplateId(row.try_get("template_id")?),
        total: row.try_get("total")?,
        stock: row.try_get("stock")?,
        epoch: Epoch(row.try_get("epoch")?),
        moved: row.try_get("moved")?,
        moved_stock: row.try_get("moved_stock")?,
        landed: row.try_get("landed")?,
    })
}

/// Returns one template's stock row and ledger, from one statement, which sees all tables at one moment. `None`: there is
/// no such template.
pub async fn account(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Account>, StoreError> {
    let sql = format!("select {ACCOUNT} from template_stock stock where stock.template_id = ?");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(ClaimState::Landed.code())
        .bind(template.0)
        .fetch_optional(connection)
        .await;
    let read = row.and_then(|row| row.as_ref().map(read_account).transpose());
    read.map_err(StoreError::query("read an account"))
}

/// Returns every template's account, from one statement, which sees all tables at one moment.
pub async fn balances(connection: &mut MySqlConnection) -> Result<Vec<Balance>, StoreError> {
    // No index has `issued_no`, so the coupons are read once, in the order of their rows.
    let sql = format!(
        "select {ACCOUNT}, template.per_user_limit, \
         cast(coalesce(made.coupons, 0) as signed) - \
         (select count(*) from coupon_replacement replaced \
          where replaced.template_id = stock.template_id) as coupons, \
         cast(coalesce(made.returned, 0) as signed) as returned \
         from template_stock stock \
         join coupon_template template on template.id = stock.template_id \
         left join (select template_id, count(*) as coupons, count(issued_no) as returned \
          from user_coupon use index () group by template_id) made \
         on made.template_id = stock.template_id order by stock.template_id"
    );
    let rows =
        sqlx::query(AssertSqlSafe(sql)).bind(ClaimState::Landed.code()).fetch_all(connection).await;
    read_all("read the balances", rows, |row| {
        let Account { template, total, stock, epoch, moved, moved_stock, landed } =
            read_account(row)?;
        Ok(Balance {
            template,
            total,
            stock,
            epoch,
            moved,
            moved_stock,
            landed,
            coupons: row.try_get("coupons")?,
            returned: row.try_get("returned")?,
            // A limit below 0 is none; the template's row is named as unreadable.
            limit: u32::try_from(row.try_get::<i32, _>("per_user_limit")?).unwrap_or(0),
        })
    })
}

/// Returns every template with the epoch of its gate: far less to read than its account.
pub async fn epochs(
    connection: &mut MySqlConnection,
) -> Result<Vec<(TemplateId, Epoch)>, StoreError> {
    let rows: Vec<(i64, i64)> =
        sqlx::query_as("select template_id, epoch from template_stock order by template_id")
            .fetch_all(connection)
            .await
            .map_err(StoreError::query("read the epochs"))?;
    Ok(rows.into_iter().map(|(template, epoch)| (TemplateId(template), Epoch(epoch))).collect())
}
