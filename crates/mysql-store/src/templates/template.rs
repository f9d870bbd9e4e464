//! `coupon_template`: the part of a template that people read and edit. Its stock is in [`crate::templates::stock`].

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use coupon::{
    AcceptedClaims, Discount, HoldTerms, MerchantId, Template, TemplateId, TemplateState, Validity,
    Window,
};
use sqlx::{
    AssertSqlSafe, Connection, FromRow, MySql, MySqlConnection, Row,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

use crate::{
    StoreError,
    code::code_of,
    datetime::datetime,
    rows,
    templates::{
        readable::Readable,
        stock::{self, Stock},
    },
};

/// Creates a template as a draft, with its stock row and the movement for its initial total.
pub async fn create(
    connection: &mut MySqlConnection,
    template: &Template,
    total: i64,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    insert(&mut transaction, template, now).await?;
    stock::create(&mut transaction, template, total, actor, now).await?;
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
         claim_ends_at, valid_from, valid_until, valid_for_ms, self_redeem, stackable, claim_mode, \
         accept_after, hold_ms, lapses_allowed, returned_stock, state, version, created_at, changed_at) \
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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

/// Binds the editable columns: `name` to `valid_for_ms` in table order, `self_redeem`, `stackable`, `claim_mode`, and
/// `accept_after` to `returned_stock`.
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
        .bind(template.stackable)
        .bind(template.claim_mode.code())
        .bind(template.accept_after.code())
        .bind(template.hold.hold.map_or(0, |hold| hold.num_milliseconds()))
        .bind(template.hold.lapses_allowed)
        .bind(template.hold.returned_stock.code())
}

/// Returns a template of any merchant.
pub async fn get(
    connection: &mut MySqlConnection,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    sqlx::query("select * from coupon_template where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .and_then(|row| row.as_ref().map(from_row).transpose())
        .map_err(StoreError::query("read the template"))
}

/// Returns a template, and keeps it from being edited until the transaction ends.
pub(crate) async fn get_shared(
    transaction: &mut MySqlConnection,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    sqlx::query("select * from coupon_template where id = ? lock in share mode")
        .bind(id.0)
        .fetch_optional(transaction)
        .await
        .and_then(|row| row.as_ref().map(from_row).transpose())
        .map_err(StoreError::query("hold the template"))
}

/// Returns the templates with these ids, in any order. Unknown ids are left out.
pub async fn of_ids(
    connection: &mut MySqlConnection,
    ids: &[TemplateId],
) -> Result<Readable<Template>, StoreError> {
    let mut found = Readable::default();
    for run in rows::runs(ids) {
        let sql =
            rows::repeat("select * from coupon_template where id in (", "?", ",", run.len(), ")");
        let query = run.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(id.0));
        let read = query.fetch_all(&mut *connection).await;
        let run = read.and_then(|rows| Readable::of(&rows, from_row));
        let run = run.map_err(StoreError::query("read templates by their ids"))?;
        found.rows.extend(run.rows);
        found.unreadable.extend(run.unreadable);
    }
    Ok(found)
}

/// Returns templates beyond draft whose window ends after `ending_after`, and which changed after `changed_after`.
pub async fn changed(
    connection: &mut MySqlConnection,
    ending_after: DateTime<Utc>,
    changed_after: DateTime<Utc>,
) -> Result<Readable<Template>, StoreError> {
    sqlx::query(
        "select * from coupon_template \
         where state in (?, ?, ?) and claim_ends_at > ? and changed_at > ?",
    )
    .bind(TemplateState::Published.code())
    .bind(TemplateState::Paused.code())
    .bind(TemplateState::Ended.code())
    .bind(datetime(ending_after))
    .bind(datetime(changed_after))
    .fetch_all(connection)
    .await
    .and_then(|rows| Readable::of(&rows, from_row))
    .map_err(StoreError::query("read the templates that changed"))
}

/// Returns the template with the lowest id; ids rise with time.
pub async fn oldest(connection: &mut MySqlConnection) -> Result<Option<TemplateId>, StoreError> {
    let id: Option<i64> = sqlx::query_scalar("select min(id) from coupon_template")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read the oldest template"))?;
    Ok(id.map(TemplateId))
}

/// Locks the template until the transaction ends and returns its version, or `None` if there is no such template.
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
pub async fn page(
    connection: &mut MySqlConnection,
    merchant_id: MerchantId,
    before: Option<TemplateId>,
    limit: u32,
) -> Result<Vec<Template>, StoreError> {
    sqlx::query(
        "select * from coupon_template where merchant_id = ? and id < ? order by id desc limit ?",
    )
    .bind(merchant_id.0)
    .bind(before.map_or(i64::MAX, |id| id.0))
    .bind(limit)
    .fetch_all(connection)
    .await
    .and_then(|rows| rows.iter().map(from_row).collect())
    .map_err(StoreError::query("read the templates"))
}

