use proptest::{prelude::*, sample::select};

use super::*;

/// Currencies of every number of decimals, the one with a sign, and one that there is not.
const CURRENCIES: [&str; 7] = ["EUR", "USD", "JPY", "KWD", "CLF", "UYI", "ABC"];

fn discount(kind: DiscountKind, value: i64) -> Discount {
    Discount { kind, value, cap: None, minimum_spend: 0, currency: "EUR".to_owned() }
}

#[test]
fn money_has_the_decimals_of_its_currency() {
    for (minor, currency, text) in [
        (2_000, "EUR", "€20.00"),
        (5, "EUR", "€0.05"),
        (0, "EUR", "€0.00"),
        (-1, "EUR", "-€0.01"),
        (2_000, "USD", "USD 20.00"),
        (500, "JPY", "JPY 500"),
        (0, "JPY", "JPY 0"),
        (1_250, "KWD", "KWD 1.250"),
        (1, "CLF", "CLF 0.0001"),
        (i64::MAX, "EUR", "€92233720368547758.07"),
        (i64::MIN, "EUR", "-€92233720368547758.08"),
        (i64::MIN, "JPY", "-JPY 9223372036854775808"),
    ] {
        assert_eq!(amount(minor, currency), text);
        assert_eq!(read_amount(text, currency), Ok(minor), "{text}");
    }
}

#[test]
fn money_is_read_without_its_currency_and_with_fewer_decimals_but_not_with_more() {
    for (text, currency, minor) in [
        ("5", "EUR", Ok(500)),
        ("5.0", "EUR", Ok(500)),
        ("5.05", "EUR", Ok(505)),
        ("005", "JPY", Ok(5)),
        ("5.050", "EUR", Err(NotWritten::TooManyDecimals { most: 2 })),
        ("5.0", "JPY", Err(NotWritten::TooManyDecimals { most: 0 })),
        ("5.0500", "KWD", Err(NotWritten::TooManyDecimals { most: 3 })),
        ("USD 5.00", "EUR", Err(NotWritten::NoNumber)),
        ("92233720368547758.08", "EUR", Err(NotWritten::TooLarge)),
        ("-92233720368547758.09", "EUR", Err(NotWritten::TooLarge)),
    ] {
        assert_eq!(read_amount(text, currency), minor, "{text} {currency}");
    }
    let none =
        ["", ".", "5.", ".5", "5,00", "1'000", "1 000", "+5", "--5", "- 5", "0x5", "1e3", "٥", "€"];
    for text in none {
        assert_eq!(read_amount(text, "EUR"), Err(NotWritten::NoNumber), "{text:?}");
        assert_eq!(read_percent(text), Err(NotWritten::NoNumber), "{text:?}");
    }
}

#[test]
fn percentages_are_as_short_as_possible_and_have_two_decimals_at_most() {
    for (hundredths, text) in
        [(2_000, "20"), (1_250, "12.5"), (1, "0.01"), (10_000, "100"), (0, "0"), (-50, "-0.5")]
    {
        assert_eq!(percent(hundredths), text);
        assert_eq!(read_percent(text), Ok(hundredths));
    }
    assert_eq!(read_percent("20.0"), Ok(2_000));
    assert_eq!(read_percent("12.345"), Err(NotWritten::TooManyDecimals { most: 2 }));
}

#[test]
fn no_currency_is_in_two_lists() {
    let all = [&WITHOUT_DECIMALS[..], &THREE_DECIMALS, &FOUR_DECIMALS].concat();
    for (index, currency) in all.iter().enumerate() {
        assert!(currency.len() == 3 && !all[index + 1..].contains(currency), "{currency}");
    }
}

#[test]
fn a_discount_is_told_in_words() {
    let percent = Discount {
        cap: Some(2_000),
        minimum_spend: 5_000,
        ..discount(DiscountKind::PercentOff, 2_000)
    };
    assert_eq!(percent.words(), "20 % off, at most €20.00, from €50.00");
    let yen = Discount { currency: "JPY".to_owned(), ..discount(DiscountKind::AmountOff, 500) };
    assert_eq!(yen.words(), "JPY 500 off");
    let free = Discount { minimum_spend: 4_900, ..discount(DiscountKind::FreeShipping, 0) };
    assert_eq!(free.words(), "free shipping, from €49.00");
}

#[test]
fn only_a_percentage_below_one_is_warned_of() {
    let warning = discount(DiscountKind::PercentOff, 20).warning().unwrap();
    assert!(warning.contains("0.2 %") && warning.contains("send 20."), "{warning}");
    assert!(discount(DiscountKind::PercentOff, 99).warning().is_some());
    assert_eq!(discount(DiscountKind::PercentOff, 100).warning(), None);
    assert_eq!(discount(DiscountKind::AmountOff, 20).warning(), None);
    assert_eq!(discount(DiscountKind::FreeShipping, 0).warning(), None);
}

/// Any count, those at the ends and around 0 often.
fn any_count() -> impl Strategy<Value = i64> {
    let ends = vec![i64::MIN, i64::MIN + 1, -100, -1, 0, 1, 99, 100, i64::MAX - 1, i64::MAX];
    prop_oneof![3 => any::<i64>(), 2 => -100_000..100_000_i64, 1 => select(ends)]
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(
        count in any_count(), currency in select(CURRENCIES.to_vec()),
    ) {
        prop_assert_eq!(read_amount(&amount(count, currency), currency), Ok(count));
        prop_assert_eq!(read_percent(&percent(count)), Ok(count));
    }

    #[test]
    fn what_is_read_is_the_number_itself_and_nothing_is_rounded(
        whole in prop_oneof![any::<u64>(), 0..1_000_000_u64], fraction in "[0-9]{0,4}",
        decimals in 0..4_usize,
    ) {
        let text =
            if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") };
        let padded = format!("{whole}{fraction:0<decimals$}");
        for sign in ["", "-"] {
            let is_negative = sign == "-";
            let whole_number = format!("{sign}{padded}").parse::<i64>();
            let expected = if fraction.len() > decimals {
                Err(NotWritten::TooManyDecimals { most: decimals })
            } else {
                whole_number.map_err(|_| NotWritten::TooLarge)
            };
            prop_assert_eq!(read(&text, decimals, is_negative), expected);
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail_otherwise(text in "\\PC{0,30}") {
        for currency in CURRENCIES {
            let _read = read_amount(&text, currency);
        }
        let _read = read_percent(&text);
    }
}
