//! Ids: 64-bit, and k-sortable where we generate them. They are strings on the wire, because JSON
//! numbers are not exact beyond 2^53.

use std::{fmt, str::FromStr};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Largest clock difference between two processes, allowed for where a time is inferred from an id. A clock may be
/// wrong by minutes unnoticed, but not by a day for long: it also checks tokens and claim windows.
pub const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::days(1);

/// The text is not an id: ids are decimal numbers from 0 to 2^63 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an id is a decimal number from 0 to 9223372036854775807")]
pub struct IdError;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                if digits { text.parse().map(Self).map_err(|_| IdError) } else { Err(IdError) }
            }
        }

        /// Does not check the number: a column holds only ids.
        impl From<i64> for $name {
            fn from(number: i64) -> Self {
                Self(number)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    };
}

id!(
    /// A coupon campaign.
    TemplateId
);
id!(
    /// A shopper: the `sub` of the token.
    UserId
);
id!(
    /// A claim and the admission it became: one id for the whole life of a claim.
    ClaimId
);
id!(
    /// One coupon of one user.
    CouponId
);
id!(
    /// The owner of templates.
    MerchantId
);
id!(
    /// An operator's key.
    ApiKeyId
);
id!(
    /// A record of a coupon's redemption, or of its rollback.
    RedemptionId
);
id!(
    /// An entry of the audit log of operators' actions.
    AuditId
);
id!(
    /// A job of grants.
    JobId
);
id!(
    /// Something that a reconciler found wrong.
    FindingId
);

/// The generation of a template's gate; it only rises. 0 means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub i64);

impl Epoch {
    /// Epoch of a gate that this process has not heard from.
    pub const UNKNOWN: Self = Self(0);

    /// Epoch of a template's first gate. The stock row begins with the one before it, under which no gate opens.
    pub const FIRST: Self = Self(2);

    /// Most by which an epoch of the platform can be ahead of another that was read a moment ago. Each rebuild raises it
    /// by one, and rebuilds of a template begin a second apart, so this is eleven days of them. A greater distance is
    /// damage.
    pub const LEAP_MAX: i64 = 1_000_000;

    /// Returns whether an epoch that was `known` a moment ago may be this one by now.
    pub fn may_follow(self, known: Self) -> bool {
        self <= known.highest_next()
    }

    /// The highest epoch that this one may have become by now.
    #[must_use]
    pub fn highest_next(self) -> Self {
        Self(self.0.saturating_add(Self::LEAP_MAX))
    }
}

impl From<i64> for Epoch {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimal_numbers_are_ids() {
        assert_eq!("42".parse(), Ok(UserId(42)));
        for text in ["", "-1", "+1", " 1", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(text.parse::<UserId>(), Err(IdError), "{text:?}");
        }
    }
}
