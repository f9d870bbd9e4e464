//! Status of a coupon.

pub(crate) mod transitions;

use chrono::{DateTime, Utc};

use crate::UnknownCode;

/// Status of a coupon. MySQL stores the codes; the API shows the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CouponStatus {
    /// Can be used while it is valid.
    Unused,
    /// Was used at checkout.
    Used,
    /// Its validity ended before it was used.
    Expired,
    /// The shop revoked or replaced it before it was used, or it was cancelled.
    Cancelled,
    /// Issued, and not confirmed yet: it cannot be used.
    Held,
    /// Its hold ended before it was confirmed.
    Lapsed,
}

impl CouponStatus {
    /// In the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Unused, Self::Used, Self::Expired, Self::Cancelled, Self::Held, Self::Lapsed];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Unused => 0,
            Self::Used => 1,
            Self::Expired => 2,
            Self::Cancelled => 3,
            Self::Held => 4,
            Self::Lapsed => 5,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::Unused),
            1 => Ok(Self::Used),
            2 => Ok(Self::Expired),
            3 => Ok(Self::Cancelled),
            4 => Ok(Self::Held),
            5 => Ok(Self::Lapsed),
            _ => Err(UnknownCode { what: "coupon status", code }),
        }
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Held => "held",
            Self::Lapsed => "lapsed",
        }
    }

    /// Finds a status by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Status at `now`: an unused coupon is expired, and a held one has lapsed, once `now` has reached `valid_until`,
    /// whether or not a worker has recorded it. The `valid_until` of a held coupon is the end of its hold.
    pub fn at(self, valid_until: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        match self {
            Self::Unused if now >= valid_until => Self::Expired,
            Self::Held if now >= valid_until => Self::Lapsed,
            status => status,
        }
    }

    /// Returns whether a deadline ends it: the end of its validity or of its hold.
    pub fn has_deadline(self) -> bool {
        matches!(self, Self::Unused | Self::Held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_coupon_is_expired_at_its_very_deadline() {
        let deadline = DateTime::from_timestamp_millis(1_000).unwrap();
        let before = DateTime::from_timestamp_millis(999).unwrap();
        assert_eq!(CouponStatus::Unused.at(deadline, before), CouponStatus::Unused);
        assert_eq!(CouponStatus::Unused.at(deadline, deadline), CouponStatus::Expired);
        assert_eq!(CouponStatus::Held.at(deadline, before), CouponStatus::Held);
        assert_eq!(CouponStatus::Held.at(deadline, deadline), CouponStatus::Lapsed);
        assert_eq!(CouponStatus::Used.at(deadline, deadline), CouponStatus::Used);
        assert_eq!(CouponStatus::Cancelled.at(deadline, deadline), CouponStatus::Cancelled);
    }

    #[test]
    fn codes_and_words_lead_back_to_their_status() {
        for status in CouponStatus::ALL {
            assert_eq!(CouponStatus::from_code(status.code()), Ok(status));
            assert_eq!(CouponStatus::from_word(status.word()), Some(status));
        }
        assert!(CouponStatus::from_code(9).is_err());
    }
}
