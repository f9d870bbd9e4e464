//! Templates on the wire.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{
    Discount, DiscountKind, MerchantId, Template, TemplateId, TemplateState, Validity, Window,
    limit,
};
use serde::{Deserialize, Serialize};

use crate::{instant::instant, problem::Problem};

/// Last moment of the year 9999, in milliseconds since 1970.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// What an operator sends to create a template.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTemplate {
    name: String,
    discount: DiscountJson,
    pub(crate) total_stock: i64,
    per_user_limit: u32,
    max_per_claim: Option<u32>,
    claim_starts_at: DateTime<Utc>,
    claim_ends_at: DateTime<Utc>,
    valid_from: Option<DateTime<Utc>>,
    valid_until: Option<DateTime<Utc>>,
    valid_for_ms: Option<i64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiscountJson {
    kind: String,
    #[serde(default)]
    value: i64,
    cap: Option<i64>,
    #[serde(default)]
    minimum_spend: i64,
    currency: String,
}

/// A template as an operator sees it.
#[derive(Serialize)]
pub(crate) struct TemplateJson {
    id: String,
    name: String,
    state: &'static str,
    version: i64,
    discount: DiscountJson,
    per_user_limit: u32,
    max_per_claim: u32,
    claim_starts_at: String,
    claim_ends_at: String,
    #[serde(flatten)]
    validity: ValidityJson,
}

/// A validity: two instants, or a time from the claim on.
#[derive(Serialize)]
pub(crate) struct ValidityJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_for_ms: Option<i64>,
}

impl NewTemplate {
    /// The draft that this describes.
    pub(crate) fn into_draft(
        self,
        id: TemplateId,
        merchant_id: MerchantId,
    ) -> Result<Template, Problem> {
        if !(0..=limit::STOCK_MAX).contains(&self.total_stock) {
            return Err(invalid("total_stock", format!("use 0 to {}", limit::STOCK_MAX)));
        }
        let validity = validity(self.valid_from, self.valid_until, self.valid_for_ms)?;
        let kind = DiscountKind::from_word(&self.discount.kind).ok_or_else(|| {
            let problem = "use amount_off, percent_off or free_shipping".to_owned();
            invalid("discount.kind", problem)
        })?;
        let template = Template {
            id,
            merchant_id,
            name: self.name,
            discount: Discount {
                kind,
                value: self.discount.value,
                cap: self.discount.cap,
                minimum_spend: self.discount.minimum_spend,
                currency: self.discount.currency,
            },
            per_user_limit: self.per_user_limit,
            max_per_claim: self.max_per_claim.unwrap_or(1),
            window: Window {
                starts_at: moment("claim_starts_at", self.claim_starts_at)?,
                ends_at: moment("claim_ends_at", self.claim_ends_at)?,
            },
            validity,
            state: TemplateState::Draft,
            version: 1,
        };
        validate(&template)?;
        Ok(template)
    }
}

/// The validity that these fields describe, to the millisecond, as it is stored.
pub(crate) fn validity(
    from: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    for_ms: Option<i64>,
) -> Result<Validity, Problem> {
    match (for_ms, from, until) {
        (Some(ms), None, None) => TimeDelta::try_milliseconds(ms)
            .map(|valid_for| Validity::Relative { valid_for })
            .ok_or_else(|| invalid("valid_for_ms", "use a smaller number".to_owned())),
        (None, Some(from), Some(until)) => {
            let (from, until) = (moment("valid_from", from)?, moment("valid_until", until)?);
            Ok(Validity::Absolute { from, until })
        }
        _ => {
            let problem = "use either valid_for_ms, or valid_from and valid_until".to_owned();
            Err(invalid("valid_for_ms", problem))
        }
    }
}

/// A time to the millisecond, as it is stored: from 1970, where the view's scores begin, to the year 9999,
/// where MySQL's times end. A leap second is in no column.
fn moment(field: &str, at: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    let is_leap = at.timestamp_subsec_millis() >= 1_000;
    if (0..=TIME_MS_MAX).contains(&at.timestamp_millis()) && !is_leap {
        return Ok(at.trunc_subsecs(3));
    }
    Err(invalid(field, "use a time from 1970 to 9999".to_owned()))
}

/// Says which field of a template is not acceptable.
pub(crate) fn validate(template: &Template) -> Result<(), Problem> {
    template.validate().map_err(|error| invalid(error.field, error.problem))
}

fn invalid(field: &str, problem: String) -> Problem {
    Problem::invalid("INVALID_TEMPLATE", format!("{field}: {problem}.")).with("field", field)
}

impl From<&Template> for TemplateJson {
    fn from(template: &Template) -> Self {
        Self {
            id: template.id.to_string(),
            name: template.name.clone(),
            state: template.state.word(),
            version: template.version,
            discount: DiscountJson::from(&template.discount),
            per_user_limit: template.per_user_limit,
            max_per_claim: template.max_per_claim,
            claim_starts_at: instant(template.window.starts_at),
            claim_ends_at: instant(template.window.ends_at),
            validity: ValidityJson::from(&template.validity),
        }
    }
}

impl From<&Discount> for DiscountJson {
    fn from(discount: &Discount) -> Self {
        Self {
            kind: discount.kind.word().to_owned(),
            value: discount.value,
            cap: discount.cap,
            minimum_spend: discount.minimum_spend,
            currency: discount.currency.clone(),
        }
    }
}

impl From<&Validity> for ValidityJson {
    fn from(validity: &Validity) -> Self {
        match *validity {
            Validity::Absolute { from, until } => Self {
                valid_from: Some(instant(from)),
                valid_until: Some(instant(until)),
                valid_for_ms: None,
            },
            Validity::Relative { valid_for } => Self {
                valid_from: None,
                valid_until: None,
                valid_for_ms: Some(valid_for.num_milliseconds()),
            },
        }
    }
}
