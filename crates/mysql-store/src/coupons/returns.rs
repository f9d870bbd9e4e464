//! Returns: coupons that lapse or are cancelled give back their units and numbers, once, in one transaction.
//!
//! The order of the statements is that of docs/holds.md, "What comes back": the coupons are locked in the order of
//! their ids, then the stock row, and the movement's number is read under its lock. Only rows that the transaction
//! locked count, never earlier reads. A returned coupon's number becomes its own id, beyond every limit, as a
//! replacement's is.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, Lapses, Returned, ReturnedStock, TemplateId, UserId, limit};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, Row};

use crate::{
    StoreError,
    coupons::user_coupon::UserCoupon,
    datetime::datetime,
    rows,
    templates::{
        movement::{self, Kind},
        stock::Recorded,
    },
};

/// Why coupons are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Their holds ended.
    Lapse,
    /// Their user gave them up: held ones only.
    User,
    /// The shop took them back: held or confirmed ones.
    Shop,
}

/// A return that took place in the caller's transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenBack {
    /// Number of the movement.
    pub seq: i64,
    pub delta_stock: i64,
    pub returned: Vec<Returned>,
    /// The coupons as they are now.
    pub coupons: Vec<UserCoupon>,
}

/// A return of some coupons of one template.
#[derive(Debug, Clone, Copy)]
pub struct Return<'a> {
    pub template: TemplateId,
    pub returned_stock: ReturnedStock,
    pub cause: Cause,
    pub reason: &'a str,
    pub actor: &'a str,
    /// The caller's clock. The server's must agree about each deadline.
    pub now: DateTime<Utc>,
}

impl Cause {
    fn status(self) -> CouponStatus {
        match self {
            Self::Lapse => CouponStatus::Lapsed,
            Self::User | Self::Shop => CouponStatus::Cancelled,
        }
    }

    /// What a coupon must be. The parameter is the caller's clock.
    fn condition(self) -> &'static str {
        match self {
            Self::Lapse => {
                "status = 4 and valid_until <= least(cast(? as datetime(3)), utc_timestamp(3))"
            }
            Self::User => {
                "status = 4 and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3))"
            }
            Self::Shop => {
                "status in (0, 4) and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3))"
            }
        }
    }
}

