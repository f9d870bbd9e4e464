//! Reads rows by given users or claims, for comparisons in steps.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{
    ClaimId, ClaimState, CouponId, PayloadHash, RejectReason, RequestId, TemplateId, UserId, limit,
};
use sqlx::{FromRow, MySql, MySqlConnection, QueryBuilder, Row, mysql::MySqlRow};

use crate::{
    StoreError, code::Code, coupons::user_coupon::UserCoupon, datetime::NullableTime,
    templates::readable::Readable,
};

/// The rows that a check looks at: those of one template or of all, and of the users from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// `None`: all templates.
    pub template: Option<TemplateId>,
    /// The first user.
    pub from: UserId,
    /// The last user.
    pub to: UserId,
}

impl Span {
    /// All templates and users, as damaged rows may name them.
    pub const ALL: Self = Self { template: None, from: UserId(i64::MIN), to: UserId(i64::MAX) };

    /// All users of a template.
    pub fn of(template: TemplateId) -> Self {
        Self { template: Some(template), ..Self::ALL }
    }

    /// Whether it leaves no user out.
    pub fn has_all_users(&self) -> bool {
        self.from == Self::ALL.from && self.to == Self::ALL.to
    }

    /// Appends ` and …` for the columns of a table's alias. Nothing is appended for [`Self::ALL`], so that its plan stays
    /// a walk through the table.
    pub(super) fn narrow(&self, query: &mut QueryBuilder<MySql>, table: &str) {
        if let Some(template) = self.template {
            query.push(format_args!(" and {table}.template_id = ")).push_bind(template.0);
        }
        if !self.has_all_users() {
            query.push(format_args!(" and {table}.user_id between ")).push_bind(self.from.0);
            query.push(" and ").push_bind(self.to.0);
        }
    }
}

/// The part of a landed claim that its gate stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimKey {
    pub id: ClaimId,
    pub user: UserId,
    /// The client's key.
    pub request_id: RequestId,
    pub payload_hash: PayloadHash,
    pub quantity: u32,
}

/// Returns every coupon of these users, by user. Those that cannot be read are named by their ids.
pub async fn coupons_of_users(
    connection: &mut MySqlConnection,
    users: &[UserId],
) -> Result<HashMap<UserId, Readable<UserCoupon, CouponId>>, StoreError> {
    let mut coupons: HashMap<_, Readable<_, _>> = HashMap::new();
    if users.is_empty() {
        return Ok(coupons);
    }
    let mut query = QueryBuilder::new("select * from user_coupon where user_id in (");
    let mut ids = query.separated(", ");
    for user in users {
        ids.push_bind(user.0);
    }
    query.push(")");
    let name = |row: &MySqlRow, _| -> Result<(i64, i64), sqlx::Error> {
        Ok((row.try_get("user_id")?, row.try_get("id")?))
    };
    let rows = query.build().fetch_all(connection).await;
    let read = rows
        .and_then(|rows| Readable::named(&rows, |row| UserCoupon::from_row(row), name))
        .map_err(StoreError::query("read users' coupons"))?;
    for coupon in read.rows {
        coupons.entry(coupon.user_id).or_default().rows.push(coupon);
    }
    for (user, id) in read.unreadable {
        coupons.entry(UserId(user)).or_default().unreadable.push(CouponId(id));
    }
    Ok(coupons)
}

/// Returns how many coupons each of these users has; none for a user without.
pub async fn coupon_counts_of_users(
    connection: &mut MySqlConnection,
    users: &[UserId],
) -> Result<HashMap<UserId, u64>, StoreError> {
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let mut query =
        QueryBuilder::new("select user_id, count(*) from user_coupon where user_id in (");
    let mut ids = query.separated(", ");
    for user in users {
        ids.push_bind(user.0);
    }
    query.push(") group by user_id");
    let rows: Result<Vec<(i64, i64)>, _> = query.build_query_as().fetch_all(connection).await;
    let rows = rows.map_err(StoreError::query("count users' coupons"))?;
    Ok(rows.into_iter().map(|(user, count)| (UserId(user), count.unsigned_abs())).collect())
}

