//! `GET /v1/search`: what a text names, of all that the caller may see.
//!
//! Each kind is looked for by an index, among the merchant's own rows. So what is another merchant's is not found, as what does
//! not exist.

use axum::{Json, extract::State};
use coupon::{ClaimId, CouponId, Template, TemplateId, UserId, limit, text};
use mysql_store::{
    MySqlConnection, StoreError, connect, desk, look_up,
    search::{self, Along},
    template,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{extract::Params, schemas::Id},
    problem::Problem,
    routes::operators::templates::list,
    state::App,
};

/// Most hits of an answer: what a person reads at a glance. One text names few things but templates by a part of their name.
const HITS_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchParams {
    q: Option<String>,
}

/// What a text names.
#[derive(Serialize, ToSchema)]
#[schema(as = SearchResult, examples(example))]
pub(crate) struct FoundJson {
    /// At most 20: a template, coupon, claim and user of this id, an order, then templates by name, the newest first.
    items: Vec<HitJson>,
    /// Whether further templates may have the text in their name: send more of the name.
    more: bool,
}

/// One thing that the text names.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SearchHit)]
struct HitJson {
    #[schema(pattern = "^(template|coupon|claim|user|order)$")]
    kind: &'static str,
    /// Its id; of an order its `order_ref`.
    id: String,
    /// Of a template, its name. Null: it is another thing.
    #[schema(required = true)]
    name: Option<String>,
    /// Of a coupon or claim, its template. Null: it is another thing.
    #[schema(value_type = Option<Id>, required = true)]
    template_id: Option<String>,
    /// Of a coupon or claim, its user. Null: it is another thing.
    #[schema(value_type = Option<Id>, required = true)]
    user_id: Option<String>,
    /// Where it is shown: the path and query of a `GET`.
    path: String,
}

fn example() -> Value {
    json!({
        "items": [{
            "kind": "claim", "id": "2123985068924862465", "name": null, "template_id": "2123985067360387072",
            "user_id": "42", "path": "/v1/claim-states/2123985068924862465?template=2123985067360387072"
        }],
        "more": false
    })
}

/// `GET /v1/search`
#[utoipa::path(
    get,
    path = "/v1/search",
    operation_id = "search",
    tag = "Support",
    summary = "Find what a text names",
    description = "A user, a coupon, a claim or a template by its id, an order by its whole `order_ref`, templates by a part of their name. \
                   A user is found who has a coupon of one's own templates, an order that uses a coupon or was the last to give it back, \
                   and a claim once it has landed, was rejected or was given up. A damaged row is left out.",
    security(("operator_key" = [])),
    params(("q" = String, Query, min_length = 1, max_length = 200, description = "An id, an order, or a part of a template's name.")),
    responses((status = 200, description = "What was found, which may be nothing.", body = FoundJson)),
    extensions(("x-problems" = json!("INVALID_SEARCH")))
)]
pub(crate) async fn search(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<SearchParams>,
) -> Result<Json<FoundJson>, Problem> {
    let q = params.q.unwrap_or_default();
    let q = q.trim();
    if let Some(wrong) = text::wrong(q, limit::NAME_CHARS_MAX) {
        let problem = Problem::new(Code::InvalidSearch, format!("q: {wrong}."));
        return Err(problem.with("field", "q"));
    }
    let find = async {
        let mut connection = connect::acquire(&app.pool).await?;
        let mut items = Vec::new();
        if let Ok(UserId(number)) = q.parse() {
            items = by_id(&mut connection, operator, number).await?;
        }
        items.extend(order(&mut connection, operator, q).await?);
        let room = HITS_MAX.saturating_sub(items.len());
        let named = list::by_name(&mut connection, operator.merchant_id, q, room).await?;
        // One that was found by its id may have that in its name, too.
        let further = named.templates.iter().map(of_template);
        let further: Vec<HitJson> = further.filter(|hit| !items.contains(hit)).collect();
        items.extend(further);
        Ok::<_, Problem>(FoundJson { items, more: named.more })
    };
    connect::within(find).await.map(Json)
}

/// Returns what has this id: ids are unique among the things of one kind only.
async fn by_id(
    connection: &mut MySqlConnection,
    operator: Operator,
    number: i64,
) -> Result<Vec<HitJson>, Problem> {
    let merchant = operator.merchant_id;
    let mut hits = Vec::new();
    let template = readable(template::get(&mut *connection, TemplateId(number)).await)?;
    let template = template.filter(|template| operator.sees(template.merchant_id));
    hits.extend(template.as_ref().map(of_template));
    if let Some(coupon) = readable(desk::get(&mut *connection, merchant, CouponId(number)).await)? {
        hits.push(HitJson {
            template_id: Some(coupon.template_id.to_string()),
            user_id: Some(coupon.user_id.to_string()),
            ..HitJson::of("coupon", number, format!("/v1/coupons/{number}"))
        });
    }
    if let Some(claim) =
        readable(search::claim_of(&mut *connection, merchant, ClaimId(number)).await)?
    {
        let template = claim.template_id;
        let path = format!("/v1/claim-states/{number}?template={template}");
        hits.push(HitJson {
            template_id: Some(template.to_string()),
            user_id: Some(claim.user_id.to_string()),
            ..HitJson::of("claim", number, path)
        });
    }
    let first = look_up::coupons_of(connection, merchant, UserId(number), None, 1).await?;
    if !first.is_empty() {
        hits.push(HitJson::of("user", number, format!("/v1/users/{number}/coupons")));
    }
    Ok(hits)
}

/// Leaves out a damaged row: whose it is cannot be told, and what else has the id must be found.
fn readable<T>(read: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(damaged) if damaged.is_unreadable() => Ok(None),
        other => other,
    }
}

/// Returns the order of this name, if a coupon of the merchant knows it.
async fn order(
    connection: &mut MySqlConnection,
    operator: Operator,
    name: &str,
) -> Result<Option<HitJson>, Problem> {
    if text::wrong_reference(name, limit::ORDER_REF_CHARS_MAX).is_some() {
        return Ok(None);
    }
    let along = Along::Order(name);
    let first = search::page(connection, operator.merchant_id, along, None, 1).await?;
    let path = format!("/v1/coupons?order_ref={}", encoded(name));
    Ok((!first.is_empty()).then(|| HitJson::of("order", name, path)))
}

fn of_template(template: &Template) -> HitJson {
    let path = format!("/v1/templates/{}", template.id);
    HitJson { name: Some(template.name.clone()), ..HitJson::of("template", template.id, path) }
}

impl HitJson {
    fn of(kind: &'static str, id: impl ToString, path: String) -> Self {
        Self { kind, id: id.to_string(), name: None, template_id: None, user_id: None, path }
    }
}

/// Encodes a text for a query (RFC 3986, 2.1).
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_encoded_byte_by_byte() {
        assert_eq!(encoded("order-2041.a_b~"), "order-2041.a_b~");
        assert_eq!(encoded("a b&c=d+e%/ü"), "a%20b%26c%3Dd%2Be%25%2F%C3%BC");
    }
}
