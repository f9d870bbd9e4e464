//! Payments of several claims in one transaction, each statement for all of them. Only plain cases are confirmed: what is
//! refused, was confirmed before, or is in another transaction's hands is left to [`super::confirmation`].

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, MerchantId, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{
    StoreError,
    coupons::{
        checkout,
        confirmation::{Payment, listed, make_usable, usable},
        user_coupon::UserCoupon,
    },
    datetime::datetime,
    rows, settings,
    templates::template,
};

/// A payment that is confirmed with the others: its position, and its coupons as they are then.
pub type Confirmed = (usize, Vec<UserCoupon>);

/// Confirms those payments that are plain cases, in the caller's transaction. `payments` are one merchant's, of one moment,
/// and sorted by their references, each of which is there once, as is each coupon. `None`: roll back, and confirm each by
/// itself.
///
/// Locks are taken in the same order as for a single payment: coupons by id, templates, and last the references.
///
/// # Errors
/// A statement fails. Roll back then; what was committed of it is unknown, and the single payments find out.
pub async fn confirm_all(
    transaction: &mut MySqlConnection,
    payments: &[Payment<'_>],
) -> Result<Option<Vec<Confirmed>>, StoreError> {
    let Some(&Payment { merchant, now, .. }) = payments.first() else {
        return Ok(Some(Vec::new()));
    };
    let stored = stored(transaction, merchant, payments).await?;
    let new: Vec<(usize, &Payment<'_>)> = payments
        .iter()
        .enumerate()
        .filter(|(_, payment)| !stored.contains(payment.payment_ref))
        .collect();
    let mut ids: Vec<CouponId> = new.iter().flat_map(|(_, one)| one.coupons).copied().collect();
    ids.sort_unstable();
    let held = checkout::hold_free(transaction, merchant, &ids).await?;
    let held: HashMap<CouponId, UserCoupon> = held.into_iter().map(|one| (one.id, one)).collect();
    let validity = validity(transaction, &new, now).await?;
    let clock = now.max(settings::server_time(transaction).await?);
    let mut confirmed: Vec<Confirmed> = Vec::new();
    let mut plain = Vec::new();
    for (at, payment) in new {
        let Some(&(valid_from, valid_until)) = validity.get(&payment.template) else { continue };
        let fits = |id: &CouponId| {
            let coupon = held.get(id).filter(|coupon| coupon.claim_id == payment.claim)?;
            let is_held = coupon.status == CouponStatus::Held && coupon.valid_until > clock;
            (is_held && valid_until > clock).then(|| coupon.clone())
        };
        let Some(coupons) = payment.coupons.iter().map(fits).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let usable = |one| usable(one, now, (valid_from, valid_until));
        confirmed.push((at, coupons.into_iter().map(usable).collect()));
        plain.push(payment);
    }
    if !record_all(transaction, &plain).await? {
        return Ok(None);
    }
    for (template, validity) in validity {
        let of_it = plain.iter().filter(|payment| payment.template == template);
        let ids: Vec<CouponId> = of_it.flat_map(|payment| payment.coupons).copied().collect();
        if make_usable(transaction, &ids, now, validity).await? != ids.len() as u64 {
            return Ok(None);
        }
    }
    Ok(Some(confirmed))
}

/// The validity of what is confirmed now, by template. Their rows are locked, so that an edit waits.
async fn validity(
    transaction: &mut MySqlConnection,
    payments: &[(usize, &Payment<'_>)],
    now: DateTime<Utc>,
) -> Result<HashMap<TemplateId, (DateTime<Utc>, DateTime<Utc>)>, StoreError> {
    let templates: BTreeSet<TemplateId> = payments.iter().map(|(_, one)| one.template).collect();
    let mut validity = HashMap::new();
    for id in templates {
        if let Some(template) = template::get_shared(transaction, id).await? {
            validity.insert(id, template.validity.of_claim(now));
        }
    }
    Ok(validity)
}

/// Returns those references that are taken. Locks nothing.
async fn stored(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    payments: &[Payment<'_>],
) -> Result<HashSet<String>, StoreError> {
    let Some(last) = payments.last() else { return Ok(HashSet::new()) };
    let count = payments.len().next_power_of_two();
    let head = "select payment_ref from coupon_payment where merchant_id = ? and payment_ref in (";
    let sql = rows::repeat(head, "?", ", ", count, ")");
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(merchant.0);
    let padded = payments.iter().chain(std::iter::repeat(last)).take(count);
    let stored: Vec<String> = padded
        .fold(query, |query, payment| query.bind(payment.payment_ref))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("look for payments"))?;
    Ok(stored.into_iter().collect())
}

/// Takes the references. Returns false if another payment took one meanwhile.
async fn record_all(
    transaction: &mut MySqlConnection,
    payments: &[&Payment<'_>],
) -> Result<bool, StoreError> {
    for run in rows::runs(payments) {
        let head = "insert into coupon_payment \
            (merchant_id, payment_ref, claim_id, coupons, confirmed_at) values ";
        let sql = rows::repeat(head, "(?, ?, ?, ?, ?)", ", ", run.len(), "");
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for payment in run {
            query = query
                .bind(payment.merchant.0)
                .bind(payment.payment_ref)
                .bind(payment.claim.0)
                .bind(listed(payment.coupons))
                .bind(datetime(payment.now));
        }
        let added = query.execute(&mut *transaction).await;
        match added.map_err(StoreError::query("record payments")) {
            Ok(_) => {}
            Err(error) if error.duplicate_key().is_some() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
