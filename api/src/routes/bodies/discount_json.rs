//! The JSON of a discount, in requests and answers.

use coupon::{Discount, DiscountKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{http::schemas, problem::Problem, routes::bodies::template_json::invalid};

/// The discount on an order. Money is in minor units of `currency`.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Discount)]
pub(crate) struct DiscountJson {
    #[schema(value_type = schemas::DiscountKind)]
    kind: String,
    /// Minor units for `amount_off`, hundredths of a percent (1 to 10000) for `percent_off`, otherwise 0.
    #[schema(minimum = 0)]
    #[serde(default)]
    value: i64,
    /// Maximum amount that a percentage takes off. Only for `percent_off`.
    #[schema(minimum = 1)]
    cap: Option<i64>,
    /// Smallest order value for which the coupon can be used.
    #[schema(minimum = 0)]
    #[serde(default)]
    minimum_spend: i64,
    /// The currency as an ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$", examples("EUR"))]
    currency: String,
}

impl DiscountJson {
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
