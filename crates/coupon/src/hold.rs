//! Holds: a claim may issue coupons that must be paid for, or confirmed elsewhere, before they can be used.

use chrono::{DateTime, TimeDelta, Utc};

use crate::UnknownCode;

/// What becomes of a unit of stock whose coupon lapsed or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReturnedStock {
    /// It can be claimed again.
    #[default]
    Resell,
    /// The total falls by it.
    Retire,
}

/// How a template holds its coupons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldTerms {
    /// Time from the landing within which a coupon must be confirmed; `None`: coupons are not held.
    pub hold: Option<TimeDelta>,
    /// Lapses after which a user is refused further claims; 0: never.
    pub lapses_allowed: u32,
    pub returned_stock: ReturnedStock,
}

impl HoldTerms {
    /// When the hold of a claim that lands at `lands_at` lapses, if coupons are held: at the end of their validity at
    /// the latest.
    pub fn held_until(
        &self,
        lands_at: DateTime<Utc>,
        valid_until: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        self.hold.map(|hold| (lands_at + hold).min(valid_until))
    }

    /// Returns whether claims are held.
    pub fn holds(&self) -> bool {
        self.hold.is_some()
    }
}

impl ReturnedStock {
    /// In the order of their codes.
    pub const ALL: [Self; 2] = [Self::Resell, Self::Retire];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Resell => 0,
            Self::Retire => 1,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.code() == code).ok_or(UnknownCode { what: "returned stock", code })
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resell => "resell",
            Self::Retire => "retire",
        }
    }

    /// Finds a value by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_with_the_validity_of_its_coupon_at_the_latest() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let terms = HoldTerms { hold: Some(TimeDelta::seconds(60)), ..HoldTerms::default() };
        assert_eq!(terms.held_until(at(0), at(100)), Some(at(60)));
        assert_eq!(terms.held_until(at(0), at(59)), Some(at(59)));
        assert_eq!(HoldTerms::default().held_until(at(0), at(59)), None);
    }

    #[test]
    fn codes_and_words_lead_back() {
        for one in ReturnedStock::ALL {
            assert_eq!(ReturnedStock::from_code(one.code()), Ok(one));
            assert_eq!(ReturnedStock::from_word(one.word()), Some(one));
        }
    }
}
