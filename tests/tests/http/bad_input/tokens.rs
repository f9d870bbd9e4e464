//! Forged, stolen and malformed tokens, and operators' keys.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::Shopper;

use super::{Case, Targets, case};

/// `{"alg":"none","typ":"JWT"}` and other spellings of it, in base64url.
const UNSIGNED: [&str; 4] = [
    "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0",
    "eyJhbGciOiJOb25lIiwidHlwIjoiSldUIn0",
    "eyJhbGciOiJOT05FIiwidHlwIjoiSldUIn0",
    "eyJhbGciOiJuT25FIiwidHlwIjoiSldUIn0",
];

/// `{"alg":"RS256","typ":"JWT"}`: an attempt to use a public key as the secret.
const AS_IF_RSA: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9";

/// An expiry far in the future.
const LATER: i64 = 4_000_000_000;

/// Returns a user's token.
pub(super) fn of(shopper: &Shopper) -> String {
    let request = shopper.request(Method::GET, "/").build().unwrap();
    let header = request.headers()["authorization"].to_str().unwrap();
    header.strip_prefix("Bearer ").unwrap().to_owned()
}

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}/claims", targets.one);
    let api = &targets.api;
    let with = |name: &str, header: String| {
        let request = api.anonymous(Method::POST, &path).header("authorization", header);
        case(name, request, 401, "UNAUTHENTICATED")
    };
    let bearer = |name: &str, token: String| with(name, format!("Bearer {token}"));
    let mut cases = vec![
        case("no token", api.anonymous(Method::POST, &path), 401, "UNAUTHENTICATED"),
        with("an empty header", String::new()),
        with("a scheme alone", "Bearer".to_owned()),
        with("no token behind the scheme", "Bearer ".to_owned()),
        with("another scheme", "Basic YTpi".to_owned()),
        with("a token without a scheme", of(&targets.attacker)),
        with("two tokens in one header", format!("Bearer {0}, Bearer {0}", of(&targets.attacker))),
        with("two spaces", format!("Bearer  {}", of(&targets.attacker))),
        case(
            "two headers",
            targets.attacker.request(Method::POST, &path).header("authorization", "Bearer x"),
            401,
            "UNAUTHENTICATED",
        ),
    ];
    cases.extend(bent(targets).into_iter().map(|(name, token)| bearer(&name, token)));
    cases.extend(forged(targets).into_iter().map(|(name, token)| bearer(&name, token)));
    cases.extend(operators(targets));
    cases
}

/// Variants of a valid token.
fn bent(targets: &Targets) -> Vec<(String, String)> {
    let token = of(&targets.attacker);
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("{token}") };
    let others = of(&targets.victim);
    let others_payload = others.split('.').nth(1).unwrap();
    let flipped = if signature.starts_with('A') { "B" } else { "A" };
    let mut bent: Vec<(String, String)> = [
        ("another user's payload", format!("{header}.{others_payload}.{signature}")),
        ("a flipped signature", format!("{header}.{payload}.{flipped}{}", &signature[1..])),
        ("no signature", format!("{header}.{payload}")),
        ("an empty signature", format!("{header}.{payload}.")),
        ("half a signature", format!("{header}.{payload}.{}", &signature[..20])),
        ("a fourth part", format!("{token}.{signature}")),
        ("five parts, as if encrypted", format!("{token}.{payload}.{signature}")),
        ("padding", format!("{token}=")),
        ("a space inside", format!("{header}. {payload}.{signature}")),
        ("no header", format!(".{payload}.{signature}")),
        ("no payload", format!("{header}..{signature}")),
        ("dots", "..".to_owned()),
        ("garbage", "a.b.c".to_owned()),
        ("a payload for a header", format!("{payload}.{payload}.{signature}")),
        ("a public key for a secret", format!("{AS_IF_RSA}.{payload}.{signature}")),
    ]
    .map(|(name, token)| (name.to_owned(), token))
    .into();
    for header in UNSIGNED {
        for (how, end) in [("nothing", ""), ("a signature", signature)] {
            bent.push((format!("{header} and {how}"), format!("{header}.{payload}.{end}")));
        }
    }
    bent
}

