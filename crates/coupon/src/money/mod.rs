//! What coupons take off an order: pure arithmetic in minor units of one currency.
//!
//! The order in which coupons are applied does not depend on the request: percentages first, then amounts, then free
//! shipping; equal kinds by coupon id. Each is applied to what the ones before it left to pay. So the order in which
//! coupons are entered never costs a user money, and requests that name the same coupons in another order are equal.

pub mod written;

use crate::{CouponId, Discount, DiscountKind};

/// 100 percent, in hundredths of a percent.
const WHOLE: i128 = 10_000;

/// An order before any discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spend<'a> {
    /// In minor units, from 0.
    pub amount: i64,
    /// ISO 4217 code: three capital letters.
    pub currency: &'a str,
}

/// A coupon to be applied to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<'a> {
    pub coupon: CouponId,
    pub discount: &'a Discount,
    /// Whether the order may have other coupons.
    pub stackable: bool,
}

/// What one coupon takes off an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    pub coupon: CouponId,
    /// In minor units, from 0 to what was left to pay. 0 for free shipping: only the shop knows what shipping costs.
    pub discount: i64,
}

/// Why a coupon does not apply to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inapplicable {
    /// The coupon is for another currency.
    Currency,
    /// The order is below the coupon's minimum spend.
    MinimumSpend,
    /// The coupon excludes others, and the order has others.
    NotStackable,
}

/// Applies coupons to an order, and returns what each takes off, in the order of application. The sum never exceeds the
/// order's amount. The minimum spend is compared with the amount before any discount.
///
/// # Errors
/// Returns the first coupon, in the order of application, that does not apply, and why.
pub fn apply(
    spend: Spend<'_>,
    offers: &[Offer<'_>],
) -> Result<Vec<Applied>, (CouponId, Inapplicable)> {
    let mut sorted = offers.to_vec();
    sorted.sort_by_key(|offer| (rank(offer.discount.kind), offer.coupon));
    for offer in &sorted {
        if let Some(why) = inapplicable(spend, offer, sorted.len()) {
            return Err((offer.coupon, why));
        }
    }
    let mut left = spend.amount;
    let applied = sorted.iter().map(|offer| {
        let discount = offer.discount.off(left);
        left -= discount;
        Applied { coupon: offer.coupon, discount }
    });
    Ok(applied.collect())
}

fn inapplicable(spend: Spend<'_>, offer: &Offer<'_>, coupons: usize) -> Option<Inapplicable> {
    if offer.discount.currency != spend.currency {
        Some(Inapplicable::Currency)
    } else if spend.amount < offer.discount.minimum_spend {
        Some(Inapplicable::MinimumSpend)
    } else if !offer.stackable && coupons > 1 {
        Some(Inapplicable::NotStackable)
    } else {
        None
    }
}

/// Position of a kind in the order of application.
fn rank(kind: DiscountKind) -> u8 {
    match kind {
        DiscountKind::PercentOff => 0,
        DiscountKind::AmountOff => 1,
        DiscountKind::FreeShipping => 2,
    }
}

impl Discount {
    /// What this discount takes off `left` minor units: at most `left`, never less than 0. Percentages are rounded half
    /// to even.
    pub fn off(&self, left: i64) -> i64 {
        let wanted = match self.kind {
            DiscountKind::AmountOff => self.value,
            DiscountKind::PercentOff => {
                let share = share(left, self.value);
                self.cap.map_or(share, |cap| share.min(cap))
            }
            DiscountKind::FreeShipping => 0,
        };
        wanted.min(left).max(0)
    }
}

/// Returns the share of `amount`, given in hundredths of a percent, rounded half to even.
fn share(amount: i64, hundredths: i64) -> i64 {
    let product = i128::from(amount) * i128::from(hundredths);
    let whole = product.div_euclid(WHOLE);
    let rest = product.rem_euclid(WHOLE);
    let up = 2 * rest > WHOLE || (2 * rest == WHOLE && whole % 2 == 1);
    // Only a percentage above 100 could be too large; templates have none.
    i64::try_from(whole + i128::from(up)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
