//! The decision after a rollback, made by the product's own table ([`coupon::decide`]).

use chrono::DateTime;
use coupon::{
    Admission, Claim, ClaimId, ClaimRow, ClaimState, Decision, Epoch, FoundRows, LandingMode, Open,
    PayloadHash, RequestId, StockRow, TemplateId, UserId, decide,
};

use super::{Claims, Reason, Truth};
use crate::{
    Bug,
    claim::{
        bounds::{Attempt, Bounds},
        state::Seen,
    },
    gate::{Message, Numbers},
};

impl Truth {
    /// Reads the stock row; the first statement of a reread.
    pub(in crate::claim) fn see_stock(&self, seen: &mut Seen) {
        seen.epoch = self.epoch;
        seen.open = Some(self.open);
        seen.stock = self.stock;
    }

    /// Reads the claim rows; the last statement of a reread.
    pub(in crate::claim) fn see_claims(
        &self,
        claims: Claims,
        id: u8,
        bug: Option<Bug>,
        seen: &mut Seen,
    ) {
        let answered = self.answered_under(claims, claims.of(id).key);
        seen.answered = answered.map_or(0, |id| id + 1);
        seen.has_landed = answered.is_some_and(|id| self.has_landed(id));
        seen.fenced = self.is_fenced(claims, id, bug);
    }

    /// Decides how a claim of the queue continues, with a reread at one moment.
    pub(in crate::claim) fn decide_queued(
        &self,
        claims: Claims,
        bounds: &Bounds,
        message: Message,
    ) -> Decision {
        let mut seen = Seen::default();
        self.see_stock(&mut seen);
        self.see_claims(claims, message.id, bounds.bug, &mut seen);
        let user = claims.of(message.id).user;
        seen.taken = self.unique_numbers(claims, user, bounds.bug);
        if !bounds.has(Bug::QueuedGuardHasDirectEpoch) {
            seen.epoch = self.queued_epoch;
        }
        seen.decide(claims, bounds, message, LandingMode::Queued)
    }

    /// Returns whether MySQL confirms the reason of a rejection.
    pub(in crate::claim) fn confirms(
        &self,
        claims: Claims,
        bounds: &Bounds,
        id: u8,
        reason: Reason,
    ) -> bool {
        let Attempt { user, quantity, .. } = claims.of(id);
        match reason {
            Reason::Short => self.stock < i16::from(quantity),
            Reason::Limit => self.taken(claims, user).count() + quantity > bounds.limit,
            Reason::NotOpen => self.open == Open::Nothing,
            Reason::Failed => true,
        }
    }
}

impl Seen {
    /// Decides by the product's table.
    pub(in crate::claim) fn decide(
        &self,
        claims: Claims,
        bounds: &Bounds,
        message: Message,
        mode: LandingMode,
    ) -> Decision {
        let Message { id, epoch, numbers } = message;
        let Attempt { user, quantity, .. } = claims.of(id);
        let state = if self.has_landed { ClaimState::Landed } else { ClaimState::Rejected };
        let ignored = mode == LandingMode::Direct
            && !self.has_landed
            && bounds.has(Bug::RejectionUnknownToDirect);
        // Only with this mistake: every other epoch counts as passed.
        let too_late = mode == LandingMode::Queued
            && epoch > self.epoch
            && bounds.has(Bug::HigherQueuedEpochTooLate);
        let epoch = if too_late { 0 } else { epoch };
        let by_key = self.answered.checked_sub(1).filter(|_| !ignored);
        let epoch_read = Epoch(self.epoch.into());
        let found = FoundRows {
            by_key: by_key.map(|id| ClaimRow { id: ClaimId(id.into()), state }),
            fenced: self.fenced,
            taken: list(self.taken),
            limit: bounds.limit.into(),
            stock: Some(StockRow {
                epoch: epoch_read,
                queued_epoch: epoch_read,
                open: self.open.unwrap_or(Open::Nothing),
                stock: self.stock.into(),
            }),
            template_state: coupon::TemplateState::Published,
        };
        let claim = Claim {
            id: ClaimId(id.into()),
            template_id: TemplateId(1),
            user_id: UserId(user.into()),
            request_id: RequestId::absent(),
            payload_hash: payload_hash(quantity),
            quantity: quantity.into(),
            claimed_at: DateTime::UNIX_EPOCH,
            trace_parent: None,
        };
        let admission = Admission { claim, epoch: Epoch(epoch.into()), numbers: list(numbers) };
        decide(mode, &admission, &found)
    }
}

fn list(numbers: Numbers) -> Vec<u8> {
    numbers.iter().collect()
}

/// A stand-in that differs for each quantity; the real hash would take most of the search's time.
fn payload_hash(quantity: u8) -> PayloadHash {
    PayloadHash([quantity; 16])
}
