//! Templates on the wire.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{
    Discount, DiscountKind, MerchantId, Template, TemplateError, TemplateId, TemplateState,
    Validity, Window, limit,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    instant::instant,
    openapi::{self, Id, Instant},
    problem::Problem,
};

/// Last moment of the year 9999, in milliseconds since 1970.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// What an operator sends to create a template.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "name": "A sale",
    "discount": { "kind": "amount_off", "value": 500, "minimum_spend": 2000, "currency": "EUR" },
    "total_stock": 1000, "per_user_limit": 1,
    "claim_starts_at": "2026-11-27T08:00:00Z", "claim_ends_at": "2036-11-28T08:00:00Z",
    "valid_for_ms": 604800000
})))]
pub(crate) struct NewTemplate {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    name: String,
    discount: DiscountJson,
    /// How many there are to give.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub(crate) total_stock: i64,
    /// How many coupons one user may hold of it, ever; 0: no limit.
    #[schema(minimum = 0, maximum = 100)]
    per_user_limit: u32,
    /// How many coupons one claim may ask for, at most `per_user_limit`; 1 if absent.
    #[schema(minimum = 1, maximum = 100)]
    max_per_claim: Option<u32>,
    /// From when on it can be claimed.
    #[schema(value_type = Instant)]
    claim_starts_at: DateTime<Utc>,
    /// Until when, exclusive.
    #[schema(value_type = Instant)]
    claim_ends_at: DateTime<Utc>,
    /// From when on its coupons can be used. Send this and `valid_until`, or `valid_for_ms`.
    #[schema(value_type = Option<Instant>)]
    valid_from: Option<DateTime<Utc>>,
    /// Until when, exclusive.
    #[schema(value_type = Option<Instant>)]
    valid_until: Option<DateTime<Utc>>,
    /// For how long from the claim on, in milliseconds.
    #[schema(minimum = 1, maximum = 315360000000i64)]
    valid_for_ms: Option<i64>,
    /// Whether users may redeem its coupons with their own token; else only the shop does, by a key. `false` if absent.
    self_redeem: Option<bool>,
}

/// What a coupon takes off an order. Money is in minor units of `currency`.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Discount)]
pub(crate) struct DiscountJson {
    #[schema(value_type = openapi::DiscountKind)]
    kind: String,
    /// Minor units for `amount_off`, hundredths of a percent (1 to 10000) for `percent_off`, else 0.
    #[schema(minimum = 0)]
    #[serde(default)]
    value: i64,
    /// The most that a percentage takes off; for `percent_off` only.
    #[schema(minimum = 1)]
    cap: Option<i64>,
    /// The order value from which the coupon can be used.
    #[schema(minimum = 0)]
    #[serde(default)]
    minimum_spend: i64,
    /// ISO 4217.
    #[schema(pattern = "^[A-Z]{3}$", examples("EUR"))]
    currency: String,
}

/// A template as an operator sees it.
#[derive(Serialize, ToSchema)]
#[schema(as = Template, examples(example))]
pub(crate) struct TemplateJson {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    #[schema(value_type = openapi::TemplateState)]
    state: &'static str,
    version: i64,
    /// Whether users may redeem its coupons with their own token; else only the shop does, by a key.
    self_redeem: bool,
    #[serde(flatten)]
    terms: TermsJson,
}

/// What is promised to whoever claims.
#[derive(Serialize, ToSchema)]
#[schema(as = Terms)]
pub(crate) struct TermsJson {
    discount: DiscountJson,
    per_user_limit: u32,
    max_per_claim: u32,
    #[schema(value_type = Instant)]
    claim_starts_at: String,
    #[schema(value_type = Instant)]
    claim_ends_at: String,
    #[serde(flatten)]
    validity: ValidityJson,
}

/// A validity: two instants, or a time from the claim on.
#[derive(Serialize, ToSchema)]
#[schema(as = Validity)]
pub(crate) struct ValidityJson {
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_from: Option<String>,
    #[schema(value_type = Instant)]
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<String>,
    #[schema(value_type = i64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_for_ms: Option<i64>,
}

/// A template, as the document shows it.
pub(crate) fn example() -> Value {
    json!({
        "id": "2123985067360387072", "name": "A sale", "state": "published", "version": 2,
        "self_redeem": false,
        "discount": {
            "kind": "amount_off", "value": 500, "cap": null, "minimum_spend": 2000, "currency": "EUR",
        },
        "per_user_limit": 1, "max_per_claim": 1, "claim_starts_at": "2026-11-27T08:00:00.000Z",
        "claim_ends_at": "2026-11-28T08:00:00.000Z", "valid_for_ms": 604_800_000,
    })
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
        let template = Template {
            id,
            merchant_id,
            name: self.name,
            discount: self.discount.read()?,
            per_user_limit: self.per_user_limit,
            max_per_claim: self.max_per_claim.unwrap_or(1),
            window: Window {
                starts_at: moment("claim_starts_at", self.claim_starts_at)?,
                ends_at: moment("claim_ends_at", self.claim_ends_at)?,
            },
            validity,
            self_redeem: self.self_redeem.unwrap_or(false),
            state: TemplateState::Draft,
            version: 1,
        };
        validate(&template)?;
        Ok(template)
    }
}

impl DiscountJson {
    /// The discount that this describes.
    pub(crate) fn read(&self) -> Result<Discount, Problem> {
        let kind = DiscountKind::from_word(&self.kind).ok_or_else(|| {
            let problem = "use amount_off, percent_off or free_shipping".to_owned();
            invalid("discount.kind", problem)
        })?;
        Ok(Discount {
            kind,
            value: self.value,
            cap: self.cap,
            minimum_spend: self.minimum_spend,
            currency: self.currency.clone(),
        })
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
pub(crate) fn moment(field: &str, at: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    let is_leap = at.timestamp_subsec_millis() >= 1_000;
    if (0..=TIME_MS_MAX).contains(&at.timestamp_millis()) && !is_leap {
        return Ok(at.trunc_subsecs(3));
    }
    Err(invalid(field, "use a time from 1970 to 9999".to_owned()))
}

/// Says which field of a template is not acceptable.
pub(crate) fn validate(template: &Template) -> Result<(), Problem> {
    template.validate().map_err(not_acceptable)
}

pub(crate) fn not_acceptable(error: TemplateError) -> Problem {
    invalid(error.field, error.problem)
}

pub(crate) fn invalid(field: &str, problem: String) -> Problem {
    Problem::invalid("INVALID_TEMPLATE", format!("{field}: {problem}.")).with("field", field)
}

impl From<&Template> for TemplateJson {
    fn from(template: &Template) -> Self {
        Self {
            id: template.id.to_string(),
            name: template.name.clone(),
            state: template.state.word(),
            version: template.version,
            self_redeem: template.self_redeem,
            terms: TermsJson::from(template),
        }
    }
}

impl From<&Template> for TermsJson {
    fn from(template: &Template) -> Self {
        Self {
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
