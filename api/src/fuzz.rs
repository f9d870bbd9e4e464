//! The api's parsers of untrusted input, for `fuzz/` and the test that runs its corpus. Not for other callers.

use std::{borrow::Cow, sync::LazyLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use coupon::{MerchantId, RequestId, Template, TemplateId};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, crypto};
use serde_json::{Value, json};
use topic::{Event, TemplateRow};

use crate::{
    auth::{
        api_key,
        jwks::{self, Key},
        tokens::{self, Rules},
    },
    http::{
        etag::{self, IfMatch},
        extract::{self, Body},
        headers, request_checks,
    },
    routes::bodies::template_json::{NewTemplate, TemplateJson, TermsJson},
    template_cache,
};

/// Maximum header lines of one request that are read.
const LINES_MAX: usize = 100;

/// One of our entity tags.
const TAG: &str = "W/\"7.Open.3\"";

/// Secret that tokens of the corpus are signed with.
const SECRET: &[u8] = b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";

/// An expiry far in the future, in seconds since 1970.
const LATER: i64 = 4_000_000_000;

/// Rules for every token here.
const RULES: Rules = Rules {
    leeway_seconds: 5,
    issuer: None,
    audience: None,
    user_claim: Cow::Borrowed(tokens::SUBJECT),
};

static SECRET_KEY: LazyLock<Key> = LazyLock::new(|| Key {
    decoding: DecodingKey::from_secret(SECRET),
    validation: RULES.validation(Algorithm::HS256),
});

/// Reads the head of a request: lines of a name, a colon and a value. Lines that are not headers are skipped, as the
/// server would reject them. Panics if a parser returns something that was not sent.
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
    if_none_match(&map);
    accept(&map);
    if request_checks::names_one_host(Version::HTTP_11, &map) {
        assert_eq!(map.get_all(header::HOST).iter().count(), 1, "two hosts");
    }
}

/// Reads a user's token. Panics if it is accepted without a signature by the secret.
pub fn token(data: &[u8]) {
    let Ok(token) = str::from_utf8(data) else { return };
    // The server reads the key's name before it checks anything.
    drop(jsonwebtoken::decode_header(token));
    if tokens::decode(token, &SECRET_KEY, tokens::SUBJECT).is_ok() {
        let (signed, signature) = token.rsplit_once('.').expect("a token has three parts");
        let key = EncodingKey::from_secret(SECRET);
        let right = crypto::sign(signed.as_bytes(), &key, Algorithm::HS256);
        assert_eq!(signature, right.expect("a secret signs anything"), "a forged token");
    }
}

/// Reads an issuer's key set. Panics if an accepted key is not public, or accepts an unsigned token.
pub fn key_set(data: &[u8]) {
    let Ok(keys) = jwks::parse(data, &RULES.validation(Algorithm::EdDSA)) else { return };
    for key in keys.values() {
        assert!(!key.validation.algorithms.is_empty(), "a key that serves nothing");
        for algorithm in &key.validation.algorithms {
            let by_secret = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
            assert!(!by_secret.contains(algorithm), "a secret that everybody can read");
            let refused = tokens::decode(&unsigned(*algorithm), key, tokens::SUBJECT).is_err();
            // Some Ed25519 points have a small order: for such a key, which nobody has, a signature of zeros may be
            // valid.
            assert!(refused || *algorithm == Algorithm::EdDSA, "zeros are no signature");
        }
    }
}

/// Reads the body of a new template. Panics if an accepted one is different after it was shown and sent again.
pub fn new_template(data: &[u8]) {
    let Some(draft) = draft(data) else { return };
    let mut shown = json!(TermsJson::from(&draft));
    // Only answers have the discount in words.
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("discount_text");
    }
    shown["name"] = json!(draft.name);
    shown["total_stock"] = json!(0);
    shown["self_redeem"] = json!(draft.self_redeem);
    shown["stackable"] = json!(draft.stackable);
    shown["claim_mode"] = json!(draft.claim_mode.word());
    shown["accept_after"] = json!(draft.accept_after.word());
    shown["lapses_allowed"] = json!(draft.hold.lapses_allowed);
    shown["returned_stock"] = json!(draft.hold.returned_stock.word());
    assert_eq!(draft_of(&shown), Some(draft), "{shown}");
}

/// Reads a template's change from its topic, as the cache does. Panics if an accepted one cannot be shown.
pub fn template_change(data: &[u8]) {
    let Ok(event) = topic::decode::<Event<TemplateRow>>(data) else { return };
    if let Some(Ok(template)) = event.after.map(template_cache::from_row) {
        drop(json!(TemplateJson::from(&template)));
    }
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

fn if_none_match(map: &HeaderMap) {
    let mut lines = map.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let opaque = TAG.trim_start_matches("W/");
    let named = lines.any(|line| line.contains(opaque) || line.contains('*'));
    assert!(named || !etag::is_known(map, TAG), "{TAG} was not sent");
    let mut more = map.clone();
    more.append(header::IF_NONE_MATCH, HeaderValue::from_static(TAG));
    assert!(etag::is_known(&more, TAG), "{TAG} was sent");
}

fn accept(map: &HeaderMap) {
    let is_said = map.contains_key(header::ACCEPT);
    assert!(is_said || request_checks::accepts_json(map), "who says nothing takes anything");
    let mut more = map.clone();
    more.append(header::ACCEPT, HeaderValue::from_static("application/json"));
    assert!(request_checks::accepts_json(&more), "it takes JSON too");
}

/// Makes a token with zeros as its signature.
fn unsigned(algorithm: Algorithm) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let bytes = match algorithm {
        Algorithm::ES256 | Algorithm::EdDSA => 64,
        Algorithm::ES384 => 96,
        _ => 256,
    };
    let head = part(json!({ "alg": algorithm }));
    let claims = part(json!({ "sub": "7", "exp": LATER }));
    format!("{head}.{claims}.{}", URL_SAFE_NO_PAD.encode(vec![0_u8; bytes]))
}

fn draft(data: &[u8]) -> Option<Template> {
    let Body(new) = extract::parse::<NewTemplate>(data).ok()?;
    new.into_draft(TemplateId(1), MerchantId(1)).ok()
}

fn draft_of(shown: &Value) -> Option<Template> {
    draft(shown.to_string().as_bytes())
}
