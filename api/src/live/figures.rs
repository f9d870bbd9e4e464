//! Conservation, from one look at MySQL and one at the gate: total = confirmed + held + in flight + left (+ drift). Pure.
//!
//! The two are read one after the other, MySQL first, so no subtraction of independent counts would sum up while a sale
//! runs. What is in flight is therefore what MySQL still has and the gate has given away: the parts sum to the total in
//! every sample. What was given back and has not reached the gate is among it.
//!
//! A drift hides in that difference, and is judged apart: while nothing moves, and whenever the gate has more to give than
//! MySQL has, which no claim explains. Otherwise it is not known.

use coupon::Epoch;
use mysql_store::balance::Balance;

/// An open gate at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateLook {
    pub(crate) epoch: Epoch,
    /// What it has left to give. Below zero for a moment after a cut.
    pub(crate) stock: i64,
    /// Number of the last movement that the stock contains.
    pub(crate) movement: i64,
    /// Claims that were admitted and are not known to have ended: those that their process lands, and queued ones.
    pub(crate) direct: u64,
    pub(crate) queued: u64,
}

/// Coupons of a template, by where they are. `None`: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) total: Option<i64>,
    /// In MySQL, without those that came back: `confirmed` and `held`.
    pub(crate) landed: Option<i64>,
    pub(crate) held: Option<i64>,
    pub(crate) confirmed: Option<i64>,
    /// Between the gate and MySQL: admitted and not landed, or given back and not at the gate yet.
    pub(crate) in_flight: Option<i64>,
    /// Those of them that are queued.
    pub(crate) queued: Option<i64>,
    /// What the gate has left to give.
    pub(crate) left: Option<i64>,
    /// MySQL's stock minus the gate's, as far as no claim and no movement explains it.
    pub(crate) drift: Option<i64>,
}

impl Figures {
    /// Returns what is known by MySQL's account, and by the gate after it. `before` is the gate as of the sample before,
    /// and `claim_max` the most coupons of one claim.
    pub(crate) fn of(
        account: Option<&Balance>,
        before: Option<&GateLook>,
        gate: Option<&GateLook>,
        claim_max: u32,
    ) -> Self {
        // Numbers of a damaged row may stand at the ends of their range. Then nothing is known.
        let unknown = Self { left: gate.map(|gate| gate.stock.max(0)), ..Self::default() };
        let Some(account) = account else { return unknown };
        let Some(landed) = account.total.checked_sub(account.stock) else { return unknown };
        let known = Self {
            total: Some(account.total),
            landed: Some(landed),
            held: account.held,
            confirmed: account.held.and_then(|held| landed.checked_sub(held)),
            ..Self::default()
        };
        // A gate of another epoch, or with a movement that this account lacks, is of another moment.
        let of_its_time =
            |gate: &&GateLook| gate.epoch == account.epoch && gate.movement <= account.movement;
        let Some(gate) = gate.filter(of_its_time) else { return known };
        let has_all_movements = gate.movement == account.movement;
        let left = gate.stock.max(0);
        let Some(between) = account.stock.checked_sub(gate.stock) else { return known };
        let Some(given_away) = account.stock.checked_sub(left) else { return known };
        let is_quiet = before == Some(gate) && gate.claims() == 0;
        if has_all_movements && (is_quiet || between < 0) {
            return Self {
                in_flight: Some(0),
                queued: Some(0),
                left: Some(left),
                drift: Some(given_away),
                ..known
            };
        }
        if between < 0 || given_away < 0 {
            // A cut that has not reached the gate: it will take back what is too much.
            return known;
        }
        // After a cut the gate may have given away more than MySQL will land.
        let queued = queued(gate, given_away, claim_max);
        Self { left: Some(left), in_flight: Some(given_away), queued, ..known }
    }
}

impl GateLook {
    /// Claims that have not ended, as far as the gate knows.
    pub(crate) fn claims(&self) -> u64 {
        self.direct.saturating_add(self.queued)
    }
}

