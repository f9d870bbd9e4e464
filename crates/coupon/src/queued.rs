//! A queued claim: what is carried from the gate's outbox over the topic to its landing, and how else it may end.

use chrono::{DateTime, Utc};

use crate::{AcceptAfter, Admission, UnknownCode};

/// An admission that lands behind a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedClaim {
    pub admission: Admission,
    /// What it must be stored in before it is answered as accepted.
    pub accept_after: AcceptAfter,
    /// When the gate admitted it: the same as its claim's `claimed_at`, to the millisecond.
    pub admitted_at: DateTime<Utc>,
    /// Stock left at the gate after this admission, if known.
    pub left_after: Option<i64>,
}

/// Why a queued claim was rejected for good. Its key is never admitted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// No stock is left.
    SoldOut,
    /// Less stock is left than it asks for.
    InsufficientStock,
    /// The user has fewer free numbers than it asks for.
    LimitReached,
    /// The template was paused with its accepted claims rejected.
    Paused,
    /// The template was ended with its accepted claims rejected.
    Ended,
    /// It could not be landed, for another reason.
    Failed,
    /// It was cancelled. Nothing writes this yet.
    Cancelled,
}

impl RejectReason {
    /// In the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::SoldOut,
        Self::InsufficientStock,
        Self::LimitReached,
        Self::Paused,
        Self::Ended,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::SoldOut => 1,
            Self::InsufficientStock => 2,
            Self::LimitReached => 3,
            Self::Paused => 4,
            Self::Ended => 5,
            Self::Failed => 6,
            Self::Cancelled => 7,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let mut all = Self::ALL.into_iter();
        all.find(|reason| reason.code() == code).ok_or(UnknownCode { what: "reject reason", code })
    }

    /// Name in the API: the code of the error that a direct claim gets for the same reason.
    pub fn word(self) -> &'static str {
        match self {
            Self::SoldOut => "SOLD_OUT",
            Self::InsufficientStock => "INSUFFICIENT_STOCK",
            Self::LimitReached => "LIMIT_REACHED",
            Self::Paused => "PAUSED",
            Self::Ended => "ENDED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Finds a reason by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }

    /// The reason for a claim that asks for more than the `left` coupons in stock.
    pub fn of_short_stock(left: i64) -> Self {
        if left > 0 { Self::InsufficientStock } else { Self::SoldOut }
    }
}

/// How far a partition of the queue of claims has landed, and how far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReach {
    /// Every claim before this offset has ended.
    pub committed: i64,
    /// The offset of the next claim appended.
    pub end: i64,
}

impl QueueReach {
    /// Returns whether every claim before `noted`, the partition's end at an earlier moment, has ended. If the present
    /// end is before `noted`, lowers `noted` to it: the claims in between were lost with their topic or a broker's
    /// disk, and cannot land any more. `noted` stays lowered: landers hardly ever reach the end of a partition in use.
    pub fn has_passed(self, noted: &mut i64) -> bool {
        *noted = self.end.min(*noted);
        self.committed >= *noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_lead_back_to_their_reason() {
        for (code, reason) in (1..).zip(RejectReason::ALL) {
            assert_eq!(reason.code(), code);
            assert_eq!(RejectReason::from_code(code), Ok(reason));
            assert_eq!(RejectReason::from_word(reason.word()), Some(reason));
        }
        assert!(RejectReason::from_code(0).is_err() && RejectReason::from_code(8).is_err());
    }

    #[test]
    fn a_stock_of_nothing_is_sold_out_and_a_smaller_one_insufficient() {
        assert_eq!(RejectReason::of_short_stock(1), RejectReason::InsufficientStock);
        for left in [0, -1] {
            assert_eq!(RejectReason::of_short_stock(left), RejectReason::SoldOut);
        }
    }

    #[test]
    fn a_noted_end_is_passed_once_it_is_committed_or_the_end_of_a_partition_that_is_shorter_now() {
        let reach = |committed, end| QueueReach { committed, end };
        let mut noted = 500;
        assert!(!reach(499, 900).has_passed(&mut noted));
        assert!(reach(500, 900).has_passed(&mut noted));
        assert!(!reach(0, 9).has_passed(&mut noted), "the topic was made anew");
        assert!(!reach(8, 30).has_passed(&mut noted), "it is in use");
        assert!(reach(9, 40).has_passed(&mut noted));
    }
}
