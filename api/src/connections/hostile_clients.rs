//! Tests of clients that use more of a process than their share, at a real listener: connections, memory, answers that
//! they do not read. Each meets its limit, and others are served meanwhile.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{
    Router,
    routing::{get, post},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    task::yield_now,
    time::timeout,
};

use crate::connections::{
    Connections, State,
    limits::Limits,
    slow_clients::{LONG, PATIENCE, SHORT, assert_serves, rest, sent, serving_by},
};

/// The client's receive buffer, in bytes: about the smallest that a system allows.
const SMALL_BUFFER: u32 = 4 * 1024;

/// Size of an answer, in bytes: the system buffers one, and not many.
const ANSWER: usize = 24 * 1024;

async fn until(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, waits).await.unwrap();
}

fn open(connections: &Connections) -> usize {
    [State::Waiting, State::Working, State::Answering]
        .map(|state| connections.in_state(state))
        .iter()
        .sum()
}

/// Connects from another address of this machine, with a small receive buffer, and sends `text`.
async fn sent_from(source: &str, address: SocketAddr, text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(SMALL_BUFFER).unwrap();
    socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    let mut line = socket.connect(address).await.unwrap();
    line.write_all(text.as_bytes()).await.unwrap();
    line
}

fn counting() -> (Router, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    let answer = move || {
        counts.fetch_add(1, Relaxed);
        std::future::ready(vec![b'a'; ANSWER])
    };
    (Router::new().route("/answer", get(answer)), asked)
}

#[tokio::test]
async fn pipelined_requests_are_not_answered_faster_than_their_client_reads() {
    const AHEAD: usize = 200;
    let (route, asked) = counting();
    serving_by(Limits { take: SHORT, ..LONG }, Vec::new(), route, async |address, connections| {
        let requests = "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n".repeat(AHEAD);
        let line = sent_from("127.0.0.1", address, &requests).await;
        until(|| asked.load(Relaxed) > 0).await;
        assert_serves(address).await;
        until(|| open(connections) == 0).await;
        // The answers that fit into the buffers of both systems, and one that waits for room.
        let answered = asked.load(Relaxed);
        assert!((1..=10).contains(&answered), "{answered} answers of {ANSWER} bytes");
        drop(line);
    })
    .await;
}

#[tokio::test]
async fn an_answer_is_under_way_until_its_client_has_it_though_the_system_has_it_all() {
    let (route, _) = counting();
    let limits = Limits { connections: 1, take: SHORT, ..LONG };
    serving_by(limits, Vec::new(), route, async |address, connections| {
        for ends in ["", "connection: close\r\n"] {
            let request = format!("GET /answer HTTP/1.1\r\nhost: a\r\n{ends}\r\n");
            let mut silent = sent_from("127.0.0.1", address, &request).await;
            until(|| connections.in_state(State::Answering) == 1).await;
            // There is one connection slot: the second client is served once the first has lost it.
            assert_serves(address).await;
            let came = rest(&mut silent).await;
            assert!(came.len() < ANSWER, "{} bytes", came.len());
        }
    })
    .await;
}

