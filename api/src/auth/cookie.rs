//! The cookie of a console's session.
//!
//! No page can read it, no other site sends it, and a browser keeps it for this host alone (`__Host-`). It is sent over
//! TLS only, except on a machine's own loopback, where a console is tried without: there its name lacks the prefix,
//! which a browser takes from TLS only.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header, uri::Authority};

use crate::auth::session::LIFE;

/// Name of the cookie over TLS, and on loopback.
const SECURE: &str = "__Host-coupon_console";
const LOCAL: &str = "coupon_console";

/// Returns the value of the session's cookie, if the request has one. It is empty if there are several: a cookie of
/// another path or domain may hide ours.
pub(crate) fn session(headers: &HeaderMap) -> Option<&str> {
    let name = name(is_local(headers));
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(one, _)| one.trim() == name).map(|(_, value)| value.trim());
    let value = values.next()?;
    Some(if values.next().is_none() { value } else { "" })
}

/// Returns the header that sets the cookie.
pub(crate) fn set(headers: &HeaderMap, value: &str) -> Option<HeaderValue> {
    line(headers, value, LIFE.num_seconds())
}

/// Returns the header that removes the cookie.
pub(crate) fn removed(headers: &HeaderMap) -> Option<HeaderValue> {
    line(headers, "", 0)
}

fn line(headers: &HeaderMap, value: &str, seconds: i64) -> Option<HeaderValue> {
    let is_local = is_local(headers);
    let name = name(is_local);
    let secure = if is_local { "" } else { "; Secure" };
    let line =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut line = HeaderValue::from_str(&line).ok()?;
    line.set_sensitive(true);
    Some(line)
}

fn name(is_local: bool) -> &'static str {
    if is_local { LOCAL } else { SECURE }
}

/// Header by which a proxy says how the browser has asked it.
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Whether the browser has asked for this machine itself, without TLS. A proxy before this server may have written its own
/// address into `Host`.
fn is_local(headers: &HeaderMap) -> bool {
    if headers.contains_key(&X_FORWARDED_PROTO) || headers.contains_key(header::FORWARDED) {
        return false;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(Ok(host)) = host.map(str::parse::<Authority>) else { return false };
    let host = host.host().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, cookies: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        for cookie in cookies {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        headers
    }

    fn found(host: &'static str, cookies: &[&'static str]) -> Option<String> {
        session(&headers(host, cookies)).map(str::to_owned)
    }

    #[test]
    fn the_cookie_is_found_among_others_and_two_of_it_are_none_that_opens() {
        let host = "coupons.example";
        let some = |value: &str| Some(value.to_owned());
        assert_eq!(found(host, &["a=b; __Host-coupon_console=v", "c=d"]), some("v"));
        assert_eq!(found(host, &["a=b", "__Host-coupon_console=v"]), some("v"));
        assert_eq!(found(host, &["__Host-coupon_console=v; __Host-coupon_console=w"]), some(""));
        assert_eq!(found(host, &["a=b", "x__Host-coupon_console=v", "coupon_console=v"]), None);
        assert_eq!(found(host, &[]), None);
    }

    #[test]
    fn only_loopback_does_without_tls() {
        for host in ["localhost:8080", "127.0.0.1:80", "127.1.2.3", "[::1]:8080"] {
            let headers = headers(host, &["coupon_console=v"]);
            assert_eq!(session(&headers), Some("v"), "{host}");
            let line = set(&headers, "v").unwrap();
            let wanted = "coupon_console=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200";
            assert_eq!(line.to_str().unwrap(), wanted, "{host}");
        }
        for host in ["coupons.example", "localhost.example", "10.0.0.1:8080", "[2001:db8::1]"] {
            let line = set(&headers(host, &[]), "v").unwrap();
            let line = line.to_str().unwrap();
            assert!(line.starts_with("__Host-coupon_console=v; Path=/; "), "{host}: {line}");
            assert!(line.ends_with("; Secure"), "{host}: {line}");
        }
        for proxy in ["x-forwarded-proto", "forwarded"] {
            let mut headers = headers("127.0.0.1:8080", &[]);
            headers.insert(proxy, HeaderValue::from_static("https"));
            let line = set(&headers, "v").unwrap();
            assert!(line.to_str().unwrap().ends_with("; Secure"), "behind a proxy: {line:?}");
        }
        let line = removed(&headers("a", &[])).unwrap();
        assert!(line.is_sensitive() && line.to_str().unwrap().contains("=; "), "{line:?}");
        assert!(line.to_str().unwrap().contains("Max-Age=0"));
    }
}
