//! The JSON of a discount, in requests and answers.

use std::fmt;

use coupon::{
    Discount, DiscountKind,
    money::written::{self, NotWritten},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny, Visitor},
};
use utoipa::ToSchema;

use crate::{http::schemas, problem::Problem, routes::bodies::template_json::invalid};

/// The discount on an order. It has `percent_off` or `amount_off_minor`, as `kind` says; with free shipping neither.
/// Fields that end with `_minor` are in minor units of `currency`: 2000 are 20.00 euros, or 2,000 yen.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Discount)]
pub(crate) struct DiscountJson {
    #[schema(value_type = schemas::DiscountKind)]
    kind: String,
    /// Only of `percent_off`: above 0, at most 100, with at most two decimals. `20` takes a fifth off.
    #[schema(value_type = Option<schemas::Percent>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    percent_off: Option<PercentText>,
    /// Only of `amount_off`: what it takes off.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_off_minor: Option<i64>,
    /// Maximum amount that a percentage takes off. Only for `percent_off`.
    #[schema(minimum = 1)]
    cap_minor: Option<i64>,
    /// Smallest order value for which the coupon can be used.
    #[schema(minimum = 0)]
    #[serde(default)]
    minimum_spend_minor: i64,
    /// The currency as an ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$", examples("EUR"))]
    currency: String,
    /// The fields of earlier versions. Accepted only to say what took their place.
    #[schema(ignore)]
    #[serde(skip_serializing)]
    value: Option<IgnoredAny>,
    #[schema(ignore)]
    #[serde(skip_serializing)]
    cap: Option<IgnoredAny>,
    #[schema(ignore)]
    #[serde(skip_serializing)]
    minimum_spend: Option<IgnoredAny>,
}

/// A percentage as it was sent: a text, or a JSON number. A number has passed through a float, whose shortest text is
/// the number that was sent, if that has two decimals. One with more is refused anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PercentText(String);

