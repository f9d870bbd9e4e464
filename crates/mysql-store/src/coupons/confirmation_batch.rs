//! Payments of several claims in one transaction, each statement for all of them. Only plain cases are confirmed: what
//! is refused, was confirmed before, or is locked by another transaction is left to [`super::confirmation`].

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, CouponId, CouponStatus, MerchantId, TemplateId};
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

/// Coupons of one transaction; payments that would exceed it are left out. A payment is usually for one or a few. Below
/// 1,000, from which on MariaDB turns a list into a subquery.
const COUPONS_MAX: usize = 512;

/// A requested payment, before its claim is read.
#[derive(Debug, Clone, Copy)]
pub struct RequestedPayment<'a> {
    /// The shop's name for it.
    pub payment_ref: &'a str,
    pub claim: ClaimId,
    /// The coupons it confirms, ascending; `None`: all of the claim, as issued.
    pub coupons: Option<&'a [CouponId]>,
    /// As in [`Payment::actor`].
    pub actor: &'a str,
}

/// A confirmed payment: its position in the request, and its coupons after the confirmation.
pub type Confirmed = (usize, Vec<UserCoupon>);

/// Confirms those of a merchant's payments that are plain cases, in the caller's transaction. `asked` must be sorted by
/// reference, and name each reference and each claim once. `None`: roll back, and confirm each by itself.
///
/// Locks are taken in the same order as for a single payment: coupons by id, templates, and last the references.
///
/// # Errors
/// A statement fails. Roll back then; what was committed of it is unknown, and the single payments find out.
pub async fn confirm_all(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    asked: &[RequestedPayment<'_>],
    now: DateTime<Utc>,
) -> Result<Option<Vec<Confirmed>>, StoreError> {
    let stored = stored(transaction, merchant, asked).await?;
    let is_new = |(_, one): &(usize, &RequestedPayment<'_>)| !stored.contains(one.payment_ref);
    let new: Vec<(usize, &RequestedPayment<'_>)> =
        asked.iter().enumerate().filter(is_new).collect();
    let claims = held_claims(transaction, &new).await?;
    let payments = fitting(&new, &claims, merchant, now);
    if payments.is_empty() {
        return Ok(Some(Vec::new()));
    }
    confirm_held(transaction, merchant, &payments, now).await
}

/// Confirms those payments whose coupons can be locked and are still held.
async fn confirm_held(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    payments: &[(usize, Payment<'_>)],
    now: DateTime<Utc>,
) -> Result<Option<Vec<Confirmed>>, StoreError> {
    let mut ids: Vec<CouponId> =
        payments.iter().flat_map(|(_, payment)| payment.coupons).copied().collect();
    ids.sort_unstable();
    let held = checkout::lock_free_rows(transaction, merchant, &ids).await?;
    let held: HashMap<CouponId, UserCoupon> = held.into_iter().map(|one| (one.id, one)).collect();
    let validity = validity(transaction, payments, now).await?;
    let clock = now.max(settings::server_time(transaction).await?);
    let mut confirmed: Vec<Confirmed> = Vec::new();
    let mut plain = Vec::new();
    for (at, payment) in payments {
        let Some(&(valid_from, valid_until)) = validity.get(&payment.template) else { continue };
        let fits = |id: &CouponId| {
            let coupon = held.get(id).filter(|coupon| coupon.claim_id == payment.claim)?;
            let is_held = coupon.status == CouponStatus::Held && coupon.valid_until > clock;
            (is_held && valid_until > clock).then(|| coupon.clone())
        };
        let Some(coupons) = payment.coupons.iter().map(fits).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let usable = |one| usable(one, now, valid_from, valid_until);
        confirmed.push((*at, coupons.into_iter().map(usable).collect()));
        plain.push(payment);
    }
    if !record_all(transaction, &plain).await? {
        return Ok(None);
    }
    for (template, (valid_from, valid_until)) in validity {
        let of_it = plain.iter().filter(|payment| payment.template == template);
        let ids: Vec<CouponId> = of_it.flat_map(|payment| payment.coupons).copied().collect();
        let held = make_usable(transaction, &ids, now, valid_from, valid_until).await?;
        if held != ids.len() as u64 {
            return Ok(None);
        }
    }
    Ok(Some(confirmed))
}

/// A claim's held coupons.
struct HeldClaim {
    template: TemplateId,
    /// Number of coupons issued, in any status.
    quantity: usize,
    /// Those that are held, ascending.
    coupons: Vec<CouponId>,
}

/// Returns the held coupons of the payments' claims, by one statement. Locks nothing.
///
/// Held coupons are found by the moment of their claim, in the index of their user's lists: no index is by claim. A
/// replacement bears the id of its coupon's claim too, but is never held.
async fn held_claims(
    connection: &mut MySqlConnection,
    payments: &[(usize, &RequestedPayment<'_>)],
) -> Result<HashMap<ClaimId, HeldClaim>, StoreError> {
    let ids: Vec<ClaimId> = payments.iter().map(|(_, one)| one.claim).collect();
    let filled = rows::filled(&ids);
    if filled.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = rows::repeat(
        "select claim.id, claim.template_id, claim.quantity, held.id \
         from claim force index (uq_claim_id) straight_join user_coupon held force index (ix_user) \
         on held.user_id = claim.user_id and held.status = ? and held.claimed_at = claim.created_at \
         and held.template_id = claim.template_id and held.claim_id = claim.id \
         where claim.state = ? and claim.id in (",
        "?",
        ", ",
        filled.len(),
        ")",
    );
    let query = sqlx::query_as(AssertSqlSafe(sql))
        .bind(CouponStatus::Held.code())
        .bind(ClaimState::Landed.code());
    let found: Vec<(i64, i64, i32, i64)> = filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("look up the claims of payments"))?;
    let mut claims: HashMap<ClaimId, HeldClaim> = HashMap::new();
    for (claim, template, quantity, coupon) in found {
        let template = TemplateId(template);
        let quantity = usize::try_from(quantity).unwrap_or(0);
        let none = || HeldClaim { template, quantity, coupons: Vec::new() };
        claims.entry(ClaimId(claim)).or_insert_with(none).coupons.push(CouponId(coupon));
    }
    claims.values_mut().for_each(|claim| claim.coupons.sort_unstable());
    Ok(claims)
}

/// Those of the payments whose coupons all seem to be held, of at most [`COUPONS_MAX`] coupons.
fn fitting<'a>(
    asked: &[(usize, &RequestedPayment<'a>)],
    claims: &'a HashMap<ClaimId, HeldClaim>,
    merchant: MerchantId,
    now: DateTime<Utc>,
) -> Vec<(usize, Payment<'a>)> {
    let mut count = 0;
    let mut fitting = Vec::new();
    for (at, one) in asked {
        let RequestedPayment { payment_ref, claim, coupons, actor } = **one;
        let Some(HeldClaim { template, quantity, coupons: held }) = claims.get(&claim) else {
            continue;
        };
        let coupons = match coupons {
            None if held.len() == *quantity => &held[..],
            Some(named) if named.iter().all(|id| held.binary_search(id).is_ok()) => named,
            _ => continue,
        };
        if count + coupons.len() <= COUPONS_MAX {
            count += coupons.len();
            let template = *template;
            let payment = Payment { merchant, payment_ref, claim, template, coupons, actor, now };
            fitting.push((*at, payment));
        }
    }
    fitting
}

/// The validity of coupons confirmed now, by template. The templates' rows are locked, so that an edit waits.
async fn validity(
    transaction: &mut MySqlConnection,
    payments: &[(usize, Payment<'_>)],
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
    payments: &[RequestedPayment<'_>],
) -> Result<HashSet<String>, StoreError> {
    let refs: Vec<&str> = payments.iter().map(|one| one.payment_ref).collect();
    let filled = rows::filled(&refs);
    if filled.is_empty() {
        return Ok(HashSet::new());
    }
    let head = "select payment_ref from coupon_payment where merchant_id = ? and payment_ref in (";
    let sql = rows::repeat(head, "?", ", ", filled.len(), ")");
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(merchant.0);
    let stored: Vec<String> = filled
        .iter()
        .fold(query, |query, payment_ref| query.bind(*payment_ref))
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
            (merchant_id, payment_ref, claim_id, coupons, confirmed_at, actor) values ";
        let sql = rows::repeat(head, "(?, ?, ?, ?, ?, ?)", ", ", run.len(), "");
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for payment in run {
            query = query
                .bind(payment.merchant.0)
                .bind(payment.payment_ref)
                .bind(payment.claim.0)
                .bind(listed(payment.coupons))
                .bind(datetime(payment.now))
                .bind(payment.actor);
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
