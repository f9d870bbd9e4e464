//! `GET /v1/claims/{id}/events`: follows a queued claim by server-sent events.
//!
//! Ten thousand clients may wait at one api, so a client that waits costs no read: its position comes from what the
//! landers report (`queue/`), and MySQL is asked when the claim is due. A new stream asks once before its first event,
//! so that it never says less than an earlier answer; a stream that continues another need not.
//!
//! A stream is polled by its connection, and holds nothing but the next event: a client that reads slowly slows down its
//! own stream, and `connections/write_timeout.rs` ends it.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, sse::Event},
};
use coupon::{ClaimId, TemplateId, UserId};
use futures::stream;
use runtime::Backoff;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    access,
    auth::User,
    http::{
        events,
        extract::{Params, PathId},
        schemas::Id,
    },
    problem::Problem,
    queue::{
        QueueEstimate, StreamPlace,
        landing_rate::{Due, LandingRate},
    },
    receipt::{Owner, Receipt},
    routes::shopper::{
        claim_poll::{outcome, template_needed},
        last_event::LastEvent,
        waiting::{FoundBody, WaitingBody},
    },
    state::App,
};

/// First and longest wait before MySQL is asked again about a claim that is due and has no outcome yet, or because it
/// did not answer.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Longest time between two questions to MySQL, whatever the landers report. [`spread`] shortens it to 45 s on average;
/// with 10,000 clients that is 220 reads a second.
const LOOK_EVERY: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
pub(crate) struct EventParams {
    template: Option<TemplateId>,
    receipt: Option<String>,
}

