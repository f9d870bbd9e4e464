//! I3: no user has more coupons than the limit.

use mysql_store::{
    connect,
    verify::{self, Span},
};

use crate::{
    Outcome, Sources, VerifyError,
    checks::claimed,
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
    let over = findings.read(claimed::over_limit(&mut connection, &Span::ALL).await)?;
    findings.report(over);
    let unnumbered = findings.read(claimed::unnumbered(&mut connection, &Span::ALL).await)?;
    findings.report(unnumbered);
    let balances = findings.read(verify::balances(&mut connection).await)?;
    let limited = balances.iter().filter(|balance| balance.limit > 0).count();
    Ok(format!("{} with a limit", count(limited, "template")))
}
