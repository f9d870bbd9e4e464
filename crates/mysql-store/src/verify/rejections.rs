//! Finds inconsistent rejected claims, and stock rows whose epochs or queues are inconsistent.

use coupon::{ClaimId, ClaimState, Open, RejectReason, TemplateId};
use sqlx::{MySqlConnection, Row};

use super::{EXAMPLES, read_all};
use crate::StoreError;

/// Returns rejected claims that have a coupon.
pub async fn rejected_with_coupons(
    connection: &mut MySqlConnection,
) -> Result<Vec<ClaimId>, StoreError> {
    let rows = sqlx::query(
        "select claim.id from claim join user_coupon coupon on coupon.template_id = claim.template_id \
         and coupon.user_id = claim.user_id and coupon.claim_id = claim.id \
         where claim.state = ? limit ?",
    )
    .bind(ClaimState::Rejected.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for coupons of rejected claims", rows, |row| Ok(ClaimId(row.try_get(0)?)))
}

/// Returns rejected claims without a known reason or the time of their admission, or whose user a rebuilt gate would not
/// look up.
pub async fn odd_rejections(connection: &mut MySqlConnection) -> Result<Vec<ClaimId>, StoreError> {
    let rows = sqlx::query(
        "select claim.id from claim left join rejected_user noted \
         on noted.template_id = claim.template_id and noted.user_id = claim.user_id \
         where claim.state = ? and (claim.reason is null or claim.reason not between ? and ? \
         or claim.admitted_at is null or noted.user_id is null) limit ?",
    )
    .bind(ClaimState::Rejected.code())
    .bind(RejectReason::SoldOut.code())
    .bind(RejectReason::Cancelled.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for odd rejections", rows, |row| Ok(ClaimId(row.try_get(0)?)))
}

/// Returns templates whose queued epoch is above that of direct landings, whose mode queues claims although
/// `ever_queued` is not set, or whose queue is closed although accepted claims may land.
pub async fn odd_queues(connection: &mut MySqlConnection) -> Result<Vec<TemplateId>, StoreError> {
    let rows = sqlx::query(
        "select template.id from coupon_template template \
         join template_stock stock on stock.template_id = template.id \
         where stock.queued_epoch > stock.epoch \
         or (template.claim_mode <> 0 and stock.ever_queued = 0) \
         or (stock.queue_closed = 1 and stock.open = ?) limit ?",
    )
    .bind(Open::Accepted.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for odd queues", rows, |row| Ok(TemplateId(row.try_get(0)?)))
}

/// Counts the rejected claims.
pub async fn count_rejections(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("select count(*) from claim where state = ?")
        .bind(ClaimState::Rejected.code())
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the rejected claims"))
}