/// `GET /v1/claims/{id}/events?template=&receipt=`
#[utoipa::path(
    get,
    path = "/v1/claims/{id}/events",
    operation_id = "follow_claim",
    tag = "Claims",
    summary = "Follow a claim that waits in a queue",
    description = "Server-sent events. The data of each is what a look at the claim answers: `PendingClaim` as often as its \
        position changes, and then, as the last one, `FoundClaim`. The position never rises.",
    security(("token" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as `Location` has it."),
        ("template" = Id, Query, description = "Its template, as `Location` has it."),
        ("receipt" = String, Query, description = "Its receipt, as `Location` has it."),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event of an earlier stream, which this one continues.")
    ),
    responses(
        (status = 200, description = "The events, until the outcome.", body = FoundBody, content_type = "text/event-stream"),
        (status = 204, description = "The event that `Last-Event-ID` names was the outcome: nothing follows.")
    ),
    extensions(("x-problems" = json!(
        "RATE_LIMITED TEMPLATE_NEEDED RECEIPT_INVALID LAST_EVENT_ID_INVALID OVERLOADED"
    )))
)]
pub(crate) async fn follow(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Response {
    let opened = async { opened(&app, user, id, params, &headers) };
    app.read_limit.limited(user, opened).await
}

fn opened(
    app: &App,
    user: UserId,
    id: ClaimId,
    params: EventParams,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    access::note_claim(id);
    let template = params.template.ok_or_else(template_needed)?;
    let owner = Owner { template, user, id };
    let receipt = params.receipt.unwrap_or_default();
    let receipt = app.receipts.read(&receipt, owner, app.clock.now())?;
    let last = LastEvent::of(headers)?;
    if last == Some(LastEvent::Outcome) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let place = app.queue.streams.place(user)?;
    let watched = Watched::new(app.clone(), owner, receipt, last, place);
    let followed = stream::unfold(watched, |mut watched| async move {
        let event = watched.next().await?;
        Some((Ok::<_, Infallible>(event), watched))
    });
    Ok(events::answer(followed))
}

/// A claim that a client follows.
struct Watched {
    app: App,
    owner: Owner,
    receipt: Receipt,
    landing_rate: watch::Receiver<Option<LandingRate>>,
    due: Due,
    /// The last position and estimate that were sent. `None`: nothing yet.
    told: Option<QueueEstimate>,
    /// Whether an event of this stream was sent.
    has_begun: bool,
    /// When MySQL is asked, whatever the landers report; `not_before`: the earliest time for it.
    look_at: Instant,
    not_before: Instant,
    look_every: Duration,
    again: Backoff,
    ends_at: Instant,
    /// Whether the outcome was sent.
    is_over: bool,
    _place: StreamPlace,
}

impl Watched {
    fn new(
        app: App,
        owner: Owner,
        receipt: Receipt,
        last: Option<LastEvent>,
        place: StreamPlace,
    ) -> Self {
        let landing_rate = app.queue.subscribe(owner.template, receipt.place);
        let now = Instant::now();
        // A stream that ends earlier must look before it does: the next one continues it and would wait anew.
        let look_every = LOOK_EVERY.min(app.queue.stream_max / 2);
        let told = last.map(|last| QueueEstimate { position: last.position(), estimated_ms: None });
        Self {
            due: Due::new(receipt.place, receipt.accepted_at),
            look_at: if told.is_some() { now + spread(look_every) } else { now },
            not_before: now,
            look_every,
            again: Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1),
            ends_at: now + app.queue.stream_max,
            has_begun: false,
            is_over: false,
            _place: place,
            app,
            owner,
            receipt,
            landing_rate,
            told,
        }
    }

    /// Waits for the next event. `None`: the stream ends.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        loop {
            let landing_rate = *self.landing_rate.borrow_and_update();
            let is_due = landing_rate.is_some_and(|landing_rate| self.due.is_due(&landing_rate));
            let now = Instant::now();
            if now >= self.look_at || (is_due && now >= self.not_before) {
                let app = self.app.clone();
                // While MySQL is away, thousands may wait for a turn.
                let _turn = tokio::select! {
                    biased;
                    () = app.queue.stopping() => return None,
                    () = sleep_until(self.ends_at) => return None,
                    turn = app.queue.look_turn() => turn,
                };
                // Boxed: a read of MySQL is large, and rare beside the wait for it.
                if let Some(found) = Box::pin(self.look()).await {
                    self.is_over = true;
                    return Some(self.event(&found, LastEvent::Outcome));
                }
            }
            if let Some(event) = self.waiting(landing_rate) {
                return Some(event);
            }
            let wake_at = if is_due { self.look_at.min(self.not_before) } else { self.look_at };
            tokio::select! {
                biased;
                () = self.app.queue.stopping() => return None,
                () = sleep_until(self.ends_at) => return None,
                changed = self.landing_rate.changed() => changed.ok()?,
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// Asks MySQL for the outcome. Call it within a turn.
    async fn look(&mut self) -> Option<FoundBody> {
        let found = outcome(&self.app, self.owner, &self.receipt).await;
        let now = Instant::now();
        self.not_before = now + self.again.next_wait();
        match found {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {
                self.due.was_looked_at(*self.landing_rate.borrow());
                self.told.get_or_insert_default();
                self.look_at = now + spread(self.look_every);
            }
            // MySQL is away. A client that has got no event yet waits until MySQL answers.
            Err(_) => {
                let nothing_told = self.told.is_none();
                self.look_at =
                    if nothing_told { self.not_before } else { now + spread(self.look_every) };
            }
        }
        None
    }

    /// Returns an event with the claim's position and estimate, if it says more than the last one that was sent.
    fn waiting(&mut self, landing_rate: Option<LandingRate>) -> Option<Event> {
        let told = self.told?;
        let offset = self.receipt.place.map(|place| place.offset);
        let estimate = QueueEstimate::of(landing_rate, offset, told.position, self.app.clock.now());
        let is_news = estimate.position != told.position
            || estimate.estimated_ms.is_some() != told.estimated_ms.is_some();
        if self.has_begun && !is_news {
            return None;
        }
        self.told = Some(estimate);
        let body = WaitingBody::of(self.owner.id, estimate);
        Some(self.event(&body, LastEvent::Waiting(estimate.position)))
    }

    fn event(&mut self, body: &impl Serialize, id: LastEvent) -> Event {
        let data = serde_json::to_string(body).unwrap_or_default();
        let event = Event::default().id(id.to_string()).data(data);
        if self.has_begun {
            return event;
        }
        self.has_begun = true;
        events::first(event)
    }
}

/// A time from a half of `most` to all of it, so that streams that were opened together do not look together.
fn spread(most: Duration) -> Duration {
    most.mul_f64(0.5 + fastrand::f64() / 2.0)
}
