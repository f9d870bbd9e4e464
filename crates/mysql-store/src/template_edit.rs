//! The edit of a template: exact for claims, and where it is asked for the beginning of
//! [`crate::validity_move`] for the coupons that were issued before.
//!
//! Two numbers of the guard row, under the lock that every landing takes, rise in the transaction of the
//! edit:
//! - `terms` is the version of the template at which its validity last changed. A landing of an older
//!   version fails. So whatever lands later has the new validity, and whatever has the old one landed
//!   before the move was there to be found.
//! - `epoch`, if the end of a window that shoppers see is moved: nothing that was admitted by the old window
//!   can land any more, and whoever looks at the gate finds it behind MySQL and loads it anew.

use chrono::{DateTime, Utc};
use coupon::{MoveState, Template, TemplateId, TemplateState, Validity};
use sqlx::{Connection, MySqlConnection};

use crate::{
    StoreError,
    datetime::datetime,
    template::{bind_edited, validity_columns},
};

/// How an edit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It stands.
    Done,
    /// The template is no longer of that version.
    Meanwhile,
    /// Issued coupons are on their way to the validity of an earlier change; a change that they do not
    /// follow has to wait.
    MoveUnderWay,
}

/// Makes a template of `before`'s version what `after` says; id, merchant, state and version are `before`'s.
/// With `follow`, the coupons issued so far are moved to its validity; a move that is under way then ends
/// where it is, as the new one moves all of them. What may be edited in which state is for
/// [`Template::may_be_edited_to`] to say.
///
/// # Errors
/// A statement fails; whether the edit stands is unknown, and the template's version tells.
pub async fn edit(
    connection: &mut MySqlConnection,
    before: &Template,
    after: &Template,
    follow: bool,
    now: DateTime<Utc>,
) -> Result<Edited, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    let edited = try_edit(&mut transaction, before, after, follow, now).await?;
    if edited == Edited::Done {
        transaction.commit().await.map_err(StoreError::query("edit the template"))?;
    } else {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
    }
    Ok(edited)
}

/// Rows are locked in the order of move, template, stock: the hot one last, and not while a chunk of the
/// move is waited for.
async fn try_edit(
    transaction: &mut MySqlConnection,
    before: &Template,
    after: &Template,
    follow: bool,
    now: DateTime<Utc>,
) -> Result<Edited, StoreError> {
    let new_terms = follow || before.validity != after.validity;
    let under_way = new_terms && supersede(transaction, before.id, now).await?;
    if under_way && !follow {
        return Ok(Edited::MoveUnderWay);
    }
    if !write(transaction, before, after, now).await? {
        return Ok(Edited::Meanwhile);
    }
    let version = before.version + 1;
    let new_window = before.state != TemplateState::Draft && before.window != after.window;
    if new_terms || new_window {
        sqlx::query(
            "update template_stock set terms = greatest(terms, ?), epoch = epoch + ? \
             where template_id = ?",
        )
        .bind(if new_terms { version } else { 0 })
        .bind(i64::from(new_window))
        .bind(before.id.0)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::query("raise the terms"))?;
    }
    if follow {
        begin_move(transaction, before.id, version, &after.validity, now).await?;
    }
    Ok(Edited::Done)
}

/// Ends the template's move that is under way; answers whether there was one.
async fn supersede(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update validity_move set state = ?, ended_at = ? where template_id = ? and state = ?",
    )
    .bind(MoveState::Superseded.code())
    .bind(datetime(now))
    .bind(template.0)
    .bind(MoveState::UnderWay.code())
    .execute(transaction)
    .await
    .map_err(StoreError::query("end an earlier move"))?;
    Ok(done.rows_affected() > 0)
}

async fn write(
    transaction: &mut MySqlConnection,
    before: &Template,
    after: &Template,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let statement = sqlx::query(
        "update coupon_template set name = ?, discount_kind = ?, discount_value = ?, \
         discount_cap = ?, minimum_spend = ?, currency = ?, per_user_limit = ?, \
         max_per_claim = ?, claim_starts_at = ?, claim_ends_at = ?, valid_from = ?, \
         valid_until = ?, valid_for_ms = ?, self_redeem = ?, version = version + 1, changed_at = ? \
         where id = ? and merchant_id = ? and version = ?",
    );
    let done = bind_edited(statement, after)
        .bind(datetime(now))
        .bind(before.id.0)
        .bind(before.merchant_id.0)
        .bind(before.version)
        .execute(transaction)
        .await
        .map_err(StoreError::query("edit the template"))?;
    Ok(done.rows_affected() == 1)
}

/// The stock row is locked by now, so what it says was issued is exactly what has the old validity.
async fn begin_move(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    version: i64,
    validity: &Validity,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (valid_from, valid_until, valid_for_ms) = validity_columns(validity);
    sqlx::query(
        "insert into validity_move (template_id, version, valid_from, valid_until, valid_for_ms, \
         state, total, looked_at, moved, after_user, after_number, asked_at) \
         select template_id, ?, ?, ?, ?, ?, total - stock, 0, 0, -1, 0, ? \
         from template_stock where template_id = ?",
    )
    .bind(version)
    .bind(valid_from)
    .bind(valid_until)
    .bind(valid_for_ms)
    .bind(MoveState::UnderWay.code())
    .bind(datetime(now))
    .bind(template.0)
    .execute(transaction)
    .await
    .map_err(StoreError::query("begin a move"))?;
    Ok(())
}
