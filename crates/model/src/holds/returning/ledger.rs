//! MySQL: what changes the stock apart from landings. Each change is one transaction and one movement.

use super::{
    bounds::{Bounds, By, COUPONS_MAX, MOVEMENTS_MAX, Part, USERS_MAX},
    truth::{Claims, Row, Status, Truth},
};
use crate::{Bug, gate::Numbers};

/// A row of `stock_movement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Movement {
    pub delta_total: i16,
    pub delta_stock: i16,
    /// What each user returned.
    pub returned: [Returned; USERS_MAX],
    /// The user whose ban is lifted, as user + 1; 0: none.
    pub lifted: u8,
}

/// The returned coupons of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Returned {
    pub numbers: Numbers,
    /// How many coupons lapsed.
    pub lapses: u8,
}

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
    pub becomes: Status,
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
    fn becomes(self) -> Status {
        match self {
            Self::Lapse => Status::Lapsed,
            Self::Cancel(_) => Status::Cancelled,
        }
    }

    /// The condition of `select … for update`.
    fn takes(self, status: Status, due: bool, bug: Option<Bug>) -> bool {
        match self {
            Self::Lapse => status == Status::Held && (due || bug == Some(Bug::LapsedByOwnClock)),
            Self::Cancel(confirmed) => {
                let held = !due || bug == Some(Bug::CancelAfterDeadline);
                status == Status::Held && held || confirmed && status == Status::Unused
            }
        }
    }
}

impl Truth {
    /// Returns the coupons of one claim that may be returned in this way.
    pub(in crate::holds) fn returnable(
        &self,
        id: u8,
        part: Part,
        way: Return,
        bug: Option<Bug>,
    ) -> Set {
        let mut set = Set::default();
        if let Row::Landed(coupons) = self.claims[usize::from(id)] {
            for (position, status) in coupons.status.into_iter().enumerate() {
                if part.has(position) && way.takes(status, coupons.due, bug) {
                    set.insert(id, position);
                }
            }
        }
        set
    }

    /// Locks the coupons of `read` that may still be returned and returns exactly those. Returns `None` if there are
    /// none.
    pub(in crate::holds) fn give_back(
        &self,
        claims: Claims,
        bounds: &Bounds,
        read: Set,
        way: Return,
    ) -> Option<Transaction> {
        let mut coupons = Set::default();
        for (claim, position) in read.iter() {
            let Row::Landed(row) = self.claims[usize::from(claim)] else { continue };
            let still = way.takes(row.status[position], row.due, bounds.bug);
            if still || bounds.has(Bug::ReturnWithoutCompare) {
                coupons.insert(claim, position);
            }
        }
        let mut movement = Movement::default();
        for (claim, position) in coupons.iter() {
            let Row::Landed(row) = self.claims[usize::from(claim)] else { continue };
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
    pub(in crate::holds) fn moved(&self, delta: i16) -> Option<Transaction> {
        let movement = Movement { delta_total: delta, delta_stock: delta, ..Movement::default() };
        let covered = self.stock + delta >= 0;
        covered.then_some(Transaction::of(movement))
    }

    /// Makes a transaction visible. Returns `false` if a coupon took a forbidden way.
    pub(in crate::holds) fn commit(&mut self, transaction: Transaction) -> bool {
        let Transaction { movement, coupons, becomes } = transaction;
        let mut allowed = true;
        for (claim, position) in coupons.iter() {
            if let Row::Landed(row) = &mut self.claims[usize::from(claim)] {
                let status = &mut row.status[position];
                allowed &= status.may_become(becomes);
                *status = becomes;
            }
        }
        self.total += movement.delta_total;
        self.stock += movement.delta_stock;
        self.movements[usize::from(self.movement)] = movement;
        self.movement += 1;
        for (user, row) in (0..).zip(&mut self.lapses) {
            movement.change_lapses(user, self.movement, row);
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
            Some(_) | None => self.movements[usize::from(seq) - 1],
        }
    }

    /// Returns the visible movements after `seq`, in order, each with its number.
    pub fn movements_after(&self, seq: u8) -> impl Iterator<Item = (u8, Movement)> {
        let movements = self.movements;
        (seq + 1..=self.movement).map(move |seq| (seq, movements[usize::from(seq) - 1]))
    }

    /// Returns what the visible movements `from + 1` to `to` add to the stock. If `to` is before `from`, returns the
    /// negative of what the movements between them add.
    pub fn delta_between(&self, from: u8, to: u8) -> i16 {
        let sum = |from: u8, to: u8| -> i16 {
            let movements = &self.movements[usize::from(from)..usize::from(to).min(MOVEMENTS_MAX)];
            movements.iter().map(|movement| movement.delta_stock).sum()
        };
        if to >= from { sum(from, to) } else { -sum(to, from) }
    }

    /// Returns a user's lapses as the movements up to `seq` count them.
    pub fn lapses_at(&self, user: u8, seq: u8) -> u8 {
        let mut row = Lapses::default();
        for seq in 1..=seq {
            self.message(seq).change_lapses(user, seq, &mut row);
        }
        row.count
    }
}

impl Transaction {
    /// A transaction that returns no coupons.
    pub(in crate::holds) fn of(movement: Movement) -> Self {
        Self { movement, coupons: Set::default(), becomes: Status::Absent }
    }
}

impl Movement {
    /// Lifts the ban of a user.
    pub(in crate::holds) fn lift(user: u8) -> Self {
        Self { lifted: user + 1, ..Self::default() }
    }

    /// Changes a user's row of `user_lapse`.
    pub(in crate::holds) fn change_lapses(&self, user: u8, seq: u8, row: &mut Lapses) {
        let lapses = self.returned[usize::from(user)].lapses;
        if self.lifted == user + 1 {
            *row = Lapses { count: 0, seq };
        } else if lapses > 0 {
            *row = Lapses { count: row.count + lapses, seq };
        }
    }
}
