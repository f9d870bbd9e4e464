//! [`CouponRow`]: a row of `user_coupon` as SQL, for tests that write it past the stores.

use std::fmt;

use chrono::{DateTime, Utc};

/// Version 1 of a coupon. It displays as the values of an insert: `insert into user_coupon values {row}`. Times are SQL
/// expressions.
pub struct CouponRow {
    pub id: i64,
    pub template_id: i64,
    pub user_id: i64,
    pub claim_no: i64,
    pub claim_id: i64,
    pub status: u8,
    pub expiry_shard: i64,
    pub claimed_at: String,
    pub changed_at: String,
    pub valid_from: String,
    pub valid_until: String,
}

impl CouponRow {
    /// An unused coupon of template 10 from a claim of its own, claimed and valid since 2026 began.
    pub fn unused(id: i64, user_id: i64) -> Self {
        let began = "'2026-01-01'".to_owned();
        Self {
            id,
            template_id: 10,
            user_id,
            claim_no: id,
            claim_id: id,
            status: 0,
            expiry_shard: user_id % 64,
            claimed_at: began.clone(),
            changed_at: began.clone(),
            valid_from: began,
            valid_until: "'2027-02-01'".to_owned(),
        }
    }
}

impl fmt::Display for CouponRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, template_id, user_id, claim_no, claim_id, status, expiry_shard, .. } = self;
        let Self { claimed_at, changed_at, valid_from, valid_until, .. } = self;
        write!(
            f,
            "({id}, {template_id}, {user_id}, {claim_no}, {claim_id}, 1, {status}, 1, {expiry_shard}, \
             {claimed_at}, {changed_at}, {valid_from}, {valid_until}, null, null, null, null)"
        )
    }
}

/// A statement that inserts coupons.
pub fn insert_coupons(rows: impl IntoIterator<Item = CouponRow>) -> String {
    let rows: Vec<String> = rows.into_iter().map(|row| row.to_string()).collect();
    format!("insert into user_coupon values {}", rows.join(", "))
}

/// A time as a SQL expression.
pub fn sql_time(time: DateTime<Utc>) -> String {
    time.format("'%Y-%m-%d %H:%M:%S%.3f'").to_string()
}
