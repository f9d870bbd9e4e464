//! CORS: pages of other origins that may call from a browser. None by default.

use std::time::Duration;

use anyhow::ensure;
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use tower_http::cors::CorsLayer;

use crate::access::REQUEST_ID;

/// How long a browser caches its permissions: two hours, the most that Chromium keeps.
const REMEMBERED: Duration = Duration::from_hours(2);

/// Methods of the routes that take a shopper's token or none. The others are operators', whose key does not belong in a page:
/// neither `PATCH` and `DELETE` nor `X-Api-Key` and `If-Match` are allowed. What the api serves itself needs no permission.
const METHODS: [Method; 2] = [Method::GET, Method::POST];

/// Headers that these routes take.
const REQUEST_HEADERS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    REQUEST_ID,
];

/// Headers of answers that a page may read.
const ANSWER_HEADERS: [HeaderName; 7] = [
    header::ETAG,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    REQUEST_ID,
];

/// Returns the layer that admits pages of `origins`, or `None` if no origin is named. A page sends its token in a
/// header, so no cookies or other credentials of the browser are allowed.
pub(crate) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let named = origins.iter().filter(|origin| !origin.is_empty());
    let origins: Vec<_> = named.filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(METHODS)
            .allow_headers(REQUEST_HEADERS)
            .expose_headers(ANSWER_HEADERS)
            .max_age(REMEMBERED)
    })
}

/// Checks that each is an origin as browsers send it: scheme, host and port, nothing after them.
///
/// # Errors
/// One is not an origin. `*` is not one either, since it would admit every page.
pub(crate) fn check(origins: &[String]) -> anyhow::Result<()> {
    // An empty setting counts as absent.
    for origin in origins.iter().filter(|origin| !origin.is_empty()) {
        let uri: Option<Uri> = origin.parse().ok();
        let right = uri.is_some_and(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            let authority = uri.authority().map(axum::http::uri::Authority::as_str);
            matches!(scheme, "http" | "https")
                && authority.is_some_and(|host| *origin == format!("{scheme}://{host}"))
        });
        ensure!(right, "ALLOWED_ORIGINS: `{origin}` is no origin; write e.g. https://shop.example");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let check = |origin: &str| check(&[origin.to_owned()]);
        assert!(check("https://shop.example").is_ok() && check("http://localhost:3000").is_ok());
        for wrong in ["*", "shop.example", "https://shop.example/", "https://a/b", "ftp://a"] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains("ALLOWED_ORIGINS"), "{error}");
        }
        assert!(layer(&[]).is_none() && layer(&[String::new()]).is_none());
    }
}
