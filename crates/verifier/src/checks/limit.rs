//! I3: no user has more coupons than the limit.

use mysql_store::{connect, verify};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// I3: the numbers of a user's coupons lie within 1 to the limit, and there are at most that many. Only returned
/// coupons and replacements have other numbers.
pub(crate) async fn is_kept(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I3", "nobody holds more than the limit");
    let looked = look(sources, &mut findings).await;
    findings.end(looked)
}

async fn look(sources: &Sources, findings: &mut Findings) -> Result<String, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    for holding in findings.read(verify::over_limit(&mut connection).await)? {
        findings.add(format!(
            "user {} holds {} coupons (numbers {} to {}) of template {}, limit {}",
            holding.user,
            holding.coupons,
            holding.lowest,
            holding.highest,
            holding.template,
            holding.limit,
        ));
    }
    for id in findings.read(verify::odd_numbers(&mut connection).await)? {
        findings.add(format!("coupon {id} has no number within the limit, and gave none back"));
    }
    let balances = findings.read(verify::balances(&mut connection).await)?;
    let limited = balances.iter().filter(|balance| balance.limit > 0).count();
    Ok(format!("{} with a limit", count(limited, "template")))
}