impl Return<'_> {
    /// Gives back those of `ids`, at most [`limit::RETURN_COUPONS_MAX`], that meet the cause's condition and belong to
    /// the template. The others stay as they are. Returns `None` if there was none: then nothing has changed.
    ///
    /// # Errors
    /// A statement fails. Roll back then.
    pub async fn of(
        &self,
        transaction: &mut MySqlConnection,
        ids: &[CouponId],
    ) -> Result<Option<GivenBack>, StoreError> {
        debug_assert!(ids.len() <= limit::RETURN_COUPONS_MAX, "a return of too many coupons");
        let locked = self.lock(transaction, ids).await?;
        if locked.is_empty() {
            return Ok(None);
        }
        self.end(transaction, &locked).await?;
        let count = i64::try_from(locked.len()).unwrap_or(i64::MAX);
        let (delta, delta_stock) = match self.returned_stock {
            ReturnedStock::Resell => (0, count),
            ReturnedStock::Retire => (-count, 0),
        };
        let recorded = next_movement(transaction, self.template, delta, delta_stock).await?;
        let returned = self.per_user(&locked);
        if self.cause == Cause::Lapse {
            count_lapses(transaction, self.template, &returned, recorded.seq).await?;
        }
        let new = movement::New {
            recorded,
            kind: Kind::Return,
            delta,
            delta_stock: Some(delta_stock),
            returned: &returned,
            request_id: None,
            reason: self.reason,
            actor: self.actor,
        };
        movement::insert(transaction, self.template, &new, self.now).await?;
        let coupons = locked.into_iter().map(|coupon| self.ended(coupon)).collect();
        Ok(Some(GivenBack { seq: recorded.seq, delta_stock, returned, coupons }))
    }

    async fn lock(
        &self,
        transaction: &mut MySqlConnection,
        ids: &[CouponId],
    ) -> Result<Vec<UserCoupon>, StoreError> {
        let mut ids = ids.to_vec();
        // Every writer locks in primary key order.
        ids.sort_unstable();
        let filled = rows::filled(&ids);
        if filled.is_empty() {
            return Ok(Vec::new());
        }
        // A coupon that another transaction has locked is being confirmed or cancelled: it does not lapse now.
        let lock = if self.cause == Cause::Lapse { "for update skip locked" } else { "for update" };
        let tail =
            format!(") and template_id = ? and {} order by id {lock}", self.cause.condition());
        let head = "select * from user_coupon force index (primary) where id in (";
        let sql = rows::repeat(head, "?", ", ", filled.len(), &tail);
        let query = sqlx::query_as(AssertSqlSafe(sql));
        filled
            .iter()
            .fold(query, |query, id| query.bind(id.0))
            .bind(self.template.0)
            .bind(datetime(self.now))
            .fetch_all(transaction)
            .await
            .map_err(StoreError::query("lock the coupons that come back"))
    }

    /// Ends exactly the coupons that are locked.
    async fn end(
        &self,
        transaction: &mut MySqlConnection,
        locked: &[UserCoupon],
    ) -> Result<(), StoreError> {
        let ids: Vec<CouponId> = locked.iter().map(|coupon| coupon.id).collect();
        let filled = rows::filled(&ids);
        // Assignments take effect from left to right: the number is kept before it is freed.
        let head = "update user_coupon force index (primary) set status = ?, version = version + 1, \
                    changed_at = ?, issued_no = claim_no, claim_no = id where id in (";
        let sql = rows::repeat(head, "?", ", ", filled.len(), ")");
        let query = sqlx::query(AssertSqlSafe(sql))
            .bind(self.cause.status().code())
            .bind(datetime(self.now));
        filled
            .iter()
            .fold(query, |query, id| query.bind(id.0))
            .execute(transaction)
            .await
            .map_err(StoreError::query("end the coupons that come back"))?;
        Ok(())
    }

    fn ended(&self, coupon: UserCoupon) -> UserCoupon {
        UserCoupon {
            status: self.cause.status(),
            version: coupon.version + 1,
            changed_at: self.now,
            issued_no: Some(coupon.claim_no),
            claim_no: coupon.id.0,
            ..coupon
        }
    }

    fn per_user(&self, locked: &[UserCoupon]) -> Vec<Returned> {
        let mut users: BTreeMap<UserId, Returned> = BTreeMap::new();
        for coupon in locked {
            let user = coupon.user_id;
            let none = || Returned { user, numbers: Vec::new(), lapses: Lapses::Add(0) };
            let entry = users.entry(user).or_insert_with(none);
            let number = u8::try_from(coupon.claim_no).ok();
            entry.numbers.extend(number.filter(|n| u32::from(*n) <= limit::PER_USER_MAX));
            if let (Lapses::Add(count), Cause::Lapse) = (&mut entry.lapses, self.cause) {
                *count = count.saturating_add(1);
            }
        }
        let mut all: Vec<Returned> = users.into_values().collect();
        all.iter_mut().for_each(|one| one.numbers.sort_unstable());
        all
    }
}

/// Lifts a user's ban: the lapses count from 0 again. Returns the movement's number, or `None` if there is no such template.
///
/// # Errors
/// A statement fails. Roll back then.
pub async fn lift(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    reason: &str,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<Option<i64>, StoreError> {
    let held: Option<i64> =
        sqlx::query_scalar("select stock from template_stock where template_id = ? for update")
            .bind(template.0)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(StoreError::query("hold the stock row"))?;
    if held.is_none() {
        return Ok(None);
    }
    let recorded = next_movement(transaction, template, 0, 0).await?;
    sqlx::query("update user_lapse set count = 0, seq = ? where template_id = ? and user_id = ?")
        .bind(recorded.seq)
        .bind(template.0)
        .bind(user.0)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::query("lift a ban"))?;
    let returned = [Returned { user, numbers: Vec::new(), lapses: Lapses::Lift }];
    let kind = Kind::Lift;
    let delta = 0;
    let delta_stock = Some(0);
    let request_id = None;
    let returned = &returned[..];
    let new =
        movement::New { recorded, kind, delta, delta_stock, returned, request_id, reason, actor };
    movement::insert(transaction, template, &new, now).await?;
    Ok(Some(recorded.seq))
}

