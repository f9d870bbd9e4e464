//! `coupon_template`: the part of a template that people read and edit. Its stock is in [`crate::templates::stock`].

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use coupon::{
    Discount, DiscountKind, MerchantId, Template, TemplateId, TemplateState, Validity, Window,
};
use sqlx::{
    Connection, MySql, MySqlConnection, Row,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

use crate::{
    StoreError,
    datetime::datetime,
    templates::stock::{self, Stock},
};

/// Creates a template as a draft, with its stock row and the movement for its initial total.
///
/// # Errors
/// The statement fails.
pub async fn create(
    connection: &mut MySqlConnection,
    template: &Template,
    total: i64,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    insert(&mut transaction, template, now).await?;
    stock::create(&mut transaction, template.id, total, actor, now).await?;
    transaction.commit().await.map_err(StoreError::query("create the template"))
}

async fn insert(
    connection: &mut MySqlConnection,
    template: &Template,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let statement = sqlx::query(
        "insert into coupon_template (id, merchant_id, name, discount_kind, discount_value, \
         discount_cap, minimum_spend, currency, per_user_limit, max_per_claim, claim_starts_at, \
         claim_ends_at, valid_from, valid_until, valid_for_ms, self_redeem, state, version, \
         created_at, changed_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(template.id.0)
    .bind(template.merchant_id.0);
    bind_edited(statement, template)
        .bind(template.state.code())
        .bind(template.version)
        .bind(datetime(now))
        .bind(datetime(now))
        .execute(connection)
        .await
        .map_err(StoreError::query("create the template"))?;
    Ok(())
}

/// Binds the editable columns: `name` to `valid_for_ms` in table order, and `self_redeem`.
pub(crate) fn bind_edited<'a>(
    statement: Query<'a, MySql, MySqlArguments>,
    template: &'a Template,
) -> Query<'a, MySql, MySqlArguments> {
    let (valid_from, valid_until, valid_for_ms) = validity_columns(&template.validity);
    statement
        .bind(&template.name)
        .bind(template.discount.kind.code())
        .bind(template.discount.value)
        .bind(template.discount.cap)
        .bind(template.discount.minimum_spend)
        .bind(&template.discount.currency)
        .bind(template.per_user_limit)
        .bind(template.max_per_claim)
        .bind(datetime(template.window.starts_at))
        .bind(datetime(template.window.ends_at))
        .bind(valid_from)
        .bind(valid_until)
        .bind(valid_for_ms)
        .bind(template.self_redeem)
}

/// Returns a template of any merchant.
///
/// # Errors
/// The statement fails.
pub async fn get(
    connection: &mut MySqlConnection,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    let row = sqlx::query("select * from coupon_template where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the template"))?;
    row.map(|row| from_row(&row)).transpose()
}

/// Returns the template with the lowest id; ids rise with time.
///
/// # Errors
/// The statement fails.
pub async fn oldest(connection: &mut MySqlConnection) -> Result<Option<TemplateId>, StoreError> {
    let id: Option<i64> = sqlx::query_scalar("select min(id) from coupon_template")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read the oldest template"))?;
    Ok(id.map(TemplateId))
}

/// Locks the template until the transaction ends and returns its version, or `None` if there is no such template.
///
/// # Errors
/// The statement fails.
pub async fn hold_version(
    transaction: &mut MySqlConnection,
    id: TemplateId,
) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar("select version from coupon_template where id = ? for update")
        .bind(id.0)
        .fetch_optional(transaction)
        .await
        .map_err(StoreError::query("hold the template"))
}

/// Returns a merchant's templates with ids below `before`, the newest first.
///
/// # Errors
/// The statement fails.
pub async fn page(
    connection: &mut MySqlConnection,
    merchant_id: MerchantId,
    before: Option<TemplateId>,
    limit: u32,
) -> Result<Vec<Template>, StoreError> {
    let rows = sqlx::query(
        "select * from coupon_template where merchant_id = ? and id < ? order by id desc limit ?",
    )
    .bind(merchant_id.0)
    .bind(before.map_or(i64::MAX, |id| id.0))
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the templates"))?;
    rows.iter().map(from_row).collect()
}

/// A template whose gate is needed now, and its stock at the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub template: Template,
    pub stock: Stock,
}