/// Returns how many of the coupons in flight are queued. The gate counts claims, not coupons, and also those that landed a
/// moment ago.
fn queued(gate: &GateLook, in_flight: i64, claim_max: u32) -> Option<i64> {
    match (gate.queued, gate.direct) {
        (0, _) => Some(0),
        (_, 0) => Some(in_flight),
        (claims, _) if claim_max == 1 => {
            Some(i64::try_from(claims).unwrap_or(i64::MAX).min(in_flight))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};

    use super::*;

    const EPOCH: Epoch = Epoch(3);

    fn account() -> Balance {
        Balance { total: 1_000, stock: 300, epoch: EPOCH, movement: 5, held: Some(40) }
    }

    fn gate(stock: i64) -> GateLook {
        GateLook { epoch: EPOCH, stock, movement: 5, direct: 3, queued: 2 }
    }

    fn quiet(stock: i64) -> GateLook {
        GateLook { direct: 0, queued: 0, ..gate(stock) }
    }

    fn figures(account: Balance, before: Option<GateLook>, gate: GateLook) -> Figures {
        Figures::of(Some(&account), before.as_ref(), Some(&gate), 1)
    }

    #[test]
    fn what_mysql_still_has_and_the_gate_has_given_away_is_in_flight() {
        let seen = figures(account(), Some(gate(296)), gate(295));
        assert_eq!((seen.confirmed, seen.held, seen.landed), (Some(660), Some(40), Some(700)));
        assert_eq!((seen.in_flight, seen.queued, seen.left), (Some(5), Some(2), Some(295)));
        assert_eq!((seen.total, seen.drift), (Some(1_000), None), "it moves");
        let returned = GateLook { movement: 4, ..quiet(290) };
        let seen = figures(account(), Some(returned), returned);
        assert_eq!((seen.in_flight, seen.queued), (Some(10), Some(0)), "on its way back");
        assert_eq!(seen.drift, None, "the gate lacks a movement");
    }

    #[test]
    fn a_drift_is_judged_while_nothing_moves_and_when_the_gate_has_too_much() {
        for (stock, drift) in [(300, 0), (290, 10), (310, -10)] {
            let seen = figures(account(), Some(quiet(stock)), quiet(stock));
            assert_eq!((seen.drift, seen.in_flight), (Some(drift), Some(0)), "{stock}");
        }
        assert_eq!(figures(account(), Some(quiet(299)), quiet(300)).drift, None, "it moved");
        assert_eq!(figures(account(), None, quiet(300)).drift, None, "the first look");
        let seen = figures(account(), Some(gate(320)), gate(310));
        assert_eq!(seen.drift, Some(-10), "no claim explains that the gate has more");
    }

    #[test]
    fn what_is_not_known_is_none_and_never_zero() {
        let unknown = Figures::of(None, None, Some(&gate(-3)), 1);
        assert_eq!(unknown, Figures { left: Some(0), ..Figures::default() });
        assert_eq!(Figures::of(None, None, None, 1), Figures::default());
        let many = Figures::of(Some(&Balance { held: None, ..account() }), None, None, 1);
        assert_eq!((many.held, many.confirmed, many.landed), (None, None, Some(700)));
        assert_eq!((many.left, many.in_flight, many.queued), (None, None, None));
        for other in [
            GateLook { epoch: Epoch(4), ..gate(295) },
            GateLook { movement: 6, ..gate(295) },
            // A cut is on its way to the gate.
            GateLook { movement: 4, ..gate(310) },
        ] {
            let seen = figures(account(), Some(other), other);
            assert_eq!((seen.left, seen.in_flight, seen.drift), (None, None, None), "{other:?}");
            assert_eq!(seen.landed, Some(700));
        }
        let several = Figures::of(Some(&account()), None, Some(&gate(295)), 3);
        assert_eq!(several.queued, None, "two claims of one to three coupons");
        let only = GateLook { direct: 0, ..gate(295) };
        assert_eq!(Figures::of(Some(&account()), None, Some(&only), 3).queued, Some(5));
    }

    prop_compose! {
        fn looks()(
            stock in -20_i64..60, movement in 4_i64..7, direct in 0_u64..3, queued in 0_u64..3,
            epoch in 3_i64..5,
        ) -> GateLook {
            GateLook { epoch: Epoch(epoch), stock, movement, direct, queued }
        }
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_total_in_every_sample(
            total in 50_i64..60, stock in 0_i64..50, held in option::of(0_i64..5),
            before in option::of(looks()), gate in option::of(looks()), claim_max in 1_u32..3,
        ) {
            let held = held.map(|held| held.min(total - stock));
            let account = Balance { total, stock, epoch: EPOCH, movement: 5, held };
            let seen = Figures::of(Some(&account), before.as_ref(), gate.as_ref(), claim_max);
            prop_assert_eq!(seen.left.is_some(), seen.in_flight.is_some());
            prop_assert_eq!(seen.held.is_some(), seen.confirmed.is_some());
            if let (Some(confirmed), Some(held)) = (seen.confirmed, seen.held) {
                prop_assert_eq!(Some(confirmed + held), seen.landed);
                prop_assert!(confirmed >= 0 && held >= 0);
            }
            if let (Some(landed), Some(in_flight), Some(left)) =
                (seen.landed, seen.in_flight, seen.left)
            {
                let drift = seen.drift.unwrap_or(0);
                prop_assert!(in_flight >= 0 && left >= 0);
                prop_assert!(seen.queued.is_none_or(|queued| (0..=in_flight).contains(&queued)));
                prop_assert_eq!(landed + in_flight + left + drift, total);
            }
        }

        #[test]
        fn numbers_at_the_ends_of_their_range_are_not_known_and_end_nothing(
            total in any::<i64>(), stock in any::<i64>(), held in option::of(any::<i64>()),
            left in any::<i64>(), is_quiet: bool, claims in any::<u64>(),
        ) {
            let account = Balance { total, stock, epoch: EPOCH, movement: 5, held };
            let gate = GateLook { stock: left, direct: claims, queued: claims, ..gate(0) };
            let gate = if is_quiet { quiet(left) } else { gate };
            let seen = Figures::of(Some(&account), is_quiet.then_some(&gate), Some(&gate), 1);
            prop_assert_eq!(seen.landed, total.checked_sub(stock));
            prop_assert!(seen.in_flight.is_none_or(|in_flight| in_flight >= 0));
        }
    }
}
