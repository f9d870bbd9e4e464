//! Streams of events have their bounds: for a user, for a process, and for a client that does not read. A refused
//! client is told so, and requests are answered nevertheless.

use std::time::Duration;

use devstack::PlatformOptions;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use shopper::{Accepted, Events, Fate, Shopper};
use testkit::until_within;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::queued::{accepted, after_gate, after_topic, assert_sold, followed::landed, shopper};

/// Connections of the api: the fewest that one takes. Three of four may be streams.
const CONNECTIONS: &str = "64";
const STREAMS: usize = 48;

/// Streams that one user may have.
const OF_USER: usize = 16;

/// Users with as many streams as one may have, together all that the process takes; and one more user.
const USERS: i64 = 3;
const ONE_MORE: i64 = 4;

/// Time in which a busy machine ends a client that has not read for thirty seconds.
const ENDED_WITHIN: Duration = Duration::from_mins(2);

/// Longest wait for the end of a connection that has been closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

/// Length of a stream, in seconds, where a test waits for the end of one.
const SHORT: &str = "2";

fn few_connections(options: PlatformOptions) -> PlatformOptions {
    options.with_env("CONNECTIONS_MAX", CONNECTIONS)
}

/// Streams that are open, as the api counts them.
async fn open(world: &World) -> f64 {
    world.platform.apis[0].metric("api_claim_event_streams").await.unwrap_or(-1.0)
}

/// Opens a stream, and reads that its claim waits.
async fn waiting(shopper: &Shopper, claim: &Accepted) -> Events {
    let mut events = shopper.events(claim, None).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert!(matches!(first.fate(), Some(Fate::Processing { .. })), "{first:?}");
    events
}

/// Asserts that one more stream is refused, with what it says.
async fn assert_refused(shopper: &Shopper, claim: &Accepted, status: u16, code: &str) {
    let request = shopper.request(Method::GET, &claim.events());
    let refused = shopper.send(request).await.unwrap();
    assert_eq!((refused.status, refused.code().as_deref()), (status, Some(code)), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
}

#[tokio::test]
async fn streams_beyond_a_users_and_the_process_most_are_refused_and_requests_are_not() {
    let mut world = World::start_queued_with("most streams", few_connections).await;
    let template = world.template(10, after_topic).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    let mut streams = Vec::new();
    for user in 1..=USERS {
        let anna = shopper(&world, 0, user);
        let claim = accepted(&mut promises, &anna, template).await;
        for _ in 0..OF_USER {
            streams.push(waiting(&anna, &claim).await);
        }
        if streams.len() < STREAMS {
            assert_refused(&anna, &claim, 429, "TOO_MANY_AT_ONCE").await;
        }
    }
    until(async || open(&world).await, |open| *open == 48.0).await;
    // The process has all streams that it takes, and still takes a claim and a look at it.
    let other = shopper(&world, 0, ONE_MORE);
    let claim = accepted(&mut promises, &other, template).await;
    assert_refused(&other, &claim, 503, "OVERLOADED").await;
    let look = other.look(&claim).await.unwrap();
    assert_eq!(look.status, 202, "{look:?}");
    // A place that becomes free goes to the next client.
    drop(streams.pop());
    let opened = async || other.events(&claim, None).await.ok();
    streams.push(until(opened, Option::is_some).await.unwrap());
    world.platform.lander.resume().unwrap();
    for events in &mut streams {
        landed(events).await;
    }
    drop(streams);
    until(async || open(&world).await, |open| *open == 0.0).await;
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_sold(&world, template, ONE_MORE).await;
    world.end().await;
}

/// Asks for a claim's events on a connection whose buffer takes about a kilobyte, and does not read. Two looks at the
/// claim come first: their answers fill the buffer, so that the stream finds no room.
async fn unread(world: &World, shopper: &Shopper, claim: &Accepted) -> TcpStream {
    let address = world.platform.api_url().strip_prefix("http://").unwrap();
    let signed = shopper.request(Method::GET, "/").build().unwrap();
    let authorization = signed.headers()["authorization"].to_str().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    let mut line = socket.connect(address.parse().unwrap()).await.unwrap();
    for path in [&claim.location, &claim.location, &claim.events()] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {authorization}\r\n\r\n"
        );
        line.write_all(request.as_bytes()).await.unwrap();
    }
    line
}

#[tokio::test]
async fn a_client_that_does_not_read_its_events_is_ended_and_others_read_theirs() {
    let mut world = World::start_queued("unread events").await;
    let held = world.template(10, after_gate).await;
    let sold = world.template(10, after_topic).await;
    let mut promises = Promises::default();
    // What stays in the outbox waits for as long as the test; claims of the other template pass it.
    world.platform.relay.pause().unwrap();
    let slow = shopper(&world, 0, 1);
    let claim = accepted(&mut promises, &slow, held).await;
    let mut reads = waiting(&slow, &claim).await;
    let mut line = unread(&world, &slow, &claim).await;
    until(async || open(&world).await, |open| *open == 2.0).await;
    for user in 2..=6 {
        let other = shopper(&world, 0, user);
        let claim = accepted(&mut promises, &other, sold).await;
        landed(&mut other.events(&claim, None).await.unwrap()).await;
    }
    let ended = "api_connections_ended_total{reason=\"answer\"}";
    let api = &world.platform.apis[0];
    let ended = async || api.metric(ended).await.unwrap_or(0.0);
    until_within(ENDED_WITHIN, ended, |ended| *ended >= 1.0).await;
    until(async || open(&world).await, |open| *open == 1.0).await;
    let mut rest = Vec::new();
    let closed = timeout(CLOSED_WITHIN, line.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection stays open");
    // The same user's other stream is not affected.
    world.platform.relay.resume().unwrap();
    landed(&mut reads).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(6));
    assert_eq!(world.count(sold).await.all(), 5);
    assert_sold(&world, held, 1).await;
    world.end().await;
}

#[tokio::test]
async fn a_stream_that_ends_by_its_length_is_continued_by_the_next_one_to_the_outcome() {
    let short = |options: PlatformOptions| options.with_env("EVENT_STREAM_SECONDS", SHORT);
    let mut world = World::start_queued_with("short streams", short).await;
    let template = world.template(10, after_topic).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    let anna = shopper(&world, 0, 1);
    let claim = accepted(&mut promises, &anna, template).await;
    let mut events = anna.events(&claim, None).await.unwrap();
    let mut last = None;
    let ended = async {
        while let Some(event) = events.next().await.unwrap() {
            assert!(matches!(event.fate(), Some(Fate::Processing { .. })), "{event:?}");
            last = event.id.or(last.take());
        }
    };
    assert!(timeout(ENDED_WITHIN, ended).await.is_ok(), "the stream goes on");
    // The claim still waits, so it was the stream's length that ended it.
    assert_eq!(anna.look(&claim).await.unwrap().status, 202);
    until(async || open(&world).await, |open| *open == 0.0).await;
    world.platform.lander.resume().unwrap();
    let succeeded = async {
        let mut fate = None;
        while !matches!(fate, Some(Fate::Succeeded { .. })) {
            let mut next = anna.events(&claim, last.as_deref()).await.unwrap();
            while let Some(event) = next.next().await.unwrap() {
                fate = event.fate().or(fate);
                last = event.id.or(last.take());
            }
        }
    };
    assert!(timeout(ENDED_WITHIN, succeeded).await.is_ok(), "no stream tells of the outcome");
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    assert_sold(&world, template, 1).await;
    world.end().await;
}
