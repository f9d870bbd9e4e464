//! Money on the command line: read from flags and shown in the currency's units. The api counts in minor units.

use coupon::money::written;
use serde_json::{Map, Value};

use crate::{failure::Failure, text};

/// Fields that are minor units of the `currency` that stands beside them, or beside the list that they are in.
const AMOUNTS: [&str; 4] = ["amount", "discount", "left_to_pay", "revenue"];

/// Fields that are shown elsewhere: texts instead of what they tell, warnings on standard error.
const ELSEWHERE: [&str; 3] = ["discount_text", "revenue_text", "warnings"];

/// Formats an object as [`text::object`] does, with money and discounts as people write them.
pub(crate) fn object(answer: &Value) -> String {
    text::object(&told(answer, None))
}

/// Returns an answer with money and discounts as texts. `currency` is that of the object around it.
pub(crate) fn told(answer: &Value, currency: Option<&str>) -> Value {
    match answer {
        Value::Array(items) => items.iter().map(|item| told(item, currency)).collect(),
        Value::Object(fields) => {
            let own = fields.get("currency").and_then(Value::as_str);
            let mut shown = Map::new();
            for (name, value) in fields {
                if !ELSEWHERE.contains(&name.as_str()) {
                    shown.insert(name.clone(), field(fields, name, value, own.or(currency)));
                }
            }
            Value::Object(shown)
        }
        other => other.clone(),
    }
}

/// Returns a field of `fields` as it is told.
fn field(fields: &Map<String, Value>, name: &str, value: &Value, currency: Option<&str>) -> Value {
    let words = fields.get("discount_text").filter(|_| name == "discount" && value.is_object());
    if let Some(words) = words {
        return words.clone();
    }
    match currency.zip(value.as_i64()) {
        Some((currency, minor)) if AMOUNTS.contains(&name) => {
            written::amount(minor, currency).into()
        }
        _ => told(value, currency),
    }
}

/// Reads a flag's amount as minor units.
///
/// # Errors
/// It is no amount of this currency. The advice says how one is written.
pub(crate) fn read(flag: &str, text: &str, currency: &str) -> Result<i64, Failure> {
    written::read_amount(text, currency).map_err(|why| {
        let advice = match written::decimals(currency) {
            0 => format!("{currency} has no decimals: `{flag} 5` is {}.", money("5", currency)),
            most => {
                let example = format!("5.{}", "0".repeat(most));
                let is = money(&example, currency);
                format!(
                    "{currency} has {most} decimals behind a point: `{flag} {example}` is {is}."
                )
            }
        };
        Failure::usage(format!("{flag} {text}: {why}.")).advise(advice)
    })
}

/// Reads what an order costs as minor units. A bare number is refused where it could also be what this flag once took:
/// minor units.
///
/// # Errors
/// It is no amount of this currency, or a bare number. The advice says how one is written.
pub(crate) fn read_of_order(flag: &str, text: &str, currency: &str) -> Result<i64, Failure> {
    let minor = read(flag, text, currency)?;
    let formerly = text.parse::<i64>().ok().filter(|_| written::decimals(currency) > 0);
    let Some(formerly) = formerly else { return Ok(minor) };
    let is = written::amount(minor, currency);
    let was = written::amount(formerly, currency);
    let sentence = format!("{flag} {text} is {is}, but was {was} in earlier versions.");
    Err(Failure::usage(sentence)
        .advise("Write the one that you mean with its decimals. Nothing was sent."))
}

/// Returns an amount as it is shown.
fn money(text: &str, currency: &str) -> String {
    let minor = written::read_amount(text, currency);
    minor.map_or_else(|_| text.to_owned(), |minor| written::amount(minor, currency))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_tells_money_in_its_currency_and_discounts_in_words() {
        let redeemed = json!({"currency": "JPY", "amount": 5_000, "left_to_pay": null,
            "coupons": [{"coupon_id": "8", "discount": 450}]});
        let told_of_it = told(&redeemed, None);
        assert_eq!(told_of_it["amount"], "JPY 5000");
        assert_eq!(told_of_it["left_to_pay"], Value::Null);
        assert_eq!(told_of_it["coupons"][0]["discount"], "JPY 450");
        let template = json!({"discount": {"kind": "amount_off", "amount_off_minor": 500},
            "discount_text": "€5.00 off", "total_stock": 9, "warnings": ["w"]});
        assert_eq!(object(&template), "discount     €5.00 off\ntotal_stock  9\n");
        let without = json!({"amount": 5, "discount": {"cap_minor": 7}});
        assert_eq!(told(&without, None), without, "whose currency or words nobody says");
    }

    #[test]
    fn an_amount_that_is_none_comes_with_one_that_is() {
        let advice = |text: &str, currency: &str| {
            read("--from", text, currency).unwrap_err().advice.unwrap()
        };
        assert!(advice("5.005", "EUR").contains("`--from 5.00` is €5.00"));
        assert!(advice("5.00", "JPY").contains("`--from 5` is JPY 5"));
        assert!(advice("5,0", "KWD").contains("`--from 5.000` is KWD 5.000"));
        assert_eq!(read("--from", "€5", "EUR").unwrap(), 500);
    }

    #[test]
    fn a_bare_number_of_an_order_is_refused_unless_it_has_one_meaning() {
        let read = |text: &str, currency: &str| read_of_order("--amount", text, currency);
        let refused = read("5000", "EUR").unwrap_err();
        assert!(refused.sentence.contains("€5000.00, but was €50.00"), "{refused}");
        assert_eq!(read("50.00", "EUR").unwrap(), 5_000);
        assert_eq!(read("€50", "EUR").unwrap(), 5_000);
        assert_eq!(read("500", "JPY").unwrap(), 500);
    }
}
