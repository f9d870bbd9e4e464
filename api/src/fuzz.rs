//! The api's parsers of what a stranger sends, for `fuzz/` and the test that runs its corpus; nobody else
//! may call it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use coupon::RequestId;

use crate::{api_key, headers, precondition::IfMatch};

/// Most lines of one request that are read.
const LINES_MAX: usize = 100;

/// The head of a request: lines of a name, a colon and a value. What is no header is passed over, as the
/// server would refuse it. It fails only where something is read that was not there.
pub fn request_head(data: &[u8]) {
    let mut map = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(LINES_MAX) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
    trace(&map);
    for value in map.values().filter_map(|value| value.to_str().ok()) {
        key(value);
        if let Ok(id) = RequestId::from_client(value) {
            assert_eq!(id.as_str(), value, "another claim's key");
        }
    }
    if_match(&map);
}

fn trace(map: &HeaderMap) {
    let parent = headers::trace_parent(map);
    if let Some(id) = headers::trace_id(map) {
        let parent = parent.expect("an id is part of a traceparent");
        assert_eq!(parent[3..35], format!("{id:032x}"), "another trace");
    }
}

fn key(value: &str) {
    if let Some(id) = api_key::id_of(value) {
        assert!(value.starts_with(&format!("ck_{id}_")), "another key's id: {value}");
    }
}

fn if_match(map: &HeaderMap) {
    let Ok(read) = IfMatch::of(map) else { return };
    let sent: Vec<_> =
        map.get_all(header::IF_MATCH).iter().filter_map(|line| line.to_str().ok()).collect();
    assert_eq!(read.is_given(), !sent.is_empty());
    if let IfMatch::Versions(versions) = &read {
        for version in versions {
            let tag = format!("\"{version}\"");
            assert!(sent.iter().any(|line| line.contains(&tag)), "{tag} was not sent: {sent:?}");
            assert!(read.admits(*version) && read.names(*version));
        }
    }
}
