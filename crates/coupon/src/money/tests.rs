use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::limit;

fn discount(kind: DiscountKind, value: i64, cap: Option<i64>) -> Discount {
    Discount { kind, value, cap, minimum_spend: 0, currency: "EUR".to_owned() }
}

fn percent(hundredths: i64) -> Discount {
    discount(DiscountKind::PercentOff, hundredths, None)
}

fn euros(amount: i64) -> Spend<'static> {
    Spend { amount, currency: "EUR" }
}

fn offers(discounts: &[Discount]) -> Vec<Offer<'_>> {
    let offer = |(id, discount)| Offer { coupon: CouponId(id), discount, stackable: true };
    (1..).zip(discounts).map(offer).collect()
}

/// Currencies that orders and coupons name: few, so that they often agree.
const CURRENCIES: [&str; 2] = ["EUR", "USD"];

/// Any discount of any currency, for orders of any size.
fn any_terms() -> impl Strategy<Value = Discount> {
    // Small sums, so that amounts are often just below the minimum, at it, or above it.
    (any_discount(), 0..6_i64, select(CURRENCIES.to_vec())).prop_map(
        |(discount, least, currency)| Discount {
            minimum_spend: least,
            currency: currency.to_owned(),
            ..discount
        },
    )
}

/// Any discount that a template may have.
fn any_discount() -> impl Strategy<Value = Discount> {
    let amount =
        (1..=limit::AMOUNT_MAX).prop_map(|value| discount(DiscountKind::AmountOff, value, None));
    let cap = prop::option::of(1..=limit::AMOUNT_MAX);
    let share = (1..=10_000_i64, cap)
        .prop_map(|(value, cap)| discount(DiscountKind::PercentOff, value, cap));
    let shipping = Just(discount(DiscountKind::FreeShipping, 0, None));
    prop_oneof![4 => amount, 4 => share, 1 => shipping]
}

#[test]
fn a_half_is_rounded_to_the_even_number() {
    for (amount, hundredths, off) in [
        (5, 1_000, 0),          // 0.5
        (15, 1_000, 2),         // 1.5
        (25, 1_000, 2),         // 2.5
        (35, 1_000, 4),         // 3.5
        (26, 1_000, 3),         // 2.6
        (24, 1_000, 2),         // 2.4
        (10_001, 5_000, 5_000), // 5000.5
        (10_003, 5_000, 5_002), // 5001.5
        (1_999, 10_000, 1_999),
        (1, 1, 0),
    ] {
        assert_eq!(percent(hundredths).off(amount), off, "{hundredths} of {amount}");
    }
}

#[test]
fn percentages_come_first_then_amounts_then_shipping_however_they_are_sent() {
    let ten_off = discount(DiscountKind::AmountOff, 1_000, None);
    let shipping = discount(DiscountKind::FreeShipping, 0, None);
    let capped = discount(DiscountKind::PercentOff, 5_000, Some(300));
    let all = [shipping, ten_off, percent(1_000), capped];
    let mut offers = offers(&all);
    let expected = [(3, 1_000), (4, 300), (2, 1_000), (1, 0)];
    for _ in 0..offers.len() {
        let applied = apply(euros(10_000), &offers).unwrap();
        let applied: Vec<_> = applied.iter().map(|one| (one.coupon.0, one.discount)).collect();
        assert_eq!(applied, expected);
        offers.rotate_left(1);
    }
}

