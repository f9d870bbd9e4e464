//! Movements of the stock, as `move.lua` gets them.

use super::{Gate, Moved, Numbers, Phase, Rules};
use crate::Bug;

/// A row of `stock_movement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Movement<const USERS: usize> {
    pub delta_total: i16,
    pub delta_stock: i16,
    /// What each user returned.
    pub returned: [Returned; USERS],
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

impl<const USERS: usize> Movement<USERS> {
    /// A top-up or a cut.
    pub fn of(delta: i16) -> Self {
        Self {
            delta_total: delta,
            delta_stock: delta,
            returned: [Returned::default(); USERS],
            lifted: 0,
        }
    }

    /// Lifts the ban of a user.
    pub fn lift(user: u8) -> Self {
        Self { lifted: user + 1, ..Self::of(0) }
    }

    /// Returns a user's lapses after this movement. `None`: it does not change them.
    pub fn lapses_after(&self, user: u8, before: u8) -> Option<u8> {
        let lapses = self.returned[usize::from(user)].lapses;
        if self.lifted == user + 1 { Some(0) } else { (lapses > 0).then_some(before + lapses) }
    }
}

impl<const USERS: usize> Default for Movement<USERS> {
    fn default() -> Self {
        Self::of(0)
    }
}

impl<const USERS: usize, const REQUESTS: usize> Gate<USERS, REQUESTS> {
    /// `move.lua`: applies movement `seq`, once and in order. A cut may make the stock negative. Returned numbers are
    /// freed and lapses are counted; requests stay.
    pub fn apply_movement(
        &mut self,
        rules: Rules,
        epoch: u8,
        seq: u8,
        movement: &Movement<USERS>,
    ) -> Moved {
        let Some(meta) = self.meta_of_run(rules).filter(|meta| meta.phase == Phase::Open) else {
            return Moved::NotLoaded;
        };
        if meta.epoch != epoch {
            return Moved::OtherEpoch(meta.epoch);
        }
        let facts = &mut meta.facts;
        if seq <= facts.movement && !rules.has(Bug::MovementTwice) {
            if rules.has(Bug::NumbersFreedAgain) {
                self.free(rules, movement);
            }
            return Moved::Already;
        }
        if seq > facts.movement + 1 && !rules.has(Bug::MovementGapIgnored) {
            return Moved::Gap(facts.movement);
        }
        facts.movement = seq.max(facts.movement);
        facts.stock += movement.delta_stock;
        if rules.has(Bug::CutClampedAtZero) {
            facts.stock = facts.stock.max(0);
        }
        let stock = facts.stock;
        self.free(rules, movement);
        Moved::Applied(stock)
    }

    /// Applies the movement's list of users. Without a limit a user may have no entry yet; a lapse creates one.
    fn free(&mut self, rules: Rules, movement: &Movement<USERS>) {
        let counts = self.meta.is_some_and(|meta| meta.facts.lapses_allowed > 0);
        for (user, returned) in (0..).zip(movement.returned) {
            let at = usize::from(user);
            let creates = counts && returned.lapses > 0 && !rules.has(Bug::LapsesNeedAnEntry);
            if self.users[at].is_none() && creates {
                self.put(user, super::Entry::default());
            }
            let Some(entry) = &mut self.users[at] else { continue };
            entry.taken = entry.taken.without(returned.numbers);
            if rules.has(Bug::ReturnRemovesRequest) {
                entry.remove_landed(returned.numbers);
            }
            if counts {
                entry.lapses = movement.lapses_after(user, entry.lapses).unwrap_or(entry.lapses);
            }
        }
    }
}
