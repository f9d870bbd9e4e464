//! A template's discount from flags, beside or instead of what a file says.

use coupon::money::written;
use serde_json::{Map, Value};

use crate::{arguments::Discount, commands::money, failure::Failure};

/// Sets the discount that flags name in a template's body. What they do not name stays as the file has it.
///
/// # Errors
/// An amount is none of the discount's currency, or flags and file together are no discount.
pub(crate) fn discounted(mut body: Value, asked: &Discount) -> Result<Value, Failure> {
    if asked.is_empty() {
        return Ok(body);
    }
    let Discount { percent_off, amount_off, at_most, from, currency } = asked;
    let file = body.get("discount").and_then(Value::as_object);
    let mut discount: Map<String, Value> = file.cloned().unwrap_or_default();
    if let Some(currency) = currency {
        let before = discount.insert("currency".to_owned(), currency.as_str().into());
        let is_another = before.is_some_and(|before| before != currency.as_str());
        let of_file = |field: &str, flag: &Option<String>| {
            flag.is_none() && discount.get(field).is_some_and(|amount| !amount.is_null())
        };
        let keeps_amounts = of_file("cap_minor", at_most)
            || of_file("minimum_spend_minor", from)
            || of_file("amount_off_minor", amount_off);
        if is_another && keeps_amounts {
            return Err(Failure::usage("The file's amounts are of another currency.").advise(
                "Name each amount in the new one: `--amount-off`, `--at-most`, `--from`.",
            ));
        }
    }
    if let Some(hundredths) = percent_off {
        discount.insert("kind".to_owned(), "percent_off".into());
        discount.insert("percent_off".to_owned(), written::percent(*hundredths).into());
        discount.remove("amount_off_minor");
    }
    if amount_off.is_some() {
        discount.insert("kind".to_owned(), "amount_off".into());
        discount.remove("percent_off");
        discount.remove("cap_minor");
    }
    if !discount.contains_key("kind") {
        return Err(Failure::usage("The flags do not say what the coupons take off.").advise(
            "Give `--percent-off` or `--amount-off` too, or a file: a discount is replaced whole.",
        ));
    }
    let Some(currency) = discount.get("currency").and_then(Value::as_str).map(str::to_owned) else {
        return Err(Failure::usage("The discount has no currency.")
            .advise("Say it, e.g. `--currency EUR`."));
    };
    for (flag, text, field) in [
        ("--amount-off", amount_off, "amount_off_minor"),
        ("--at-most", at_most, "cap_minor"),
        ("--from", from, "minimum_spend_minor"),
    ] {
        if let Some(text) = text {
            let minor = money::read(flag, text, &currency)?;
            discount.insert(field.to_owned(), minor.into());
        }
    }
    body["discount"] = Value::Object(discount);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flags() -> Discount {
        Discount { percent_off: None, amount_off: None, at_most: None, from: None, currency: None }
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_currency_takes_no_amount_of_another_over() {
        let file = json!({"discount": {"kind": "percent_off", "percent_off": "20",
            "cap_minor": 2_000, "currency": "EUR"}});
        let dinars = Discount { currency: text("KWD"), ..flags() };
        assert!(discounted(file.clone(), &dinars).is_err());
        let capped = Discount { at_most: text("6.000"), ..dinars };
        let made = discounted(file.clone(), &capped).unwrap();
        assert_eq!(made["discount"]["cap_minor"], 6_000);
        let same = Discount { currency: text("EUR"), ..flags() };
        assert_eq!(discounted(file.clone(), &same).unwrap(), file);
    }

    #[test]
    fn flags_make_a_discount_in_the_currencys_units() {
        let percent = Discount {
            percent_off: Some(2_000),
            at_most: text("20.00"),
            from: text("50"),
            currency: text("EUR"),
            ..flags()
        };
        let wanted = json!({"discount": {"kind": "percent_off", "percent_off": "20",
            "cap_minor": 2_000, "minimum_spend_minor": 5_000, "currency": "EUR"}});
        assert_eq!(discounted(json!({}), &percent).unwrap(), wanted);
        // Instead of the file's percentage, in the file's currency and from its minimum.
        let amount = Discount { amount_off: text("5.00"), ..flags() };
        let wanted = json!({"discount": {"kind": "amount_off", "amount_off_minor": 500,
            "minimum_spend_minor": 5_000, "currency": "EUR"}});
        let file = discounted(json!({}), &percent).unwrap();
        assert_eq!(discounted(file, &amount).unwrap(), wanted);
        let file = json!({"name": "A sale", "discount": {"kind": "free_shipping"}});
        assert_eq!(discounted(file.clone(), &flags()).unwrap(), file);
    }

    #[test]
    fn flags_that_are_no_discount_say_what_is_missing() {
        let advice = |asked: &Discount| discounted(json!({}), asked).unwrap_err().advice.unwrap();
        let only_from = Discount { from: text("50.00"), currency: text("EUR"), ..flags() };
        assert!(advice(&only_from).contains("--percent-off"));
        assert!(advice(&Discount { percent_off: Some(100), ..flags() }).contains("--currency"));
        let yen = Discount { amount_off: text("5.00"), currency: text("JPY"), ..flags() };
        assert!(advice(&yen).contains("no decimals"));
    }
}
