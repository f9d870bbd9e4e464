//! `sold_out.lua`: the look that allows an api to refuse from memory.

use coupon::TemplateState;

use super::{Gate, Phase, Rules};
use crate::Bug;

impl<const USERS: usize, const REQUESTS: usize> Gate<USERS, REQUESTS> {
    /// Returns whether every user without an entry is refused as sold out.
    pub fn is_sold_out(&self) -> bool {
        self.answering().is_some_and(|meta| {
            meta.facts.stock <= 0 && meta.facts.state == TemplateState::Published
        })
    }

    /// The users who have an entry, one bit each.
    pub fn known_users(&self) -> u8 {
        let known = (0..).zip(&self.users).filter(|(_, entry)| entry.is_some());
        known.fold(0, |set, (user, _): (u8, _)| set | 1 << user)
    }

    /// Returns whether exactly `users` users have an entry, and all others are refused as sold out. Notes that an api
    /// may refuse for `ticks` then.
    pub fn look(&mut self, rules: Rules, epoch: u8, users: u32, ticks: u8) -> bool {
        let sold_out = if rules.has(Bug::LookWithoutRun) {
            let open = self.meta.filter(|meta| meta.phase == Phase::Open);
            open.is_some_and(|meta| meta.facts.stock <= 0)
        } else {
            self.is_sold_out()
        };
        let holds = sold_out
            && (self.epoch() == epoch || rules.has(Bug::LookWithoutEpoch))
            && (self.known_users().count_ones() == users || rules.has(Bug::ScanNotProved));
        if holds {
            self.refusing = ticks;
        }
        holds
    }
}
