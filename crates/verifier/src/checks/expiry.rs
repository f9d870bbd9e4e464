//! I9: coupons expire at their deadline, and deadlines are as promised.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponStatus;
use mysql_store::{connect, user_coupon::UserCoupon, verify};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
    rows,
};

/// How long a due coupon may stay unflipped on a platform at rest. A worker flips 30,000 per
/// second, so this allows for 1.8 million coupons that end in one second.
const FLIP_MAX: TimeDelta = TimeDelta::seconds(60);

/// I9: each coupon expires once and not before its deadline, none is missed, and none is used after
/// it.
pub(crate) async fn is_lawful(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I9", "each coupon expires once, never early, none missed");
    let looked = look(sources, now, &mut findings).await;
    findings.end(looked)
}

async fn look(
    sources: &Sources,
    now: DateTime<Utc>,
    findings: &mut Findings,
) -> Result<String, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let overdue_at = now - FLIP_MAX;
    for coupon in findings.read(verify::bad_ends(&mut connection, overdue_at).await)? {
        findings.add(offence(&coupon, overdue_at));
    }
    for coupon in findings.read(verify::bad_validities(&mut connection, now).await)? {
        let UserCoupon { id, version, valid_until, .. } = coupon;
        let change = "which is not what its claim or the last change to follow says";
        findings.add(format!("coupon {id} at version {version} ends {valid_until}, {change}"));
    }
    for id in findings.read(verify::unrecorded_returns(&mut connection).await)? {
        findings.add(format!("coupon {id} was given back, and the record names nobody who did it"));
    }
    for id in findings.read(verify::unrecorded_cancellations(&mut connection).await)? {
        findings.add(format!("coupon {id} was cancelled, and the record names nobody who did it"));
    }
    rows::fit_themselves(sources, &mut connection, findings).await?;
    let counts = verify::count_coupons(&mut connection, None, now).await?;
    let expired = usize::try_from(counts.expired).unwrap_or_default();
    let all = usize::try_from(counts.all()).unwrap_or_default();
    Ok(format!("{expired} of {}", count(all, "coupon")))
}

fn offence(coupon: &UserCoupon, overdue_at: DateTime<Utc>) -> String {
    let UserCoupon { id, status, version, valid_until, changed_at, used_at, .. } = coupon;
    match status {
        CouponStatus::Unused if *valid_until <= overdue_at => {
            format!("coupon {id} is still unused, its deadline was {valid_until}")
        }
        CouponStatus::Expired if changed_at < valid_until => {
            format!("coupon {id} expired at {changed_at}, before its deadline {valid_until}")
        }
        CouponStatus::Used if used_at.is_none_or(|at| at >= *valid_until) => {
            format!("coupon {id} was used at {used_at:?}, its deadline was {valid_until}")
        }
        CouponStatus::Cancelled if changed_at >= valid_until => {
            format!("coupon {id} was cancelled at {changed_at}, its deadline was {valid_until}")
        }
        CouponStatus::Held if *valid_until <= overdue_at => {
            format!("coupon {id} is still held, its hold ended {valid_until}")
        }
        CouponStatus::Lapsed if changed_at < valid_until => {
            format!("coupon {id} lapsed at {changed_at}, before its hold ended {valid_until}")
        }
        CouponStatus::Unused
        | CouponStatus::Used
        | CouponStatus::Expired
        | CouponStatus::Cancelled
        | CouponStatus::Held
        | CouponStatus::Lapsed => {
            format!("coupon {id} is {} at version {version}", status.word())
        }
    }
}
