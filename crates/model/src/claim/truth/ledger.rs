//! What changes the stock apart from landings. Each change is one transaction and one movement.

use coupon::CouponStatus;

use super::{Claims, Movement, Row, Truth};
use crate::{
    Bug,
    claim::bounds::{Bounds, By, COUPONS_MAX, Part},
};

/// A row of `user_lapse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lapses {
    /// Lapses since the last lift.
    pub count: u8,
    /// The movement that last changed the row.
    pub seq: u8,
}

/// Coupons of any claims, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Set(u16);

/// A transaction that changes the stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transaction {
    pub movement: Movement,
    /// The coupons that it returns, and what they become.
    pub coupons: Set,
    pub becomes: CouponStatus,
}

/// A kind of return, and the coupons that it may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Return {
    /// Held coupons whose deadline has passed.
    Lapse,
    /// Held coupons whose deadline has not passed; with `true` also confirmed ones.
    Cancel(bool),
}

impl Set {
    pub fn insert(&mut self, claim: u8, position: usize) {
        self.0 |= 1 << (usize::from(claim) * COUPONS_MAX + position);
    }

    /// The coupons, each as its claim and its position there.
    pub fn iter(self) -> impl Iterator<Item = (u8, usize)> {
        (0..16).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| {
            let claim = u8::try_from(bit / COUPONS_MAX).unwrap_or(u8::MAX);
            (claim, bit % COUPONS_MAX)
        })
    }

    /// Returns the union.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> i16 {
        self.0.count_ones().try_into().unwrap_or(i16::MAX)
    }
}

impl From<By> for Return {
    fn from(by: By) -> Self {
        Self::Cancel(by == By::Merchant)
    }
}

impl Return {
    fn becomes(self) -> CouponStatus {
        match self {
            Self::Lapse => CouponStatus::Lapsed,
            Self::Cancel(_) => CouponStatus::Cancelled,
        }
    }

    /// The condition of `select … for update`.
    fn takes(self, status: CouponStatus, due: bool, bug: Option<Bug>) -> bool {
        let held = status == CouponStatus::Held;
        match self {
            Self::Lapse => held && (due || bug == Some(Bug::LapsedByOwnClock)),
            Self::Cancel(confirmed) => {
                let in_time = !due || bug == Some(Bug::CancelAfterDeadline);
                held && in_time || confirmed && status == CouponStatus::Unused
            }
        }
    }
}

impl Transaction {
    /// A transaction that returns no coupons.
    pub(in crate::claim) fn of(movement: Movement) -> Self {
        Self { movement, coupons: Set::default(), becomes: CouponStatus::Lapsed }
    }
}

impl Truth {
    /// Returns the coupons of one claim that may be returned in this way.
    pub(in crate::claim) fn returnable(
        &self,
        id: u8,
        part: Part,
        way: Return,
        bug: Option<Bug>,
    ) -> Set {
        let mut set = Set::default();
        if let Row::Landed(coupons) = self.row(id) {
            for (position, status) in coupons.status.into_iter().enumerate() {
                let takes = |status| way.takes(status, coupons.due, bug);
                if part.has(position) && status.is_some_and(takes) {
                    set.insert(id, position);
                }
            }
        }
        set
    }

    /// Locks the coupons of `read` that may still be returned and returns exactly those. Returns `None` if there are
    /// none.
    pub(in crate::claim) fn give_back(
        &self,
        claims: Claims,
        bounds: &Bounds,
        read: Set,
        way: Return,
    ) -> Option<Transaction> {
        let mut coupons = Set::default();
        let mut movement = Movement::default();
        for (claim, position) in read.iter() {
            let Row::Landed(row) = self.row(claim) else { continue };
            let takes = |status| way.takes(status, row.due, bounds.bug);
            if !row.status[position].is_some_and(takes) && !bounds.has(Bug::ReturnWithoutCompare) {
                continue;
            }
            coupons.insert(claim, position);
            let returned = &mut movement.returned[usize::from(claims.of(claim).user)];
            returned.numbers = returned.numbers.with(row.number_at(position));
            returned.lapses += u8::from(way == Return::Lapse);
        }
        let counted = if bounds.has(Bug::StockCountsWhatWasRead) { read } else { coupons };
        if bounds.retire {
            movement.delta_total = -counted.len();
        } else {
            movement.delta_stock = counted.len();
        }
        let becomes = way.becomes();
        (!counted.is_empty()).then_some(Transaction { movement, coupons, becomes })
    }

