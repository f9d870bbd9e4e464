//! Which fields of a template may be changed in which state.
//!
//! What a published template promises does not change: its discount, whether it is stackable, the limit per user and
//! the terms of holds. Until the template ends, operators may change its validity, how claims are answered, and the end
//! of the claim window; the window's start, until it opens. The name, and who redeems the coupons, may always change.

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::{Template, TemplateError, TemplateState};

/// Every state, in the order of a template's life.
const STATES: [TemplateState; 4] =
    [TemplateState::Draft, TemplateState::Published, TemplateState::Paused, TemplateState::Ended];

/// A part of a template that an operator may want to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TemplateField {
    Name,
    /// Includes the minimum spend.
    Discount,
    PerUserLimit,
    MaxPerClaim,
    /// Start of the claim window.
    ClaimStartsAt,
    /// End of the claim window.
    ClaimEndsAt,
    /// Period in which coupons can be used.
    Validity,
    /// Whether users may redeem the coupons themselves.
    SelfRedeem,
    /// Whether one order may redeem the coupons together with others.
    Stackable,
    /// How claims are answered.
    ClaimMode,
    /// What a queued claim must be stored in before it is accepted.
    AcceptAfter,
    /// Time within which a coupon must be confirmed.
    HoldMs,
    /// Lapses after which a user is refused.
    LapsesAllowed,
    /// What becomes of returned units.
    ReturnedStock,
}

/// A field cannot be changed in the template's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{} of a template that is {} cannot be changed", field.word(), state.word())]
pub struct NotEditable {
    pub field: TemplateField,
    pub state: TemplateState,
}

impl TemplateField {
    pub const ALL: [Self; 14] = [
        Self::Name,
        Self::Discount,
        Self::PerUserLimit,
        Self::MaxPerClaim,
        Self::ClaimStartsAt,
        Self::ClaimEndsAt,
        Self::Validity,
        Self::SelfRedeem,
        Self::Stackable,
        Self::ClaimMode,
        Self::AcceptAfter,
        Self::HoldMs,
        Self::LapsesAllowed,
        Self::ReturnedStock,
    ];

    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Discount => "discount",
            Self::PerUserLimit => "per_user_limit",
            Self::MaxPerClaim => "max_per_claim",
            Self::ClaimStartsAt => "claim_starts_at",
            Self::ClaimEndsAt => "claim_ends_at",
            Self::Validity => "validity",
            Self::SelfRedeem => "self_redeem",
            Self::Stackable => "stackable",
            Self::ClaimMode => "claim_mode",
            Self::AcceptAfter => "accept_after",
            Self::HoldMs => "hold_ms",
            Self::LapsesAllowed => "lapses_allowed",
            Self::ReturnedStock => "returned_stock",
        }
    }

    /// Returns whether the field may be changed in this state.
    pub fn may_change_in(self, state: TemplateState) -> bool {
        match self {
            Self::Name | Self::SelfRedeem => true,
            Self::ClaimStartsAt
            | Self::ClaimEndsAt
            | Self::Validity
            | Self::ClaimMode
            | Self::AcceptAfter => state != TemplateState::Ended,
            Self::Discount
            | Self::PerUserLimit
            | Self::MaxPerClaim
            | Self::Stackable
            | Self::HoldMs
            | Self::LapsesAllowed
            | Self::ReturnedStock => state == TemplateState::Draft,
        }
    }

    /// States in which the field may be changed.
    pub fn states(self) -> impl Iterator<Item = TemplateState> {
        STATES.into_iter().filter(move |state| self.may_change_in(*state))
    }
}

