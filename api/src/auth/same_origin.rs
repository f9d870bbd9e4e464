//! Whether a request comes from a page of this server. A browser sends a session's cookie with every request to this
//! host, whoever made it.
//!
//! Browsers say where a request comes from: `Sec-Fetch-Site`, which no page can set, and older ones `Origin`. A request
//! that changes something must say so. One that reads may be without, as of a browser that sends neither with it:
//! another site's page cannot read its answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, uri::Authority};

use crate::{code::Code, problem::Problem};

/// Header: how the page that sends a request relates to this server (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a request that another site's page may have made.
pub(crate) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let reads = method.is_safe();
    let mut sites = headers.get_all(&SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
    // Of two, a proxy may have read the other.
    let site = sites.next().map(|site| if sites.next().is_none() { site } else { b"" });
    let is_ours = match (site, headers.get(header::ORIGIN)) {
        // `none`: typed by the user, or a bookmark.
        (Some(site), _) => site == b"same-origin" || (reads && site == b"none"),
        (None, Some(origin)) => is_this_host(origin, headers),
        (None, None) => reads,
    };
    if is_ours {
        return Ok(());
    }
    let detail = "A session serves only pages of this server. If a proxy stands before it, let it pass on `Host`, \
                  `Origin` and `Sec-Fetch-Site` as they come; a script sends a key in `X-Api-Key`.";
    Err(Problem::new(Code::CrossSite, detail))
}

/// Whether an origin names the host that was asked. The scheme is not compared: TLS may end before this server.
fn is_this_host(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    let authority = origin.as_ref().and_then(Uri::authority).map(Authority::as_str);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (authority, host) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(method: &Method, sent: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("coupons.example:8443"));
        for (name, value) in sent {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        check(method, &headers).is_ok()
    }

    /// Headers, and whether a request with them that reads, or changes something, passes.
    struct Case(&'static [(&'static str, &'static str)], bool, bool);

    const CASES: [Case; 14] = [
        Case(&[], true, false),
        Case(&[("sec-fetch-site", "same-origin")], true, true),
        Case(&[("sec-fetch-site", "none")], true, false),
        Case(&[("sec-fetch-site", "same-site")], false, false),
        Case(&[("sec-fetch-site", "cross-site")], false, false),
        Case(&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false, false),
        Case(&[("origin", "https://coupons.example:8443")], true, true),
        Case(&[("origin", "https://Coupons.Example:8443")], true, true),
        Case(&[("origin", "https://coupons.example")], false, false),
        Case(&[("origin", "https://coupons.example:8443.evil")], false, false),
        Case(&[("origin", "https://evil")], false, false),
        Case(&[("origin", "null")], false, false),
        // The browser knows better than a proxy that rewrites the host.
        Case(&[("sec-fetch-site", "same-origin"), ("origin", "https://outside")], true, true),
        Case(
            &[("sec-fetch-site", "cross-site"), ("origin", "https://coupons.example:8443")],
            false,
            false,
        ),
    ];

    #[test]
    fn only_pages_of_this_server_change_something() {
        for Case(sent, reads, changes) in CASES {
            assert_eq!(passes(&Method::GET, sent), reads, "GET {sent:?}");
            assert_eq!(passes(&Method::POST, sent), changes, "POST {sent:?}");
        }
    }
}