/// After a reset the system keeps reporting unacknowledged bytes.
#[tokio::test]
async fn a_client_that_leaves_before_its_answer_frees_its_connection_at_once() {
    let route = Router::new().route("/answer", post(|body: String| std::future::ready(body)));
    serving_by(
        Limits { take: 2 * PATIENCE, ..LONG },
        Vec::new(),
        route,
        async |address, connections| {
            let half = "POST /answer HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";
            let line = sent(address, half).await;
            until(|| connections.in_state(State::Working) == 1).await;
            drop(line);
            until(|| open(connections) == 0).await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_client_that_has_its_answer_may_stay_connected() {
    let (route, asked) = counting();
    serving_by(Limits { take: SHORT, ..LONG }, Vec::new(), route, async |address, connections| {
        let line = sent(address, "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(|| asked.load(Relaxed) == 1).await;
        until(|| connections.in_state(State::Waiting) == 1).await;
        // Until the silent client is ended, more time passes than an answer may be under way.
        let silent =
            sent_from("127.0.0.1", address, "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(|| open(connections) == 2).await;
        until(|| open(connections) == 1).await;
        drop(silent);
        let mut line = line;
        let last = "GET /fast HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        line.write_all(last.as_bytes()).await.unwrap();
        assert!(rest(&mut line).await.ends_with("served"));
    })
    .await;
}

#[tokio::test]
async fn all_heads_together_hold_no_more_than_they_may() {
    const HELD: usize = 64 * 1024;
    const CLIENTS: usize = 50;
    const HALF_HEAD: usize = 20 * 1024;
    let limits = Limits { held: HELD, ..LONG };
    serving_by(limits, Vec::new(), Router::new(), async |address, connections| {
        let half = format!("GET /fast HTTP/1.1\r\nhost: a\r\nx-half: {}", "a".repeat(HALF_HEAD));
        let mut lines = Vec::new();
        for _ in 0..CLIENTS {
            let mut line = TcpStream::connect(address).await.unwrap();
            // A client that is refused meanwhile cannot send all of it.
            drop(line.write_all(half.as_bytes()).await);
            lines.push(line);
        }
        until(|| open(connections) < 10).await;
        let held = connections.held();
        assert!((HELD / 2..2 * HELD).contains(&held), "{held} bytes");
        assert_serves(address).await;
        drop(lines);
        until(|| open(connections) == 0).await;
        assert_eq!(connections.held(), 0);
        // A complete request with a large head is served again.
        let head = format!(
            "GET /fast HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: {}\r\n\r\n",
            "a".repeat(12 * 1024)
        );
        assert!(rest(&mut sent(address, &head).await).await.ends_with("served"));
    })
    .await;
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_another_address_its_own() {
    let limits = Limits { per_address: 2, ..LONG };
    serving_by(limits, Vec::new(), Router::new(), async |address, connections| {
        let request = "GET /fast HTTP/1.1\r\nhost: a\r\n";
        let mut first = sent_from("127.0.0.2", address, request).await;
        let _second = sent_from("127.0.0.2", address, request).await;
        until(|| connections.largest_address() == 2).await;
        let mut third = sent_from("127.0.0.2", address, "").await;
        assert_eq!(rest(&mut third).await, "", "it is closed without an answer");
        assert_serves(address).await;
        first.write_all(b"connection: close\r\n\r\n").await.unwrap();
        assert!(rest(&mut first).await.ends_with("served"));
        until(|| connections.largest_address() == 1).await;
        let whole = format!("{request}connection: close\r\n\r\n");
        let mut next = sent_from("127.0.0.2", address, &whole).await;
        assert!(rest(&mut next).await.ends_with("served"));
    })
    .await;
}

#[tokio::test]
async fn a_trusted_proxy_is_not_limited_and_each_of_its_clients_is() {
    let limits = Limits { per_address: 2, ..LONG };
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    serving_by(limits, proxies, Router::new(), async |address, connections| {
        let request = |path: &str, client: &str| {
            format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-forwarded-for: {client}\r\n\r\n")
        };
        let one: IpAddr = "203.0.113.7".parse().unwrap();
        let silent = [
            sent(address, &request("/silent", &one.to_string())).await,
            sent(address, &request("/silent", &format!("198.51.100.1, {one}:4711"))).await,
        ];
        until(|| connections.largest_address() == 2).await;
        // Addresses that a client invents stand before the one that the proxy has seen, and a proxy before the proxy is
        // skipped.
        for forwarded in [one.to_string(), format!("203.0.113.8, {one}"), format!("{one}, 127.0.0.9")] {
            let answer = rest(&mut sent(address, &request("/fast", &forwarded)).await).await;
            assert!(answer.starts_with("HTTP/1.1 429 "), "{forwarded}: {answer}");
            assert!(answer.contains("TOO_MANY_AT_ONCE") && answer.contains("retry-after: "), "{answer}");
        }
        for forwarded in ["203.0.113.8", "unknown", "127.0.0.1"] {
            let answer = rest(&mut sent(address, &request("/fast", forwarded)).await).await;
            assert!(answer.ends_with("served"), "{forwarded}: {answer}");
        }
        drop(silent);
        until(|| connections.largest_address() == 0).await;
        let answer = rest(&mut sent(address, &request("/fast", &one.to_string())).await).await;
        assert!(answer.ends_with("served"), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_by_its_head() {
    serving_by(LONG, Vec::new(), Router::new(), async |address, _| {
        let head = "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n";
        for more in ["", "expect: 100-continue\r\n"] {
            let answer = rest(&mut sent(address, &format!("{head}{more}\r\n")).await).await;
            // The server does not ask for the body.
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
            assert!(answer.contains("\"code\":\"BODY_TOO_LARGE\""), "{answer}");
            // A client that does not know would send its next request into a closed connection.
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        }
        // A client that keeps sending still reads the refusal, and no connection reset.
        let mut line = sent(address, &format!("{head}\r\n")).await;
        line.write_all(&vec![b'a'; 512 * 1024]).await.unwrap();
        let answer = rest(&mut line).await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with('}'), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_it_if_the_body_is_not_too_large() {
    serving_by(LONG, Vec::new(), Router::new(), async |address, _| {
        let head = "POST /body HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\nbody";
        let answer = rest(&mut sent(address, head).await).await;
        assert!(answer.starts_with("HTTP/1.1 100 ") && answer.ends_with("body"), "{answer}");
    })
    .await;
}