/// Returns how often a user let holds of the template lapse, and the last movement counted.
pub async fn lapses_of(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
) -> Result<Option<(i64, i64)>, StoreError> {
    sqlx::query_as(
        "select cast(count as signed), seq from user_lapse where template_id = ? and user_id = ?",
    )
    .bind(template.0)
    .bind(user.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read a user's lapses"))
}

/// How often a user let holds of a template lapse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct CountedLapses {
    #[sqlx(rename = "user_id", try_from = "i64")]
    pub user: UserId,
    pub count: i64,
    /// The last movement counted.
    pub seq: i64,
}

/// Rows in one page of lapses.
pub const LAPSES_MAX: u32 = 10_000;

/// Returns the lapses of users after `after`, ordered; empty at the end.
pub async fn lapses_after(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: UserId,
) -> Result<Vec<CountedLapses>, StoreError> {
    sqlx::query_as(
        "select user_id, cast(count as signed) as count, seq from user_lapse \
         where template_id = ? and user_id > ? order by user_id limit ?",
    )
    .bind(template.0)
    .bind(after.0)
    .bind(LAPSES_MAX)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read lapses"))
}

/// Changes total and stock, and numbers the movement under the lock of the stock row. Landings of the template wait for
/// this lock, so both statements go in one round trip, as text: they contain only numbers.
async fn next_movement(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    delta: i64,
    delta_stock: i64,
) -> Result<Recorded, StoreError> {
    let sql = format!(
        "update template_stock set total = total + {delta}, stock = stock + {delta_stock} \
         where template_id = {template}; \
         select total, stock, (select coalesce(max(seq), 0) from stock_movement \
         where template_id = {template}) as movement \
         from template_stock where template_id = {template}"
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(transaction).await;
    let rows = rows.map_err(StoreError::query("give stock back"))?;
    let row = rows.first();
    let row = row.ok_or_else(|| StoreError::unreadable("a template without a stock row"))?;
    let column =
        |name: &str| row.try_get::<i64, _>(name).map_err(StoreError::query("read the stock"));
    Ok(Recorded { seq: column("movement")? + 1, total: column("total")?, stock: column("stock")? })
}

/// Counts the users' lapses, by one statement under the lock of the stock row: its rows are padded to a power of two
/// with rows that add 0.
async fn count_lapses(
    transaction: &mut MySqlConnection,
    template: TemplateId,
    returned: &[Returned],
    seq: i64,
) -> Result<(), StoreError> {
    let count = |one: &Returned| match one.lapses {
        Lapses::Add(count) => (one.user, count),
        Lapses::Lift => (one.user, 0),
    };
    let mut users: Vec<(UserId, u8)> = returned.iter().map(count).collect();
    let Some(&(last, _)) = users.last() else { return Ok(()) };
    users.resize(users.len().next_power_of_two(), (last, 0));
    let sql = rows::repeat(
        "insert into user_lapse (template_id, user_id, count, seq) values ",
        "(?, ?, ?, ?)",
        ", ",
        users.len(),
        " on duplicate key update count = count + values(count), seq = values(seq)",
    );
    let query = sqlx::query(AssertSqlSafe(sql));
    let bound = users.iter().fold(query, |query, (user, count)| {
        query.bind(template.0).bind(user.0).bind(*count).bind(seq)
    });
    bound.execute(transaction).await.map_err(StoreError::query("count lapses"))?;
    Ok(())
}
