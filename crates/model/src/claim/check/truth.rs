//! Promises about MySQL's rows, and about what clients were told.

use super::super::{
    Promise, Protocol, State,
    bounds::IDS,
    queue::state::{Outcome, bit},
    truth::{Movement, Reason, Row, Truth},
};

impl Protocol {
    /// Returns the first promise that MySQL's visible rows break. These promises hold at every moment.
    pub(super) fn broken_truth(&self, truth: &Truth) -> Option<Promise> {
        let live: i16 = truth.landed().map(|(_, coupons)| i16::from(coupons.live())).sum();
        if live > truth.total {
            return Some(Promise::NoOversell);
        }
        if truth.stock != truth.total - live {
            return Some(Promise::StockIsTotalLessLive);
        }
        let landed: i16 = truth.landed().map(|(id, _)| i16::from(self.attempt(id).quantity)).sum();
        let movements = truth.movements.as_slice();
        let sum = |delta: fn(&Movement) -> i16| -> i16 { movements.iter().map(delta).sum() };
        if truth.stock != self.bounds.total + sum(|movement| movement.delta_stock) - landed
            || truth.total != self.bounds.total + sum(|movement| movement.delta_total)
        {
            return Some(Promise::StockIsTheLedgersSum);
        }
        let over = |user| !self.within_limit(truth, user);
        if self.bounds.limit > 0 && self.bounds.users().any(over) {
            return Some(Promise::LimitPerUser);
        }
        None
    }

    fn within_limit(&self, truth: &Truth, user: u8) -> bool {
        let of_user = truth.landed().filter(|(id, _)| self.attempt(*id).user == user);
        let live: u8 = of_user.map(|(_, coupons)| coupons.live()).sum();
        live <= self.bounds.limit && truth.taken(self.claims(), user).count() == live
    }

    /// Each 202 that survives every fault lands. Cuts excuse as many rejections for stock as they took coupons. An
    /// operator who rejects accepted claims excuses those rejections.
    pub(super) fn broken_202(&self, state: &State) -> Option<Promise> {
        let mut short = 0;
        for id in (0..IDS as u8).filter(|id| state.queue.kept & bit(*id) != 0) {
            match (state.queue.told[usize::from(id)], state.truth.row(id)) {
                (Outcome::Succeeded | Outcome::Processing, _) => {}
                (_, Row::Rejected(Reason::NotOpen)) => {}
                // Claims that were too late in the lost history may have taken the coupon.
                (_, Row::Rejected(_)) if state.truth.history > 0 => {}
                (_, Row::Rejected(Reason::Short)) => short += 1,
                _ => return Some(Promise::AcceptedLands),
            }
        }
        (short > state.truth.cut).then_some(Promise::AcceptedLands)
    }
}
