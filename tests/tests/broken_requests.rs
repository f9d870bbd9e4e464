//! Requests that do not come whole: they do nothing, their clients are told what to do, and others are served.
//! What a slow client may take of a process is tried in the api (`slow_clients.rs`), with limits that can be
//! waited for; here are its own.

use std::time::Duration;

use coupon::{TemplateId, UserId};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::Value;
use shopper::Shopper;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

/// Every claim's key.
const KEY: &str = "the-key";

/// How long a request may take (`docs/api.md`).
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// How long an answer is waited for, to the end of its connection.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// What came until the connection ended.
#[derive(Debug)]
struct Told {
    status: u16,
    retry_after: Option<u64>,
    problem: Value,
}

/// A claim of which `sent` is all that comes, behind the head's first lines.
async fn begin(world: &World, shopper: &Shopper, template: TemplateId, sent: &str) -> TcpStream {
    let address = world.platform.api_url().strip_prefix("http://").unwrap();
    let signed = shopper.request(Method::GET, "/").build().unwrap();
    let authorization = signed.headers()["authorization"].to_str().unwrap();
    let head = format!(
        "POST /v1/templates/{template}/claims HTTP/1.1\r\nhost: {address}\r\nauthorization: {authorization}\r\n\
         idempotency-key: {KEY}\r\ncontent-type: application/json\r\n"
    );
    let mut line = TcpStream::connect(address).await.unwrap();
    line.write_all(format!("{head}{sent}").as_bytes()).await.unwrap();
    line
}

/// Reads until the connection ends.
async fn told(mut line: TcpStream) -> Told {
    let mut bytes = Vec::new();
    let ended = timeout(ANSWER_MAX, line.read_to_end(&mut bytes)).await;
    assert!(ended.is_ok(), "the connection stays open");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let retry_after = lines.find_map(|line| line.strip_prefix("retry-after: "));
    let retry_after = retry_after.map(|seconds| seconds.parse().unwrap());
    Told { status, retry_after, problem: serde_json::from_str(body).unwrap() }
}

/// The same request as a whole is answered as if it had been the first.
async fn assert_free(shopper: &Shopper, template: TemplateId) {
    let answer = shopper.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!((answer.status, answer.replayed), (201, false), "{answer:?}");
}

#[tokio::test]
async fn a_body_that_never_comes_is_answered_in_time_and_claims_nothing() {
    let world = World::start("half bodies").await;
    let template = world.template(10, |new| new).await;
    let shopper = |user| world.api().shopper(UserId(user)).unwrap();
    let began = Instant::now();
    let (one, other) = (shopper(1), shopper(2));
    let by_length = begin(&world, &one, template, "content-length: 14\r\n\r\n{\"quantity\"").await;
    let in_chunks = "transfer-encoding: chunked\r\n\r\n8\r\n{\"quan";
    let in_chunks = begin(&world, &other, template, in_chunks).await;
    assert_free(&shopper(3), template).await;
    for line in [by_length, in_chunks] {
        let told = told(line).await;
        assert_eq!(
            (told.status, &told.problem["code"]),
            (503, &Value::from("TIMEOUT")),
            "{told:?}"
        );
        assert!(told.retry_after.is_some() && told.problem["retryable"] == true, "{told:?}");
    }
    let took = began.elapsed();
    assert!((REQUEST_MAX..2 * REQUEST_MAX).contains(&took), "{took:?}");
    assert_eq!(world.count(template).await.all(), 1, "the third user's");
    for shopper in [one, other] {
        assert_free(&shopper, template).await;
    }
    assert_eq!(world.count(template).await.all(), 3);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_said_to_be_unreadable_and_claims_nothing() {
    let world = World::start("broken bodies").await;
    let template = world.template(10, |new| new).await;
    let broken = [
        ("a length that is not kept", "content-length: 14\r\n\r\n{\"quantity\""),
        ("a chunk that is not whole", "transfer-encoding: chunked\r\n\r\n8\r\n{\"quan"),
        ("no last chunk", "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"),
        ("a chunk that is none", "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
        ("a chunk longer than it says", "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n"),
    ];
    for (user, (name, sent)) in (1..).zip(broken) {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let mut line = begin(&world, &shopper, template, sent).await;
        // It sends no more, and waits for its answer.
        line.shutdown().await.unwrap();
        let told = told(line).await;
        let code = &told.problem["code"];
        assert_eq!((told.status, code), (400, &Value::from("BODY_UNREADABLE")), "{name}: {told:?}");
        assert_eq!((told.retry_after, &told.problem["retryable"]), (None, &Value::from(false)));
        assert_eq!(world.count(template).await.all(), user - 1, "{name}");
        assert_free(&shopper, template).await;
    }
    world.assert_sound(None).await;
    world.end().await;
}