impl<'de> Deserialize<'de> for PercentText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = PercentText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a percentage, e.g. \"12.5\" or 12.5")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PercentText, E> {
        Ok(PercentText(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PercentText, E> {
        Ok(PercentText(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PercentText, E> {
        Ok(PercentText(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<PercentText, E> {
        Ok(PercentText(number.to_string()))
    }
}

impl DiscountJson {
    pub(crate) fn read(&self) -> Result<Discount, Problem> {
        self.has_no_former_field()?;
        let kind = DiscountKind::from_word(&self.kind).ok_or_else(|| {
            let problem = "use amount_off, percent_off or free_shipping".to_owned();
            invalid("discount.kind", problem)
        })?;
        Ok(Discount {
            kind,
            value: self.value_of(kind)?,
            cap: self.cap_minor,
            minimum_spend: self.minimum_spend_minor,
            currency: self.currency.clone(),
        })
    }

    /// Refuses the fields of earlier versions, which would mean something else than they say: a `value` of 20 was a
    /// fifth of a percent.
    fn has_no_former_field(&self) -> Result<(), Problem> {
        for (field, is_sent, problem) in [
            (
                "discount.value",
                self.value.is_some(),
                "send percent_off (\"20\" are 20 %) or amount_off_minor (500 are 5.00 euros) instead",
            ),
            ("discount.cap", self.cap.is_some(), "send cap_minor instead, in minor units"),
            (
                "discount.minimum_spend",
                self.minimum_spend.is_some(),
                "send minimum_spend_minor instead, in minor units",
            ),
        ] {
            if is_sent {
                return Err(invalid(field, problem.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the field that the kind needs, in minor units or hundredths of a percent; 0 for free shipping.
    fn value_of(&self, kind: DiscountKind) -> Result<i64, Problem> {
        let foreign = |field: &str| {
            let kind = kind.word();
            Err(invalid(field, format!("leave it out with {kind}")))
        };
        if self.percent_off.is_some() && kind != DiscountKind::PercentOff {
            return foreign("discount.percent_off");
        }
        if self.amount_off_minor.is_some() && kind != DiscountKind::AmountOff {
            return foreign("discount.amount_off_minor");
        }
        match kind {
            DiscountKind::FreeShipping => Ok(0),
            DiscountKind::AmountOff => self.amount_off_minor.ok_or_else(|| {
                let problem = "say how much, in minor units: 500 are 5.00 euros".to_owned();
                invalid("discount.amount_off_minor", problem)
            }),
            DiscountKind::PercentOff => {
                let text = self.percent_off.as_ref().ok_or_else(|| {
                    let problem = "say how much, in percent: \"20\" are 20 %".to_owned();
                    invalid("discount.percent_off", problem)
                })?;
                written::read_percent(&text.0).map_err(|why| no_percentage(&why))
            }
        }
    }
}

fn no_percentage(why: &NotWritten) -> Problem {
    let problem = format!("{why}: use a percentage above 0, at most 100, e.g. \"20\" or \"12.5\"");
    invalid("discount.percent_off", problem)
}

impl From<&Discount> for DiscountJson {
    fn from(discount: &Discount) -> Self {
        let value_if = |kind| (discount.kind == kind).then_some(discount.value);
        let percent = value_if(DiscountKind::PercentOff).map(written::percent);
        Self {
            kind: discount.kind.word().to_owned(),
            percent_off: percent.map(PercentText),
            amount_off_minor: value_if(DiscountKind::AmountOff),
            cap_minor: discount.cap,
            minimum_spend_minor: discount.minimum_spend,
            currency: discount.currency.clone(),
            value: None,
            cap: None,
            minimum_spend: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the value that a discount with these fields has, or the refusal's text.
    fn value_of(fields: &Value) -> Result<i64, String> {
        let mut body = json!({ "currency": "EUR" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let json: DiscountJson = serde_json::from_value(body).map_err(|error| error.to_string())?;
        json.read().map(|discount| discount.value).map_err(|problem| problem.reason().1)
    }

    #[test]
    fn a_percentage_is_read_from_a_text_or_a_number_exactly() {
        for hundredths in 1..=10_000 {
            let text = written::percent(hundredths);
            let number: Value = serde_json::from_str(&text).unwrap();
            for percent in [json!(text), number] {
                let sent = json!({ "kind": "percent_off", "percent_off": percent });
                assert_eq!(value_of(&sent), Ok(hundredths), "{sent}");
            }
        }
        for wrong in [json!("20 %"), json!("12.345"), json!(12.345), json!(1e300), json!(true)] {
            let sent = json!({ "kind": "percent_off", "percent_off": wrong });
            let why = value_of(&sent).unwrap_err();
            assert!(why.contains("12.5"), "{sent}: {why}");
        }
    }

    #[test]
    fn each_kind_takes_its_own_field_and_a_former_one_names_what_took_its_place() {
        for (sent, wanted) in [
            (json!({ "kind": "percent_off", "value": 20 }), "percent_off"),
            (json!({ "kind": "amount_off", "value": 500 }), "amount_off_minor"),
            (json!({ "kind": "percent_off", "percent_off": 20, "cap": 5 }), "cap_minor"),
            (json!({ "kind": "free_shipping", "minimum_spend": 5 }), "minimum_spend_minor"),
            (json!({ "kind": "percent_off" }), "discount.percent_off: say"),
            (json!({ "kind": "amount_off" }), "discount.amount_off_minor: say"),
            (json!({ "kind": "percent_off", "amount_off_minor": 20 }), "leave it out"),
            (json!({ "kind": "amount_off", "percent_off": "20" }), "leave it out"),
            (json!({ "kind": "free_shipping", "amount_off_minor": 0 }), "leave it out"),
        ] {
            let why = value_of(&sent).unwrap_err();
            assert!(why.contains(wanted), "{sent}: {why}");
        }
        assert_eq!(value_of(&json!({ "kind": "amount_off", "amount_off_minor": 500 })), Ok(500));
        assert_eq!(value_of(&json!({ "kind": "free_shipping", "percent_off": null })), Ok(0));
    }

    #[test]
    fn what_is_shown_of_a_discount_is_one_that_can_be_sent() {
        for kind in [DiscountKind::PercentOff, DiscountKind::AmountOff, DiscountKind::FreeShipping]
        {
            let value = if kind == DiscountKind::FreeShipping { 0 } else { 1_250 };
            let currency = "JPY".to_owned();
            let discount = Discount { kind, value, cap: None, minimum_spend: 7, currency };
            let shown = json!(DiscountJson::from(&discount));
            let sent: DiscountJson = serde_json::from_value(shown).unwrap();
            assert_eq!(sent.read().unwrap(), discount);
        }
    }
}
