//! A user's coupons of one template, counted.

use coupon::{TemplateId, UserId, limit};
use sqlx::MySqlConnection;

use crate::StoreError;

/// A user's coupons of one template, in any status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Whether there is any.
    pub any: bool,
    /// How many count against the limit; 0 if the template has none. Returned coupons and replacements have numbers
    /// above every limit, and do not count.
    pub numbered: u32,
}

/// Returns a user's holdings of a template with this limit per user (0: none). Reads at most one more index row than
/// the limit.
pub async fn get(
    connection: &mut MySqlConnection,
    user: UserId,
    template: TemplateId,
    per_user_limit: u32,
) -> Result<Holdings, StoreError> {
    let numbers: Vec<i64> = sqlx::query_scalar(
        "select claim_no from user_coupon where template_id = ? and user_id = ? \
         order by claim_no limit ?",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(per_user_limit.saturating_add(1))
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read what a user has had of a template"))?;
    let limited = numbers.iter().filter(|number| **number <= i64::from(limit::PER_USER_MAX));
    let numbered = if per_user_limit == 0 { 0 } else { limited.count() };
    Ok(Holdings { any: !numbers.is_empty(), numbered: u32::try_from(numbered).unwrap_or(u32::MAX) })
}
