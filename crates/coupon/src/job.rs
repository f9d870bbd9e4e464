//! Jobs of grants: their states, and what becomes of each row.

use crate::UnknownCode;

/// Defines an enum whose values have a stored code and a name in the API.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident, $what:literal, $count:literal;
     $($(#[$variant_doc:meta])* $variant:ident $code:literal $word:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// In the order of their codes.
            pub const ALL: [Self; $count] = [$(Self::$variant,)+];

            /// The stored code.
            pub fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// Converts a stored code.
            ///
            /// # Errors
            /// This version does not know the code.
            pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok(Self::$variant),)+
                    _ => Err(UnknownCode { what: $what, code }),
                }
            }

            /// Name in the API.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Finds a value by its name in the API.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.word() == word)
            }
        }
    };
}

coded! {
    /// State of a job.
    JobState, "job state", 4;
    /// Its rows are being granted.
    Running 0 "running",
    /// An operator cancelled it, and what it has begun is being finished.
    Cancelling 1 "cancelling",
    /// Each row has its outcome.
    Finished 2 "finished",
    /// It was cancelled, and each row has its outcome.
    Cancelled 3 "cancelled",
}

coded! {
    /// What became of a job's row.
    RowOutcome, "row outcome", 12;
    /// Not decided yet.
    Pending 0 "pending",
    /// The user has the coupons.
    Granted 1 "granted",
    /// An earlier row of the job is for the same user.
    Duplicate 2 "duplicate",
    /// The row holds no user id.
    InvalidUserId 3 "invalid_user_id",
    /// The user would have more than the limit.
    LimitReached 4 "limit_reached",
    /// No coupon was left.
    SoldOut 5 "sold_out",
    /// Fewer coupons were left than the row is for.
    InsufficientStock 6 "insufficient_stock",
    /// The claim window had not begun.
    NotOpen 7 "not_open",
    /// The claim window was over.
    Closed 8 "closed",
    /// The template had ended.
    Ended 9 "ended",
    /// The job was cancelled before it reached the row.
    Cancelled 10 "cancelled",
    /// The user has let too many holds of the template lapse.
    Banned 11 "banned",
}

impl JobState {
    /// Returns whether the state is final.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_lead_back_to_what_they_stand_for() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_code(state.code()), Ok(state));
            assert_eq!(JobState::from_word(state.word()), Some(state));
        }
        for (code, outcome) in (0..).zip(RowOutcome::ALL) {
            assert_eq!((outcome.code(), RowOutcome::from_code(code)), (code, Ok(outcome)));
            assert_eq!(RowOutcome::from_word(outcome.word()), Some(outcome));
        }
        assert!(JobState::from_code(4).is_err() && RowOutcome::from_code(12).is_err());
        assert!(RowOutcome::from_word("landed").is_none());
    }
}
