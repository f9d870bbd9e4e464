//! A template: what a campaign gives, to whom, and when.

use chrono::{DateTime, TimeDelta, Utc};
use thiserror::Error;

use crate::{AcceptAfter, ClaimMode, HoldTerms, MerchantId, TemplateId, UnknownCode, limit, text};

/// Why a template is not acceptable. The message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct TemplateError {
    /// Name of the field in the API.
    pub field: &'static str,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

/// State of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TemplateState {
    /// In preparation: no claims.
    Draft,
    /// Claims are possible within the window.
    Published,
    /// Stopped by an operator; can be resumed.
    Paused,
    /// Final.
    Ended,
}

impl TemplateState {
    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Draft => 0,
            Self::Published => 1,
            Self::Paused => 2,
            Self::Ended => 3,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::Draft),
            1 => Ok(Self::Published),
            2 => Ok(Self::Paused),
            3 => Ok(Self::Ended),
            _ => Err(UnknownCode { what: "template state", code }),
        }
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Published => "published",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }

    /// Finds a state by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Draft, Self::Published, Self::Paused, Self::Ended]
            .into_iter()
            .find(|state| state.word() == word)
    }
}

/// Claim window: from `starts_at`, inclusive, to `ends_at`, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First instant at which claims are admitted.
    pub starts_at: DateTime<Utc>,
    /// First instant at which they are refused.
    pub ends_at: DateTime<Utc>,
}

/// Period in which a coupon can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The same period for all coupons.
    Absolute {
        /// Inclusive.
        from: DateTime<Utc>,
        /// Exclusive.
        until: DateTime<Utc>,
    },
    /// A period that starts with the claim, or with the confirmation of a held coupon.
    Relative {
        /// Length of the period.
        valid_for: TimeDelta,
    },
}

impl Validity {
    /// Returns whether no coupon claimed at `now` or later could ever be used.
    pub fn is_over(&self, now: DateTime<Utc>) -> bool {
        matches!(*self, Self::Absolute { until, .. } if until <= now)
    }

    /// Validity, start and end, of a coupon claimed or, after a hold, confirmed at `claimed_at`.
    pub fn of_claim(&self, claimed_at: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
        match *self {
            Self::Absolute { from, until } => (from, until),
            Self::Relative { valid_for } => (claimed_at, claimed_at + valid_for),
        }
    }
}

/// State of the move of issued coupons to a template's new validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveState {
    /// Some coupons are not processed yet.
    UnderWay,
    /// Every coupon was processed.
    Finished,
    /// The move of a later change replaced it before it finished.
    Superseded,
}

impl MoveState {
    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::UnderWay => 0,
            Self::Finished => 1,
            Self::Superseded => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::UnderWay),
            1 => Ok(Self::Finished),
            2 => Ok(Self::Superseded),
            _ => Err(UnknownCode { what: "validity move state", code }),
        }
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::UnderWay => "under_way",
            Self::Finished => "finished",
            Self::Superseded => "superseded",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscountKind {
    /// `value` minor units off.
    AmountOff,
    /// `value` hundredths of a percent off, at most `cap` minor units.
    PercentOff,
    /// No shipping cost.
    FreeShipping,
}

impl DiscountKind {
    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::AmountOff => 0,
            Self::PercentOff => 1,
            Self::FreeShipping => 2,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::AmountOff),
            1 => Ok(Self::PercentOff),
            2 => Ok(Self::FreeShipping),
            _ => Err(UnknownCode { what: "discount kind", code }),
        }
    }

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::AmountOff => "amount_off",
            Self::PercentOff => "percent_off",
            Self::FreeShipping => "free_shipping",
        }
    }

    /// Finds a kind by its name in the API.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::AmountOff, Self::PercentOff, Self::FreeShipping]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// What a coupon takes off an order. Money is in minor units of `currency`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discount {
    pub kind: DiscountKind,
    /// Minor units or hundredths of a percent, by kind; 0 for free shipping.
    pub value: i64,
    /// Largest amount that a percentage takes off; `None` if there is no cap.
    pub cap: Option<i64>,
    /// Smallest order value for which the coupon can be used.
    pub minimum_spend: i64,
    /// ISO 4217 code: three capital letters.
    pub currency: String,
}

/// A coupon campaign, without its stock: the part that people read and edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub id: TemplateId,
    pub merchant_id: MerchantId,
    pub name: String,
    pub discount: Discount,
    /// Largest number of coupons of one user, returned ones and replacements not counted; 0 if
    /// there is no limit.
    pub per_user_limit: u32,
    /// Largest number of coupons in one claim.
    pub max_per_claim: u32,
    /// Claim window.
    pub window: Window,
    /// Period in which coupons can be used.
    pub validity: Validity,
    /// Whether users may redeem the coupons themselves; otherwise only the shop does, with a key.
    pub self_redeem: bool,
    /// Whether one order may redeem the coupons together with others.
    pub stackable: bool,
    /// How its claims are answered.
    pub claim_mode: ClaimMode,
    /// What a queued claim must be stored in before it is answered as accepted.
    pub accept_after: AcceptAfter,
    /// Whether and how coupons are held until they are confirmed.
    pub hold: HoldTerms,
    pub state: TemplateState,
    /// Rises by one with each change. Derived copies apply only newer versions.
    pub version: i64,
}

