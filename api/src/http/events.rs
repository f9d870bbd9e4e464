//! Answers that are streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::Stream;

/// Interval of the comments that keep an idle connection open: proxies close one after 30 to 60 s.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Milliseconds after which clients that lost their api connect again: spread, so that the next one is not overrun.
const RETRY_MS: (u64, u64) = (1_000, 5_000);

/// Tells nginx to pass events on as they come.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Answers with events as they come, until there are no more.
pub(crate) fn answer(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    let heartbeat = KeepAlive::new().interval(HEARTBEAT);
    let mut response = Sse::new(events).keep_alive(heartbeat).into_response();
    // The default then applies: an answer is for its caller alone, and not kept.
    response.headers_mut().remove(header::CACHE_CONTROL);
    response.headers_mut().insert(UNBUFFERED.0, UNBUFFERED.1);
    response
}

/// Adds to the first event of a stream when its client connects again.
pub(crate) fn first(event: Event) -> Event {
    event.retry(Duration::from_millis(fastrand::u64(RETRY_MS.0..=RETRY_MS.1)))
}
