//! I2, and I1, its check at a single moment: stock is conserved.

use mysql_store::{
    connect,
    verify::{self, Balance},
};

use crate::{
    Outcome, Sources, VerifyError,
    checks::ledger,
    outcome::{Findings, count},
    rows,
};

/// I2: the landed claims equal the coupons, and the stock taken equals the coupons not returned. Replacements do not
/// count: a replacement takes no stock, and stands in the place of a cancelled coupon, whose unit stays taken.
pub(crate) async fn is_conserved(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I2", "total - stock = coupons not returned");
    let looked = look(sources, &mut findings).await;
    findings.end(looked)
}

async fn look(sources: &Sources, findings: &mut Findings) -> Result<String, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let balances = findings.read(verify::balances(&mut connection).await)?;
    for balance in &balances {
        if let Some(offence) = offence(balance) {
            findings.add(offence);
        }
    }
    for claim in findings.read(verify::uneven_claims(&mut connection).await)? {
        let id = claim.id;
        let quantity = claim.quantity;
        let coupons = claim.coupons;
        findings.add(format!("claim {id} is for {quantity} and has {coupons} coupons"));
    }
    for coupon in findings.read(verify::orphans(&mut connection).await)? {
        findings.add(format!("coupon {coupon} has no landed claim"));
    }
    for coupon in findings.read(verify::odd_replacements(&mut connection).await)? {
        findings.add(format!(
            "coupon {coupon} replaces none that was cancelled for it, or not since then"
        ));
    }
    rows::are_as_claimed(&mut connection, findings).await?;
    let coupons: i64 = balances.iter().map(|balance| balance.coupons).sum();
    let coupons = usize::try_from(coupons).unwrap_or_default();
    Ok(format!("{}, {}", count(balances.len(), "template"), count(coupons, "coupon")))
}

/// Describes the violation in a balance, if any. A balance holds at every moment, because a landing
/// is one transaction.
pub(crate) fn offence(balance: &Balance) -> Option<String> {
    let Balance { template, total, stock, landed, coupons, returned, .. } = *balance;
    let live = coupons - returned;
    // Wider than the columns, which may hold anything.
    let taken = i128::from(total) - i128::from(stock);
    if live > total || stock < 0 {
        return Some(format!("template {template} gave {live} of {total}, stock {stock}"));
    }
    if taken != i128::from(live) || landed != coupons {
        return Some(format!(
            "template {template}: total {total} - stock {stock}, landed {landed}, coupons {coupons}, \
             of them returned {returned}"
        ));
    }
    ledger::offence(balance)
}
