//! The queue of a template's accepted claims, as the stock row has it: its epoch, and whether it is closed.
//!
//! A row has two epochs. `epoch` guards direct landings and rises first when a gate is lost. `queued_epoch` guards
//! queued landings and follows once every claim that the old gate accepted has its answer. Until then those claims
//! still land.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{Epoch, Open, TemplateId, TemplateState};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection};

use crate::{StoreError, code::Code, datetime::datetime, rows};

/// Most templates in one list of queues to be closed, 8 bytes each: the sales that end in one outage of the topic.
pub const UNCLOSED_MAX: u32 = 10_000;

/// What the stock row says about a template's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct QueueFacts {
    /// Whether the mode was ever another than direct, so that claims may be queued.
    pub ever_queued: bool,
    /// Whether the queue was closed after the end or the window: every claim has its answer, and no gate is needed.
    pub queue_closed: bool,
    /// Guards direct landings.
    #[sqlx(try_from = "i64")]
    pub epoch: Epoch,
    /// Guards queued landings.
    #[sqlx(try_from = "i64")]
    pub queued_epoch: Epoch,
    /// What lands.
    #[sqlx(try_from = "Code")]
    pub open: Open,
}

/// Returns what the stock row says about the queue, or `None` if there is no such template.
pub async fn queue_facts(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<QueueFacts>, StoreError> {
    sqlx::query_as(
        "select ever_queued, queue_closed, epoch, queued_epoch, open from template_stock \
         where template_id = ?",
    )
    .bind(template.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the state of a queue"))
}

/// Returns the epoch and the queued epoch of each of these templates that exists. Reads no code that a newer version
/// may have written, so no row keeps the others from being read.
pub async fn queue_epochs(
    connection: &mut MySqlConnection,
    templates: &[TemplateId],
) -> Result<HashMap<TemplateId, (Epoch, Epoch)>, StoreError> {
    let mut found = HashMap::with_capacity(templates.len());
    for run in rows::runs(templates) {
        let head = "select template_id, epoch, queued_epoch from template_stock \
                    where template_id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ")");
        let query = sqlx::query_as(AssertSqlSafe(sql));
        let rows: Vec<(i64, i64, i64)> = run
            .iter()
            .fold(query, |query, id| query.bind(id.0))
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the epochs of queues"))?;
        let rows = rows.into_iter();
        found.extend(
            rows.map(|(id, epoch, queued)| (TemplateId(id), (Epoch(epoch), Epoch(queued)))),
        );
    }
    Ok(found)
}

/// Lets queued claims of `epoch` land from now on, and no earlier ones. Returns false, and changes nothing, if `epoch`
/// is not that of the template any more: another rebuild has overtaken this one.
///
/// # Errors
/// The statement fails. Whether it took effect is unknown; the same call may be repeated.
pub async fn set_queued_epoch(
    connection: &mut MySqlConnection,
    template: TemplateId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update template_stock set queued_epoch = ? where template_id = ? and epoch = ?",
    )
    .bind(epoch.0)
    .bind(template.0)
    .bind(epoch.0)
    .execute(connection)
    .await
    .map_err(StoreError::query("set the epoch of queued claims"))?;
    Ok(done.rows_affected() == 1)
}

/// Gives up what an older gate queued: from now on queued claims of `epoch` land, and no earlier ones. Returns false, and
/// changes nothing, if no rebuild under `epoch` waits for the queue.
///
/// # Errors
/// The statement fails. Whether it took effect is unknown; [`queue_facts`] shows it.
pub async fn end_drain(
    connection: &mut MySqlConnection,
    template: TemplateId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update template_stock set queued_epoch = ? where template_id = ? and epoch = ? \
         and queued_epoch < ? and ever_queued = 1 and queue_closed = 0",
    )
    .bind(epoch.0)
    .bind(template.0)
    .bind(epoch.0)
    .bind(epoch.0)
    .execute(connection)
    .await
    .map_err(StoreError::query("end the drain of a queue"))?;
    Ok(done.rows_affected() == 1)
}

/// Closes the queue of a template after its end or its window, once everything accepted has its answer: nothing lands
/// any more, and a receipt without a row is then reported as lost. Returns false, and changes nothing, if
/// `epoch` is not that of the template any more.
///
/// # Errors
/// The statement fails. Whether it took effect is unknown; [`queue_facts`] shows it.
pub async fn close_queue(
    connection: &mut MySqlConnection,
    template: TemplateId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    // The next epoch as a parameter: whether an assignment sees those before it depends on the server's mode.
    let next = epoch.0 + 1;
    let done = sqlx::query(
        "update template_stock set epoch = ?, queued_epoch = ?, open = ?, queue_closed = 1 \
         where template_id = ? and epoch = ?",
    )
    .bind(next)
    .bind(next)
    .bind(Open::Nothing.code())
    .bind(template.0)
    .bind(epoch.0)
    .execute(connection)
    .await
    .map_err(StoreError::query("close a queue"))?;
    Ok(done.rows_affected() == 1)
}

/// Returns whether another template than this one may have queued claims: it was ever queued, its queue is not closed,
/// and it is no draft, which cannot be claimed.
pub async fn is_other_open(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(
        "select stock.template_id from template_stock stock force index (ix_queue) \
         join coupon_template template on template.id = stock.template_id \
         where stock.ever_queued = 1 and stock.queue_closed = 0 and stock.template_id <> ? \
         and template.state <> ? limit 1",
    )
    .bind(template.0)
    .bind(TemplateState::Draft.code())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("look for another queue"))?;
    Ok(found.is_some())
}

/// Returns templates that were ever queued, and are ended or whose window is over, but whose queue is not closed: at most
/// [`UNCLOSED_MAX`], by id. Drafts are left out, since they cannot be claimed. A window is over at `now` and by the
/// server's clock: a closed queue stays closed, so one caller whose clock is ahead must not close it.
pub async fn unclosed_queues(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<Vec<TemplateId>, StoreError> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "select stock.template_id from template_stock stock \
         join coupon_template template on template.id = stock.template_id \
         where stock.ever_queued = 1 and stock.queue_closed = 0 and template.state <> ? \
         and (template.state = ? or template.claim_ends_at <= least(?, utc_timestamp(3))) \
         order by stock.template_id limit ?",
    )
    .bind(TemplateState::Draft.code())
    .bind(TemplateState::Ended.code())
    .bind(datetime(now))
    .bind(UNCLOSED_MAX)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for queues to be closed"))?;
    Ok(ids.into_iter().map(TemplateId).collect())
}
