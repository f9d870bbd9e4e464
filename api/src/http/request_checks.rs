//! Checks of every request before it is handled, and headers of every answer.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header, uri::Authority,
};

use crate::{
    code::Code,
    http::{accept::Form, extract},
    problem::Problem,
};

/// Longest path and query, in bytes. The longest of ours has a tenth of this.
pub(crate) const URI_BYTES_MAX: usize = 4 * 1024;

/// Largest sum of all header lines of a request, in bytes. A token with many claims has a quarter of this.
/// `listener.rs` bounds what is read at all.
pub(crate) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Below these are pages for people, who accept other things than JSON.
pub(crate) const DOCS_PATH: &str = "/docs";
pub(crate) const CONSOLE_PATH: &str = "/console";

/// Lists below a template that are sent as NDJSON and CSV too.
const LISTS: [&str; 4] = ["movements", "claims", "coupons", "ledger"];

/// Where the live figures are.
const LIVE_PATH: &str = "/v1/live";

/// Media type of server-sent events.
const EVENTS: &str = "text/event-stream";

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
    if uri.path_and_query().is_some_and(|text| !is_percent_encoded(text.as_str())) {
        let detail = "Write two hexadecimal digits behind each `%` of the path and the query; a `%` that stands for \
                      itself is `%25`.";
        return Err(Problem::new(Code::UriMalformed, detail));
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
    let most = extract::body_bytes_max(uri.path());
    if says_length(request.headers()).is_some_and(|length| length > most as u64) {
        return Err(extract::too_large(most));
    }
    let is_for_people = [DOCS_PATH, CONSOLE_PATH].iter().any(|page| uri.path().starts_with(page));
    let is_accepted = accepts_json(request.headers())
        || (is_list(request) && Form::preferred(request.headers()).is_some())
        || (is_of_events(request) && accepts(request.headers(), is_events));
    if !is_for_people && !is_accepted {
        let detail = "Answers are `application/json`, a template's lists also `application/x-ndjson` and `text/csv`; a claim's \
                      events and the live figures are `text/event-stream`.";
        return Err(Problem::new(Code::NotAcceptable, detail));
    }
    Ok(())
}

/// Returns whether two hexadecimal digits are behind each `%`. Decoders leave any other as it is, so `/%zz` would name
/// something that can also be written in another way.
fn is_percent_encoded(text: &str) -> bool {
    let mut behind_percent = text.as_bytes().split(|&byte| byte == b'%').skip(1);
    behind_percent.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit))
}

/// Returns whether the request is for a list that is sent as NDJSON and CSV too.
fn is_list<B>(request: &Request<B>) -> bool {
    let mut parts = request.uri().path().split('/').skip(1);
    let of_template = [parts.next(), parts.next()] == [Some("v1"), Some("templates")];
    let name = parts.nth(1);
    *request.method() == Method::GET
        && of_template
        && name.is_some_and(|name| LISTS.contains(&name))
        && parts.next().is_none()
}

/// Returns whether the request is for the events of a claim, or for the live figures, which are no JSON.
fn is_of_events<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let below = path.strip_prefix("/v1/claims/");
    let id = below.and_then(|rest| rest.strip_suffix("/events"));
    let is_one = path == LIVE_PATH || id.is_some_and(|id| !id.contains('/'));
    *request.method() == Method::GET && is_one
}

/// Returns the length of the body that the head announces, if any.
fn says_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Adds the headers of every answer. Headers that a handler has set stay.
pub(crate) fn dress(headers: &mut HeaderMap) {
    // These, and the request's id: the map grows once.
    headers.reserve(SECURITY.len() + 2);
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(PRIVATE);
}

/// Returns whether the request names exactly one host, as HTTP/1.1 demands (RFC 9112, 3.2): if there are two, a proxy
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
    accepts(headers, is_json)
}

/// Returns whether the client accepts a right media range. Without `Accept` it accepts all.
fn accepts(headers: &HeaderMap, is_right: fn(&str) -> bool) -> bool {
    let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
    lines.peek().is_none()
        || lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .any(|range| accepted(range).is_some_and(|kind| is_right(&kind)))
}

fn is_json(kind: &str) -> bool {
    matches!(kind, "*/*" | "application/*" | "application/json" | "application/problem+json")
}

fn is_events(kind: &str) -> bool {
    kind == EVENTS || kind == "text/*"
}

/// Returns the media of a range, unless the client refuses them by their weight.
fn accepted(range: &str) -> Option<String> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let refused = parts.any(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
    });
    (!refused).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_accepts_json_in_any_way_is_served() {
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
    fn a_percent_sign_has_two_hexadecimal_digits_behind_it() {
        for text in ["/", "/a%20b", "/%25", "/%2F?a=%c3%A9", "/%2525"] {
            assert!(is_percent_encoded(text), "{text}");
        }
        for text in ["/%", "/%2", "/%zz", "/%2g", "/a?b=%", "/%%20", "/%é"] {
            assert!(!is_percent_encoded(text), "{text}");
        }
    }

    #[test]
    fn events_are_for_who_takes_them_and_for_who_takes_json() {
        let passes = |path: &str, accept: &str| {
            let request = Request::builder().uri(path).header("host", "a").header("accept", accept);
            check(&request.body(()).unwrap()).is_ok()
        };
        let events = "/v1/claims/7/events?template=1&receipt=a";
        for accept in ["text/event-stream", "Text/Event-Stream;q=0.9, */*;q=0", "text/*", "*/*"] {
            assert!(passes(events, accept), "{accept}");
        }
        assert!(!passes(events, "text/event-stream;q=0") && !passes(events, "text/html"));
        assert!(passes("/v1/live", "text/event-stream") && !passes("/v1/live", "text/html"));
        for path in ["/v1/claims/7", "/v1/claims/7/8/events", "/v1/templates/7/events"] {
            assert!(!passes(path, "text/event-stream"), "{path}");
        }
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
    fn a_table_is_for_lists_that_come_as_one() {
        let is_list = |method: Method, path: &str| {
            is_list(&Request::builder().method(method).uri(path).body(()).unwrap())
        };
        for name in LISTS {
            assert!(is_list(Method::GET, &format!("/v1/templates/7/{name}?status=used")));
        }
        assert!(!is_list(Method::POST, "/v1/templates/7/claims"));
        for path in ["/v1/templates", "/v1/templates/7", "/v1/templates/7/stock", "/v1/claims/7"] {
            assert!(!is_list(Method::GET, path), "{path}");
        }
        assert!(!is_list(Method::GET, "/v1/templates/7/claims/8"));
    }

    #[test]
    fn a_handlers_caching_header_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        dress(&mut headers);
        assert_eq!(headers[header::CACHE_CONTROL], "public");
        assert_eq!(headers.len(), 1 + SECURITY.len());
    }
}
