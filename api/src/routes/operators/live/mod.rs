//! `GET /v1/live`: the live figures of sales by server-sent events, a sample a second.
//!
//! A stream is polled by its connection, and holds nothing but a place: samples are shared by all viewers
//! ([`sampler`]), and one that reads slowly misses some.

mod sample_json;
pub(crate) mod sampler;

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{Response, sse::Event},
};
use coupon::Scope;
use futures::stream;
use tokio::time::{Instant, sleep_until};

use self::sample_json::SampleJson;
use crate::{
    auth::{Operator, RecentOperator},
    http::events,
    live::Viewer,
    problem::Problem,
    state::App,
};

/// Interval between checks of a viewer's key. With the two seconds of the cache a revoked key watches for as long as
/// five seconds.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// `GET /v1/live`
#[utoipa::path(
    get,
    path = "/v1/live",
    operation_id = "watch_sales",
    tag = "Operations",
    summary = "Watch all sales live",
    description = "Server-sent events, one a second. The data of each is a `LiveSample`, which is complete by itself: a client that was \
        away needs no earlier one. The stream ends after `EVENT_STREAM_SECONDS`, when the key is not accepted any more, and when \
        the api stops. Keys of the scope `emergency` and the platform's own see every merchant's templates. While MySQL is \
        away, a key is accepted if it was within the last quarter of an hour.",
    security(("operator_key" = [])),
    responses((status = 200, description = "The samples.", body = SampleJson, content_type = "text/event-stream")),
    extensions(("x-problems" = json!("OVERLOADED")))
)]
pub(crate) async fn watch(
    State(app): State<App>,
    RecentOperator { operator, .. }: RecentOperator,
) -> Result<Response, Problem> {
    operator.needs(Scope::Read)?;
    let viewer = app.live.watch(operator.merchant_id)?;
    let watching = Watching::new(app, operator, viewer);
    let samples = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event), watching))
    });
    Ok(events::answer(samples))
}

/// A viewer's stream.
struct Watching {
    app: App,
    operator: Operator,
    viewer: Viewer,
    check_at: Instant,
    ends_at: Instant,
    has_begun: bool,
}

impl Watching {
    fn new(app: App, operator: Operator, viewer: Viewer) -> Self {
        let now = Instant::now();
        let ends_at = now + app.queue.stream_max;
        let check_at = now + CHECK_EVERY;
        Self { app, operator, viewer, check_at, ends_at, has_begun: false }
    }

    /// Waits for the next event. `None`: the stream ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let frames = tokio::select! {
                biased;
                () = self.app.queue.stopping() => return None,
                () = sleep_until(self.ends_at) => return None,
                () = sleep_until(self.check_at) => None,
                frames = self.viewer.next() => Some(frames?),
            };
            let Some(frames) = frames else {
                // Boxed: a read of MySQL is large, and rare beside the wait for it.
                let checked = Box::pin(self.app.auth.accepts_still(self.operator)).await;
                self.operator = checked.ok()?;
                self.check_at = Instant::now() + CHECK_EVERY;
                continue;
            };
            let own = Some(self.operator.merchant_id).filter(|_| !self.operator.is_on_call());
            let event = Event::default().data(frames.of(own));
            if self.has_begun {
                return Some(event);
            }
            self.has_begun = true;
            return Some(events::first(event));
        }
    }
}
