//! The view's entry for a coupon.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, TemplateId};

use crate::ViewError;

/// Everything that "my coupons" shows of a coupon, so that a page needs one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewCoupon {
    pub id: CouponId,
    pub template_id: TemplateId,
    /// The claim number; the coupon's own id without a limit and for a replacement.
    pub claim_no: i64,
    /// The claim that created it.
    pub claim_id: ClaimId,
    /// Time of the claim, which orders the list.
    pub claimed_at: DateTime<Utc>,
    pub valid_from: DateTime<Utc>,
    /// Exclusive.
    pub valid_until: DateTime<Utc>,
}

/// One version of one coupon, from a change event or a row of MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub coupon: ViewCoupon,
    /// Status as stored in this version.
    pub status: CouponStatus,
    /// Rises by one with each change.
    pub version: i64,
}

impl ViewCoupon {
    /// Member of the list.
    pub fn member(&self) -> String {
        member(self.template_id, self.id)
    }

    /// Score of the member: time of the claim in milliseconds.
    pub fn score(&self) -> i64 {
        self.claimed_at.timestamp_millis()
    }
}

/// Member for a coupon of this template.
pub(crate) fn member(template: TemplateId, coupon: CouponId) -> String {
    format!("{template}_{coupon}")
}

impl Change {
    /// Returns whether this version belongs on the list.
    pub fn is_listed(&self) -> bool {
        self.status == CouponStatus::Unused
    }

    /// Entry in the hash: `version|status|template|claim_no|claim|claimed_at|valid_from|valid_until`, or
    /// `version|status` for a tombstone. Times are milliseconds since 1970.
    pub fn entry(&self) -> String {
        let version = self.version;
        let status = self.status.code();
        if !self.is_listed() {
            return format!("{version}|{status}");
        }
        let coupon = &self.coupon;
        format!(
            "{version}|{status}|{}|{}|{}|{}|{}|{}",
            coupon.template_id,
            coupon.claim_no,
            coupon.claim_id,
            coupon.claimed_at.timestamp_millis(),
            coupon.valid_from.timestamp_millis(),
            coupon.valid_until.timestamp_millis(),
        )
    }

    /// The four arguments of the scripts that apply changes.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let score = if self.is_listed() { self.coupon.score().to_string() } else { String::new() };
        [self.coupon.id.to_string(), self.coupon.member(), score, self.entry()]
    }
}

/// Parses the entry of a listed coupon.
pub(crate) fn listed(id: &str, entry: &str) -> Result<ViewCoupon, ViewError> {
    parse(id, entry).ok_or_else(|| ViewError::unreadable(format!("coupon {id}: {entry:?}")))
}

fn parse(id: &str, entry: &str) -> Option<ViewCoupon> {
    let mut numbers = [0; 8];
    let mut fields = entry.split('|');
    for number in &mut numbers {
        *number = fields.next()?.parse().ok()?;
    }
    let [_, status, template, claim_no, claim, claimed_at, valid_from, valid_until] = numbers;
    if fields.next().is_some() || status != i64::from(CouponStatus::Unused.code()) {
        return None;
    }
    Some(ViewCoupon {
        id: id.parse().ok()?,
        template_id: TemplateId(template),
        claim_no,
        claim_id: ClaimId(claim),
        claimed_at: DateTime::from_timestamp_millis(claimed_at)?,
        valid_from: DateTime::from_timestamp_millis(valid_from)?,
        valid_until: DateTime::from_timestamp_millis(valid_until)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(status: CouponStatus) -> Change {
        let time = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let coupon = ViewCoupon {
            id: CouponId(i64::MAX),
            template_id: TemplateId(1),
            claim_no: 2,
            claim_id: ClaimId(3),
            claimed_at: time(1_000),
            valid_from: time(2_000),
            valid_until: time(3_000),
        };
        Change { coupon, status, version: 4 }
    }

    #[test]
    fn a_listed_coupon_is_read_back_whole() {
        let change = change(CouponStatus::Unused);
        let [id, member, score, entry] = change.arguments();
        assert_eq!((member.as_str(), score.as_str()), ("1_9223372036854775807", "1000"));
        assert_eq!(listed(&id, &entry).unwrap(), change.coupon);
    }

    #[test]
    fn a_tombstone_keeps_the_version_and_has_no_score() {
        let [_, _, score, entry] = change(CouponStatus::Used).arguments();
        assert_eq!((score.as_str(), entry.as_str()), ("", "4|1"));
        assert!(listed("1", &entry).is_err());
    }

    #[test]
    fn a_damaged_entry_is_an_error_and_never_a_guess() {
        for entry in
            ["", "1", "1|0|1|1|1|1|1", "1|0|1|1|1|1|1|1|1", "1|0|x|1|1|1|1|1", "1|2|1|1|1|1|1|1"]
        {
            assert!(listed("1", entry).is_err(), "{entry:?}");
        }
    }
}
