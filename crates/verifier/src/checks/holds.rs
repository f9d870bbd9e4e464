//! For I14: a hold ends once. It is confirmed by one payment before its deadline, lapses after it, or is cancelled;
//! only lapsed and cancelled coupons are returned. The topic shows each step of each coupon: I10 compares them with
//! [`coupon::CouponStatus::TRANSITIONS`].

use mysql_store::{
    MySqlConnection,
    verify::{self, Table},
};

use crate::{VerifyError, outcome::Findings, rows};

/// Checks held claims, their coupons and their payments.
pub(crate) async fn end_once(
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    rows::are_possible(connection, &[Table::payments()], findings).await?;
    for id in findings.read(verify::odd_held_claims(connection).await)? {
        findings.add(format!("claim {id}: its hold is not as its template and its validity say"));
    }
    for id in findings.read(verify::odd_holds(connection).await)? {
        findings.add(format!(
            "coupon {id}: its hold did not end once, by a payment, its deadline or a return"
        ));
    }
    for id in findings.read(verify::odd_returns(connection).await)? {
        findings.add(format!("coupon {id} came back, and its status or its numbers do not say so"));
    }
    for payment in findings.read(verify::odd_payments(connection).await)? {
        findings.add(format!("payment {payment:?} is late, or its coupons are not its claim's"));
    }
    for id in findings.read(verify::odd_confirmed_validities(connection).await)? {
        findings.add(format!("coupon {id} has another validity than it was confirmed with"));
    }
    Ok(())
}
