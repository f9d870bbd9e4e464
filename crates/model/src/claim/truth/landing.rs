//! Landings, fences and rejections.

use coupon::{CouponStatus, LandingMode, Open};

use super::{Claims, Coupons, Reason, Row, Truth};
use crate::{
    Bug,
    claim::bounds::{Attempt, Bounds},
    gate::{Message, Numbers},
};

/// Result of fencing an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The fence stands: the admission can never land.
    Stands,
    /// The admission has landed.
    Landed,
}

/// A landing, as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Landing {
    pub message: Message,
    /// The last change of validity in the template that its coupons were made from.
    pub terms: u8,
    /// Only with [`Bug::FenceOnClientsKey`]: the fence to take over, as id + 1.
    pub over: u8,
}

impl Truth {
    /// Returns the numbers that block a landing: those in `uq_number`.
    pub(in crate::claim) fn unique_numbers(
        &self,
        claims: Claims,
        user: u8,
        bug: Option<Bug>,
    ) -> Numbers {
        if bug != Some(Bug::UniqueOverReturned) {
            return self.taken(claims, user);
        }
        let of_user = self.landed().filter(|(id, _)| claims.of(*id).user == user);
        of_user.fold(Numbers::default(), |all, (_, coupons)| all.with(coupons.numbers))
    }

    /// Runs the whole landing: unique keys, then the guard, then the commit. Returns `false` if it was rolled back.
    pub(in crate::claim) fn land(
        &mut self,
        claims: Claims,
        bounds: &Bounds,
        landing: Landing,
        mode: LandingMode,
    ) -> bool {
        let Landing { message: Message { id, epoch, numbers }, terms, over } = landing;
        let Attempt { user, key, quantity } = claims.of(id);
        let fence = self.fences_on_keys[usize::from(key)];
        let in_the_way = fence != 0 && (fence != over || fence == id + 1);
        if self.row(id) != Row::Absent || in_the_way || self.answered_under(claims, key).is_some() {
            return false;
        }
        if self.unique_numbers(claims, user, bounds.bug).meets(numbers) {
            return false;
        }
        if self.terms > terms && !bounds.has(Bug::GuardWithoutTerms) {
            return false;
        }
        if !self.guards(bounds, epoch, mode) || self.stock < i16::from(quantity) {
            return false;
        }
        let status = if bounds.held { CouponStatus::Held } else { CouponStatus::Unused };
        self.stock -= i16::from(quantity);
        self.claims[usize::from(id)] = Row::Landed(Coupons::issued(numbers, quantity, status));
        self.fences_on_keys[usize::from(key)] = 0;
        true
    }

    /// The guard's comparison of epoch and `open`.
    fn guards(&self, bounds: &Bounds, epoch: u8, mode: LandingMode) -> bool {
        let (least, of_epoch) = match mode {
            LandingMode::Direct => {
                (Open::All, epoch == self.epoch || bounds.has(Bug::GuardWithoutEpoch))
            }
            LandingMode::Queued if bounds.has(Bug::QueuedGuardHasDirectEpoch) => {
                (Open::Accepted, epoch == self.epoch)
            }
            LandingMode::Queued if bounds.has(Bug::HigherQueuedEpochTooLate) => {
                (Open::Accepted, epoch == self.queued_epoch)
            }
            LandingMode::Queued => (Open::Accepted, epoch >= self.queued_epoch),
        };
        of_epoch && self.open >= least
    }

    /// Makes a later landing of an admission impossible, or finds that it landed. A fence in another template moves here.
    pub(in crate::claim) fn fence(&mut self, claims: Claims, id: u8, bug: Option<Bug>) -> Fence {
        if bug == Some(Bug::FenceOnClientsKey) {
            return self.fence_on_key(claims, id);
        }
        let row = &mut self.claims[usize::from(id)];
        match row {
            Row::Landed(_) => return Fence::Landed,
            Row::Absent | Row::Foreign => *row = Row::Void,
            Row::Void | Row::Rejected(_) => {}
        }
        Fence::Stands
    }

    fn fence_on_key(&mut self, claims: Claims, id: u8) -> Fence {
        let key = claims.of(id).key;
        match self.landed_under(claims, key) {
            Some(landed) if landed == id => Fence::Landed,
            Some(_) => Fence::Stands,
            None => {
                self.fences_on_keys[usize::from(key)] = id + 1;
                Fence::Stands
            }
        }
    }

    /// Returns whether an admission is fenced.
    pub(in crate::claim) fn is_fenced(&self, claims: Claims, id: u8, bug: Option<Bug>) -> bool {
        let on_key = self.fences_on_keys[usize::from(claims.of(id).key)];
        match self.row(id) {
            Row::Void => true,
            Row::Foreign => bug == Some(Bug::ForeignFenceBinds),
            Row::Absent | Row::Landed(_) | Row::Rejected(_) => on_key == id + 1,
        }
    }

    /// The reread of a queued landing: lifts a fence of another template.
    pub(in crate::claim) fn lift_foreign(&mut self, id: u8, bug: Option<Bug>) {
        let row = &mut self.claims[usize::from(id)];
        if *row == Row::Foreign && bug != Some(Bug::ForeignFenceBinds) {
            *row = Row::Absent;
        }
    }

    /// Inserts a rejected row under the client's key, or finds another row there.
    pub(in crate::claim) fn reject(&mut self, claims: Claims, id: u8, reason: Reason) -> bool {
        let key = claims.of(id).key;
        let free = self.row(id) == Row::Absent && self.answered_under(claims, key).is_none();
        if free {
            self.claims[usize::from(id)] = Row::Rejected(reason);
        }
        free
    }
}
