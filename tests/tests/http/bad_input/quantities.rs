//! Claims with invalid ids, invalid bodies and out-of-range numbers.

use reqwest::Method;

use super::{Case, NOTHING, Targets, case};

/// Invalid ids, as written in a path.
const NO_IDS: [&str; 16] = [
    "first",
    "-1",
    "+1",
    "1.0",
    "1e3",
    "0x10",
    "%00",
    "%FF",
    "1%20",
    "%20",
    "9223372036854775808",
    "99999999999999999999",
    "%EF%BC%91",
    "NaN",
    "1%27%20or%201=1",
    "%F0%9F%8E%9F",
];

/// Invalid bodies, by name.
const NO_JSON: [(&str, &str); 30] = [
    ("half a body", "{\"quantity\":"),
    ("a list", "[1]"),
    ("a text", "\"quantity\""),
    ("a number", "1"),
    ("null", "null"),
    ("spaces", "  "),
    ("garbage behind it", "{\"quantity\":1}x"),
    ("two bodies", "{\"quantity\":1}{\"quantity\":1}"),
    ("a comma too many", "{\"quantity\":1,}"),
    ("a comment", "{\"quantity\":1/* one */}"),
    ("single quotes", "{'quantity':1}"),
    ("no quotes", "{quantity:1}"),
    ("a key twice", "{\"quantity\":1,\"quantity\":2}"),
    ("a key twice, once escaped", "{\"quantity\":1,\"quantit\\u0079\":2}"),
    ("a text for a number", "{\"quantity\":\"1\"}"),
    ("a truth for a number", "{\"quantity\":true}"),
    ("a list for a number", "{\"quantity\":[1]}"),
    ("an object for a number", "{\"quantity\":{\"$gt\":0}}"),
    ("a fraction", "{\"quantity\":1.5}"),
    ("a whole fraction", "{\"quantity\":1.0}"),
    ("an exponent", "{\"quantity\":1e0}"),
    ("a leading zero", "{\"quantity\":01}"),
    ("a sign", "{\"quantity\":+1}"),
    ("minus zero", "{\"quantity\":-0}"),
    ("hexadecimal", "{\"quantity\":0x1}"),
    ("not a number", "{\"quantity\":NaN}"),
    ("infinity", "{\"quantity\":Infinity}"),
    ("beyond all numbers", "{\"quantity\":99999999999999999999}"),
    ("half a character", "{\"\\ud800\":1}"),
    ("a byte order mark", "\u{feff}{\"quantity\":1}"),
];

/// Content types other than JSON's.
const NO_TYPES: [&str; 8] = [
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/xml",
    "application/jsonx",
    "text/json",
    "json",
];

/// Unknown field names.
const NO_FIELDS: [&str; 5] = ["user_id", "Quantity", "__proto__", "quantity ", ""];

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let mut cases = ids(targets);
    cases.extend(bodies(targets));
    cases
}

fn ids(targets: &Targets) -> Vec<Case> {
    let post =
        |id: &str| targets.attacker.request(Method::POST, &format!("/v1/templates/{id}/claims"));
    let unknown =
        [NOTHING.to_owned(), "0".to_owned(), targets.draft.to_string(), targets.coupon.to_string()];
    let mut cases: Vec<Case> = unknown
        .iter()
        .map(|id| case(&format!("template {id}"), post(id), 404, "TEMPLATE_NOT_FOUND"))
        .collect();
    for id in NO_IDS {
        cases.push(case(&format!("id {id}"), post(id), 404, "NOT_FOUND"));
    }
    cases.push(case("a long id", post(&"9".repeat(999)), 404, "NOT_FOUND"));
    cases
}

fn bodies(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}/claims", targets.one);
    let post = || targets.attacker.request(Method::POST, &path);
    let typed = |body: Vec<u8>| post().header("content-type", "application/json").body(body);
    let mut cases = vec![case("a huge body", typed(vec![b' '; 80 << 10]), 413, "BODY_TOO_LARGE")];
    let mut malformed: Vec<(String, Vec<u8>)> = vec![
        ("deep lists".to_owned(), vec![b'['; 10_000]),
        ("deep objects".to_owned(), "{\"a\":".repeat(10_000).into_bytes()),
        ("no UTF-8".to_owned(), b"{\"\xff\":1}".to_vec()),
        ("UTF-16".to_owned(), b"{\0\"\0q\0\"\0:\x001\0}\0".to_vec()),
        ("a zero byte".to_owned(), b"{\"quantity\":1}\0".to_vec()),
        ("many digits".to_owned(), format!("{{\"quantity\":{}}}", "1".repeat(400)).into_bytes()),
    ];
    malformed.extend(NO_JSON.map(|(name, body)| (name.to_owned(), body.into())));
    let field =
        |field: &str| (format!("field {field:?}"), format!("{{\"{field}\":1}}").into_bytes());
    malformed.extend(NO_FIELDS.map(field));
    for (name, body) in malformed {
        cases.push(case(&name, typed(body), 400, "MALFORMED_BODY"));
    }
    for quantity in [0, -1, 2, 101, 4_294_967_297, i64::MAX, i64::MIN] {
        let body = format!("{{\"quantity\":{quantity}}}");
        let name = format!("{quantity} coupons");
        cases.push(case(&name, typed(body.into()), 422, "INVALID_QUANTITY"));
    }
    for kind in NO_TYPES {
        let request = post().header("content-type", kind).body("{\"quantity\":1}");
        cases.push(case(&format!("type {kind:?}"), request, 415, "NOT_JSON"));
    }
    for how in ["gzip", "br", "identity, gzip"] {
        let request = typed(b"{\"quantity\":1}".to_vec()).header("content-encoding", how);
        cases.push(case(&format!("encoded by {how}"), request, 415, "BODY_ENCODED"));
    }
    cases
}
