//! Consistency of MySQL's rows, column by column: coupons and claims agree (I2), and a coupon's own columns agree with
//! each other (I9).

use coupon::{CouponStatus, EXPIRY_SHARDS, PayloadHash, TemplateState, expiry_shard};
use mysql_store::{MySqlConnection, snapshot, user_coupon::UserCoupon, verify};

use crate::{Sources, VerifyError, outcome::Findings};

/// Coupons per statement when reading MySQL.
const ROWS_PER_READ: u32 = 10_000;

/// For I2: compares coupons with claims and templates, claims with their payloads and keys, and stock rows with their
/// templates.
pub(crate) async fn are_as_claimed(
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    for odd in verify::odd_coupons(connection).await? {
        let columns = [
            (odd.merchant, "merchant_id is not its template's"),
            (odd.claimed_at, "claimed_at is not its claim's"),
            (odd.validity, "validity is not its claim's"),
        ];
        for (_, what) in columns.into_iter().filter(|(is_odd, _)| *is_odd) {
            findings.add(format!("coupon {}: {what}", odd.id));
        }
    }
    for payload in verify::payloads(connection).await? {
        let right = payload.hash == Some(PayloadHash::of_quantity(payload.quantity));
        findings.expect(right, || {
            let (claim, quantity) = (payload.example, payload.quantity);
            format!("claim {claim}: payload_hash is not that of {quantity} coupons")
        });
    }
    for (claim, is_fence) in verify::misplaced_claims(connection).await? {
        let what = if is_fence { "a fence on a client's key" } else { "a claim on a fence's key" };
        findings.add(format!("claim {claim}: {what}"));
    }
    for terms in verify::terms(connection).await? {
        let template = &terms.template;
        let (id, open, state) = (template.id, terms.open, template.state);
        // After the claim window the queue is closed, and so is the stock row, though the template stays published.
        let closed = terms.queue_closed && !open;
        findings.expect(closed || open == (state == TemplateState::Published), || {
            format!("template {id} is {}, open is {open}", state.word())
        });
        let allowed = terms.followed.max(1)..=template.version;
        findings.expect(allowed.contains(&terms.terms), || {
            let (terms, from, until) = (terms.terms, allowed.start(), allowed.end());
            format!("template {id}: terms is {terms}, which is not within {from} to {until}")
        });
    }
    Ok(())
}

/// For I9: checks each coupon's use and shard against its own row.
pub(crate) async fn fit_themselves(
    sources: &Sources,
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let (mut after, mut looked_at) = (0, 0);
    loop {
        let rows = snapshot::user_coupon_after(connection, after, ROWS_PER_READ).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.id.0;
        looked_at += rows.len();
        sources.progress.say(|| format!("I9: {looked_at} coupons"));
        for offence in rows.iter().filter_map(offence) {
            findings.add(offence);
        }
    }
}

fn offence(row: &UserCoupon) -> Option<String> {
    let UserCoupon { id, status, used_at, valid_from, order_ref, expiry_shard: shard, .. } = row;
    if let CouponStatus::Used = status {
        if used_at.is_some_and(|at| at < *valid_from) {
            return Some(format!("coupon {id} was used before it was valid"));
        }
        if order_ref.is_none() {
            return Some(format!("coupon {id} was used for no order"));
        }
    } else if used_at.is_some() {
        return Some(format!("coupon {id} is {} and has a time of use", status.word()));
    }
    // Rows written by older releases keep their old shard: the id modulo the number of shards.
    let own = i64::from(*shard);
    let is_its =
        expiry_shard(row.user_id) == *shard || row.user_id.0.rem_euclid(EXPIRY_SHARDS) == own;
    (!is_its).then(|| format!("coupon {id} is in shard {shard}, which is not its user's"))
}
