//! The row of a claim, with its coupons.

use coupon::CouponStatus;

use super::super::bounds::COUPONS_MAX;
use crate::gate::Numbers;

/// The `claim` row of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Row {
    /// There is no row.
    #[default]
    Absent,
    /// Landed, under the client's key.
    Landed(Coupons),
    /// Rejected for good, under the client's key.
    Rejected(Reason),
    /// A fence, under a key of its own.
    Void,
    /// A fence in another template, from a lookup that named the wrong one.
    Foreign,
}

/// Why a queued claim is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The stock does not suffice.
    Short,
    /// All numbers of the user are taken.
    Limit,
    /// Paused or ended with `accepted: reject`.
    NotOpen,
    /// It cannot be landed.
    Failed,
}

/// The coupons of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coupons {
    /// `claim_no` of each, in ascending order; none without a limit. They never change.
    pub numbers: Numbers,
    /// `user_coupon.status`
    pub status: [Option<CouponStatus>; COUPONS_MAX],
    /// Whether `held_until` has passed by MySQL's clock.
    pub due: bool,
}

impl Coupons {
    pub(super) fn issued(numbers: Numbers, quantity: u8, status: CouponStatus) -> Self {
        let mut all = [None; COUPONS_MAX];
        all[..usize::from(quantity)].fill(Some(status));
        Self { numbers, status: all, due: false }
    }

    /// Returns whether a coupon counts against stock and limit.
    fn is_live(status: Option<CouponStatus>) -> bool {
        matches!(status, Some(CouponStatus::Held | CouponStatus::Unused))
    }

    /// `claim_no` of the coupon at a position, as a set; empty without a limit.
    pub fn number_at(&self, position: usize) -> Numbers {
        self.numbers.iter().skip(position).take(1).collect()
    }

    /// `live_no` of all coupons.
    pub fn live_numbers(&self) -> Numbers {
        if self.status.iter().flatten().all(|status| Self::is_live(Some(*status))) {
            return self.numbers;
        }
        (0..)
            .zip(self.status)
            .filter(|(_, status)| Self::is_live(*status))
            .fold(Numbers::default(), |all, (position, _)| all.with(self.number_at(position)))
    }

    pub fn live(&self) -> u8 {
        self.status.iter().map(|status| u8::from(Self::is_live(*status))).sum()
    }
}
