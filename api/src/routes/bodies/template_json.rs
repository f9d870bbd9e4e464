//! JSON bodies of templates.

use chrono::TimeDelta;
use coupon::{
    AcceptAfter, ClaimMode, HoldTerms, MerchantId, ReturnedStock, Template, TemplateError,
    TemplateId, TemplateState, Validity, Window, limit,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    code::Code,
    http::{
        instant::{RequestInstant, instant},
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    routes::bodies::discount_json::DiscountJson,
};

/// Request to create a template.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "name": "A sale",
    "discount": { "kind": "percent_off", "percent_off": "20", "cap_minor": 2000, "minimum_spend_minor": 5000, "currency": "EUR" },
    "total_stock": 1000, "per_user_limit": 1,
    "claim_starts_at": "2026-11-27T08:00:00Z", "claim_ends_at": "2036-11-28T08:00:00Z",
    "valid_for_ms": 604800000
})))]
pub(crate) struct NewTemplate {
    /// The template's name, for people.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    name: String,
    discount: DiscountJson,
    /// Number of coupons to give out.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub(crate) total_stock: i64,
    /// Maximum coupons of this template that one user may ever have. 0: no limit.
    #[schema(minimum = 0, maximum = 100)]
    per_user_limit: u32,
    /// Maximum coupons that one claim may ask for, at most `per_user_limit`. Default: 1.
    #[schema(minimum = 1, maximum = 100)]
    max_per_claim: Option<u32>,
    /// When claims open.
    claim_starts_at: RequestInstant,
    /// When claims close, exclusive.
    claim_ends_at: RequestInstant,
    /// When its coupons become valid. Send this and `valid_until`, or `valid_for_ms`.
    valid_from: Option<RequestInstant>,
    /// When its coupons expire, exclusive.
    valid_until: Option<RequestInstant>,
    /// How long a coupon is valid from its claim on, in milliseconds.
    #[schema(minimum = 1, maximum = 315360000000i64)]
    valid_for_ms: Option<i64>,
    /// Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key. Default:
    /// `false`.
    self_redeem: Option<bool>,
    /// Whether one order may redeem its coupons together with others. Default: `true`.
    stackable: Option<bool>,
    /// How claims are answered. Default: `direct`.
    #[schema(value_type = Option<schemas::ClaimMode>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_mode: Option<String>,
    /// What must have a queued claim before it is answered. Default: `topic`.
    #[schema(value_type = Option<schemas::AcceptAfter>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_after: Option<String>,
    /// Time within which claimed coupons must be confirmed, in milliseconds; otherwise they lapse. 0: claims are confirmed
    /// at once. Default: 0.
    #[schema(minimum = 0, maximum = 2592000000i64)]
    hold_ms: Option<i64>,
    /// Lapsed coupons after which a user is refused further claims: a claim of three that lapses counts three. 0: never.
    /// Default: 0.
    #[schema(minimum = 0, maximum = 100)]
    lapses_allowed: Option<u32>,
    /// What becomes of a coupon that lapsed or was cancelled. Default: `resell`.
    #[schema(value_type = Option<schemas::ReturnedStock>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    returned_stock: Option<String>,
}

/// A template as an operator sees it.
#[derive(Serialize, ToSchema)]
#[schema(as = Template, examples(example))]
pub(crate) struct TemplateJson {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    #[schema(value_type = schemas::TemplateState)]
    state: &'static str,
    version: i64,
    /// Whether users may redeem its coupons with their own token; otherwise only the shop does, with a key.
    self_redeem: bool,
    /// Whether one order may redeem its coupons together with others.
    stackable: bool,
    #[schema(value_type = schemas::ClaimMode)]
    claim_mode: &'static str,
    #[schema(value_type = schemas::AcceptAfter)]
    accept_after: &'static str,
    /// Lapsed coupons after which a user is refused further claims; 0: never.
    lapses_allowed: u32,
    /// What becomes of a coupon that lapsed or was cancelled.
    #[schema(value_type = schemas::ReturnedStock)]
    returned_stock: &'static str,
    /// What is accepted but probably not meant, for people. Present if there is something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten)]
    terms: TermsJson,
}

/// The terms that are promised to users who claim.
#[derive(Serialize, ToSchema)]
#[schema(as = Terms)]
pub(crate) struct TermsJson {
    discount: DiscountJson,
    /// The discount in plain English, with money in the currency's units, for people.
    discount_text: String,
    per_user_limit: u32,
    max_per_claim: u32,
    /// Time within which claimed coupons must be confirmed, in milliseconds; 0: claims are confirmed at once.
    hold_ms: i64,
    #[schema(value_type = Instant)]
    claim_starts_at: String,
    #[schema(value_type = Instant)]
    claim_ends_at: String,
    #[serde(flatten)]
    validity: ValidityJson,
}

/// A validity: two instants, or a duration from the claim on.
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

