//! Incomplete requests: they have no effect, their clients learn what to do, and others are served. The limits for
//! slow clients are tested in the api (`slow_clients.rs`) with short times; here the process has its production
//! limits.

use std::time::Duration;

use coupon::{TemplateId, UserId};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::Value;
use shopper::Shopper;
use testkit::Proxy;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

/// Idempotency key of every claim.
const KEY: &str = "the-key";

/// Longest time for a request (`docs/api.md`).
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// Longest wait for the end of a connection.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The response up to the end of the connection.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) problem: Value,
}

/// Sends the first lines of a claim's head, then `sent`, and leaves the connection open.
pub(crate) async fn begin(
    world: &World,
    shopper: &Shopper,
    template: TemplateId,
    sent: &str,
) -> TcpStream {
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

pub(crate) async fn response(mut line: TcpStream) -> Response {
    let mut bytes = Vec::new();
    let ended = timeout(ANSWER_MAX, line.read_to_end(&mut bytes)).await;
    assert!(ended.is_ok(), "the connection stays open");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let retry_after = lines.find_map(|line| line.strip_prefix("retry-after: "));
    let retry_after = retry_after.map(|seconds| seconds.parse().unwrap());
    Response { status, retry_after, problem: serde_json::from_str(body).unwrap() }
}

/// Asserts that the complete request is answered as if it were the first.
async fn assert_free(shopper: &Shopper, template: TemplateId) {
    let answer = shopper.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!((answer.status, answer.replayed), (201, false), "{answer:?}");
}

/// Asserts that clients' errors do not count in the share of 5xx, for which operators are paged.
async fn assert_no_error_of_ours(world: &World) {
    let text = world.platform.apis[0].answer("/metrics").await.unwrap();
    let counts = text.lines().filter(|line| line.starts_with("api_request_seconds_count"));
    let (ours, theirs): (Vec<_>, Vec<_>) = counts.partition(|line| line.contains("status=\"5"));
    assert!(ours.is_empty(), "{ours:#?}");
    assert!(theirs.iter().any(|line| line.contains("status=\"408\"")), "{theirs:#?}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_said_to_be_incomplete_and_claims_nothing() {
    let world = World::start("broken bodies").await;
    let template = world.template(10, |new| new).await;
    let incomplete = (408, "BODY_INCOMPLETE", true);
    let unreadable = (400, "BODY_UNREADABLE", false);
    let broken = [
        ("a length that is not kept", "content-length: 14\r\n\r\n{\"quantity\"", incomplete),
        ("a chunk that is not whole", "transfer-encoding: chunked\r\n\r\n8\r\n{\"quan", incomplete),
        ("no last chunk", "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", incomplete),
        (
            "a chunk that is none",
            "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            unreadable,
        ),
        (
            "a chunk longer than it says",
            "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            unreadable,
        ),
    ];
    for (user, (name, sent, (status, code, retryable))) in (1..).zip(broken) {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let mut line = begin(&world, &shopper, template, sent).await;
        // The client sends no more and waits for its answer.
        line.shutdown().await.unwrap();
        let response = response(line).await;
        let said = (response.status, &response.problem["code"], &response.problem["retryable"]);
        let wanted = (status, &Value::from(code), &Value::from(retryable));
        assert_eq!(said, wanted, "{name}: {response:?}");
        assert_eq!(response.retry_after.is_some(), retryable, "{name}: {response:?}");
        assert_eq!(world.count(template).await.all(), user - 1, "{name}");
        assert_free(&shopper, template).await;
    }
    world.assert_sound(None).await;
    assert_no_error_of_ours(&world).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn what_takes_too_long_by_our_own_fault_is_unknown_and_says_so() {
        let mut world = World::start("silent database").await;
        let url = &world.scope.endpoints.database_url;
        let proxy = Proxy::before(url).await;
        let url = proxy.instead_of(url);
        let api = &mut world.platform.apis[0];
        api.set_env("DATABASE_URL", &url);
        api.restart().await.unwrap();
        let shopper = world.api().shopper(UserId(1)).unwrap();
        let _held = proxy.hold_answer(b"from user_coupon where id = ?");
        let request = shopper.request(Method::GET, "/v1/me/coupons/1");
        let answer = shopper.send(request).await.unwrap();
        assert_eq!((answer.status, answer.code().as_deref()), (503, Some("TIMEOUT")), "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
        world.end().await;
    }

    #[tokio::test]
    async fn a_body_that_never_comes_is_answered_in_time_and_claims_nothing() {
        let world = World::start("half bodies").await;
        let template = world.template(10, |new| new).await;
        let shopper = |user| world.api().shopper(UserId(user)).unwrap();
        let began = Instant::now();
        let one = shopper(1);
        let other = shopper(2);
        let by_length =
            begin(&world, &one, template, "content-length: 14\r\n\r\n{\"quantity\"").await;
        let in_chunks = "transfer-encoding: chunked\r\n\r\n8\r\n{\"quan";
        let in_chunks = begin(&world, &other, template, in_chunks).await;
        assert_free(&shopper(3), template).await;
        for line in [by_length, in_chunks] {
            let response = response(line).await;
            assert_eq!(
                (response.status, &response.problem["code"]),
                (408, &Value::from("BODY_INCOMPLETE")),
                "{response:?}"
            );
            assert!(
                response.retry_after.is_some() && response.problem["retryable"] == true,
                "{response:?}"
            );
        }
        let took = began.elapsed();
        assert!((REQUEST_MAX..2 * REQUEST_MAX).contains(&took), "{took:?}");
        assert_eq!(world.count(template).await.all(), 1, "the third user's");
        for shopper in [one, other] {
            assert_free(&shopper, template).await;
        }
        assert_eq!(world.count(template).await.all(), 3);
        world.assert_sound(None).await;
        assert_no_error_of_ours(&world).await;
        world.end().await;
    }
}
