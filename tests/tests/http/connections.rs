//! Connections of a whole process: they are counted, and the memory that they hold together is bounded. The api's
//! own tests (`hostile_clients.rs`, `slow_clients.rs`) check how each bound is enforced, with small limits.

use std::{fs, time::Duration};

use coupon::UserId;
use pipeline_tests::{World, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::http::broken_requests::{begin, response};

/// Limit in bytes of what unfinished requests hold together (`docs/operate/settings.md`).
const HELD_MAX: f64 = 64.0 * 1024.0 * 1024.0;

/// Bytes sent of each body, which is announced with the largest accepted size.
const PART: usize = 62 * 1024;

/// More such bodies than the limit allows.
const CLIENTS: usize = 1_500;

/// Longest wait for an answer on a connection that may have none.
const ANSWERED: Duration = Duration::from_millis(1);

#[tokio::test]
async fn connections_are_counted_by_what_they_wait_for() {
    const CLIENTS: usize = 7;
    let world = World::start("connection gauges").await;
    let address = world.platform.api_url().strip_prefix("http://").unwrap().to_owned();
    let api = &world.platform.apis[0];
    let gauge = async |state: &str| {
        api.metric(&format!("api_connections{{state=\"{state}\"}}")).await.unwrap_or(-1.0)
    };
    let mut lines = Vec::new();
    for number in 0..CLIENTS {
        let mut line = TcpStream::connect(&address).await.unwrap();
        if number > 0 {
            line.write_all(b"GET /nowhere HTTP/1.1\r\n").await.unwrap();
        }
        lines.push(line);
    }
    until(async || gauge("waiting").await, |waiting| *waiting >= 7.0).await;
    drop(lines);
    until(async || gauge("waiting").await, |waiting| *waiting < 7.0).await;
    let template = world.template(1, |new| new).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let half = "content-length: 14\r\n\r\n{\"quantity\"";
    let mut half = begin(&world, &shopper, template, half).await;
    until(async || gauge("working").await, |working| *working >= 1.0).await;
    assert!(gauge("free").await > 16_000.0);
    half.shutdown().await.unwrap();
    assert_eq!(response(half).await.status, 408);
    until(async || gauge("working").await, |working| *working == 0.0).await;
    world.end().await;
}

/// What the attack used that filled 1.5 GiB of the system's buffers and stalled the api's own connections.
const SLOW_READERS: usize = 400;
const SENT_AHEAD: usize = 20;

/// Most bytes of answers that the system may keep for each of them: Linux doubles the 64 KiB that the api asks for.
const BUFFERED_MAX: usize = 128 * 1024;

#[tokio::test]
async fn four_hundred_clients_that_read_no_answer_fill_no_memory_and_stall_no_claim() {
    let world = World::start("slow readers").await;
    let template = world.template(50, |new| new).await;
    let address = world.platform.api_url().strip_prefix("http://").unwrap().to_owned();
    let asked = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(SENT_AHEAD);
    let mut lines = Vec::new();
    for _ in 0..SLOW_READERS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 * 1024).unwrap();
        let mut line = socket.connect(address.parse().unwrap()).await.unwrap();
        line.write_all(asked.as_bytes()).await.unwrap();
        lines.push(line);
    }
    let api = &world.platform.apis[0];
    let answering = "api_connections{state=\"answering\"}";
    let all = SLOW_READERS as f64;
    until(async || api.metric(answering).await.unwrap_or(0.0), |answering| *answering >= all).await;
    for user in 1..=50 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201, "user {user}");
    }
    let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let buffered = buffered(port);
    assert!(buffered.len() >= SLOW_READERS, "{} connections", buffered.len());
    let most = buffered.iter().max().unwrap();
    assert!((1..=BUFFERED_MAX).contains(most), "{most} bytes");
    drop(lines);
    until(async || api.metric(answering).await.unwrap(), |answering| *answering == 0.0).await;
    assert_eq!(world.count(template).await.all(), 50);
    world.assert_sound(None).await;
    world.end().await;
}

/// The bytes that the system keeps for each connection of this local port until its client has taken them.
fn buffered(port: u16) -> Vec<usize> {
    let mut all = Vec::new();
    for line in fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, _, queues, ..] = fields[..] else { continue };
        if local.ends_with(&format!(":{port:04X}")) {
            let sent = queues.split_once(':').unwrap().0;
            all.push(usize::from_str_radix(sent, 16).unwrap());
        }
    }
    all
}

mod full {
    use super::*;

    #[tokio::test]
    async fn half_bodies_hold_no_more_than_they_may_together_and_others_are_served() {
        let world = World::start("half bodies together").await;
        let template = world.template(10, |new| new).await;
        let shopper = world.api().shopper(UserId(1)).unwrap();
        let part = format!("content-length: 65536\r\n\r\n{}", " ".repeat(PART));
        let mut lines = Vec::new();
        for _ in 0..CLIENTS {
            lines.push(begin(&world, &shopper, template, &part).await);
        }
        let api = &world.platform.apis[0];
        let refused = "api_connections_ended_total{reason=\"memory\"}";
        until(async || api.metric(refused).await, |refused| refused.is_some_and(|many| many > 0.0))
            .await;
        let held = async || api.metric("api_requests_held_bytes").await.unwrap();
        let holds = until(held, |held| *held > HELD_MAX / 2.0).await;
        assert!(holds < 1.1 * HELD_MAX, "{holds} bytes");
        // A client whose request is of ordinary size is served as usual.
        let other = world.api().shopper(UserId(2)).unwrap();
        assert_eq!(other.claim(template, None, 1).await.unwrap().status, 201);
        // Refused clients got an answer, and may retry.
        let mut overloaded = 0;
        for line in &mut lines {
            let mut head = [0; 12];
            if timeout(ANSWERED, line.read_exact(&mut head)).await.is_ok_and(|read| read.is_ok()) {
                // On a slow machine the time of some bodies was over before the others had begun.
                assert!([*b"HTTP/1.1 503", *b"HTTP/1.1 408"].contains(&head), "{head:?}");
                overloaded += usize::from(&head == b"HTTP/1.1 503");
            }
        }
        assert!(overloaded > 0);
        drop(lines);
        until(held, |held| *held == 0.0).await;
        assert_eq!(world.count(template).await.all(), 1);
        world.assert_sound(None).await;
        world.end().await;
    }
}
