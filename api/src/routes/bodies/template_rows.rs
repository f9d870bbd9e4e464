//! A template beside figures of its stock: alone, and in a list.

use coupon::Template;
use mysql_store::list::Account;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    http::schemas::Id,
    routes::bodies::template_json::{self, TemplateJson},
};

/// A template with its total: with these fields, but `id`, `state`, `version`, `discount_text` and `warnings`, another one
/// can be created.
#[derive(Serialize, ToSchema)]
#[schema(as = ShownTemplate, examples(shown_example))]
pub(crate) struct ShownTemplate {
    #[serde(flatten)]
    template: TemplateJson,
    /// Number of coupons to give out: the sum of all stock movements.
    total_stock: i64,
}

/// A template in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedTemplate, examples(listed_example))]
pub(crate) struct ListedTemplate {
    #[serde(flatten)]
    template: TemplateJson,
    /// Its owner. Present if the request names a `merchant_id`.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_id: Option<String>,
    /// Present with `include=stock`.
    #[schema(value_type = StockJson)]
    #[serde(skip_serializing_if = "Option::is_none")]
    stock: Option<StockJson>,
}

/// What was given out of a template, according to MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ListedStock)]
pub(crate) struct StockJson {
    /// Sum of all movements.
    total: i64,
    /// Coupons that users got.
    landed: i64,
    /// Coupons that can still be claimed.
    left: i64,
    /// Coupons that are used now. Null: too many to be counted for a list.
    #[schema(required = true)]
    used: Option<u64>,
}

impl ShownTemplate {
    pub(crate) fn of(template: &Template, total_stock: i64) -> Self {
        Self { template: TemplateJson::from(template), total_stock }
    }
}

impl ListedTemplate {
    pub(crate) fn of(template: &Template, names_merchant: bool, stock: Option<StockJson>) -> Self {
        let merchant_id = names_merchant.then(|| template.merchant_id.to_string());
        Self { template: TemplateJson::from(template), merchant_id, stock }
    }
}

impl StockJson {
    pub(crate) fn of(account: Account, used: Option<u64>) -> Self {
        let Account { total, stock } = account;
        Self { total, landed: total.saturating_sub(stock), left: stock, used }
    }
}

/// Example of a template with its total, for the OpenAPI document.
fn shown_example() -> Value {
    let mut shown = template_json::example();
    shown["total_stock"] = json!(1_000);
    shown
}

/// Example of a template in a list, for the OpenAPI document.
fn listed_example() -> Value {
    let mut listed = template_json::example();
    listed["merchant_id"] = json!("1");
    listed["stock"] = json!({ "total": 1_000, "landed": 873, "left": 127, "used": 41 });
    listed
}
