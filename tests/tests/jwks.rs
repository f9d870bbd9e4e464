//! Tokens of an issuer that publishes its keys: which are accepted, and what happens when keys change.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};

/// Ends far ahead.
const LATER: i64 = 4_000_000_000;

/// What stands before the 32 bytes of an Ed25519 key (RFC 8410, PKCS #8).
const ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A key of the issuer.
struct Key {
    name: &'static str,
    private: EncodingKey,
    public: Value,
}

impl Key {
    fn new(name: &'static str) -> Self {
        let mut der = ED25519.to_vec();
        der.extend((0..32).map(|_| fastrand::u8(..)));
        let private = EncodingKey::from_ed_der(&der);
        let public = Jwk::from_encoding_key(&private, Algorithm::EdDSA).unwrap();
        let mut public = serde_json::to_value(public).unwrap();
        public["kid"] = json!(name);
        Self { name, private, public }
    }

    fn token(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.name.to_owned()), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }
}

/// An issuer's server: one set of keys, and how often it was asked.
#[derive(Clone, Default)]
struct Issuer {
    set: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn publish(&self, keys: &[&Value]) {
        *self.set.lock().unwrap() = json!({ "keys": keys }).to_string();
    }

    /// Answers every connection with the set, until the test ends.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys.json", listener.local_addr().unwrap());
        let issuer = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                drop(stream.read(&mut [0; 4096]));
                issuer.asked.fetch_add(1, Ordering::SeqCst);
                let set = issuer.set.lock().unwrap().clone();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/jwk-set+json\r\nconnection: close\r\n";
                drop(write!(stream, "{head}content-length: {}\r\n\r\n{set}", set.len()));
            }
        });
        url
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The status with which a token is answered.
async fn status(world: &World, token: &str) -> u16 {
    let request = world.api().anonymous(Method::GET, "/v1/me/coupons").bearer_auth(token);
    world.api().send(request).await.unwrap().status
}

#[tokio::test]
async fn a_new_key_is_fetched_once_when_a_token_names_it_and_a_withdrawn_one_is_refused() {
    let (issuer, old, new) = (Issuer::default(), Key::new("old"), Key::new("new"));
    // What is no public key for signatures is passed over.
    let secret =
        json!({ "kty": "oct", "kid": "secret", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0" });
    issuer.publish(&[&old.public, &secret, &json!({ "kty": "new" })]);
    let url = issuer.start();
    let world = World::start_with("jwks", |options| {
        options
            .with_env("JWKS", &url)
            .with_env("JWT_SECRET", "")
            .with_env("JWT_ISSUER", "https://issuer.example")
            .with_env("JWT_AUDIENCE", "coupons")
    })
    .await;
    let claims = json!({
        "sub": "1", "exp": LATER, "iss": "https://issuer.example", "aud": ["coupons", "shop"],
    });
    assert_eq!(status(&world, &old.token(&claims)).await, 200);
    assert_eq!(issuer.asked(), 1, "at the start");

    issuer.publish(&[&new.public, &secret]);
    assert_eq!(status(&world, &new.token(&claims)).await, 200, "rotated without a restart");
    assert_eq!(issuer.asked(), 2);
    assert_eq!(status(&world, &old.token(&claims)).await, 401, "withdrawn");
    for number in 0..50 {
        let header =
            Header { kid: Some(format!("invented-{number}")), ..Header::new(Algorithm::EdDSA) };
        let invented = jsonwebtoken::encode(&header, &claims, &old.private).unwrap();
        assert_eq!(status(&world, &invented).await, 401);
    }
    assert_eq!(issuer.asked(), 2, "nobody makes us ask by inventing names");

    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        new.token(&claims)
    };
    for (wrong, token) in [
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("another audience", with("aud", json!("shop"))),
        ("ended", with("exp", json!(1_000_000_000))),
        ("not yet", with("nbf", json!(LATER - 1))),
        (
            "no audience",
            new.token(&json!({ "sub": "1", "exp": LATER, "iss": "https://issuer.example" })),
        ),
    ] {
        assert_eq!(status(&world, &token).await, 401, "{wrong}");
    }
    for forged in confused(&new, &claims) {
        assert_eq!(status(&world, &forged).await, 401, "{forged}");
    }
    assert_eq!(status(&world, &new.token(&claims)).await, 200);
    world.end().await;
}

/// Tokens that name the key and are signed by what everybody can read.
fn confused(key: &Key, claims: &Value) -> Vec<String> {
    let public = key.public["x"].as_str().unwrap().to_owned();
    let set = json!({ "keys": [key.public] }).to_string();
    let secrets = [public.as_bytes(), set.as_bytes(), b"secret-secret-secret-secret"];
    let mut forged = Vec::new();
    for (algorithm, secret) in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512]
        .into_iter()
        .flat_map(|algorithm| secrets.into_iter().map(move |secret| (algorithm, secret)))
    {
        for name in [key.name, "secret"] {
            let header = Header { kid: Some(name.to_owned()), ..Header::new(algorithm) };
            let secret = EncodingKey::from_secret(secret);
            forged.push(jsonwebtoken::encode(&header, claims, &secret).unwrap());
        }
    }
    let payload = forged[0].split('.').nth(1).unwrap();
    // {"alg":"none","kid":"new"}
    forged.push(format!("eyJhbGciOiJub25lIiwia2lkIjoibmV3In0.{payload}."));
    forged
}
