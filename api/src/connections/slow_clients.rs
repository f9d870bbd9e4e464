//! Tests of clients that are slower than allowed, at a real listener: each is ended in time, by an answer or by the end
//! of its connection, and others are served meanwhile.

use std::{convert::Infallible, future, iter, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    middleware,
    response::sse::{Event, Sse},
    routing::{get, post},
};
use futures::stream;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::yield_now,
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    connections::{Connections, State, client_address::Network, limits::Limits, listener},
    router::{Bounds, bounded, counted},
};

/// The limit that a test is about.
pub(crate) const SHORT: Duration = Duration::from_millis(400);

/// All other limits: far longer than a test may take, so that none of them ends a client.
pub(crate) const LONG: Limits = Limits {
    connections: 64,
    per_address: 0,
    held: usize::MAX,
    head: Duration::from_mins(1),
    request: Duration::from_mins(1),
    read: Duration::from_mins(1),
    take: Duration::from_mins(1),
};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Interval at which slow clients send or take a little: many times within a limit.
const PACE: Duration = Duration::from_millis(10);

/// Size of an answer, in bytes: more than both systems buffer for a connection.
const LARGE: usize = 32 * 1024 * 1024;

/// Serves while `clients` runs, and then until all connections have ended.
async fn serving(limits: Limits, clients: impl AsyncFnOnce(SocketAddr)) {
    serving_by(limits, Vec::new(), Router::new(), async |address, _| clients(address).await).await;
}

/// Like [`serving`], with more routes and with trusted proxies. Passes the connections to `clients`.
pub(crate) async fn serving_by(
    limits: Limits,
    proxies: Vec<Network>,
    more: Router,
    clients: impl AsyncFnOnce(SocketAddr, &Connections),
) {
    let routes = more
        .route("/fast", get(async || "served"))
        .route("/silent", get(future::pending::<()>))
        .route("/large", get(async || vec![b'a'; LARGE]))
        .route("/body", post(async |body: Bytes| body))
        .layer(middleware::from_fn_with_state(Bounds { limits, known: Arc::default() }, bounded))
        .layer(middleware::from_fn(counted));
    let socket = listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let stop = CancellationToken::new();
    let connections = Connections::new(limits, proxies);
    let clients = async {
        clients(address, &connections).await;
        stop.cancel();
    };
    let server = listener::serve(socket, routes, Arc::clone(&connections), stop.clone());
    tokio::join!(server, clients);
}

pub(crate) async fn sent(address: SocketAddr, text: &str) -> TcpStream {
    let mut line = TcpStream::connect(address).await.unwrap();
    line.write_all(text.as_bytes()).await.unwrap();
    line
}

/// Reads until the connection ends. A reset is an end too.
pub(crate) async fn rest(line: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let ended = timeout(PATIENCE, line.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends one byte at a time until the connection is gone.
async fn trickle(mut line: impl AsyncWrite + Unpin, bytes: impl Iterator<Item = u8>) {
    let mut pace = interval(PACE);
    for byte in bytes {
        pace.tick().await;
        if line.write_all(&[byte]).await.is_err() {
            return;
        }
    }
}

/// Asserts that a well-behaved client is served.
pub(crate) async fn assert_serves(address: SocketAddr) {
    let request = "GET /fast HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = rest(&mut sent(address, request).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("served"), "{answer}");
}

/// Asserts that this is the answer `TIMEOUT` of `docs/errors.md`.
fn assert_timed_out(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\"code\":\"TIMEOUT\""), "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("no-store"), "{answer}");
}

fn assert_incomplete(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"BODY_INCOMPLETE\""), "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("no-store"), "{answer}");
}

fn assert_in_time(began: Instant) {
    let took = began.elapsed();
    assert!((SHORT..PATIENCE).contains(&took), "ended after {took:?}");
}

