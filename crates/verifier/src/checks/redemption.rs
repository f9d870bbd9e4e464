//! I13: redemptions and their money.

use mysql_store::{connect, verify};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// I13: a used coupon has a redemption that stands, a redemption that stands has a used coupon, and an order's discounts
/// do not exceed its amount.
pub(crate) async fn adds_up(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I13", "used coupons = standing redemptions, and sums match");
    let mut connection = connect::acquire(&sources.pool).await?;
    for coupon in verify::unredeemed(&mut connection).await? {
        findings.add(format!("coupon {coupon} is used, and no redemption of it stands"));
    }
    for id in verify::unused(&mut connection).await? {
        findings.add(format!("redemption {id} stands, and its coupon is not used for its order"));
    }
    for id in verify::odd_rollbacks(&mut connection).await? {
        findings.add(format!("rollback {id} undoes no redemption that is like it"));
    }
    for order in verify::odd_sums(&mut connection).await? {
        findings.add(format!("the discounts of order {order:?} do not fit its amount"));
    }
    let made = verify::count_redemptions(&mut connection).await?;
    Ok(findings.over(count(usize::try_from(made).unwrap_or_default(), "redemption")))
}
