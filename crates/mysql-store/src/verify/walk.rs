//! Reads rows by given users or claims, for comparisons in steps.

use std::collections::HashMap;

use coupon::{ClaimId, ClaimState, PayloadHash, RequestId, TemplateId, UserId, limit};
use sqlx::{MySqlConnection, QueryBuilder};

use crate::{StoreError, coupons::user_coupon::UserCoupon};

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

/// Returns every coupon of these users, by user.
///
/// # Errors
/// The statement fails.
pub async fn coupons_of_users(
    connection: &mut MySqlConnection,
    users: &[UserId],
) -> Result<HashMap<UserId, Vec<UserCoupon>>, StoreError> {
    let mut coupons: HashMap<_, Vec<_>> = HashMap::new();
    if users.is_empty() {
        return Ok(coupons);
    }
    let mut query = QueryBuilder::new("select * from user_coupon where user_id in (");
    let mut ids = query.separated(", ");
    for user in users {
        ids.push_bind(user.0);
    }
    query.push(")");
    let rows: Result<Vec<UserCoupon>, _> = query.build_query_as().fetch_all(connection).await;
    for coupon in rows.map_err(StoreError::query("read users' coupons"))? {
        coupons.entry(coupon.user_id).or_default().push(coupon);
    }
    Ok(coupons)
}

/// Returns how many coupons each of these users has; none for a user without.
///
/// # Errors
/// The statement fails.
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
///
/// # Errors
/// The statement fails.
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
///
/// # Errors
/// The statement fails.
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
