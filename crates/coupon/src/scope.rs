//! Rights of an operator's API key.

use crate::UnknownCode;

/// A right of a key. `Admin` includes `Operate`, which includes `Read`. `Redeem` stands alone: a checkout need not read
/// campaigns, and operators of campaigns need no right to use up a user's coupon. `Emergency` includes `Read` and is not
/// included in any other: it reaches beyond the key's own merchant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Read the merchant's data.
    Read,
    /// Change templates and everything that belongs to them.
    Operate,
    /// Create and revoke keys.
    Admin,
    /// Redeem users' coupons of the merchant, and give them back.
    Redeem,
    /// See every merchant's templates, pause and resume them, end a drain, and see the health of all processes.
    Emergency,
}

/// The bits of all scopes.
const ALL_BITS: u8 = 31;

/// The scopes granted to a key: one or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scope {
    /// In the order of their codes.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Operate, Self::Admin, Self::Redeem, Self::Emergency];

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
            Self::Redeem => "redeem",
            Self::Emergency => "emergency",
        }
    }

    /// Finds a scope by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.word() == word)
    }

    fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Operate => 2,
            Self::Admin => 4,
            Self::Redeem => 8,
            Self::Emergency => 16,
        }
    }

    /// Bits of the scopes that this one includes, itself among them.
    fn includes(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Operate => 1 | 2,
            Self::Admin => 1 | 2 | 4,
            Self::Redeem => 8,
            Self::Emergency => 1 | 16,
        }
    }
}

impl Scopes {
    pub fn all() -> Self {
        Self(ALL_BITS)
    }

    /// Collects scopes; `None` if there are none.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Option<Self> {
        let bits = scopes.into_iter().fold(0, |bits, scope| bits | scope.bit());
        (bits != 0).then_some(Self(bits))
    }

    /// The stored code: one bit per scope.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        if (1..=ALL_BITS).contains(&code) {
            Ok(Self(code))
        } else {
            Err(UnknownCode { what: "scopes", code })
        }
    }

    /// The scopes as granted, in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// Returns whether a key with these scopes may do what requires `needed`.
    pub fn allow(self, needed: Scope) -> bool {
        self.iter().any(|scope| scope.includes() & needed.bit() != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_includes_the_lesser_ones_and_no_greater_and_to_redeem_is_a_right_of_its_own() {
        use Scope::{Admin, Emergency, Operate, Read, Redeem};
        let allowed: [(Scope, &[Scope]); 5] = [
            (Read, &[Read]),
            (Operate, &[Read, Operate]),
            (Admin, &[Read, Operate, Admin]),
            (Redeem, &[Redeem]),
            (Emergency, &[Read, Emergency]),
        ];
        for (given, allowed) in allowed {
            let scopes = Scopes::of([given]).unwrap();
            for needed in Scope::ALL {
                let is_allowed = allowed.contains(&needed);
                assert_eq!(scopes.allow(needed), is_allowed, "{given:?} for {needed:?}");
            }
        }
        assert!(Scopes::of([]).is_none());
    }

    #[test]
    fn scopes_come_back_from_their_code_as_they_were_given() {
        for code in 1..=31 {
            let scopes = Scopes::from_code(code).unwrap();
            assert_eq!(Scopes::of(scopes.iter()), Some(scopes));
            assert_eq!(scopes.code(), code);
        }
        assert_eq!(Scopes::of(Scope::ALL), Some(Scopes::all()));
        assert!(Scopes::from_code(0).is_err() && Scopes::from_code(32).is_err());
        assert!(Scope::ALL.iter().all(|scope| Scope::from_word(scope.word()) == Some(*scope)));
        assert_eq!(Scope::from_word("root"), None);
    }
}
