//! Consistency of MySQL's rows, column by column: coupons and claims agree (I2), and a coupon's own columns agree with
//! each other (I9).

use coupon::{CouponStatus, EXPIRY_SHARDS, TemplateState, expiry_shard};
use mysql_store::{
    MySqlConnection,
    user_coupon::UserCoupon,
    verify::{self, Table, Terms, topic_rows::coupons_from},
};

use crate::{Sources, VerifyError, outcome::Findings};

/// Coupons per statement when reading MySQL.
const ROWS_PER_READ: u32 = 10_000;

/// Names the values of some tables that no version writes, a violation each.
pub(crate) async fn are_possible(
    connection: &mut MySqlConnection,
    tables: &[Table],
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    for table in tables {
        for found in findings.read(verify::impossible_rows(connection, table).await)? {
            for wrong in found.wrong {
                findings.add(format!("{}: {wrong}", found.row));
            }
        }
    }
    Ok(())
}

/// For I2: compares coupons with claims and templates, claims with their payloads and keys, and stock rows with their
/// templates.
pub(crate) async fn are_as_claimed(
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let tables = [
        Table::claims(),
        Table::templates(),
        Table::stock(),
        Table::validity_moves(),
        Table::replacements(),
    ];
    are_possible(connection, &tables, findings).await?;
    for odd in findings.read(verify::odd_coupons(connection).await)? {
        let columns = [
            (odd.merchant, "merchant_id is not its template's"),
            (odd.claimed_at, "claimed_at is not its claim's"),
            (odd.validity, "validity is not its claim's"),
        ];
        for (_, what) in columns.into_iter().filter(|(is_odd, _)| *is_odd) {
            findings.add(format!("coupon {}: {what}", odd.id));
        }
    }
    for (claim, is_fence) in findings.read(verify::misplaced_claims(connection).await)? {
        let what = if is_fence { "a fence on a client's key" } else { "a claim on a fence's key" };
        findings.add(format!("claim {claim}: {what}"));
    }
    let templates = findings.read(verify::terms(connection).await)?;
    for unreadable in &templates.unreadable {
        findings.add(unreadable.to_string());
    }
    for terms in &templates.rows {
        are_agreed(terms, findings);
    }
    Ok(())
}

/// Checks a template with its stock row.
fn are_agreed(terms: &Terms, findings: &mut Findings) {
    let template = &terms.template;
    let id = template.id;
    let open = terms.open;
    let state = template.state;
    if let Err(error) = template.validate() {
        findings.add(format!("template {id} is not as the api accepts one: {error}"));
    }
    // After the claim window the queue is closed, and so is the stock row, though the template stays published.
    let closed = terms.queue_closed && !open;
    findings.expect(closed || open == (state == TemplateState::Published), || {
        format!("template {id} is {}, open is {open}", state.word())
    });
    let allowed = terms.followed.max(1)..=template.version;
    findings.expect(allowed.contains(&terms.terms), || {
        let terms = terms.terms;
        let from = allowed.start();
        let until = allowed.end();
        format!("template {id}: terms is {terms}, which is not within {from} to {until}")
    });
}

/// For I9: checks each coupon's use and shard against its own row, and names the rows that cannot be read.
pub(crate) async fn fit_themselves(
    sources: &Sources,
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let mut from = Some(i64::MIN);
    let mut looked_at = 0;
    while let Some(id) = from {
        let page = coupons_from(connection, id, ROWS_PER_READ).await?;
        from = page.next;
        looked_at += page.size();
        sources.progress.say(|| format!("I9: {looked_at} coupons"));
        for unreadable in &page.unreadable {
            findings.add(unreadable.to_string());
        }
        page.rows.iter().for_each(|row| fits_itself(row, findings));
    }
    Ok(())
}

fn fits_itself(row: &UserCoupon, findings: &mut Findings) {
    let UserCoupon { id, status, used_at, valid_from, order_ref, expiry_shard: shard, .. } = row;
    let is_used = *status == CouponStatus::Used;
    findings.expect(row.version >= 1, || {
        format!("coupon {id} is at version {}: the first is 1", row.version)
    });
    findings.expect(!(is_used && used_at.is_some_and(|at| at < *valid_from)), || {
        format!("coupon {id} was used before it was valid")
    });
    findings
        .expect(!is_used || order_ref.is_some(), || format!("coupon {id} was used for no order"));
    findings.expect(is_used || used_at.is_none(), || {
        format!("coupon {id} is {} and has a time of use", status.word())
    });
    // Rows written by older releases keep their old shard: the id modulo the number of shards.
    let own = i64::from(*shard);
    let is_its =
        expiry_shard(row.user_id) == *shard || row.user_id.0.rem_euclid(EXPIRY_SHARDS) == own;
    findings.expect(is_its, || format!("coupon {id} is in shard {shard}, which is not its user's"));
}
