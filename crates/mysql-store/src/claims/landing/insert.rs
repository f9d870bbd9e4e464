//! The rows of a landing: claims and coupons.

use coupon::{
    Claim, ClaimId, ClaimState, CouponStatus, RequestId, TemplateId, UserId, expiry_shard,
};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::{Attempt, Landing};
use crate::{DuplicateKey, StoreError, datetime::datetime, rows};

/// Inserts all rows. Returns which key was taken, or `None` if none was.
pub(super) async fn all(
    connection: &mut MySqlConnection,
    all: &[Landing],
) -> Result<Option<Attempt>, StoreError> {
    match claims(connection, all).await {
        Ok(()) => {}
        Err(error) if error.duplicate_key().is_some() => return Ok(Some(Attempt::ClaimTaken)),
        Err(error) => return Err(error),
    }
    match coupons(connection, all).await {
        Ok(()) => Ok(None),
        Err(error) => match error.duplicate_key() {
            Some(DuplicateKey::Primary) => Ok(Some(Attempt::CouponIdTaken)),
            Some(DuplicateKey::Other) => Ok(Some(Attempt::NumberTaken)),
            None => Err(error),
        },
    }
}

/// Sorted by the primary key, so that all transactions lock in the same order.
async fn claims(connection: &mut MySqlConnection, all: &[Landing]) -> Result<(), StoreError> {
    let mut sorted: Vec<&Landing> = all.iter().collect();
    sorted.sort_by_key(|landing| key_of(landing.claim()));
    for run in rows::runs(&sorted) {
        let sql = rows::repeat(
            "insert into claim (template_id, user_id, request_id, id, quantity, state, \
             payload_hash, valid_from, valid_until, created_at, admitted_at, left_after, held_until) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for Landing { admission, landed, admitted_at, left_after, .. } in run {
            let claim = &admission.claim;
            query = query
                .bind(claim.template_id.0)
                .bind(claim.user_id.0)
                .bind(claim.request_id.as_str().as_bytes())
                .bind(claim.id.0)
                .bind(claim.quantity)
                .bind(ClaimState::Landed.code())
                .bind(&claim.payload_hash.0[..])
                .bind(datetime(landed.valid_from))
                .bind(datetime(landed.valid_until))
                .bind(datetime(landed.claimed_at))
                .bind(admitted_at.map(datetime))
                .bind(*left_after)
                .bind(landed.held_until.map(datetime));
        }
        query.execute(&mut *connection).await.map_err(StoreError::query("insert claims"))?;
    }
    Ok(())
}

/// Sorted by the unique key of the numbers.
async fn coupons(connection: &mut MySqlConnection, all: &[Landing]) -> Result<(), StoreError> {
    let mut sorted: Vec<_> = all
        .iter()
        .flat_map(|landing| landing.landed.coupons.iter().map(move |coupon| (landing, coupon)))
        .collect();
    sorted.sort_by_key(|(landing, coupon)| {
        (landing.landed.template_id, landing.landed.user_id, coupon.claim_no)
    });
    for run in rows::runs(&sorted) {
        let sql = rows::repeat(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
             status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until, \
             trace_parent) values ",
            "(?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (landing, coupon) in run {
            let claim = &landing.landed;
            let (status, deadline) = match claim.held_until {
                Some(held_until) => (CouponStatus::Held, held_until),
                None => (CouponStatus::Unused, claim.valid_until),
            };
            query = query
                .bind(coupon.id.0)
                .bind(claim.template_id.0)
                .bind(claim.user_id.0)
                .bind(coupon.claim_no)
                .bind(claim.id.0)
                .bind(landing.merchant_id.0)
                .bind(status.code())
                .bind(expiry_shard(claim.user_id))
                .bind(datetime(claim.claimed_at))
                .bind(datetime(claim.claimed_at))
                .bind(datetime(claim.valid_from))
                .bind(datetime(deadline))
                .bind(landing.claim().trace_parent.as_deref());
        }
        query.execute(&mut *connection).await.map_err(StoreError::query("insert coupons"))?;
    }
    Ok(())
}

fn key_of(claim: &Claim) -> (TemplateId, UserId, RequestId, ClaimId) {
    (claim.template_id, claim.user_id, claim.request_id.clone(), claim.id)
}