/// Tokens signed with other keys, or with ours for claims that we do not accept.
fn forged(targets: &Targets) -> Vec<(String, String)> {
    let secret = targets.world.platform.options.jwt_secret.clone();
    let sign = |header: Header, claims: &Value, secret: &str| {
        jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
    };
    let ours = |claims: Value| sign(Header::default(), &claims, &secret);
    let good = json!({ "sub": "1", "exp": LATER });
    let with = |change: fn(&mut Header)| {
        let mut header = Header::default();
        change(&mut header);
        sign(header, &good, &secret)
    };
    let theirs = |secret: &str| sign(Header::default(), &good, secret);
    [
        ("another secret", theirs("another secret, of thirty-two bytes")),
        ("no secret", theirs("")),
        ("the word", theirs("secret")),
        ("half of ours", theirs(&secret[..32])),
        ("a longer one", theirs(&format!("{secret}0"))),
        ("HS384", sign(Header::new(Algorithm::HS384), &good, &secret)),
        ("HS512", sign(Header::new(Algorithm::HS512), &good, &secret)),
        ("what nobody understands", with(|header| header.crit = Some(vec!["exp".to_owned()]))),
        ("ended", ours(json!({ "sub": "1", "exp": 1_000_000_000 }))),
        ("before our time", ours(json!({ "sub": "1", "exp": -1 }))),
        ("endless", ours(json!({ "sub": "1" }))),
        ("endless by null", ours(json!({ "sub": "1", "exp": null }))),
        ("an end in words", ours(json!({ "sub": "1", "exp": "tomorrow" }))),
        ("an end in a text", ours(json!({ "sub": "1", "exp": "4000000000" }))),
        ("not yet", ours(json!({ "sub": "1", "exp": LATER, "nbf": LATER - 1 }))),
        ("nobody's", ours(json!({ "exp": LATER }))),
        ("nobody's by null", ours(json!({ "sub": null, "exp": LATER }))),
        ("a number for a text", ours(json!({ "sub": 1, "exp": LATER }))),
        ("several users'", ours(json!({ "sub": ["1", "2"], "exp": LATER }))),
        ("an empty user's", ours(json!({ "sub": "", "exp": LATER }))),
        ("a negative user's", ours(json!({ "sub": "-1", "exp": LATER }))),
        ("a user with a sign", ours(json!({ "sub": "+1", "exp": LATER }))),
        ("a user with a space", ours(json!({ "sub": "1 ", "exp": LATER }))),
        ("a user with a fraction", ours(json!({ "sub": "1.0", "exp": LATER }))),
        ("a hexadecimal user", ours(json!({ "sub": "0x1", "exp": LATER }))),
        ("a user of wide digits", ours(json!({ "sub": "１", "exp": LATER }))),
        ("a user beyond all", ours(json!({ "sub": "9223372036854775808", "exp": LATER }))),
        ("a user's name", ours(json!({ "sub": "1' or '1'='1", "exp": LATER }))),
        ("a list", ours(json!([{ "sub": "1", "exp": LATER }]))),
    ]
    .map(|(name, token)| (name.to_owned(), token))
    .into()
}

fn operators(targets: &Targets) -> Vec<Case> {
    let api = &targets.api;
    let path = "/v1/templates";
    let key = &targets.world.platform.options.operator_key;
    let with = |name: &str, key: String| {
        let request = api.anonymous(Method::GET, path).header("x-api-key", key);
        case(name, request, 401, "UNAUTHENTICATED")
    };
    let user = |path: &str| targets.attacker.request(Method::GET, path);
    vec![
        case("no key", api.anonymous(Method::GET, path), 401, "UNAUTHENTICATED"),
        with("an empty key", String::new()),
        with("another key", "another key, of twenty-four bytes".to_owned()),
        with("half a key", key[..32].to_owned()),
        with("a longer key", format!("{key}0")),
        with("a key in capitals", key.to_uppercase()),
        case(
            "two keys",
            api.operator(Method::GET, path).header("x-api-key", key),
            401,
            "UNAUTHENTICATED",
        ),
        case("a user for an operator", user(path), 401, "UNAUTHENTICATED"),
        case("a user at the expiry report", user("/v1/expiry"), 401, "UNAUTHENTICATED"),
        case(
            "an operator for a user",
            api.operator(Method::GET, "/v1/me/coupons"),
            401,
            "UNAUTHENTICATED",
        ),
    ]
}
