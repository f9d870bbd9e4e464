//! Which state may follow which: one table for coupons, one for templates.

use crate::{CouponStatus, TemplateState};

/// One way from state to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition<S: 'static> {
    /// What makes it: a call of the API, or `deadline`.
    pub by: &'static str,
    /// States in which it may be made.
    pub from: &'static [S],
    pub to: S,
}

impl<S: Copy + PartialEq> Transition<S> {
    fn leads(&self, from: S, to: S) -> bool {
        self.to == to && self.from.contains(&from)
    }
}

impl CouponStatus {
    /// Every change of a coupon's status. Only the order that used a coupon gives it back, and only before the deadline.
    /// Users cancel held coupons only.
    pub const TRANSITIONS: [Transition<Self>; 7] = [
        Transition { by: "use", from: &[Self::Unused], to: Self::Used },
        Transition { by: "unuse", from: &[Self::Used], to: Self::Unused },
        Transition { by: "deadline", from: &[Self::Unused], to: Self::Expired },
        Transition { by: "revoke", from: &[Self::Unused], to: Self::Cancelled },
        Transition { by: "confirm", from: &[Self::Held], to: Self::Unused },
        Transition { by: "deadline", from: &[Self::Held], to: Self::Lapsed },
        Transition { by: "cancel", from: &[Self::Held, Self::Unused], to: Self::Cancelled },
    ];

    /// Returns whether a coupon may change from this status to `next`.
    pub fn may_become(self, next: Self) -> bool {
        Self::TRANSITIONS.iter().any(|way| way.leads(self, next))
    }
}

impl TemplateState {
    /// Every change of a template's state, by the verb of the API.
    pub const TRANSITIONS: [Transition<Self>; 4] = [
        Transition { by: "publish", from: &[Self::Draft], to: Self::Published },
        Transition { by: "pause", from: &[Self::Published], to: Self::Paused },
        Transition { by: "resume", from: &[Self::Paused], to: Self::Published },
        Transition { by: "end", from: &[Self::Published, Self::Paused], to: Self::Ended },
    ];

    /// Returns whether a template may change from this state to `next`, by whichever verb.
    pub fn may_become(self, next: Self) -> bool {
        Self::TRANSITIONS.iter().any(|way| way.leads(self, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = include_str!("../../../../docs/api.md");

    /// A table as the document shows it.
    fn table<S>(call: &str, ways: &[Transition<S>], word: fn(S) -> &'static str) -> String
    where
        S: Copy + 'static,
    {
        let mut lines = format!("| {call} | from | to |\n|---|---|---|\n");
        for way in ways {
            let from: Vec<_> = way.from.iter().map(|state| word(*state)).collect();
            lines.push_str(&format!("| `{}` | {} | {} |\n", way.by, from.join(", "), word(way.to)));
        }
        lines
    }

    #[test]
    fn the_document_shows_the_transitions_of_coupons_and_templates() {
        let coupons = table("change", &CouponStatus::TRANSITIONS, CouponStatus::word);
        assert!(API.contains(&coupons), "docs/api.md needs:\n{coupons}");
        let templates = table("call", &TemplateState::TRANSITIONS, TemplateState::word);
        assert!(API.contains(&templates), "docs/api.md needs:\n{templates}");
    }

    #[test]
    fn a_used_coupon_may_only_be_given_back_and_an_expired_or_cancelled_one_stays() {
        use CouponStatus::{Cancelled, Expired, Held, Lapsed, Unused, Used};
        let after = |status: CouponStatus| -> Vec<CouponStatus> {
            CouponStatus::ALL.into_iter().filter(|next| status.may_become(*next)).collect()
        };
        assert_eq!(after(Unused), [Used, Expired, Cancelled]);
        assert_eq!(after(Used), [Unused]);
        assert_eq!(after(Expired), []);
        assert_eq!(after(Cancelled), []);
        assert_eq!(after(Held), [Unused, Cancelled, Lapsed]);
        assert_eq!(after(Lapsed), []);
    }
}
