//! Edits of a template. They take effect exactly between two claims, and on request begin a [`crate::templates::validity_move`] of
//! the coupons issued before.
//!
//! Numbers of the guard row change in the transaction of the edit, under the lock that every landing takes:
//! - `terms` is the template's version at the last change of its validity. A landing of an older version fails. So all
//!   later landings have the new validity, and all coupons with the old one landed before the move begins.
//! - `epoch` rises if the window of a template beyond draft changes. Nothing admitted under the old window can land any
//!   more, and the next check of the gate finds it behind MySQL and reloads it. What was queued before still lands.
//! - `ever_queued` is set with the first mode that queues claims, for good. A queue that was closed after its window is
//!   opened again by another window.

use chrono::{DateTime, Utc};
use coupon::{MoveState, Open, Template, TemplateId, TemplateState, Validity};
use sqlx::{Connection, MySqlConnection};

use crate::{
    StoreError,
    datetime::datetime,
    templates::template::{bind_edited, validity_columns},
};

/// Result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// The edit was made.
    Done,
    /// The template's version has changed meanwhile.
    Meanwhile,
    /// Issued coupons are being moved to the validity of an earlier change. A change that they do not follow has to
    /// wait.
    MoveUnderWay,
}

/// Changes a template of `before`'s version to `after`; id, merchant, state and version stay those of `before`. With
/// `follow`, the coupons issued so far are moved to the new validity; a move under way then stops, since the new one
/// moves all coupons. [`Template::may_be_edited_to`] checks what may be edited in which state.
///
/// # Errors
/// A statement fails. Whether the edit was made is unknown; the template's version shows it.
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

/// Locks rows in the order move, template, stock: the hot row last, and not while waiting for a chunk of the move.
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
    let queues = after.claim_mode.queues() && !before.claim_mode.queues();
    if new_terms || new_window || queues {
        let terms = if new_terms { version } else { 0 };
        move_guard(transaction, before, terms, new_window, queues).await?;
    }
    if follow {
        begin_move(transaction, before.id, version, &after.validity, now).await?;
    }
    Ok(Edited::Done)
}

/// Raises the numbers of the guard row: the terms to `terms` at least, and the epoch if there is a new window.
async fn move_guard(
    transaction: &mut MySqlConnection,
    template: &Template,
    terms: i64,
    new_window: bool,
    queues: bool,
) -> Result<(), StoreError> {
    let published = template.state == TemplateState::Published;
    let reopened = if published { Open::All } else { Open::Nothing };
    // `open` first, because it depends on the old `queue_closed`.
    sqlx::query(
        "update template_stock set terms = greatest(terms, ?), epoch = epoch + ?, \
         ever_queued = greatest(ever_queued, ?), \
         open = if(? = 1 and queue_closed = 1, ?, open), \
         queue_closed = if(? = 1, 0, queue_closed) where template_id = ?",
    )
    .bind(terms)
    .bind(i64::from(new_window))
    .bind(i64::from(queues))
    .bind(i64::from(new_window))
    .bind(reopened.code())
    .bind(i64::from(new_window))
    .bind(template.id.0)
    .execute(transaction)
    .await
    .map_err(StoreError::query("raise the terms"))?;
    Ok(())
}

/// Ends the template's move under way. Returns whether there was one.
async fn supersede(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // By the mover's index, so that both lock in the same order.
    let done = sqlx::query(
        "update validity_move force index (ix_state) set state = ?, ended_at = ? \
         where template_id = ? and state = ?",
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
         valid_until = ?, valid_for_ms = ?, self_redeem = ?, stackable = ?, claim_mode = ?, \
         accept_after = ?, hold_ms = ?, lapses_allowed = ?, returned_stock = ?, version = version + 1, changed_at = ? \
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

/// The stock row is locked by now, so `total - stock` is exactly the number of coupons issued before and not returned.
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
