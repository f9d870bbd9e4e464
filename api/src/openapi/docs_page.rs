//! `/docs`: the OpenAPI document in a browser. `api/ui/README.md` describes the viewer.
//!
//! Everything comes from this process, and the page may contact no other host: it works without a network, and a token
//! or a key that is typed into it goes only to the api.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::IntoResponse,
};

const PAGE: &str = include_str!("../../ui/docs.html");

/// Where the script is.
pub(crate) const SCRIPT_PATH: &str = "/docs/openapi-explorer-2.4.820.min.js";

/// The viewer, gzipped: every browser unpacks it, and nothing else requests it.
const SCRIPT: &[u8] = include_bytes!("../../ui/openapi-explorer-2.4.820.min.js.gz");

/// Scripts and data from this origin only. The viewer's elements contain their styles, so inline styles must be
/// allowed; styles cannot load anything either.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The page is small, and changes with each release.
const PAGE_CACHING: HeaderValue = HeaderValue::from_static("public, no-cache");

/// The script's name contains its version, so its content never changes.
const SCRIPT_CACHING: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// `GET /docs`
pub(crate) async fn page() -> impl IntoResponse {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let headers = [
        (header::CONTENT_TYPE, html),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, PAGE_CACHING),
    ];
    (headers, PAGE)
}

/// `GET /docs/openapi-explorer-….js`
pub(crate) async fn script() -> impl IntoResponse {
    let fixed = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        fixed(header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        fixed(header::CONTENT_ENCODING, "gzip"),
        (header::CACHE_CONTROL, SCRIPT_CACHING),
    ];
    (headers, SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi;

    #[test]
    fn the_page_loads_only_files_that_are_routed_here() {
        let named = PAGE.split('"').filter(|text| text.ends_with(".js") || text.ends_with(".json"));
        let named: Vec<_> = named.map(|file| format!("/{file}")).collect();
        assert_eq!(named.len(), 3, "{named:?}");
        assert!(
            named.iter().all(|file| [SCRIPT_PATH, openapi::PATH].contains(&file.as_str())),
            "{named:?}"
        );
        assert!(!PAGE.contains("http:") && !PAGE.contains("https:") && !PAGE.contains("//"));
    }
}