impl Template {
    /// Returns the fields in which `other` differs.
    pub fn differences(&self, other: &Self) -> Vec<TemplateField> {
        let differs = |field: &TemplateField| match field {
            TemplateField::Name => self.name != other.name,
            TemplateField::Discount => self.discount != other.discount,
            TemplateField::PerUserLimit => self.per_user_limit != other.per_user_limit,
            TemplateField::MaxPerClaim => self.max_per_claim != other.max_per_claim,
            TemplateField::ClaimStartsAt => self.window.starts_at != other.window.starts_at,
            TemplateField::ClaimEndsAt => self.window.ends_at != other.window.ends_at,
            TemplateField::Validity => self.validity != other.validity,
            TemplateField::SelfRedeem => self.self_redeem != other.self_redeem,
            TemplateField::Stackable => self.stackable != other.stackable,
            TemplateField::ClaimMode => self.claim_mode != other.claim_mode,
            TemplateField::AcceptAfter => self.accept_after != other.accept_after,
            TemplateField::HoldMs => self.hold.hold != other.hold.hold,
            TemplateField::LapsesAllowed => self.hold.lapses_allowed != other.hold.lapses_allowed,
            TemplateField::ReturnedStock => self.hold.returned_stock != other.hold.returned_stock,
        };
        TemplateField::ALL.into_iter().filter(differs).collect()
    }

    /// Checks that this template, in its current state, may be edited to become `edited`.
    ///
    /// # Errors
    /// Returns the first field that may not be changed.
    pub fn may_be_edited_to(&self, edited: &Self) -> Result<(), NotEditable> {
        let state = self.state;
        let refused = |field: &TemplateField| !field.may_change_in(state);
        let field = self.differences(edited).into_iter().find(refused);
        field.map_or(Ok(()), |field| Err(NotEditable { field, state }))
    }

    /// Returns whether `edited` moves the start of a claim window that has opened. Users have claimed since, so this
    /// start stays; a draft's may always move.
    pub fn moves_a_start_that_has_come(&self, edited: &Self, now: DateTime<Utc>) -> bool {
        self.state != TemplateState::Draft
            && self.window.starts_at != edited.window.starts_at
            && self.window.starts_at <= now
    }

    /// Checks that the start of a claim window that users can see is not moved to the past. It may move to a later time,
    /// or to an earlier one that is still ahead.
    ///
    /// # Errors
    /// The template is no draft and its start moves to before `now`.
    pub fn check_start(&self, edited: &Self, now: DateTime<Utc>) -> Result<(), TemplateError> {
        let moved = self.window.starts_at != edited.window.starts_at;
        if self.state != TemplateState::Draft && moved && edited.window.starts_at < now {
            let problem = "use a time from now on".to_owned();
            return Err(TemplateError { field: "claim_starts_at", problem });
        }
        Ok(())
    }