#[tokio::test]
async fn half_a_head_ends_without_an_answer() {
    serving(Limits { head: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let mut half = sent(address, "GET /fast HTTP/1.1\r\nhost: a\r\nx-half").await;
        let mut nothing = sent(address, "").await;
        assert_serves(address).await;
        assert_eq!(rest(&mut half).await, "");
        assert_eq!(rest(&mut nothing).await, "");
        assert_in_time(began);
    })
    .await;
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_not_waited_for_any_longer() {
    serving(Limits { head: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let (mut read, write) = sent(address, "").await.into_split();
        let head = "GET /fast HTTP/1.1\r\nhost: a\r\nx-slow: ";
        let bytes = head.bytes().chain(iter::repeat(b'a'));
        let ((), answer, ()) =
            tokio::join!(trickle(write, bytes), rest(&mut read), assert_serves(address));
        assert_eq!(answer, "");
        assert_in_time(began);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_was_served_may_lie_idle_no_longer_than_a_head_may_take() {
    serving(Limits { head: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let mut line = sent(address, "GET /fast HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let answer = rest(&mut line).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("served"), "{answer}");
        assert_in_time(began);
    })
    .await;
}

#[tokio::test]
async fn half_a_body_is_answered_as_incomplete_and_its_connection_ends() {
    serving(Limits { request: SHORT, ..LONG }, async |address| {
        let in_chunks = "transfer-encoding: chunked\r\n\r\n8\r\nhalf";
        for half in ["content-length: 10\r\n\r\nhalf", in_chunks] {
            let began = Instant::now();
            let request = format!("POST /body HTTP/1.1\r\nhost: a\r\n{half}");
            let mut line = sent(address, &request).await;
            assert_serves(address).await;
            assert_incomplete(&rest(&mut line).await);
            assert_in_time(began);
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_not_waited_for_any_longer() {
    serving(Limits { request: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let head = "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\n";
        let (mut read, write) = sent(address, head).await.into_split();
        let bytes = iter::repeat(b'a');
        let ((), answer, ()) =
            tokio::join!(trickle(write, bytes), rest(&mut read), assert_serves(address));
        assert_incomplete(&answer);
        assert_in_time(began);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_only_reads_is_given_up_by_a_limit_of_its_own() {
    serving(Limits { read: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let request = "GET /silent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        assert_timed_out(&rest(&mut sent(address, request).await).await);
        assert_in_time(began);
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up_and_frees_its_connection() {
    serving(Limits { connections: 1, take: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let mut silent = sent(address, "GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        // There is one connection slot: the second client is served once the first has lost it.
        assert_serves(address).await;
        assert_in_time(began);
        let came = rest(&mut silent).await;
        assert!(came.starts_with("HTTP/1.1 200 ") && came.len() < LARGE, "{} bytes", came.len());
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_taken_drop_by_drop_is_given_up_too() {
    serving(Limits { connections: 1, take: SHORT, ..LONG }, async |address| {
        let began = Instant::now();
        let mut slow = sent(address, "GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let sips = async {
            let mut pace = interval(PACE);
            let mut sip = [0; 1024];
            while matches!(slow.read(&mut sip).await, Ok(1..)) {
                pace.tick().await;
            }
            future::pending::<()>().await;
        };
        tokio::select! {
            () = assert_serves(address) => assert_in_time(began),
            () = sips => {}
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_gets_a_large_answer_whole_beside_one_that_does_not() {
    serving(LONG, async |address| {
        let _silent = sent(address, "GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let request = "GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answer = rest(&mut sent(address, request).await).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body.len(), LARGE);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_ends_its_side_behind_its_request_gets_its_answer() {
    let later = async || {
        sleep(SHORT).await;
        "later"
    };
    let more = Router::new().route("/later", get(later));
    serving_by(LONG, Vec::new(), more, async |address, _| {
        let two = "GET /fast HTTP/1.1\r\nhost: a\r\n\r\nGET /later HTTP/1.1\r\nhost: a\r\n\r\n";
        for (request, end) in [
            ("GET /fast HTTP/1.1\r\nhost: a\r\n\r\n", "served"),
            ("GET /later HTTP/1.1\r\nhost: a\r\n\r\n", "later"),
            ("POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody", "body"),
            (two, "later"),
        ] {
            let mut line = sent(address, request).await;
            line.shutdown().await.unwrap();
            let answer = rest(&mut line).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(end), "{answer}");
        }
        let mut large = sent(address, "GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        large.shutdown().await.unwrap();
        let answer = rest(&mut large).await;
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), LARGE);
        assert_serves(address).await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_is_not_worked_for_any_longer() {
    let events = async || Sse::new(stream::pending::<Result<Event, Infallible>>());
    let more = Router::new().route("/events", get(events));
    // There is one connection slot: the next client is served once the one before has lost it.
    serving_by(
        Limits { connections: 1, ..LONG },
        Vec::new(),
        more,
        async |address, connections| {
            let silent = "GET /silent HTTP/1.1\r\nhost: a\r\n\r\n";
            let working = async || {
                let waits = async {
                    while connections.in_state(State::Working) == 0 {
                        yield_now().await;
                    }
                };
                timeout(PATIENCE, waits).await.unwrap();
            };
            let left = sent(address, silent).await;
            working().await;
            drop(left);
            assert_serves(address).await;
            let reset = sent(address, silent).await;
            working().await;
            reset.set_zero_linger().unwrap();
            drop(reset);
            assert_serves(address).await;
            // It follows a stream without an end, and the end of its side ends the stream.
            let mut follows = sent(address, "GET /events HTTP/1.1\r\nhost: a\r\n\r\n").await;
            let mut head = [0; 15];
            follows.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
            follows.shutdown().await.unwrap();
            rest(&mut follows).await;
            assert_serves(address).await;
        },
    )
    .await;
}
