//! Merchants' quotas. Hourly quotas are counted in `merchant_quota`. Limits on existing objects are checked by counting
//! the objects under the lock of the merchant's row (`merchant::lock`).

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use coupon::{MerchantId, TemplateState};
use sqlx::MySqlConnection;

use crate::{StoreError, datetime::datetime, operators::merchant};

/// Period of an hourly quota.
const HOUR: TimeDelta = TimeDelta::hours(1);

/// Uses one unit of a merchant's hourly quota. Returns the number used in this hour, this one included. Call it near
/// the end of the transaction that uses the quota, because the row stays locked until then.
pub async fn take(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    quota: &str,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let hour = datetime(hour_of(now));
    // Columns are set from left to right: the comparison still sees the old hour.
    sqlx::query(
        "insert into merchant_quota (merchant_id, quota, began_at, used) values (?, ?, ?, 1) \
         on duplicate key update used = if(began_at = ?, used + 1, 1), began_at = ?",
    )
    .bind(merchant.0)
    .bind(quota)
    .bind(hour)
    .bind(hour)
    .bind(hour)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("count against a quota"))?;
    let used: i64 =
        sqlx::query_scalar("select used from merchant_quota where merchant_id = ? and quota = ?")
            .bind(merchant.0)
            .bind(quota)
            .fetch_one(transaction)
            .await
            .map_err(StoreError::query("read a quota"))?;
    Ok(used.unsigned_abs())
}

/// Time from `now` until the next hour begins.
pub fn until_next_hour(now: DateTime<Utc>) -> TimeDelta {
    hour_of(now) + HOUR - now
}

fn hour_of(now: DateTime<Utc>) -> DateTime<Utc> {
    now.duration_trunc(HOUR).unwrap_or(now)
}

/// Counts a merchant's templates that have not ended and can be claimed now or later, drafts included. Until the
/// transaction ends, other callers wait, so none can create another template.
pub async fn open_templates(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    merchant::lock(transaction, merchant).await?;
    let count: i64 = sqlx::query_scalar(
        "select count(*) from coupon_template where merchant_id = ? and state <> ? and claim_ends_at > ?",
    )
    .bind(merchant.0)
    .bind(TemplateState::Ended.code())
    .bind(datetime(now))
    .fetch_one(transaction)
    .await
    .map_err(StoreError::query("count the merchant's templates"))?;
    Ok(count.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_hour_begins_within_an_hour() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap_or_default();
        assert_eq!(until_next_hour(at(0)), HOUR);
        assert_eq!(until_next_hour(at(3_599_999)), TimeDelta::milliseconds(1));
        assert_eq!(until_next_hour(at(3_600_000)), HOUR);
    }
}