    /// Checks that the end of a claim window that users can see is not moved to the past.
    ///
    /// # Errors
    /// The template is no draft and its end moves to before `now`.
    pub fn check_end(&self, edited: &Self, now: DateTime<Utc>) -> Result<(), TemplateError> {
        let moved = self.window.ends_at != edited.window.ends_at;
        if self.state != TemplateState::Draft && moved && edited.window.ends_at < now {
            let problem = "use a time from now on; to stop at once, pause or end it".to_owned();
            return Err(TemplateError { field: "claim_ends_at", problem });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::{
        AcceptAfter, ClaimMode, Discount, DiscountKind, HoldTerms, MerchantId, ReturnedStock,
        TemplateId, Validity, Window,
    };

    fn template(state: TemplateState) -> Template {
        let starts_at = DateTime::UNIX_EPOCH;
        Template {
            id: TemplateId(1),
            merchant_id: MerchantId(1),
            name: "A sale".to_owned(),
            discount: Discount {
                kind: DiscountKind::AmountOff,
                value: 500,
                cap: None,
                minimum_spend: 0,
                currency: "EUR".to_owned(),
            },
            per_user_limit: 2,
            max_per_claim: 1,
            window: Window { starts_at, ends_at: starts_at + TimeDelta::hours(1) },
            validity: Validity::Relative { valid_for: TimeDelta::hours(1) },
            self_redeem: false,
            stackable: true,
            claim_mode: ClaimMode::Direct,
            accept_after: AcceptAfter::Topic,
            hold: HoldTerms::default(),
            state,
            version: 1,
        }
    }

    /// Returns the template with another value in one field.
    fn with(field: TemplateField, of: &Template) -> Template {
        let mut edited = of.clone();
        match field {
            TemplateField::Name => edited.name.push('!'),
            TemplateField::Discount => edited.discount.minimum_spend = 1,
            TemplateField::PerUserLimit => edited.per_user_limit = 3,
            TemplateField::MaxPerClaim => edited.max_per_claim = 2,
            TemplateField::ClaimStartsAt => edited.window.starts_at += TimeDelta::minutes(1),
            TemplateField::ClaimEndsAt => edited.window.ends_at += TimeDelta::minutes(1),
            TemplateField::Validity => {
                edited.validity = Validity::Relative { valid_for: TimeDelta::hours(2) };
            }
            TemplateField::SelfRedeem => edited.self_redeem = true,
            TemplateField::Stackable => edited.stackable = false,
            TemplateField::ClaimMode => edited.claim_mode = ClaimMode::Spill,
            TemplateField::AcceptAfter => edited.accept_after = AcceptAfter::Gate,
            TemplateField::HoldMs => edited.hold.hold = Some(TimeDelta::minutes(1)),
            TemplateField::LapsesAllowed => edited.hold.lapses_allowed = 1,
            TemplateField::ReturnedStock => edited.hold.returned_stock = ReturnedStock::Retire,
        }
        edited
    }

    #[test]
    fn each_field_may_be_changed_in_its_states_only() {
        let editable = |state| -> Vec<&str> {
            let before = template(state);
            let may = |field: &TemplateField| {
                let edited = with(*field, &before);
                assert_eq!(before.differences(&edited), [*field]);
                before.may_be_edited_to(&edited).is_ok()
            };
            TemplateField::ALL.into_iter().filter(may).map(TemplateField::word).collect()
        };
        assert_eq!(editable(TemplateState::Draft).len(), TemplateField::ALL.len());
        for state in [TemplateState::Published, TemplateState::Paused] {
            let wanted = [
                "name",
                "claim_starts_at",
                "claim_ends_at",
                "validity",
                "self_redeem",
                "claim_mode",
                "accept_after",
            ];
            assert_eq!(editable(state), wanted);
        }
        assert_eq!(editable(TemplateState::Ended), ["name", "self_redeem"]);
        let ended = template(TemplateState::Ended);
        assert_eq!(ended.may_be_edited_to(&ended), Ok(()), "the same may always be sent");
    }

    #[test]
    fn the_end_of_a_window_that_others_see_is_not_moved_to_the_past() {
        let before = template(TemplateState::Published);
        let edited = with(TemplateField::ClaimEndsAt, &before);
        let end = edited.window.ends_at;
        let late = end + TimeDelta::milliseconds(1);
        assert!(before.check_end(&edited, end).is_ok());
        assert_eq!(before.check_end(&edited, late).unwrap_err().field, "claim_ends_at");
        assert!(before.check_end(&before, late).is_ok(), "it was over before");
        assert!(template(TemplateState::Draft).check_end(&edited, late).is_ok());
    }

    #[test]
    fn a_start_moves_until_it_has_come_and_never_to_the_past() {
        let before = template(TemplateState::Published);
        let edited = with(TemplateField::ClaimStartsAt, &before);
        let start = before.window.starts_at;
        let moved = edited.window.starts_at;
        let ms = TimeDelta::milliseconds(1);
        assert!(!before.moves_a_start_that_has_come(&edited, start - ms));
        assert!(before.moves_a_start_that_has_come(&edited, start));
        assert!(!before.moves_a_start_that_has_come(&before, start), "it stays where it is");
        assert!(before.check_start(&edited, moved).is_ok());
        let refused = before.check_start(&edited, moved + ms).unwrap_err();
        assert_eq!(refused.field, "claim_starts_at");
        // Earlier, and still ahead.
        assert!(edited.check_start(&before, start).is_ok());
        assert!(edited.check_start(&before, start + ms).is_err());
        let draft = template(TemplateState::Draft);
        assert!(!draft.moves_a_start_that_has_come(&edited, moved));
        assert!(draft.check_start(&edited, moved + ms).is_ok());
    }
}