/// Returns these users' numbers of a template with a limit, ascending. Returned coupons and replacements have
/// numbers beyond every limit, which are left out.
pub async fn numbers_of_users(
    connection: &mut MySqlConnection,
    template: TemplateId,
    users: &[UserId],
) -> Result<HashMap<UserId, Vec<i64>>, StoreError> {
    let mut numbers: HashMap<_, Vec<_>> = HashMap::new();
    if users.is_empty() {
        return Ok(numbers);
    }
    let mut query =
        QueryBuilder::new("select user_id, claim_no from user_coupon where template_id = ");
    query.push_bind(template.0).push(" and user_id in (");
    let mut ids = query.separated(", ");
    for user in users {
        ids.push_bind(user.0);
    }
    query.push(") and claim_no <= ").push_bind(limit::PER_USER_MAX);
    query.push(" order by user_id, claim_no");
    let rows: Result<Vec<(i64, i64)>, _> = query.build_query_as().fetch_all(connection).await;
    for (user, number) in rows.map_err(StoreError::query("read users' numbers"))? {
        numbers.entry(UserId(user)).or_default().push(number);
    }
    Ok(numbers)
}

/// Returns those of these claims of a template that have landed.
pub async fn claims_by_id(
    connection: &mut MySqlConnection,
    template: TemplateId,
    ids: &[ClaimId],
) -> Result<HashMap<ClaimId, ClaimKey>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut query = QueryBuilder::new(
        "select id, user_id, request_id, payload_hash, quantity from claim where template_id = ",
    );
    query.push_bind(template.0).push(" and state = ").push_bind(ClaimState::Landed.code());
    query.push(" and id in (");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(id.0);
    }
    query.push(")");
    let rows = query
        .build_query_as::<(i64, i64, Vec<u8>, Vec<u8>, i32)>()
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read claims"))?;
    let claims = rows.into_iter().map(|(id, user, request_id, hash, quantity)| ClaimKey {
        id: ClaimId(id),
        user: UserId(user),
        request_id: RequestId::from_stored(&request_id),
        payload_hash: PayloadHash(hash.try_into().unwrap_or_default()),
        quantity: quantity.unsigned_abs(),
    });
    Ok(claims.map(|claim| (claim.id, claim)).collect())
}

/// Claims in one statement.
const IDS_MAX: usize = 1_000;

/// The row of a claim, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimEnd {
    pub state: ClaimState,
    /// Only of a rejected claim.
    pub reason: Option<RejectReason>,
    /// Number of coupons, requested ones for a rejected claim; 0 for a fence.
    pub quantity: u32,
    /// When the gate admitted it, if the row says so.
    pub admitted_at: Option<DateTime<Utc>>,
    /// Stock left at the gate after this admission, if the row says so.
    pub left_after: Option<i64>,
}

/// Returns the rows of these claims. One without a row is left out: it is under way, or came too late.
pub async fn ends_of(
    connection: &mut MySqlConnection,
    ids: &[ClaimId],
) -> Result<HashMap<ClaimId, ClaimEnd>, StoreError> {
    let mut ends = HashMap::with_capacity(ids.len());
    for chunk in ids.chunks(IDS_MAX) {
        let mut query = QueryBuilder::new(
            "select id, state, reason, quantity, admitted_at, left_after from claim where id in (",
        );
        let mut list = query.separated(", ");
        for id in chunk {
            list.push_bind(id.0);
        }
        query.push(")");
        let rows = query
            .build_query_as::<(i64, Code, Option<Code>, i32, NullableTime, Option<i64>)>()
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the ends of claims"))?;
        for (id, state, reason, quantity, admitted_at, left_after) in rows {
            let end = ClaimEnd {
                state: ClaimState::try_from(state)?,
                reason: reason.map(RejectReason::try_from).transpose()?,
                quantity: quantity.unsigned_abs(),
                admitted_at: admitted_at.into(),
                left_after,
            };
            ends.insert(ClaimId(id), end);
        }
    }
    Ok(ends)
}