/// Example of a template for the OpenAPI document.
pub(crate) fn example() -> Value {
    json!({
        "id": "2123985067360387072", "name": "A sale", "state": "published", "version": 2,
        "self_redeem": false, "stackable": true, "claim_mode": "direct", "accept_after": "topic",
        "lapses_allowed": 0, "returned_stock": "resell",
        "discount": {
            "kind": "percent_off", "percent_off": "20", "cap_minor": 2_000, "minimum_spend_minor": 5_000,
            "currency": "EUR",
        },
        "discount_text": "20 % off, at most €20.00, from €50.00",
        "per_user_limit": 1, "max_per_claim": 1, "hold_ms": 0,
        "claim_starts_at": "2026-11-27T08:00:00.000Z",
        "claim_ends_at": "2026-11-28T08:00:00.000Z", "valid_for_ms": 604_800_000,
    })
}

impl NewTemplate {
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
            window: Window { starts_at: self.claim_starts_at.0, ends_at: self.claim_ends_at.0 },
            validity,
            self_redeem: self.self_redeem.unwrap_or(false),
            stackable: self.stackable.unwrap_or(true),
            claim_mode: claim_mode(self.claim_mode.as_deref())?.unwrap_or_default(),
            accept_after: accept_after(self.accept_after.as_deref())?.unwrap_or_default(),
            hold: HoldTerms {
                hold: hold(self.hold_ms.unwrap_or(0))?,
                lapses_allowed: self.lapses_allowed.unwrap_or(0),
                returned_stock: returned_stock(self.returned_stock.as_deref())?.unwrap_or_default(),
            },
            state: TemplateState::Draft,
            version: 1,
        };
        validate(&template)?;
        Ok(template)
    }
}

/// Reads how claims are answered, if that is said.
pub(crate) fn claim_mode(word: Option<&str>) -> Result<Option<ClaimMode>, Problem> {
    let unknown = || invalid("claim_mode", "use direct, queued or spill".to_owned());
    word.map(|word| ClaimMode::from_word(word).ok_or_else(unknown)).transpose()
}

/// Reads what must have a queued claim, if that is said.
pub(crate) fn accept_after(word: Option<&str>) -> Result<Option<AcceptAfter>, Problem> {
    let unknown = || invalid("accept_after", "use gate, replica or topic".to_owned());
    word.map(|word| AcceptAfter::from_word(word).ok_or_else(unknown)).transpose()
}

/// Reads the time within which coupons must be confirmed; 0: none.
pub(crate) fn hold(ms: i64) -> Result<Option<TimeDelta>, Problem> {
    let wrong = || invalid("hold_ms", "use 0 or a number of milliseconds".to_owned());
    if ms == 0 { Ok(None) } else { TimeDelta::try_milliseconds(ms).map(Some).ok_or_else(wrong) }
}

/// Reads what becomes of returned units, if that is said.
pub(crate) fn returned_stock(word: Option<&str>) -> Result<Option<ReturnedStock>, Problem> {
    let unknown = || invalid("returned_stock", "use resell or retire".to_owned());
    word.map(|word| ReturnedStock::from_word(word).ok_or_else(unknown)).transpose()
}

/// Returns the validity that these fields describe.
pub(crate) fn validity(
    from: Option<RequestInstant>,
    until: Option<RequestInstant>,
    for_ms: Option<i64>,
) -> Result<Validity, Problem> {
    match (for_ms, from, until) {
        (Some(ms), None, None) => TimeDelta::try_milliseconds(ms)
            .map(|valid_for| Validity::Relative { valid_for })
            .ok_or_else(|| invalid("valid_for_ms", "use a smaller number".to_owned())),
        (None, Some(from), Some(until)) => Ok(Validity::Absolute { from: from.0, until: until.0 }),
        _ => {
            let problem = "use either valid_for_ms, or valid_from and valid_until".to_owned();
            Err(invalid("valid_for_ms", problem))
        }
    }
}

/// Checks a template. The problem names the field.
pub(crate) fn validate(template: &Template) -> Result<(), Problem> {
    template.validate().map_err(not_acceptable)
}

pub(crate) fn not_acceptable(error: TemplateError) -> Problem {
    invalid(error.field, error.problem)
}

pub(crate) fn invalid(field: &str, problem: String) -> Problem {
    Problem::new(Code::InvalidTemplate, format!("{field}: {problem}.")).with("field", field)
}

impl From<&Template> for TemplateJson {
    fn from(template: &Template) -> Self {
        Self {
            id: template.id.to_string(),
            name: template.name.clone(),
            state: template.state.word(),
            version: template.version,
            self_redeem: template.self_redeem,
            stackable: template.stackable,
            claim_mode: template.claim_mode.word(),
            accept_after: template.accept_after.word(),
            lapses_allowed: template.hold.lapses_allowed,
            returned_stock: template.hold.returned_stock.word(),
            warnings: template.discount.warning().into_iter().collect(),
            terms: TermsJson::from(template),
        }
    }
}

impl From<&Template> for TermsJson {
    fn from(template: &Template) -> Self {
        Self {
            discount: DiscountJson::from(&template.discount),
            discount_text: template.discount.words(),
            per_user_limit: template.per_user_limit,
            max_per_claim: template.max_per_claim,
            hold_ms: template.hold.hold.map_or(0, |hold| hold.num_milliseconds()),
            claim_starts_at: instant(template.window.starts_at),
            claim_ends_at: instant(template.window.ends_at),
            validity: ValidityJson::from(&template.validity),
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
