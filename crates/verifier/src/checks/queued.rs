//! I14: queued claims have ended, rejected ones have no coupons, and a hold ends once.

use chrono::{DateTime, Utc};
use mysql_store::{connect, verify};

use crate::{
    Outcome, Sources, VerifyError,
    checks::{gates, holds},
    outcome::{Findings, count},
};

/// I14: nothing is queued any more; a rejected claim has a reason and no coupon; the epochs and the queue of a template
/// agree with each other; a hold ends at most once, in an allowed way. Only the clients know whether each claim
/// answered with 202 has ended.
pub(crate) async fn have_ended(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Outcome, VerifyError> {
    let mut findings =
        Findings::of("I14", "queued claims and holds end once, rejected ones without coupons");
    let looked = look(sources, now, &mut findings).await;
    findings.end(looked)
}

async fn look(
    sources: &Sources,
    now: DateTime<Utc>,
    findings: &mut Findings,
) -> Result<String, VerifyError> {
    waiting(sources, findings).await?;
    let mut connection = connect::acquire(&sources.pool).await?;
    for id in findings.read(verify::rejected_with_coupons(&mut connection).await)? {
        findings.add(format!("claim {id} is rejected, and has a coupon"));
    }
    for id in findings.read(verify::odd_rejections(&mut connection).await)? {
        findings.add(format!(
            "claim {id} is rejected without a reason or a time of admission, or a new gate would not look its key up"
        ));
    }
    for id in findings.read(verify::odd_queues(&mut connection).await)? {
        findings.add(format!("template {id}: epochs, mode and end of its queue do not agree"));
    }
    holds::end_once(&mut connection, findings).await?;
    let rejected = verify::count_rejections(&mut connection).await?;
    let rejected = count(usize::try_from(rejected).unwrap_or_default(), "claim");
    let coupons = verify::count_coupons(&mut connection, None, now).await?;
    Ok(format!("{rejected} rejected, {} held, {} lapsed", coupons.held, coupons.lapsed))
}

/// Reports what waits in the outboxes and in the gates of MySQL's epochs, for each template and place.
pub(crate) async fn waiting(sources: &Sources, findings: &mut Findings) -> Result<(), VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    for (template, epoch) in findings.read(verify::epochs(&mut connection).await)? {
        for (number, place) in [
            (sources.gate.outbox_len(template).await, "its outbox"),
            (sources.gate.queued_count(template, epoch).await, "the gate's queue"),
        ] {
            let number = gates::readable(template, number, findings)?.unwrap_or(0);
            findings.expect(number == 0, || {
                format!("template {template} has {number} claims in {place}")
            });
        }
    }
    Ok(())
}