/// A template whose gate is needed now, and its stock at the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub template: Template,
    pub stock: Stock,
}

/// Returns templates beyond draft whose window opens at `opening_before` or earlier and ends after `ending_after`.
pub async fn watched(
    connection: &mut MySqlConnection,
    opening_before: DateTime<Utc>,
    ending_after: DateTime<Utc>,
) -> Result<Readable<Watched>, StoreError> {
    let watched = |row: &MySqlRow| -> Result<_, sqlx::Error> {
        Ok(Watched { template: from_row(row)?, stock: Stock::from_row(row)? })
    };
    sqlx::query(
        "select template.*, stock.total, stock.stock, stock.epoch, stock.queued_epoch, stock.open, \
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
    .and_then(|rows| Readable::of(&rows, watched))
    .map_err(StoreError::query("read the templates near their window"))
}

/// Like [`change_state_with`]; claims that were accepted before a pause or an end land.
pub async fn change_state(
    connection: &mut MySqlConnection,
    template: &Template,
    next: TemplateState,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    change_state_with(connection, template, next, AcceptedClaims::Land, now).await
}

/// Changes the state of a template of the given version, and opens or closes its guard row in the same transaction.
/// `accepted` tells what a pause or an end does with the claims that were accepted before it. Returns false if the
/// version has changed.
pub async fn change_state_with(
    connection: &mut MySqlConnection,
    template: &Template,
    next: TemplateState,
    accepted: AcceptedClaims,
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
    stock::set_open(&mut transaction, template.id, next, accepted).await?;
    transaction.commit().await.map_err(StoreError::query("change the template's state"))?;
    Ok(true)
}

/// Reads a template's row. [`Template`] belongs to another crate, so it cannot derive this.
pub(crate) fn from_row(row: &MySqlRow) -> Result<Template, sqlx::Error> {
    Ok(Template {
        id: TemplateId(row.try_get("id")?),
        merchant_id: MerchantId(row.try_get("merchant_id")?),
        name: row.try_get("name")?,
        discount: Discount {
            kind: code_of(row, "discount_kind")?,
            value: row.try_get("discount_value")?,
            cap: row.try_get("discount_cap")?,
            minimum_spend: row.try_get("minimum_spend")?,
            currency: row.try_get("currency")?,
        },
        per_user_limit: unsigned(row, "per_user_limit")?,
        max_per_claim: unsigned(row, "max_per_claim")?,
        window: Window {
            starts_at: row.try_get("claim_starts_at")?,
            ends_at: row.try_get("claim_ends_at")?,
        },
        validity: StoredValidity::from_row(row)?.0,
        self_redeem: row.try_get("self_redeem")?,
        stackable: row.try_get("stackable")?,
        claim_mode: code_of(row, "claim_mode")?,
        accept_after: code_of(row, "accept_after")?,
        hold: hold_terms(row)?,
        state: code_of(row, "state")?,
        version: row.try_get("version")?,
    })
}

fn hold_terms(row: &MySqlRow) -> Result<HoldTerms, sqlx::Error> {
    let hold = match row.try_get("hold_ms")? {
        0 => None,
        hold_ms => Some(period(hold_ms, "hold_ms")?),
    };
    Ok(HoldTerms {
        hold,
        lapses_allowed: unsigned(row, "lapses_allowed")?,
        returned_stock: code_of(row, "returned_stock")?,
    })
}

/// Reads a number that is never below 0.
fn unsigned(row: &MySqlRow, column: &str) -> Result<u32, sqlx::Error> {
    let number: i32 = row.try_get(column)?;
    u32::try_from(number).map_err(|_| unreadable(column, number.into()))
}

/// A period of whole milliseconds. One that is not above 0 is no period.
fn period(ms: i64, column: &str) -> Result<TimeDelta, sqlx::Error> {
    let period = TimeDelta::try_milliseconds(ms).filter(|period| *period > TimeDelta::zero());
    period.ok_or_else(|| unreadable(column, ms))
}

fn unreadable(column: &str, number: i64) -> sqlx::Error {
    let source = format!("{number} is out of range").into();
    sqlx::Error::ColumnDecode { index: column.to_owned(), source }
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

/// A validity in the columns `valid_from`, `valid_until` and `valid_for_ms`.
pub(crate) struct StoredValidity(pub(crate) Validity);

impl FromRow<'_, MySqlRow> for StoredValidity {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let valid_for_ms: Option<i64> = row.try_get("valid_for_ms")?;
        Ok(Self(match valid_for_ms {
            Some(ms) => Validity::Relative { valid_for: period(ms, "valid_for_ms")? },
            None => Validity::Absolute {
                from: row.try_get("valid_from")?,
                until: row.try_get("valid_until")?,
            },
        }))
    }
}

impl From<StoredValidity> for Validity {
    fn from(stored: StoredValidity) -> Self {
        stored.0
    }
}