    /// A top-up or a cut; `None` if the cut would take more than is left.
    pub(in crate::claim) fn moved(&self, delta: i16) -> Option<Transaction> {
        let covered = self.stock + delta >= 0;
        covered.then_some(Transaction::of(Movement::of(delta)))
    }

    /// Makes a transaction visible. Returns `false` if a coupon took a forbidden way.
    pub(in crate::claim) fn commit(&mut self, transaction: Transaction) -> bool {
        let Transaction { movement, coupons, becomes } = transaction;
        let mut allowed = true;
        for (claim, position) in coupons.iter() {
            if let Row::Landed(row) = &mut self.claims[usize::from(claim)] {
                let status = &mut row.status[position];
                allowed &= status.is_some_and(|status| status.may_become(becomes));
                *status = Some(becomes);
            }
        }
        if coupons.is_empty() {
            self.cut += u8::try_from(-movement.delta_stock).unwrap_or(0);
        }
        self.total += movement.delta_total;
        self.stock += movement.delta_stock;
        self.movements.push(movement);
        self.movement += 1;
        for (user, row) in (0..).zip(&mut self.lapses) {
            row.count(&movement, user, self.movement);
        }
        allowed
    }

    /// Returns the rows as they will be once everything in the binlog is visible.
    pub fn committed(&self) -> Self {
        let mut committed = *self;
        if let Some(hidden) = committed.hidden.take() {
            committed.commit(hidden);
        }
        committed
    }

    /// Returns the number of the last movement in the binlog.
    pub fn last_message(&self) -> u8 {
        self.movement + u8::from(self.hidden.is_some())
    }

    /// Returns a movement as its message carries it.
    pub fn message(&self, seq: u8) -> Movement {
        match self.hidden {
            Some(hidden) if seq > self.movement => hidden.movement,
            Some(_) | None => self.movements.as_slice()[usize::from(seq) - 1],
        }
    }

    /// Returns the visible movements after `seq`, in order, each with its number.
    pub fn movements_after(&self, seq: u8) -> impl Iterator<Item = (u8, Movement)> {
        let movements = self.movements;
        (seq + 1..=self.movement).map(move |seq| (seq, movements.as_slice()[usize::from(seq) - 1]))
    }

    /// Returns what the visible movements `from + 1` to `to` add to the stock. If `to` is before `from`, returns the
    /// negative of what the movements between them add.
    pub fn delta_between(&self, from: u8, to: u8) -> i16 {
        let sum = |from: u8, to: u8| -> i16 {
            let movements = self.movements.as_slice();
            let upto = usize::from(to).min(movements.len());
            movements[usize::from(from).min(upto)..upto]
                .iter()
                .map(|movement| movement.delta_stock)
                .sum()
        };
        if to >= from { sum(from, to) } else { -sum(to, from) }
    }

    /// Returns a user's lapses as the movements up to `seq` count them.
    pub fn lapses_at(&self, user: u8, seq: u8) -> u8 {
        let mut row = Lapses::default();
        for seq in 1..=seq {
            row.count(&self.message(seq), user, seq);
        }
        row.count
    }
}

impl Lapses {
    /// Counts a movement.
    pub(in crate::claim) fn count(&mut self, movement: &Movement, user: u8, seq: u8) {
        if let Some(count) = movement.lapses_after(user, self.count) {
            *self = Self { count, seq };
        }
    }
}
