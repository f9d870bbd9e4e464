//! How the claims of a template are answered and landed, and what its stock row lets land.

use crate::UnknownCode;

/// How a template's claims are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClaimMode {
    /// Each claim lands before it is answered.
    #[default]
    Direct,
    /// Each claim is accepted first, and lands behind a queue.
    Queued,
    /// Claims land before they are answered while MySQL keeps up, and are queued beyond that.
    Spill,
}

impl ClaimMode {
    /// In the order of their codes.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Queued, Self::Spill];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Direct => 0,
            Self::Queued => 1,
            Self::Spill => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.code() == code).ok_or(UnknownCode { what: "claim mode", code })
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Queued => "queued",
            Self::Spill => "spill",
        }
    }

    /// Finds a mode by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.word() == word)
    }

    /// Returns whether claims may be queued in this mode.
    pub fn queues(self) -> bool {
        self != Self::Direct
    }
}

/// What a queued claim must be stored in before it is answered as accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AcceptAfter {
    /// The gate alone: a loss of Redis loses the claim.
    Gate,
    /// Replicas of the gate too.
    Replica,
    /// The topic: no loss of Redis loses the claim.
    #[default]
    Topic,
}

impl AcceptAfter {
    /// In the order of their codes.
    pub const ALL: [Self; 3] = [Self::Gate, Self::Replica, Self::Topic];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Gate => 0,
            Self::Replica => 1,
            Self::Topic => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let mut all = Self::ALL.into_iter();
        all.find(|after| after.code() == code).ok_or(UnknownCode { what: "accept after", code })
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Replica => "replica",
            Self::Topic => "topic",
        }
    }

    /// Finds a value by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|after| after.word() == word)
    }
}

/// Which claims of a template land. A later value allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Open {
    /// Nothing lands: a draft, or a template paused or ended with its accepted claims rejected.
    Nothing,
    /// Only queued claims land: a template paused or ended that still lands its accepted claims.
    Accepted,
    /// Everything lands.
    All,
}

impl Open {
    /// The stored code. It is not in the order of the values, because 1 has always meant that everything lands.
    pub fn code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::All => 1,
            Self::Accepted => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::Nothing),
            1 => Ok(Self::All),
            2 => Ok(Self::Accepted),
            _ => Err(UnknownCode { what: "open", code }),
        }
    }

    /// Returns whether direct claims land.
    pub fn lands_direct(self) -> bool {
        self == Self::All
    }

    /// Returns whether queued claims land.
    pub fn lands_queued(self) -> bool {
        self >= Self::Accepted
    }
}

/// What a pause or an end does with the claims that were accepted before it and have not landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AcceptedClaims {
    /// They land.
    #[default]
    Land,
    /// They are rejected.
    Reject,
}

impl AcceptedClaims {
    /// Both, in the order in which the API names them.
    pub const ALL: [Self; 2] = [Self::Land, Self::Reject];

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Land => "land",
            Self::Reject => "reject",
        }
    }

    /// Finds a value by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|accepted| accepted.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_of_modes_lead_back_to_them() {
        for mode in ClaimMode::ALL {
            assert_eq!(ClaimMode::from_code(mode.code()), Ok(mode));
            assert_eq!(ClaimMode::from_word(mode.word()), Some(mode));
            assert_eq!(mode.queues(), mode != ClaimMode::default());
        }
        for after in AcceptAfter::ALL {
            assert_eq!(AcceptAfter::from_code(after.code()), Ok(after));
            assert_eq!(AcceptAfter::from_word(after.word()), Some(after));
        }
        for accepted in AcceptedClaims::ALL {
            assert_eq!(AcceptedClaims::from_word(accepted.word()), Some(accepted));
        }
        assert!(ClaimMode::from_code(3).is_err() && AcceptAfter::from_code(3).is_err());
        assert_eq!(ClaimMode::from_word("Direct"), None);
    }

    #[test]
    fn a_row_from_before_the_queue_is_open_for_all_or_for_nothing() {
        assert_eq!(Open::from_code(0), Ok(Open::Nothing));
        assert_eq!(Open::from_code(1), Ok(Open::All));
        assert!(Open::from_code(3).is_err());
        let lands = |open: Open| (open.lands_direct(), open.lands_queued());
        assert_eq!(lands(Open::Nothing), (false, false));
        assert_eq!(lands(Open::Accepted), (false, true));
        assert_eq!(lands(Open::All), (true, true));
        for open in [Open::Nothing, Open::Accepted, Open::All] {
            assert_eq!(Open::from_code(open.code()), Ok(open));
        }
    }
}
