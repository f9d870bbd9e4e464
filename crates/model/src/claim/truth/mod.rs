//! MySQL: the rows of one template. Each method is one transaction or statement.

mod decide;
mod landing;
pub mod ledger;
pub mod rows;

use coupon::{ClaimMode, Open, TemplateState};

pub use self::{
    landing::{Fence, Landing},
    ledger::{Lapses, Return, Set, Transaction},
    rows::{Coupons, Reason, Row},
};
use super::bounds::{Attempt, Change, IDS, KEYS_MAX, MOVEMENTS_MAX, USERS_MAX};
use crate::{
    Few,
    gate::{self, Numbers},
};

/// A row of `stock_movement`.
pub type Movement = gate::Movement<USERS_MAX>;

/// The rows of one template, as a read finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    /// The server's identity: how many failovers there were.
    pub history: u8,
    /// `primary_server`: the identity under which the last epoch was given.
    pub known_history: u8,
    /// `template_stock.total`
    pub total: i16,
    /// `template_stock.stock`
    pub stock: i16,
    /// `template_stock.epoch`, which guards direct landings.
    pub epoch: u8,
    /// `template_stock.queued_epoch`, which guards queued landings.
    pub queued_epoch: u8,
    /// `template_stock.open`
    pub open: Open,
    /// `template_stock.terms`: the version at which the validity last changed; 0: never.
    pub terms: u8,
    /// `coupon_template.version`
    pub version: u8,
    /// `coupon_template.state`
    pub state: TemplateState,
    /// `coupon_template.claim_mode`
    pub mode: ClaimMode,
    /// Whether the mode was ever another than direct.
    pub ever_queued: bool,
    /// Whether the queue was closed after the end, for good.
    pub closed: bool,
    /// Coupons that cuts took away.
    pub cut: u8,
    /// The last `stock_movement.seq`; 0 is the movement that created the template.
    pub movement: u8,
    /// `stock_movement`, from `seq` 1 on.
    pub movements: Few<Movement, MOVEMENTS_MAX>,
    /// `user_lapse`, by user.
    pub lapses: [Lapses; USERS_MAX],
    /// `claim` with its coupons, by id.
    pub claims: [Row; IDS],
    /// The payment references that have confirmed coupons, by bit.
    pub paid: u8,
    /// A transaction whose movement is in the binlog and not yet visible. It still holds its locks.
    pub hidden: Option<Transaction>,
    /// Only with [`crate::Bug::FenceOnClientsKey`]: the admission whose fence uses the client's key, as id + 1.
    pub fences_on_keys: [u8; KEYS_MAX],
}

/// The claims of a search, by id.
#[derive(Debug, Clone, Copy)]
pub struct Claims {
    pub(super) attempts: &'static [Attempt],
    pub(super) spare: Attempt,
}

impl Claims {
    pub(super) fn of(&self, id: u8) -> Attempt {
        self.attempts.get(usize::from(id)).copied().unwrap_or(self.spare)
    }
}

impl Truth {
    /// Creates a published template.
    pub(super) fn new(total: i16, mode: ClaimMode) -> Self {
        Self {
            history: 0,
            known_history: 0,
            total,
            stock: total,
            epoch: 1,
            queued_epoch: 1,
            open: Open::All,
            terms: 0,
            version: 1,
            state: TemplateState::Published,
            mode,
            ever_queued: mode != ClaimMode::Direct,
            closed: false,
            cut: 0,
            movement: 0,
            movements: Few::default(),
            lapses: [Lapses::default(); USERS_MAX],
            claims: [Row::Absent; IDS],
            paid: 0,
            hidden: None,
            fences_on_keys: [0; KEYS_MAX],
        }
    }

    pub fn row(&self, id: u8) -> Row {
        self.claims[usize::from(id)]
    }

    /// Returns the claims that landed, whatever became of their coupons.
    pub fn landed(&self) -> impl Iterator<Item = (u8, Coupons)> {
        (0..).zip(self.claims).filter_map(|(id, row)| match row {
            Row::Landed(coupons) => Some((id, coupons)),
            Row::Absent | Row::Void | Row::Rejected(_) | Row::Foreign => None,
        })
    }

    /// Returns whether the id has a row in this template.
    pub fn has_row(&self, id: u8) -> bool {
        !matches!(self.row(id), Row::Absent | Row::Foreign)
    }

    pub fn has_landed(&self, id: u8) -> bool {
        matches!(self.row(id), Row::Landed(_))
    }

    /// Returns the id whose row stands under the client's key.
    pub fn answered_under(&self, claims: Claims, key: u8) -> Option<u8> {
        let stands = |id: &u8| matches!(self.row(*id), Row::Landed(_) | Row::Rejected(_));
        (0..IDS as u8).filter(|id| claims.of(*id).key == key).find(stands)
    }

    /// Returns the claim that landed under a key.
    pub fn landed_under(&self, claims: Claims, key: u8) -> Option<u8> {
        self.answered_under(claims, key).filter(|id| self.has_landed(*id))
    }

    /// Returns whether a claim of the user has its answer, landed or rejected.
    pub fn has_landed_any(&self, claims: Claims, user: u8) -> bool {
        self.landed().any(|(id, _)| claims.of(id).user == user)
    }

    pub fn has_rejected_any(&self, claims: Claims, user: u8) -> bool {
        let of_user = (0..IDS as u8).filter(|id| claims.of(*id).user == user);
        of_user.into_iter().any(|id| matches!(self.row(id), Row::Rejected(_)))
    }

    /// Returns the numbers of a user's live coupons.
    pub fn taken(&self, claims: Claims, user: u8) -> Numbers {
        let of_user = self.landed().filter(|(id, _)| claims.of(*id).user == user);
        of_user.fold(Numbers::default(), |all, (_, coupons)| all.with(coupons.live_numbers()))
    }

    /// Commits an operator's change of the template. Returns whether it is possible.
    pub(super) fn change(&mut self, change: Change) -> bool {
        let (state, open) = match change {
            Change::Pause => (TemplateState::Paused, Open::Accepted),
            Change::PauseReject => (TemplateState::Paused, Open::Nothing),
            Change::Resume => (TemplateState::Published, Open::All),
            Change::End => (TemplateState::Ended, Open::Accepted),
            Change::EndReject => (TemplateState::Ended, Open::Nothing),
            Change::Mode(_) | Change::Validity | Change::Move(_) | Change::Lift(_) => {
                (self.state, self.open)
            }
        };
        let may = state == self.state && state != TemplateState::Ended;
        if !may && !self.state.may_become(state) {
            return false;
        }
        self.state = state;
        self.open = open;
        self.version += 1;
        if let Change::Mode(mode) = change {
            self.mode = mode;
            self.ever_queued |= mode != ClaimMode::Direct;
        }
        if change == Change::Validity {
            self.terms = self.version;
        }
        true
    }

    /// `set queued_epoch = ? where epoch = ?`
    pub(super) fn set_queued_epoch(&mut self, epoch: u8) -> bool {
        if self.epoch != epoch {
            return false;
        }
        self.queued_epoch = epoch;
        true
    }

    /// `set epoch = epoch + 1, queued_epoch = epoch, open = 0 where epoch = ?`, after the end.
    pub(super) fn close(&mut self, epoch: u8) -> bool {
        if self.epoch != epoch {
            return false;
        }
        self.epoch += 1;
        self.queued_epoch = self.epoch;
        self.open = Open::Nothing;
        self.closed = true;
        true
    }
}
