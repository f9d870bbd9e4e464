//! I2: stock is conserved. I1 is its check of the accounts at a single moment.

use mysql_store::{
    connect,
    verify::{self, Span},
};

use crate::{
    Outcome, Sources, VerifyError,
    checks::{account, claimed},
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
    findings.report(balances.iter().filter_map(account::balance));
    let uneven = findings.read(claimed::uneven(&mut connection, &Span::ALL).await)?;
    findings.report(uneven);
    let orphans = findings.read(claimed::orphans(&mut connection, &Span::ALL).await)?;
    findings.report(orphans);
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
