//! What a reconciler finds wrong, and what became of it.

use crate::{ClaimId, UnknownCode, UserId};

/// What is wrong. MySQL stores the codes; the API shows the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Total or stock of a template are not the sums of its ledger, or its coupons are not what was landed.
    Account,
    /// A template gave more coupons than it has.
    Oversold,
    /// A claim and its coupons disagree.
    Claim,
    /// A user holds more coupons than the limit, or one without a number.
    Limit,
    /// The gate takes a number for held that nobody holds.
    NumberLeaked,
    /// The gate takes a number for free that a user holds.
    NumberMissing,
    /// A request at the gate is not what MySQL has, or nobody is about to end it.
    Request,
    /// The gate offers another stock than MySQL has.
    GateStock,
    /// A user's list is not what MySQL has.
    View,
    /// Something is later than it should ever be; nothing is wrong yet.
    Late,
}

/// Whom or what a finding is about, within its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingAbout {
    /// The template itself, or what belongs to no template.
    Template,
    User(UserId),
    Claim(ClaimId),
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingState {
    /// Found, and nobody has done anything.
    Open,
    /// A repair is under way.
    Repairing,
    /// A repair ended it.
    Repaired,
    /// A person looked at it and leaves it as it is.
    Accepted,
    /// What it judged is gone: the gate has a new epoch, the view a new version, or a later look found nothing.
    Overtaken,
}

impl FindingKind {
    /// In the order of their codes.
    pub const ALL: [Self; 10] = [
        Self::Account,
        Self::Oversold,
        Self::Claim,
        Self::Limit,
        Self::NumberLeaked,
        Self::NumberMissing,
        Self::Request,
        Self::GateStock,
        Self::View,
        Self::Late,
    ];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Account => 0,
            Self::Oversold => 1,
            Self::Claim => 2,
            Self::Limit => 3,
            Self::NumberLeaked => 4,
            Self::NumberMissing => 5,
            Self::Request => 6,
            Self::GateStock => 7,
            Self::View => 8,
            Self::Late => 9,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let found = Self::ALL.into_iter().find(|kind| kind.code() == code);
        found.ok_or(UnknownCode { what: "kind of a finding", code })
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Oversold => "oversold",
            Self::Claim => "claim",
            Self::Limit => "limit",
            Self::NumberLeaked => "number_leaked",
            Self::NumberMissing => "number_missing",
            Self::Request => "request",
            Self::GateStock => "gate_stock",
            Self::View => "view",
            Self::Late => "late",
        }
    }

    /// Finds a kind by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns whether it belongs to the platform and to no merchant: a list has coupons of many merchants, and a process
    /// that is late works for all.
    pub fn is_platforms(self) -> bool {
        matches!(self, Self::View | Self::Late)
    }
}

impl FindingAbout {
    /// The stored code, and the id beside it.
    pub fn code(self) -> (u8, i64) {
        match self {
            Self::Template => (0, 0),
            Self::User(id) => (1, id.0),
            Self::Claim(id) => (2, id.0),
        }
    }

    /// Converts a stored code and the id beside it.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8, id: i64) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::Template),
            1 => Ok(Self::User(UserId(id))),
            2 => Ok(Self::Claim(ClaimId(id))),
            _ => Err(UnknownCode { what: "subject of a finding", code }),
        }
    }
}

impl FindingState {
    /// In the order of their codes.
    pub const ALL: [Self; 5] =
        [Self::Open, Self::Repairing, Self::Repaired, Self::Accepted, Self::Overtaken];

    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Repairing => 1,
            Self::Repaired => 2,
            Self::Accepted => 3,
            Self::Overtaken => 4,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        let found = Self::ALL.into_iter().find(|state| state.code() == code);
        found.ok_or(UnknownCode { what: "state of a finding", code })
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Repairing => "repairing",
            Self::Repaired => "repaired",
            Self::Accepted => "accepted",
            Self::Overtaken => "overtaken",
        }
    }

    /// Finds a state by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_of_findings_lead_back_to_them() {
        for kind in FindingKind::ALL {
            assert_eq!(FindingKind::from_code(kind.code()), Ok(kind));
            assert_eq!(FindingKind::from_word(kind.word()), Some(kind));
        }
        for state in FindingState::ALL {
            assert_eq!(FindingState::from_code(state.code()), Ok(state));
            assert_eq!(FindingState::from_word(state.word()), Some(state));
        }
        for about in
            [FindingAbout::Template, FindingAbout::User(UserId(7)), FindingAbout::Claim(ClaimId(8))]
        {
            let (code, id) = about.code();
            assert_eq!(FindingAbout::from_code(code, id), Ok(about));
        }
        assert!(FindingAbout::from_code(3, 0).is_err());
        assert!(FindingKind::from_code(10).is_err());
        assert!(FindingState::from_code(5).is_err());
    }
}
