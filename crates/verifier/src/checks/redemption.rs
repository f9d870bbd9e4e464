//! I13: redemptions and their money.

use mysql_store::{
    connect,
    verify::{self, LostUse, OddOrderWhy, Table},
};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
    rows,
};

/// I13: a used coupon has a redemption that stands, a redemption that stands has a used coupon, a use that was recorded
/// has its redemption, an order's row says what its redemptions say, and its discounts do not exceed its amount.
pub(crate) async fn adds_up(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I13", "used coupons = standing redemptions, and sums match");
    let looked = look(sources, &mut findings).await;
    findings.end(looked)
}

async fn look(sources: &Sources, findings: &mut Findings) -> Result<String, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let tables = [Table::redemptions(), Table::locks()];
    rows::are_possible(&mut connection, &tables, findings).await?;
    for coupon in findings.read(verify::unredeemed(&mut connection).await)? {
        findings.add(format!("coupon {coupon} is used, and no redemption of it stands"));
    }
    for id in findings.read(verify::unused(&mut connection).await)? {
        findings.add(format!("redemption {id} stands, and its coupon is not used for its order"));
    }
    for id in findings.read(verify::odd_rollbacks(&mut connection).await)? {
        findings.add(format!("rollback {id} undoes no redemption that is like it"));
    }
    for order in findings.read(verify::odd_sums(&mut connection).await)? {
        findings.add(format!("the discounts of order {order:?} do not fit its amount"));
    }
    for odd in findings.read(verify::odd_orders(&mut connection).await)? {
        let name = &odd.name;
        let merchant = odd.merchant;
        let why = described(odd.why);
        findings.add(format!("order {name:?} of merchant {merchant} {why}"));
    }
    for LostUse { line, coupon, was_returned } in
        findings.read(verify::lost_uses(&mut connection).await)?
    {
        let what = if was_returned { "return" } else { "use" };
        findings.add(format!(
            "coupon {coupon}: line {line} of the audit record is of a {what}, and the redemptions know of none"
        ));
    }
    let made = verify::count_redemptions(&mut connection).await?;
    Ok(count(usize::try_from(made).unwrap_or_default(), "redemption"))
}

fn described(why: OddOrderWhy) -> &'static str {
    match why {
        OddOrderWhy::Torn => "was redeemed in part, or at no time",
        OddOrderWhy::NotRedeemed => "has no redemption like its row",
        OddOrderWhy::StandsCancelled => "was cancelled, and a redemption of it stands",
    }
}
