//! The OpenAPI 3.1 document of the api, built from the handlers and the structs they read and write.
//!
//! `#[utoipa::path]` stands on each handler and `ToSchema` on each struct; `router.rs` registers route and description
//! together. A handler lists its error codes in `x-problems`; `code.rs` supplies their status and advice. Codes that every
//! operation of a form has (one with a body, one with a token) are added by [`problems`]. So the document has no text of
//! its own that could become outdated.

pub(crate) mod docs_page;
mod problems;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use utoipa::openapi::OpenApi;

use crate::http::{
    etag::is_known,
    packed,
    schemas::{Cursor, IfMatch, IfNoneMatch, KeyOrPlatform, LedgerFormat, RequestId, TemplateVerb},
};

/// Where the document is.
pub(crate) const PATH: &str = "/openapi.json";

/// The parts of the document that no handler describes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Coupon platform",
        description = "Gives out coupons under flash-sale load, and keeps every promise it answers with.\n\n\
            Ids are decimal numbers in strings, times RFC 3339 in UTC, money is in minor units. An answer \
            may get more fields; a body may not have others. Every error is `application/problem+json` \
            (RFC 9457): program against `code`. `retryable: true` means: send the same request again, with \
            the same `Idempotency-Key`, after `Retry-After` seconds. A path that is not here is answered \
            404 `NOT_FOUND`, a method 405 `METHOD_NOT_ALLOWED`.",
        license(name = "MIT OR Apache-2.0")
    ),
    // utoipa does not find schemas that only parameters refer to.
    components(schemas(Cursor, IfMatch, IfNoneMatch, KeyOrPlatform, LedgerFormat, RequestId, TemplateVerb)),
    tags(
        (name = "Shop", description = "For anybody: what a shop's pages show."),
        (name = "Claims", description = "For a shopper: the way in of a claim, and what the limit still allows."),
        (name = "My coupons", description = "For a shopper: list, and use at a till."),
        (name = "Redemption", description = "For a shop's checkout: look, lock, redeem coupons for an order, and give them back."),
        (name = "Templates", description = "For an operator: campaigns and their life."),
        (name = "Stock", description = "For an operator: how much there is to give."),
        (name = "Support", description = "For an operator: one coupon, and grants to many users."),
        (name = "Reports", description = "For an operator: what a sale was."),
        (name = "Operations", description = "For an operator: look up, mend, and what was done."),
        (name = "Keys", description = "For an operator: merchants and their keys.")
    )
)]
struct Api;

/// The document without its operations.
pub(crate) fn base() -> OpenApi {
    <Api as utoipa::OpenApi>::openapi()
}

/// The document as it is sent, compressed or not. The bytes differ, so their entity tags do too.
pub(crate) struct Document {
    json: (Bytes, HeaderValue),
    gzip: Option<(Bytes, HeaderValue)>,
}

impl Document {
    /// Completes what the router has collected.
    pub(crate) fn of(described: OpenApi) -> Self {
        let json = complete(described).to_string();
        let gzip = packed::gzip(json.as_bytes()).ok();
        Self { json: tagged(json.into()), gzip: gzip.map(|gzip| tagged(gzip.into())) }
    }

    /// `GET /openapi.json`
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        let gzip = self.gzip.as_ref().filter(|_| packed::takes_gzip(headers));
        let (bytes, etag) = gzip.unwrap_or(&self.json);
        // A release may change the document: clients ask each time, and it is seldom sent.
        let caching = [
            (header::CACHE_CONTROL, HeaderValue::from_static("public, no-cache")),
            (header::ETAG, etag.clone()),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        if is_known(headers, etag.to_str().unwrap_or_default()) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut answer = (caching, json, bytes.clone()).into_response();
        if gzip.is_some() {
            let coding = HeaderValue::from_static("gzip");
            answer.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        answer
    }
}

/// The bytes with their entity tag.
fn tagged(bytes: Bytes) -> (Bytes, HeaderValue) {
    let digest = Sha256::digest(&bytes);
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let etag = HeaderValue::from_str(&format!("\"{tag}\""));
    (bytes, etag.unwrap_or_else(|_| HeaderValue::from_static("\"document\"")))
}

/// Adds servers, security schemes and errors.
fn complete(described: OpenApi) -> Value {
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["servers"] = json!([{ "url": "/" }]);
    document["components"]["securitySchemes"] = json!({
        "token": {
            "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
            "description": "A shopper's token; `sub`, or the claim that the setting JWT_USER_CLAIM names, is the user's id, a decimal number."
        },
        "operator_key": {
            "type": "apiKey", "in": "header", "name": "X-Api-Key",
            "description": "An operator's key. In its place each operation that takes one takes a session of the console: its cookie, and `X-Csrf-Token` with changes."
        },
        "console_session": {
            "type": "apiKey", "in": "cookie", "name": "__Host-coupon_console",
            "description": "A session of the console, from `POST /v1/console/session`; on loopback without TLS the name is `coupon_console`."
        }
    });
    for item in entries(&mut document["paths"]) {
        for operation in entries(item) {
            without_null(operation);
            problems::answer(operation);
        }
    }
    for schema in entries(&mut document["components"]["schemas"]) {
        show_page(schema);
    }
    problems::describe(&mut document["components"]);
    document
}

/// Makes the example of a page from the example of an item.
fn show_page(schema: &mut Value) {
    if let Some(one) = schema.pointer("/properties/data/items/examples/0").cloned() {
        schema["examples"] = json!([{ "data": [one], "next_cursor": null, "has_more": false }]);
    }
}

fn entries(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(|object| object.values_mut())
}

/// Removes `null` from parameters and bodies. They are an `Option` if they may be absent, which utoipa describes as
/// "may be null".
fn without_null(operation: &mut Value) {
    let mut schemas: Vec<&mut Value> = Vec::new();
    for (name, part) in operation.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "parameters" => {
                let parameters = part.as_array_mut().into_iter().flatten();
                schemas.extend(parameters.filter_map(|parameter| parameter.get_mut("schema")));
            }
            "requestBody" => schemas.extend(part.pointer_mut("/content/application~1json/schema")),
            _ => {}
        }
    }
    for schema in schemas {
        let null = json!({ "type": "null" });
        if let Some(either) = schema["oneOf"].as_array().filter(|either| either.contains(&null)) {
            let other = either.iter().find(|one| **one != null).cloned();
            *schema = other.unwrap_or_default();
        } else if let Some(kinds) = schema["type"].as_array().filter(|kinds| kinds.len() == 2) {
            schema["type"] =
                kinds.iter().find(|kind| **kind != "null").cloned().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod console_answers;
#[cfg(test)]
mod tests;
