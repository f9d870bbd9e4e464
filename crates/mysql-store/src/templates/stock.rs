//! `template_stock` and `stock_movement`: a template's coupons, and the epoch of its gate.

use chrono::{DateTime, Utc};
use coupon::{AcceptedClaims, Epoch, Open, RequestId, Template, TemplateId, TemplateState, limit};
use sqlx::{Connection, FromRow, MySqlConnection};

use super::movement;
pub use super::movement::{
    Kind, Movement, MovementPages, last_movement, moved_between, movements_after,
};
pub use super::queue::{
    QueueFacts, UNCLOSED_MAX, close_queue, end_drain, is_other_open, queue_epochs, queue_facts,
    set_queued_epoch, unclosed_queues,
};
use crate::{StoreError, code::Code, connect};

/// The whole stock row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Stock {
    /// Sum of all movements.
    pub total: i64,
    /// Total minus landed coupons that were not returned.
    pub stock: i64,
    /// Guards direct landings.
    #[sqlx(try_from = "i64")]
    pub epoch: Epoch,
    /// Guards queued landings. It is behind `epoch` while the queue of a lost gate is drained.
    #[sqlx(try_from = "i64")]
    pub queued_epoch: Epoch,
    /// What lands.
    #[sqlx(try_from = "Code")]
    pub open: Open,
    /// Number of the last movement.
    pub movement: i64,
}

/// A requested change of a template's total.
#[derive(Debug, Clone, Copy)]
pub struct NewMovement<'a> {
    /// The request's key. A template has one movement per key.
    pub request_id: &'a RequestId,
    /// Change of the total.
    pub delta: i64,
    pub reason: &'a str,
    pub actor: &'a str,
}

/// A recorded movement and the state after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub seq: i64,
    pub total: i64,
    pub stock: i64,
}

/// Result of a requested movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The movement was recorded.
    Recorded(Recorded),
    /// An earlier request with the same key had already made it.
    Replayed(Recorded),
    /// Another movement has the key.
    KeyReused,
    /// The cut would take more than is left.
    TooLittleLeft {
        /// Stock left.
        stock: i64,
    },
    /// The total would exceed [`limit::STOCK_MAX`].
    TooMuch {
        /// Current total.
        total: i64,
    },
    /// The template has no stock row.
    NoTemplate,
}

pub(crate) async fn create(
    connection: &mut MySqlConnection,
    template: &Template,
    total: i64,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into template_stock (template_id, total, stock, epoch, open, queued_epoch, \
         ever_queued) values (?, ?, ?, ?, 0, ?, ?)",
    )
    .bind(template.id.0)
    .bind(total)
    .bind(total)
    .bind(Epoch::FIRST.0 - 1)
    .bind(Epoch::FIRST.0 - 1)
    .bind(template.claim_mode.queues())
    .execute(&mut *connection)
    .await
    .map_err(StoreError::query("create the stock row"))?;
    let first = Recorded { seq: 1, total, stock: total };
    let created = movement::New::total(first, total, "created", actor);
    movement::insert(connection, template.id, &created, now).await
}

/// Opens the stock row of a template that becomes published, or closes that of one that is paused or ended. Claims that
/// were accepted before still land, unless they are to be rejected; a template that was never queued, or whose queue is
/// closed, has none.
pub async fn set_open(
    connection: &mut MySqlConnection,
    template: TemplateId,
    next: TemplateState,
    accepted: AcceptedClaims,
) -> Result<(), StoreError> {
    let (with_a_queue, without) = match (next, accepted) {
        (TemplateState::Published, _) => (Open::All, Open::All),
        (_, AcceptedClaims::Land) => (Open::Accepted, Open::Nothing),
        (_, AcceptedClaims::Reject) => (Open::Nothing, Open::Nothing),
    };
    sqlx::query(
        "update template_stock set open = if(ever_queued = 1 and queue_closed = 0, ?, ?) \
         where template_id = ?",
    )
    .bind(with_a_queue.code())
    .bind(without.code())
    .bind(template.0)
    .execute(connection)
    .await
    .map_err(StoreError::query("open or close the stock row"))?;
    Ok(())
}

