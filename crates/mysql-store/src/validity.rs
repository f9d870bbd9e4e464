//! The change of a template's validity: exact for claims, and where it is asked for the beginning of
//! [`crate::validity_move`] for the coupons that were issued before.
//!
//! `template_stock.terms` is the version of the template at which its validity last changed. It rises
//! in the transaction of the change, under the lock that every landing takes, and a landing of an older
//! version fails. So whatever lands later has the new validity, and whatever has the old one landed
//! before the move was there to be found.

use chrono::{DateTime, Utc};
use coupon::{MoveState, Template, TemplateId, TemplateState, Validity};
use sqlx::{Connection, MySqlConnection};

use crate::{StoreError, datetime::datetime, template::validity_columns};

/// How a change of validity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It stands.
    Done,
    /// The template is no longer of that version, or has ended.
    Meanwhile,
    /// Issued coupons are on their way to the validity of an earlier change; a change that they do not
    /// follow has to wait.
    MoveUnderWay,
}

/// Gives a template of the given version another validity. With `follow`, the coupons issued so far are
/// moved to it; a move that is under way then ends where it is, as the new one moves all of them.
///
/// # Errors
/// A statement fails; whether the change stands is unknown, and the template's version tells.
pub async fn change(
    connection: &mut MySqlConnection,
    template: &Template,
    validity: &Validity,
    follow: bool,
    now: DateTime<Utc>,
) -> Result<Changed, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    let changed = try_change(&mut transaction, template, validity, follow, now).await?;
    if changed == Changed::Done {
        transaction.commit().await.map_err(StoreError::query("change the validity"))?;
    } else {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
    }
    Ok(changed)
}

/// Rows are locked in the order of move, template, stock: the hot one last, and not while a chunk of the
/// move is waited for.
async fn try_change(
    transaction: &mut MySqlConnection,
    template: &Template,
    validity: &Validity,
    follow: bool,
    now: DateTime<Utc>,
) -> Result<Changed, StoreError> {
    let under_way = supersede(transaction, template.id, now).await?;
    if under_way && !follow {
        return Ok(Changed::MoveUnderWay);
    }
    if !set_validity(transaction, template, validity, now).await? {
        return Ok(Changed::Meanwhile);
    }
    let version = template.version + 1;
    sqlx::query("update template_stock set terms = ? where template_id = ?")
        .bind(version)
        .bind(template.id.0)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::query("raise the terms"))?;
    if follow {
        begin_move(transaction, template.id, version, validity, now).await?;
    }
    Ok(Changed::Done)
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

async fn set_validity(
    transaction: &mut MySqlConnection,
    template: &Template,
    validity: &Validity,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let (valid_from, valid_until, valid_for_ms) = validity_columns(validity);
    let done = sqlx::query(
        "update coupon_template set valid_from = ?, valid_until = ?, valid_for_ms = ?, \
         version = version + 1, changed_at = ? \
         where id = ? and merchant_id = ? and version = ? and state <> ?",
    )
    .bind(valid_from)
    .bind(valid_until)
    .bind(valid_for_ms)
    .bind(datetime(now))
    .bind(template.id.0)
    .bind(template.merchant_id.0)
    .bind(template.version)
    .bind(TemplateState::Ended.code())
    .execute(transaction)
    .await
    .map_err(StoreError::query("change the validity"))?;
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