/// Returns templates beyond draft whose window opens at `opening_before` or earlier and ends after `ending_after`.
///
/// # Errors
/// The statement fails.
pub async fn watched(
    connection: &mut MySqlConnection,
    opening_before: DateTime<Utc>,
    ending_after: DateTime<Utc>,
) -> Result<Vec<Watched>, StoreError> {
    let rows = sqlx::query(
        "select template.*, stock.total, stock.stock, stock.epoch, stock.open, \
         (select coalesce(max(seq), 0) from stock_movement movement \
          where movement.template_id = template.id) as movement \
         from coupon_template template \
         join template_stock stock on stock.template_id = template.id \
         where template.state in (?, ?, ?) and template.claim_ends_at > ? \
         and template.claim_starts_at <= ? order by template.id",
    )
    .bind(TemplateState::Published.code())
    .bind(TemplateState::Paused.code())
    .bind(TemplateState::Ended.code())
    .bind(datetime(ending_after))
    .bind(datetime(opening_before))
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the templates near their window"))?;
    rows.iter()
        .map(|row| Ok(Watched { template: from_row(row)?, stock: stock::from_row(row)? }))
        .collect()
}

/// Changes the state of a template of the given version, and opens or closes its guard row in the same transaction.
/// Returns false if the version has changed.
///
/// # Errors
/// A statement fails.
pub async fn change_state(
    connection: &mut MySqlConnection,
    template: &Template,
    next: TemplateState,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    let changed = sqlx::query(
        "update coupon_template set state = ?, version = version + 1, changed_at = ? \
         where id = ? and merchant_id = ? and version = ?",
    )
    .bind(next.code())
    .bind(datetime(now))
    .bind(template.id.0)
    .bind(template.merchant_id.0)
    .bind(template.version)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("change the template's state"))?;
    if changed.rows_affected() != 1 {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
        return Ok(false);
    }
    stock::set_open(&mut transaction, template.id, next == TemplateState::Published).await?;
    transaction.commit().await.map_err(StoreError::query("change the template's state"))?;
    Ok(true)
}

pub(crate) fn from_row(row: &MySqlRow) -> Result<Template, StoreError> {
    let code = |error: coupon::UnknownCode| StoreError::unreadable(error.to_string());
    let read = || -> Result<_, sqlx::Error> {
        Ok(Template {
            id: TemplateId(row.try_get("id")?),
            merchant_id: MerchantId(row.try_get("merchant_id")?),
            name: row.try_get("name")?,
            discount: Discount {
                kind: DiscountKind::AmountOff,
                value: row.try_get("discount_value")?,
                cap: row.try_get("discount_cap")?,
                minimum_spend: row.try_get("minimum_spend")?,
                currency: row.try_get("currency")?,
            },
            per_user_limit: row.try_get::<i32, _>("per_user_limit")?.unsigned_abs(),
            max_per_claim: row.try_get::<i32, _>("max_per_claim")?.unsigned_abs(),
            window: Window {
                starts_at: row.try_get("claim_starts_at")?,
                ends_at: row.try_get("claim_ends_at")?,
            },
            validity: validity_of(row)?,
            self_redeem: row.try_get::<i8, _>("self_redeem")? == 1,
            state: TemplateState::Draft,
            version: row.try_get("version")?,
        })
    };
    let mut template = read().map_err(StoreError::query("read a template's row"))?;
    template.discount.kind =
        DiscountKind::from_code(code_of(row, "discount_kind")?).map_err(code)?;
    template.state = TemplateState::from_code(code_of(row, "state")?).map_err(code)?;
    Ok(template)
}

/// Returns the columns `valid_from`, `valid_until` and `valid_for_ms` for a validity.
pub(crate) fn validity_columns(
    validity: &Validity,
) -> (Option<NaiveDateTime>, Option<NaiveDateTime>, Option<i64>) {
    match *validity {
        Validity::Absolute { from, until } => (Some(datetime(from)), Some(datetime(until)), None),
        Validity::Relative { valid_for } => (None, None, Some(valid_for.num_milliseconds())),
    }
}

/// Reads the validity from a row's columns `valid_from`, `valid_until` and `valid_for_ms`.
pub(crate) fn validity_of(row: &MySqlRow) -> Result<Validity, sqlx::Error> {
    let valid_for_ms: Option<i64> = row.try_get("valid_for_ms")?;
    Ok(match valid_for_ms {
        Some(ms) => Validity::Relative { valid_for: TimeDelta::milliseconds(ms) },
        None => Validity::Absolute {
            from: row.try_get("valid_from")?,
            until: row.try_get("valid_until")?,
        },
    })
}

/// Reads a code column: a `tinyint` from 0 to 127.
pub(crate) fn code_of(row: &MySqlRow, column: &'static str) -> Result<u8, StoreError> {
    let code: i8 = row.try_get(column).map_err(StoreError::query("read a code column"))?;
    u8::try_from(code).map_err(|_| StoreError::unreadable(format!("{column} = {code}")))
}
