//! `stock_movement`: everything that changes a template's stock except landings, append-only. The gate applies it in the
//! order of `seq`.

use chrono::{DateTime, Utc};
use coupon::{RequestId, Returned, ReturnedList, TemplateId, read_returned};
use sqlx::{FromRow, MySqlConnection, Row, mysql::MySqlRow};

use super::stock::Recorded;
use crate::{
    StoreError,
    code::{Code, code_of},
    datetime::datetime,
};

/// Kind of a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An operator changed the total.
    Total,
    /// Coupons lapsed or were cancelled, and gave back their units and numbers.
    Return,
    /// An operator lifted a user's ban. Nothing moves.
    Lift,
}

impl Kind {
    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Total => 0,
            Self::Return => 1,
            Self::Lift => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, coupon::UnknownCode> {
        let mut all = [Self::Total, Self::Return, Self::Lift].into_iter();
        let unknown = coupon::UnknownCode { what: "movement kind", code };
        all.find(|kind| kind.code() == code).ok_or(unknown)
    }
}

impl TryFrom<Code> for Kind {
    type Error = coupon::UnknownCode;

    fn try_from(code: Code) -> Result<Self, Self::Error> {
        code.read(Self::from_code)
    }
}

/// A recorded movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// 1 for the first; no gaps.
    pub seq: i64,
    pub kind: Kind,
    /// Change of the total.
    pub delta: i64,
    /// Change of the stock.
    pub delta_stock: i64,
    /// What users get back, one entry per user.
    pub returned: Vec<Returned>,
    /// In the operator's words.
    pub reason: String,
    pub actor: String,
}

impl FromRow<'_, MySqlRow> for Movement {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let delta = row.try_get("delta")?;
        let returned: Option<String> = row.try_get("returned")?;
        let returned = read_returned(returned.as_deref().unwrap_or_default())
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        Ok(Self {
            seq: row.try_get("seq")?,
            kind: code_of(row, "kind")?,
            delta,
            delta_stock: row.try_get::<Option<i64>, _>("delta_stock")?.unwrap_or(delta),
            returned,
            reason: row.try_get("reason")?,
            actor: row.try_get("actor")?,
        })
    }
}

/// A movement to be recorded.
pub(crate) struct New<'a> {
    pub(crate) recorded: Recorded,
    pub(crate) kind: Kind,
    pub(crate) delta: i64,
    /// `None`: as `delta`.
    pub(crate) delta_stock: Option<i64>,
    pub(crate) returned: &'a [Returned],
    pub(crate) request_id: Option<&'a RequestId>,
    pub(crate) reason: &'a str,
    pub(crate) actor: &'a str,
}

impl<'a> New<'a> {
    /// A change of the total.
    pub(crate) fn total(recorded: Recorded, delta: i64, reason: &'a str, actor: &'a str) -> Self {
        let kind = Kind::Total;
        let delta_stock = None;
        let returned = &[][..];
        let request_id = None;
        Self { recorded, kind, delta, delta_stock, returned, request_id, reason, actor }
    }
}

/// Movements of one read: some hundred kilobytes.
const MOVEMENTS_MAX: usize = 256;

/// Reads all movements of a template after a given one, page by page.
#[derive(Debug)]
pub struct MovementPages {
    template: TemplateId,
    after: i64,
    is_over: bool,
}

impl MovementPages {
    /// The movements after `seq`.
    #[must_use]
    pub fn after(template: TemplateId, seq: i64) -> Self {
        Self { template, after: seq, is_over: false }
    }

    /// Returns the next movements in their order, or `None` after the last ones.
    pub async fn next(
        &mut self,
        connection: &mut MySqlConnection,
    ) -> Result<Option<Vec<Movement>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let page = movements_after(connection, self.template, self.after).await?;
        self.is_over = page.len() < MOVEMENTS_MAX;
        self.after = page.last().map_or(self.after, |movement| movement.seq);
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// Returns the next movements after `seq`, in order, at most 256.
pub async fn movements_after(
    connection: &mut MySqlConnection,
    template: TemplateId,
    seq: i64,
) -> Result<Vec<Movement>, StoreError> {
    sqlx::query_as(
        "select seq, kind, delta, delta_stock, returned, reason, actor from stock_movement \
         where template_id = ? and seq > ? order by seq limit ?",
    )
    .bind(template.0)
    .bind(seq)
    .bind(MOVEMENTS_MAX as u64)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the stock movements"))
}

/// Returns the number of the last movement, 0 without one.
pub async fn last_movement(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<i64, StoreError> {
    sqlx::query_scalar(
        "select cast(coalesce(max(seq), 0) as signed) from stock_movement where template_id = ?",
    )
    .bind(template.0)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("read the last movement"))
}

/// Returns the sum of the changes of the stock after movement `after` up to `last`, or `None` if MySQL does not show all of
/// these movements yet.
pub async fn moved_between(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: i64,
    last: i64,
) -> Result<Option<i64>, StoreError> {
    if last <= after {
        return Ok(Some(0));
    }
    let (shown, sum): (i64, i64) = sqlx::query_as(
        "select count(*), cast(coalesce(sum(coalesce(delta_stock, delta)), 0) as signed) \
         from stock_movement where template_id = ? and seq > ? and seq <= ?",
    )
    .bind(template.0)
    .bind(after)
    .bind(last)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("sum the stock movements"))?;
    Ok((shown == last - after).then_some(sum))
}

pub(crate) async fn insert(
    connection: &mut MySqlConnection,
    template: TemplateId,
    new: &New<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let returned = (!new.returned.is_empty()).then(|| ReturnedList(new.returned).to_string());
    sqlx::query(
        "insert into stock_movement (template_id, seq, delta, reason, actor, created_at, \
         request_id, total_after, stock_after, kind, delta_stock, returned) \
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(template.0)
    .bind(new.recorded.seq)
    .bind(new.delta)
    .bind(new.reason)
    .bind(new.actor)
    .bind(datetime(now))
    .bind(new.request_id.map(|id| id.as_str().as_bytes()))
    .bind(new.recorded.total)
    .bind(new.recorded.stock)
    .bind(new.kind.code())
    .bind(new.delta_stock)
    .bind(returned)
    .execute(connection)
    .await
    .map_err(StoreError::query("record the stock movement"))?;
    Ok(())
}
