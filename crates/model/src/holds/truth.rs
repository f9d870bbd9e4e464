//! MySQL: the rows of one template, landings and fences. Each method is one transaction or statement.

use super::{
    bounds::{Attempt, COUPONS_MAX, IDS, MOVEMENTS_MAX, USERS_MAX},
    ledger::{Lapses, Movement, Transaction},
};
use crate::{Bug, gate::Numbers};

/// The rows of one template, as a read finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    /// `template_stock.total`
    pub total: i16,
    /// `template_stock.stock`
    pub stock: i16,
    /// `template_stock.epoch`
    pub epoch: u8,
    /// The last `stock_movement.seq`.
    pub movement: u8,
    /// `stock_movement`, from `seq` 1 on.
    pub movements: [Movement; MOVEMENTS_MAX],
    /// `user_lapse`, by user.
    pub lapses: [Lapses; USERS_MAX],
    /// `claim` with its coupons, by id.
    pub claims: [Row; IDS],
    /// The payment references that have confirmed coupons, by bit.
    pub paid: u8,
    /// A transaction whose movement is in the binlog and not yet visible. It still holds its locks.
    pub hidden: Option<Transaction>,
}

/// The `claim` row of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Row {
    /// There is no row.
    #[default]
    Absent,
    /// A fence.
    Void,
    Landed(Coupons),
}

/// The coupons of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coupons {
    /// `claim_no` of each, in ascending order; none without a limit. They never change.
    pub numbers: Numbers,
    pub status: [Status; COUPONS_MAX],
    /// Whether `held_until` has passed by MySQL's clock.
    pub due: bool,
}

/// `user_coupon.status`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// The claim has no such coupon.
    #[default]
    Absent,
    Held,
    /// Confirmed.
    Unused,
    Lapsed,
    Cancelled,
}

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
    pub id: u8,
    pub epoch: u8,
    pub numbers: Numbers,
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

impl Status {
    /// Whether the coupon counts against stock and limit.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::Unused)
    }

    /// The table of transitions.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Held => matches!(next, Self::Unused | Self::Lapsed | Self::Cancelled),
            Self::Unused => next == Self::Cancelled,
            Self::Absent | Self::Lapsed | Self::Cancelled => false,
        }
    }
}

impl Coupons {
    fn held(numbers: Numbers, quantity: u8) -> Self {
        let mut status = [Status::Absent; COUPONS_MAX];
        status[..usize::from(quantity)].fill(Status::Held);
        Self { numbers, status, due: false }
    }

    /// `claim_no` of the coupon at a position, as a set; empty without a limit.
    pub fn number_at(&self, position: usize) -> Numbers {
        self.numbers.iter().skip(position).take(1).collect()
    }

    /// `live_no` of all coupons.
    pub fn live_numbers(&self) -> Numbers {
        (0..)
            .zip(self.status)
            .filter(|(_, status)| status.is_live())
            .fold(Numbers::default(), |all, (position, _)| all.with(self.number_at(position)))
    }

    pub fn live(&self) -> u8 {
        self.status.iter().map(|status| u8::from(status.is_live())).sum()
    }
}

impl Truth {
    /// Creates a published template.
    pub(super) fn new(total: i16) -> Self {
        Self {
            total,
            stock: total,
            epoch: 1,
            movement: 0,
            movements: [Movement::default(); MOVEMENTS_MAX],
            lapses: [Lapses::default(); USERS_MAX],
            claims: [Row::Absent; IDS],
            paid: 0,
            hidden: None,
        }
    }

    /// Returns the claims that landed, whatever became of their coupons.
    pub fn landed(&self) -> impl Iterator<Item = (u8, Coupons)> {
        (0..).zip(self.claims).filter_map(|(id, row)| match row {
            Row::Landed(coupons) => Some((id, coupons)),
            Row::Absent | Row::Void => None,
        })
    }

    /// Returns the claim that landed under a key.
    pub fn landed_under(&self, claims: Claims, key: u8) -> Option<u8> {
        self.landed().map(|(id, _)| id).find(|id| claims.of(*id).key == key)
    }

    pub fn has_landed(&self, id: u8) -> bool {
        matches!(self.claims[usize::from(id)], Row::Landed(_))
    }

    /// Returns whether the user ever had a coupon.
    pub fn had_coupon(&self, claims: Claims, user: u8) -> bool {
        self.landed().any(|(id, _)| claims.of(id).user == user)
    }

    /// Returns the numbers of a user's live coupons.
    pub fn taken(&self, claims: Claims, user: u8) -> Numbers {
        let of_user = self.landed().filter(|(id, _)| claims.of(*id).user == user);
        of_user.fold(Numbers::default(), |all, (_, coupons)| all.with(coupons.live_numbers()))
    }

    /// Returns the numbers that block a landing: those in `uq_number`.
    pub(super) fn unique_numbers(&self, claims: Claims, user: u8, bug: Option<Bug>) -> Numbers {
        if bug != Some(Bug::UniqueOverReturned) {
            return self.taken(claims, user);
        }
        let of_user = self.landed().filter(|(id, _)| claims.of(*id).user == user);
        of_user.fold(Numbers::default(), |all, (_, coupons)| all.with(coupons.numbers))
    }

    /// Runs the whole landing: unique keys, then the guard, then the commit. Returns `false` if it was rolled back.
    pub(super) fn land(&mut self, claims: Claims, landing: Landing, bug: Option<Bug>) -> bool {
        let Landing { id, epoch, numbers } = landing;
        let Attempt { user, key, quantity } = claims.of(id);
        let in_the_way = self.claims[usize::from(id)] != Row::Absent
            || self.landed_under(claims, key).is_some()
            || self.unique_numbers(claims, user, bug).meets(numbers);
        if in_the_way || epoch != self.epoch || self.stock < i16::from(quantity) {
            return false;
        }
        self.stock -= i16::from(quantity);
        self.claims[usize::from(id)] = Row::Landed(Coupons::held(numbers, quantity));
        true
    }

    /// Makes a later landing of an admission impossible, or finds that it landed.
    pub(super) fn fence(&mut self, id: u8) -> Fence {
        let row = &mut self.claims[usize::from(id)];
        if matches!(row, Row::Landed(_)) {
            return Fence::Landed;
        }
        *row = Row::Void;
        Fence::Stands
    }
}