/// Returns the stock row and the last movement, from one statement.
pub async fn get(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Stock>, StoreError> {
    sqlx::query_as(
        "select total, stock, epoch, queued_epoch, open, \
         (select coalesce(max(seq), 0) from stock_movement where template_id = ?) as movement \
         from template_stock where template_id = ?",
    )
    .bind(template.0)
    .bind(template.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the stock"))
}

/// Begins a new epoch and returns it, read inside the same transaction. The row lock orders it after every landing, so
/// no older direct admission can land any more. What is queued stays landable until [`set_queued_epoch`]. Returns `None`
/// if there is no such template.
///
/// # Errors
/// A statement fails. Then the epoch is unknown.
pub async fn next_epoch(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Epoch>, StoreError> {
    next_epoch_above(connection, template, Epoch::UNKNOWN).await
}

/// Like [`next_epoch`], but the new epoch is also above `known`, an epoch that the gate has. A gate may know a later one
/// than MySQL if MySQL has lost its newest transactions, as after a failover, or if the gate is damaged. An epoch that
/// cannot be one ([`Epoch::may_follow`]) is ignored.
///
/// # Errors
/// As of [`next_epoch`].
pub async fn next_epoch_above(
    connection: &mut MySqlConnection,
    template: TemplateId,
    known: Epoch,
) -> Result<Option<Epoch>, StoreError> {
    let mut transaction = connect::begin_on(connection).await?;
    sqlx::query(
        "update template_stock set epoch = if(? between epoch and epoch + ?, ?, epoch) + 1 \
         where template_id = ?",
    )
    .bind(known.0)
    .bind(Epoch::LEAP_MAX)
    .bind(known.0)
    .bind(template.0)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("raise the epoch"))?;
    let epoch = sqlx::query_scalar("select epoch from template_stock where template_id = ?")
        .bind(template.0)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(StoreError::query("read the epoch"))?;
    transaction.commit().await.map_err(StoreError::query("raise the epoch"))?;
    Ok(epoch.map(Epoch))
}

/// Changes a template's total and stock, and records the movement, once per key.
///
/// The stock row's lock serializes the movements of a template. A cut takes at most what is left. Admissions that have
/// not landed do not count as taken; if a cut takes their stock, their landings find too little.
///
/// # Errors
/// A statement fails. Whether the movement was recorded is unknown; a repeated call with the same key finds out.
pub async fn add_movement(
    connection: &mut MySqlConnection,
    template: TemplateId,
    new: &NewMovement<'_>,
    now: DateTime<Utc>,
) -> Result<Moved, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin"))?;
    let moved = try_move(&mut transaction, template, new, now).await?;
    if let Moved::Recorded(_) = moved {
        transaction.commit().await.map_err(StoreError::query("move the stock"))?;
    } else {
        transaction.rollback().await.map_err(StoreError::query("roll back"))?;
    }
    Ok(moved)
}

async fn try_move(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    new: &NewMovement<'_>,
    now: DateTime<Utc>,
) -> Result<Moved, StoreError> {
    let changed = sqlx::query(
        "update template_stock set total = total + ?, stock = stock + ? \
         where template_id = ? and stock + ? >= 0 and total + ? <= ?",
    )
    .bind(new.delta)
    .bind(new.delta)
    .bind(template.0)
    .bind(new.delta)
    .bind(new.delta)
    .bind(limit::STOCK_MAX)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("move the stock"))?;
    // After the update, so that a call that waited for the row sees what its holder recorded.
    if let Some((delta, reason, earlier)) =
        by_request(transaction, template, new.request_id).await?
    {
        let same = delta == new.delta && reason == new.reason;
        return Ok(if same { Moved::Replayed(earlier) } else { Moved::KeyReused });
    }
    let Some(stock) = get(transaction, template).await? else { return Ok(Moved::NoTemplate) };
    if changed.rows_affected() != 1 {
        return Ok(if new.delta < 0 {
            Moved::TooLittleLeft { stock: stock.stock }
        } else {
            Moved::TooMuch { total: stock.total }
        });
    }
    let recorded = Recorded { seq: stock.movement + 1, total: stock.total, stock: stock.stock };
    let what = movement::New {
        request_id: Some(new.request_id),
        ..movement::New::total(recorded, new.delta, new.reason, new.actor)
    };
    movement::insert(transaction, template, &what, now).await?;
    Ok(Moved::Recorded(recorded))
}

/// Returns the movement under a key: its delta, its reason, and the state after it.
async fn by_request(
    connection: &mut MySqlConnection,
    template: TemplateId,
    request_id: &RequestId,
) -> Result<Option<(i64, String, Recorded)>, StoreError> {
    let row: Option<(i64, String, i64, i64, i64)> = sqlx::query_as(
        "select delta, reason, seq, total_after, stock_after from stock_movement \
         where template_id = ? and request_id = ?",
    )
    .bind(template.0)
    .bind(request_id.as_str().as_bytes())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("look for a stock movement"))?;
    Ok(row
        .map(|(delta, reason, seq, total, stock)| (delta, reason, Recorded { seq, total, stock })))
}