#[test]
fn a_coupon_of_another_currency_for_a_larger_order_or_for_itself_alone_is_refused() {
    let twenty = Discount { minimum_spend: 2_000, ..percent(1_000) };
    let dollars = Discount { currency: "USD".to_owned(), ..percent(1_000) };
    let plain = percent(500);
    let offer = |id, discount| Offer { coupon: CouponId(id), discount, stackable: true };
    let refused = |amount, offers: &[Offer<'_>]| apply(euros(amount), offers).unwrap_err();
    let too_small = (CouponId(1), Inapplicable::MinimumSpend);
    assert_eq!(refused(1_999, &[offer(1, &twenty)]), too_small);
    assert_eq!(apply(euros(2_000), &[offer(1, &twenty)]).unwrap()[0].discount, 200);
    // The amount counts before the others' discounts.
    let both = [offer(1, &twenty), offer(0, &plain)];
    assert_eq!(apply(euros(2_000), &both).unwrap()[1].discount, 190);
    let foreign = (CouponId(2), Inapplicable::Currency);
    assert_eq!(refused(9_999, &[offer(1, &twenty), offer(2, &dollars)]), foreign);
    let alone = Offer { stackable: false, ..offer(3, &plain) };
    assert_eq!(apply(euros(100), &[alone]).unwrap()[0].discount, 5);
    let excluded = (CouponId(3), Inapplicable::NotStackable);
    assert_eq!(refused(9_999, &[offer(1, &twenty), alone]), excluded);
}

proptest! {
    #[test]
    fn discounts_and_what_is_left_add_up_to_the_amount_and_none_is_negative(
        amount in 0..=limit::AMOUNT_MAX, discounts in vec(any_discount(), 1..10),
    ) {
        let applied = apply(euros(amount), &offers(&discounts)).unwrap();
        prop_assert_eq!(applied.len(), discounts.len());
        let mut left = amount;
        for one in &applied {
            prop_assert!((0..=left).contains(&one.discount), "{applied:?}");
            left -= one.discount;
        }
        prop_assert!(left >= 0);
    }

    #[test]
    fn the_result_does_not_depend_on_the_order_in_which_coupons_are_named(
        amount in 0..=limit::AMOUNT_MAX, discounts in vec(any_discount(), 1..8), turn in 0..8_usize,
    ) {
        let mut offers = offers(&discounts);
        let first = apply(euros(amount), &offers).unwrap();
        let turn = turn % offers.len();
        offers.rotate_left(turn);
        prop_assert_eq!(&apply(euros(amount), &offers).unwrap(), &first);
        offers.reverse();
        prop_assert_eq!(&apply(euros(amount), &offers).unwrap(), &first);
    }

    #[test]
    fn a_percentage_is_the_nearest_whole_number_and_the_even_one_of_two(
        amount in 0..=limit::AMOUNT_MAX, hundredths in 1..=10_000_i64,
    ) {
        let off = i128::from(percent(hundredths).off(amount));
        let exact = i128::from(amount) * i128::from(hundredths);
        let distance = (off * WHOLE - exact).abs();
        prop_assert!(2 * distance <= WHOLE);
        prop_assert!(2 * distance < WHOLE || off % 2 == 0);
    }

    #[test]
    fn a_discount_never_exceeds_its_value_or_cap_and_never_falls_with_a_larger_order(
        discount in any_discount(), amount in 0..limit::AMOUNT_MAX, more in 1..=1_000_000_i64,
    ) {
        let off = discount.off(amount);
        prop_assert!(off <= discount.off(amount + more));
        let most = match discount.kind {
            DiscountKind::AmountOff => Some(discount.value),
            DiscountKind::PercentOff => discount.cap,
            DiscountKind::FreeShipping => Some(0),
        };
        prop_assert!(most.is_none_or(|most| off <= most));
    }

    #[test]
    fn all_apply_or_the_first_that_is_foreign_or_for_a_larger_order_is_named(
        amount in 0..6_i64, currency in select(CURRENCIES.to_vec()), terms in vec(any_terms(), 1..6),
    ) {
        let spend = Spend { amount, currency };
        let offers = offers(&terms);
        let fits = |terms: &Discount| terms.currency == currency && terms.minimum_spend <= amount;
        match apply(spend, &offers) {
            Ok(applied) => {
                prop_assert!(terms.iter().all(fits));
                prop_assert_eq!(applied.len(), terms.len());
            }
            Err((coupon, why)) => {
                let refused = offers.iter().find(|offer| offer.coupon == coupon).unwrap();
                let expected = if refused.discount.currency == currency {
                    prop_assert!(amount < refused.discount.minimum_spend);
                    Inapplicable::MinimumSpend
                } else {
                    Inapplicable::Currency
                };
                prop_assert_eq!(why, expected);
                let place = |offer: &Offer<'_>| (rank(offer.discount.kind), offer.coupon);
                let before = offers.iter().filter(|offer| place(offer) < place(refused));
                prop_assert!(before.map(|offer| offer.discount).all(fits), "it is the first");
            }
        }
    }

    #[test]
    fn the_minimum_is_met_by_the_amount_before_any_discount_and_exactly(
        least in 1..=limit::AMOUNT_MAX, discounts in vec(any_discount(), 0..4),
    ) {
        let with_minimum = Discount { minimum_spend: least, ..percent(1) };
        let mut all = discounts;
        all.push(with_minimum);
        let offers = offers(&all);
        prop_assert!(apply(euros(least), &offers).is_ok());
        let refused = (CouponId(all.len() as i64), Inapplicable::MinimumSpend);
        prop_assert_eq!(apply(euros(least - 1), &offers), Err(refused));
    }

    #[test]
    fn a_coupon_that_excludes_others_is_refused_wherever_it_stands(
        which in select(vec![0_usize, 1, 2]), amount in 0..=limit::AMOUNT_MAX,
        discounts in vec(any_discount(), 3),
    ) {
        let mut offers = offers(&discounts);
        offers[which].stackable = false;
        let refused = (offers[which].coupon, Inapplicable::NotStackable);
        prop_assert_eq!(apply(euros(amount), &offers), Err(refused));
    }
}
