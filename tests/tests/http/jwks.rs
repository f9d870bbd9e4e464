//! Tokens of an issuer that publishes its keys: which are accepted, and what happens when keys change.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use devstack::project_root;
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};

/// An expiry far in the future.
const LATER: i64 = 4_000_000_000;

/// Prefix of the 32 bytes of an Ed25519 key (RFC 8410, PKCS #8).
const ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Prefix of the 32 bytes of a P-256 key (RFC 5915, in PKCS #8).
const P256: [u8; 35] = [
    0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01,
    0x01, 0x04, 0x20,
];

struct Key {
    name: &'static str,
    algorithm: Algorithm,
    private: EncodingKey,
    public: Value,
}

impl Key {
    /// Generates an Ed25519 key.
    fn new(name: &'static str) -> Self {
        Self::of(name, Algorithm::EdDSA, EncodingKey::from_ed_der(&random_after(&ED25519)))
    }

    /// Generates a P-256 key.
    fn p256(name: &'static str) -> Self {
        Self::of(name, Algorithm::ES256, EncodingKey::from_ec_der(&random_after(&P256)))
    }

    /// Generates an RSA key of 2,048 bits by openssl in `folder`.
    fn rsa(name: &'static str, folder: &Path) -> Self {
        openssl(folder, "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem");
        // PKCS #1, as the library reads it.
        openssl(folder, "rsa -in rsa.pem -traditional -outform DER -out rsa.der");
        let der = fs::read(folder.join("rsa.der")).unwrap();
        Self::of(name, Algorithm::RS256, EncodingKey::from_rsa_der(&der))
    }

    fn of(name: &'static str, algorithm: Algorithm, private: EncodingKey) -> Self {
        let public = Jwk::from_encoding_key(&private, algorithm).unwrap();
        let mut public = serde_json::to_value(public).unwrap();
        public["kid"] = json!(name);
        Self { name, algorithm, private, public }
    }

    fn token(&self, claims: &Value) -> String {
        self.token_naming(Some(self.name), claims)
    }

    /// Signs a token whose header names this key, another one or none.
    fn token_naming(&self, name: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: name.map(str::to_owned), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }
}

fn random_after(head: &[u8]) -> Vec<u8> {
    head.iter().copied().chain((0..32).map(|_| fastrand::u8(..))).collect()
}

fn openssl(folder: &Path, words: &str) {
    let words = words.split(' ');
    let made = Command::new("openssl").current_dir(folder).args(words).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Writes a key set to a file.
fn publish(file: &Path, keys: &[&Key]) {
    let keys: Vec<&Value> = keys.iter().map(|key| &key.public).collect();
    fs::write(file, json!({ "keys": keys }).to_string()).unwrap();
}

/// Starts a platform that reads the key set from a file, which initially contains `keys`.
async fn world_with_file(name: &str, keys: &[&Key], leeway_seconds: i64) -> (World, PathBuf) {
    let mut file = PathBuf::new();
    let world = World::start_with(name, |options| {
        fs::create_dir_all(&options.dir).unwrap();
        file = options.dir.canonicalize().unwrap().join("keys.json");
        publish(&file, keys);
        options
            .with_env("JWKS", &file.display().to_string())
            .with_env("JWT_SECRET", "")
            .with_env("JWT_LEEWAY_SECONDS", &leeway_seconds.to_string())
    })
    .await;
    (world, file)
}

/// An issuer's server: a key set, and a request counter.
#[derive(Clone, Default)]
struct Issuer {
    set: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn publish(&self, keys: &[&Value]) {
        *self.set.lock().unwrap() = json!({ "keys": keys }).to_string();
    }

    /// Serves the set on every connection until the test ends; returns its URL.
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

/// Sends a token; returns the answer's status.
async fn status(world: &World, token: &str) -> u16 {
    let request = world.api().anonymous(Method::GET, "/v1/me/coupons").bearer_auth(token);
    world.api().send(request).await.unwrap().status
}

#[tokio::test]
async fn a_new_key_is_fetched_once_when_a_token_names_it_and_a_withdrawn_one_is_refused() {
    let issuer = Issuer::default();
    let old = Key::new("old");
    let new = Key::new("new");
    // Entries that are not public signature keys are ignored.
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
            .with_env("JWT_USER_CLAIM", "coupon_user")
    })
    .await;
    // The issuer names its users by UUIDs, and gives each a number for us.
    let uuid = "018f2e5a-7c00-7000-8000-000000000042";
    let claims = json!({
        "sub": uuid, "coupon_user": 1, "exp": LATER, "iss": "https://issuer.example",
        "aud": ["coupons", "shop"],
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
        ("no user's", with("coupon_user", Value::Null)),
        ("a user's name", with("coupon_user", json!(uuid))),
        (
            "no audience",
            new.token(&json!({ "coupon_user": 1, "exp": LATER, "iss": "https://issuer.example" })),
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

/// Returns tokens that name the key but are signed with publicly known values.
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

/// Clock leeway for the issuer in this test, in seconds: far longer than the test takes.
const LEEWAY: i64 = 120;

#[tokio::test]
async fn keys_of_each_kind_sign_tokens_that_are_good_within_the_leeway_and_not_beyond() {
    let folder = project_root().join(format!(".dev/test/jwks-{:x}", fastrand::u64(..)));
    fs::create_dir_all(&folder).unwrap();
    let keys = [Key::new("ed25519"), Key::p256("p-256"), Key::rsa("rsa", &folder)];
    fs::remove_dir_all(&folder).unwrap();
    let (world, _) = world_with_file("leeway", &keys.each_ref(), LEEWAY).await;
    let now = || world.clock.now().timestamp();
    for key in &keys {
        let name = key.name;
        for (claim, seconds, expected) in [
            ("exp", LEEWAY, 200),
            ("exp", -LEEWAY / 2, 200),
            ("exp", -2 * LEEWAY, 401),
            ("nbf", -LEEWAY, 200),
            ("nbf", LEEWAY / 2, 200),
            ("nbf", 2 * LEEWAY, 401),
        ] {
            let mut claims = json!({ "sub": "1", "exp": LATER });
            claims[claim] = json!(now() + seconds);
            let answered = status(&world, &key.token(&claims)).await;
            assert_eq!(answered, expected, "{name}: {claim} in {seconds} s");
        }
        let claims = json!({ "sub": "1", "exp": LATER });
        for other in keys.iter().filter(|other| other.name != name) {
            let forged = key.token_naming(Some(other.name), &claims);
            assert_eq!(status(&world, &forged).await, 401, "{name} as {}", other.name);
        }
        // The signature of one payload with another user's payload.
        let token = key.token(&claims);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let other = key.token(&json!({ "sub": "2", "exp": LATER }));
        let (other, _) = other.rsplit_once('.').unwrap();
        assert_ne!(signed, other);
        assert_eq!(status(&world, &format!("{other}.{signature}")).await, 401, "{name}");
    }
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_file_of_keys_is_read_anew_and_the_last_set_stays_where_it_cannot_be_read() {
        let old = Key::new("old");
        let new = Key::new("new");
        let unknown = Key::new("unknown");
        let (world, file) = world_with_file("jwks file", &[&old], 5).await;
        let claims = json!({ "sub": "1", "exp": LATER });
        let of = async |key: &Key| status(&world, &key.token(&claims)).await;
        let nameless = async |key: &Key| status(&world, &key.token_naming(None, &claims)).await;
        assert_eq!(
            (of(&old).await, nameless(&old).await),
            (200, 200),
            "of one key no name is needed"
        );
        let started = fs::read_to_string(world.platform.apis[0].log()).unwrap();
        for setting in ["set JWT_ISSUER", "set JWT_AUDIENCE"] {
            assert!(
                started.contains(setting),
                "nobody is warned that tokens of others are accepted"
            );
        }

        publish(&file, &[&old, &new]);
        assert_eq!((of(&new).await, of(&old).await), (200, 200), "both at once");
        assert_eq!(nameless(&new).await, 401, "of two nobody knows which");

        fs::write(&file, "half a se").unwrap();
        let log = world.platform.apis[0].log();
        // A name that is not in the set makes the api read the file again, but not at every request.
        let kept = async || {
            assert_eq!(of(&unknown).await, 401);
            fs::read_to_string(&log).unwrap().contains("the keys of tokens stay as they are")
        };
        until(kept, |kept| *kept).await;
        assert_eq!((of(&new).await, of(&old).await), (200, 200), "the last set");

        publish(&file, &[&new]);
        let withdrawn = async || {
            assert_eq!(of(&unknown).await, 401);
            of(&old).await
        };
        until(withdrawn, |status| *status == 401).await;
        assert_eq!((of(&new).await, nameless(&new).await), (200, 200));
        world.end().await;
    }
}