impl Template {
    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    /// Returns the first field that is wrong.
    pub fn validate(&self) -> Result<(), TemplateError> {
        let wrong = |field, problem: String| Err(TemplateError { field, problem });
        if let Some(problem) = text::wrong(&self.name, limit::NAME_CHARS_MAX) {
            return wrong("name", problem);
        }
        if self.per_user_limit > limit::PER_USER_MAX {
            let most = limit::PER_USER_MAX;
            return wrong("per_user_limit", format!("use 0 (no limit) or 1 to {most}"));
        }
        if self.max_per_claim == 0 || self.max_per_claim > limit::QUANTITY_MAX {
            return wrong("max_per_claim", format!("use 1 to {}", limit::QUANTITY_MAX));
        }
        if self.per_user_limit > 0 && self.max_per_claim > self.per_user_limit {
            return wrong("max_per_claim", "use at most per_user_limit".to_owned());
        }
        if self.window.starts_at >= self.window.ends_at {
            return wrong("claim_ends_at", "use a time after claim_starts_at".to_owned());
        }
        self.validate_validity()?;
        self.validate_hold()?;
        self.discount.validate()
    }

    fn validate_hold(&self) -> Result<(), TemplateError> {
        let wrong = |field, problem: String| Err(TemplateError { field, problem });
        let HoldTerms { hold, lapses_allowed, .. } = self.hold;
        let in_bounds = |hold: TimeDelta| {
            (limit::HOLD_MS_MIN..=limit::HOLD_MS_MAX).contains(&hold.num_milliseconds())
        };
        if hold.is_some_and(|hold| !in_bounds(hold)) {
            let least = limit::HOLD_MS_MIN;
            let most = limit::HOLD_MS_MAX;
            return wrong("hold_ms", format!("use 0 (confirmed at once) or {least} to {most}"));
        }
        if lapses_allowed > limit::LAPSES_ALLOWED_MAX {
            let most = limit::LAPSES_ALLOWED_MAX;
            return wrong("lapses_allowed", format!("use 0 (no limit) or 1 to {most}"));
        }
        if hold.is_none() && lapses_allowed > 0 {
            return wrong("lapses_allowed", "use 0 without hold_ms".to_owned());
        }
        Ok(())
    }

    fn validate_validity(&self) -> Result<(), TemplateError> {
        let problem = match self.validity {
            Validity::Absolute { from, until } if from >= until => {
                Some(("valid_until", "use a time after valid_from".to_owned()))
            }
            Validity::Relative { valid_for }
                if valid_for <= TimeDelta::zero()
                    || valid_for.num_milliseconds() > limit::VALID_FOR_MS_MAX =>
            {
                Some(("valid_for_ms", format!("use 1 to {}", limit::VALID_FOR_MS_MAX)))
            }
            Validity::Absolute { .. } | Validity::Relative { .. } => None,
        };
        problem.map_or(Ok(()), |(field, problem)| Err(TemplateError { field, problem }))
    }
}

impl Discount {
    fn validate(&self) -> Result<(), TemplateError> {
        let wrong =
            |field, problem: &str| Err(TemplateError { field, problem: problem.to_owned() });
        match self.kind {
            DiscountKind::AmountOff if !(1..=limit::AMOUNT_MAX).contains(&self.value) => {
                return wrong(
                    "discount.amount_off_minor",
                    "use an amount in minor units, above 0, at most 1,000,000,000,000",
                );
            }
            DiscountKind::PercentOff if !(1..=10_000).contains(&self.value) => {
                return wrong(
                    "discount.percent_off",
                    "use a percentage above 0, at most 100, with two decimals at most",
                );
            }
            DiscountKind::FreeShipping if self.value != 0 => {
                return wrong("discount.amount_off_minor", "leave it out with free_shipping");
            }
            DiscountKind::AmountOff | DiscountKind::PercentOff | DiscountKind::FreeShipping => {}
        }
        let is_cap = |cap| (1..=limit::AMOUNT_MAX).contains(&cap);
        if self.cap.is_some_and(|cap| !is_cap(cap) || self.kind != DiscountKind::PercentOff) {
            return wrong(
                "discount.cap_minor",
                "use an amount above 0, at most 1,000,000,000,000, with percent_off only",
            );
        }
        if !(0..=limit::AMOUNT_MAX).contains(&self.minimum_spend) {
            return wrong(
                "discount.minimum_spend_minor",
                "use an amount from 0 to 1,000,000,000,000, which is the highest of an order",
            );
        }
        if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase()) {
            return wrong("discount.currency", "use three capital letters, e.g. EUR");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_goes_from_draft_over_published_and_paused_to_its_end_and_no_other_way() {
        use TemplateState::{Draft, Ended, Paused, Published};
        let states = [Draft, Published, Paused, Ended];
        // One row per current state, one column per next state.
        let allowed = [
            [false, true, false, false],
            [false, false, true, true],
            [false, true, false, true],
            [false, false, false, false],
        ];
        for (from, row) in states.into_iter().zip(allowed) {
            for (to, allowed) in states.into_iter().zip(row) {
                let is = from.word();
                let shall = to.word();
                assert_eq!(from.may_become(to), allowed, "from {is} to {shall}");
            }
        }
    }
}
