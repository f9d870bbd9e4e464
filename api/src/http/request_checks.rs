//! Checks of every request before it is handled, and headers of every answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Version, header, uri::Authority};

use crate::{
    code::Code,
    http::extract::{self, BODY_BYTES_MAX},
    problem::Problem,
};

/// Longest path and query, in bytes. The longest of ours has a tenth of this.
pub(crate) const URI_BYTES_MAX: usize = 4 * 1024;

/// Largest sum of all header lines of a request, in bytes. A token with many claims has a quarter of this.
/// `listener.rs` bounds what is read at all.
pub(crate) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Below this are pages for people, who accept other things than JSON.
pub(crate) const DOCS_PATH: &str = "/docs";

/// Prevents browsers from reading answers as another type, or showing them inside another page.
/// `Strict-Transport-Security` is left to whatever terminates TLS.
const SECURITY: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Default caching: an answer is for its caller alone.
const PRIVATE: HeaderValue = HeaderValue::from_static("no-store");

/// Rejects requests that no handler should see.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Problem> {
    let uri = request.uri();
    if uri.path_and_query().is_some_and(|text| text.as_str().len() > URI_BYTES_MAX) {
        let detail = format!("Use a path and query of at most {URI_BYTES_MAX} bytes.");
        return Err(Problem::new(Code::UriTooLong, detail));
    }
    let bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if request.headers().iter().map(bytes).sum::<usize>() > HEADER_BYTES_MAX {
        let detail = format!("Send headers of at most {HEADER_BYTES_MAX} bytes in all.");
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    if !names_one_host(request.version(), request.headers()) {
        let detail = "Send one `Host` header with the name or address of this server.";
        return Err(Problem::new(Code::HostInvalid, detail));
    }
    // Checked before the body is read: a client that sent `Expect` need not send it, and we do not wait for any
    // other's.
    if says_length(request.headers()).is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(extract::too_large());
    }
    let is_for_people = uri.path().starts_with(DOCS_PATH);
    if !is_for_people && !accepts_json(request.headers()) {
        let detail = "Answers are `application/json`: accept it, or send no `Accept`.";
        return Err(Problem::new(Code::NotAcceptable, detail));
    }
    Ok(())
}

/// Returns the length of the body that the head announces, if any.
fn says_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Adds the headers of every answer. Headers that a handler has set stay.
pub(crate) fn dress(headers: &mut HeaderMap) {
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(PRIVATE);
}

/// Returns whether the request names exactly one host, as HTTP/1.1 demands (RFC 9112, 3.2): of two, a proxy before us
/// may have used the other. Nothing here depends on which host it is.
pub(crate) fn names_one_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => {
            let authority = Authority::try_from(host.as_bytes());
            host.is_empty() || authority.is_ok_and(|host| !host.as_str().contains('@'))
        }
        (Some(_), Some(_)) => false,
    }
}

/// Returns whether the client accepts JSON (RFC 9110, 12.5.1). Errors are sent in any case.
pub(crate) fn accepts_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
    lines.peek().is_none()
        || lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).any(is_json)
}

fn is_json(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let refused = parts.any(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
    });
    matches!(
        kind.as_str(),
        "*/*" | "application/*" | "application/json" | "application/problem+json"
    ) && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_accepts_json_in_any_way_is_served() {
        let accepts = |lines: &[&'static str]| {
            let line = |line: &&'static str| (header::ACCEPT, HeaderValue::from_static(line));
            accepts_json(&lines.iter().map(line).collect())
        };
        assert!(accepts(&[]) && accepts(&["*/*"]) && accepts(&["Application/JSON; charset=utf-8"]));
        assert!(accepts(&["text/html, application/xml;q=0.9, */*;q=0.8"]));
        assert!(accepts(&["text/html", "application/*;q=0.1"]));
        assert!(
            !accepts(&["text/html"]) && !accepts(&["application/json;q=0.0"]) && !accepts(&[""])
        );
    }

    #[test]
    fn a_request_names_one_host_or_is_older_than_hosts() {
        let names = |version: Version, hosts: &[&'static str]| {
            let line = |host: &&'static str| (header::HOST, HeaderValue::from_static(host));
            let mut headers = HeaderMap::new();
            for (name, value) in hosts.iter().map(line) {
                headers.append(name, value);
            }
            names_one_host(version, &headers)
        };
        for host in ["shop.example", "shop.example:8080", "127.0.0.1:80", "[::1]:80", "a_b", ""] {
            assert!(names(Version::HTTP_11, &[host]), "{host:?}");
        }
        for hosts in [&["a", "b"][..], &["a", "a"], &[], &["a b"], &["a/b"], &["u@a"], &["a, b"]] {
            assert!(!names(Version::HTTP_11, hosts), "{hosts:?}");
        }
        assert!(names(Version::HTTP_10, &[]) && !names(Version::HTTP_10, &["a", "b"]));
    }

    #[test]
    fn what_a_handler_says_of_caching_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        dress(&mut headers);
        assert_eq!(headers[header::CACHE_CONTROL], "public");
        assert_eq!(headers.len(), 1 + SECURITY.len());
    }
}
