//! [`Crowd`]: many users at once, each behaving like a good client.
//!
//! All requests of a run wait at one closed door. When it opens, as many requests as there are connections pass at a
//! time. A user without an answer, or with "not now", sends the same request with the same key again until the answer
//! is final or the patience ends. A claim that was accepted (202) is polled until it has ended; its end is recorded as
//! the direct claim's answer would be. The history records every request, answered or not.

use std::{sync::Arc, time::Duration};

use coupon::{CouponId, TemplateId, UserId};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};
use verifier::{History, Record};

use crate::{Accepted, Answer, Api, Claimed, Fate, Latency, Shopper, ShopperError};

/// The shortest pause before a request is repeated. A real client would respect Retry-After, which is in seconds; runs
/// are short.
const PAUSE_MIN_MS: u64 = 20;

/// The longest pause; jitter keeps requests that were refused together from returning together.
const PAUSE_MAX_MS: u64 = 200;

/// Shortest and longest pause between two polls of an accepted claim: as long as the server estimates, within these.
const LOOK_MIN_MS: u64 = 50;
const LOOK_MAX_MS: u64 = 1_000;

/// How long a winner waits for the coupon to appear in the list.
const VISIBLE_MAX: Duration = Duration::from_secs(30);

/// One user's request, and how the user behaves.
#[derive(Debug, Clone)]
pub struct Wish {
    pub template: TemplateId,
    pub user: UserId,
    /// The idempotency key, if one is sent.
    pub key: Option<String>,
    /// The number of coupons requested.
    pub quantity: u32,
    /// Number of simultaneous copies of the request: 1, or more for a user who presses repeatedly.
    pub copies: u32,
    /// Whether the request is repeated after a final answer, as after a page reload.
    pub again: bool,
    /// Whether the user, having won, polls the list until the coupon appears.
    pub watch: bool,
}

impl Wish {
    /// A wish for one coupon, without a key, sent once.
    pub fn one(template: TemplateId, user: UserId) -> Self {
        Self { template, user, key: None, quantity: 1, copies: 1, again: false, watch: false }
    }

    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// A crowd that uses one or more api processes.
#[derive(Clone)]
pub struct Crowd {
    apis: Vec<Api>,
    connections: usize,
    patience: Duration,
    /// Whether accepted claims are followed to their end.
    follows: bool,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// Every request and its answer.
    pub history: History,
    /// Time from sending a request to its answer.
    pub answered: Latency,
    /// Every 202, and how it ended.
    pub accepted: Vec<Accepted>,
    /// Time from a 201, or the end of an accepted claim, until the list shows the coupon, for users who watched.
    pub visible: Latency,
    /// Watchers who never saw their coupon.
    pub never_visible: usize,
    /// Wishes without a final answer when the patience ended.
    pub given_up: usize,
    /// Time from opening the door until every visit has its final answer or gave up.
    pub elapsed: Duration,
}

impl Crowd {
    /// Creates a crowd that spreads over `apis`, with at most `connections` concurrent requests, and gives up a wish
    /// after `patience`.
    pub fn new(apis: Vec<Api>, connections: usize, patience: Duration) -> Self {
        Self { apis, connections, patience, follows: true }
    }

    /// Makes the users leave once their claims are accepted.
    #[must_use]
    pub fn leaving(self) -> Self {
        Self { follows: false, ..self }
    }

    /// Sends all wishes at once and waits for the last answer.
    ///
    /// # Errors
    /// A token cannot be signed.
    ///
    /// # Panics
    /// The task of a wish panicked.
    pub async fn run(&self, wishes: Vec<Wish>) -> Result<Run, ShopperError> {
        let door = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for (index, wish) in wishes.into_iter().enumerate() {
            for copy in 0..wish.copies as usize {
                let api = &self.apis[(index + copy) % self.apis.len()];
                let visit = Visit {
                    shopper: api.shopper(wish.user)?,
                    api: api.clone(),
                    // Only one copy watches and repeats; the others only claim.
                    wish: Wish { again: wish.again && copy == 0, ..wish.clone() },
                    watch: wish.watch && copy == 0,
                    door: Arc::clone(&door),
                    patience: self.patience,
                    follows: self.follows,
                    part: Part::default(),
                };
                tasks.spawn(visit.walk());
            }
        }
        let began = Instant::now();
        door.add_permits(self.connections);
        let mut run = Run::default();
        while let Some(part) = tasks.join_next().await {
            let (part, answered_at) = part.expect("a visit does not panic");
            run.elapsed = run.elapsed.max(answered_at - began);
            run.take(part);
        }
        Ok(run)
    }
}

impl Run {
    fn take(&mut self, part: Part) {
        self.history.records.extend(part.records);
        part.answered.into_iter().for_each(|latency| self.answered.record(latency));
        self.accepted.extend(part.accepted);
        match part.visible {
            Some(Some(latency)) => self.visible.record(latency),
            Some(None) => self.never_visible += 1,
            None => {}
        }
        self.given_up += part.given_up;
    }
}

/// The results of one visit. A [`Run`] holds histograms, which are too large for each of thousands.
#[derive(Default)]
struct Part {
    records: Vec<Record>,
    answered: Vec<Duration>,
    accepted: Vec<Accepted>,
    /// The outer `Option` is set if the user watched, the inner one if the coupon appeared.
    visible: Option<Option<Duration>>,
    given_up: usize,
}

/// One copy of a wish.
struct Visit {
    api: Api,
    shopper: Shopper,
    wish: Wish,
    watch: bool,
    door: Arc<Semaphore>,
    patience: Duration,
    follows: bool,
    part: Part,
}

impl Visit {
    /// Claims until the answer is final. Returns the results and the time of that answer.
    async fn walk(mut self) -> (Part, Instant) {
        let body = self.insist().await;
        if self.wish.again {
            self.insist().await;
        }
        let answered_at = Instant::now();
        if let Some(coupon) = body.filter(|_| self.watch).and_then(|body| won(&body)) {
            self.part.visible = Some(self.shopper.until_visible(coupon, VISIBLE_MAX).await);
        }
        (self.part, answered_at)
    }

    /// Sends until the answer is final. Returns the claim as its 201 shows it; `None` if it did not land, or the patience
    /// ended first.
    async fn insist(&mut self) -> Option<String> {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.send().await.filter(|answer| !answer.is_passing()) {
                let Wish { template, user, key, quantity, .. } = &self.wish;
                let key = key.as_deref();
                let accepted = Accepted::read(&answer, *template, *user, key, *quantity);
                match accepted {
                    None => return (answer.status == 201).then_some(answer.body),
                    Some(accepted) => match self.follow(accepted, began).await {
                        Some(Fate::Succeeded { body }) => return Some(body),
                        Some(Fate::Rejected { .. }) => return None,
                        None if !self.follows => return None,
                        // Lost: the same key claims again.
                        Some(Fate::Lost | Fate::Processing { .. }) | None => {}
                    },
                }
            }
            if began.elapsed() >= self.patience {
                self.part.given_up += 1;
                return None;
            }
            sleep(Duration::from_millis(fastrand::u64(PAUSE_MIN_MS..=PAUSE_MAX_MS))).await;
        }
    }

    /// Polls an accepted claim until it has ended; `None` if the patience ended first, or the user leaves at once.
    async fn follow(&mut self, mut accepted: Accepted, began: Instant) -> Option<Fate> {
        let mut estimated_ms = accepted.estimated_ms;
        while self.follows && began.elapsed() < self.patience {
            let pause = estimated_ms.unwrap_or(LOOK_MAX_MS / 4).clamp(LOOK_MIN_MS, LOOK_MAX_MS);
            sleep(Duration::from_millis(fastrand::u64(pause / 2..=pause))).await;
            let looked = {
                let _connection =
                    self.door.acquire().await.expect("the door is never closed for good");
                self.shopper.look(&accepted).await
            };
            match looked.ok().and_then(|answer| answer.fate()) {
                Some(Fate::Processing { estimated_ms: now, .. }) => estimated_ms = now,
                Some(end) => {
                    self.record_end(&end, accepted.replayed);
                    accepted.fate = Some(end);
                    break;
                }
                None => {}
            }
        }
        let end = accepted.fate.clone();
        self.part.accepted.push(accepted);
        end
    }

    async fn send(&mut self) -> Option<Answer> {
        let Wish { template, key, quantity, .. } = &self.wish;
        let _connection = self.door.acquire().await.expect("the door is never closed for good");
        let began = Instant::now();
        let sent_at = self.api.clock().now();
        let answer = self.shopper.claim(*template, key.as_deref(), *quantity).await.ok();
        if answer.is_some() {
            self.part.answered.push(began.elapsed());
        }
        let record = Record {
            sent_at_ms: sent_at.timestamp_millis(),
            status: answer.as_ref().map(|answer| answer.status),
            code: answer.as_ref().and_then(Answer::code),
            replayed: answer.as_ref().is_some_and(|answer| answer.replayed),
            body: answer
                .as_ref()
                .filter(|answer| answer.status == 201)
                .map(|answer| answer.body.clone()),
            ..self.unanswered()
        };
        self.part.records.push(record);
        answer
    }

    /// Records the end of an accepted claim as a direct claim's answer: 201 with its body, or 409 with its code.
    fn record_end(&mut self, end: &Fate, replayed: bool) {
        let (status, code, body) = match end {
            Fate::Succeeded { body } => (201, None, Some(body.clone())),
            Fate::Rejected { code } => (409, Some(code.clone()), None),
            // Like an answer that says "not now": the claim is sent again.
            Fate::Lost | Fate::Processing { .. } => (503, None, None),
        };
        let record = Record { status: Some(status), code, replayed, body, ..self.unanswered() };
        self.part.records.push(record);
    }

    /// The record of a request that is sent now, without an answer.
    fn unanswered(&self) -> Record {
        let Wish { template, user, key, quantity, .. } = &self.wish;
        Record {
            template: *template,
            user: *user,
            key: key.clone(),
            quantity: *quantity,
            sent_at_ms: self.api.clock().now().timestamp_millis(),
            status: None,
            code: None,
            replayed: false,
            body: None,
        }
    }
}

fn won(body: &str) -> Option<CouponId> {
    let claimed: Claimed = serde_json::from_str(body).ok()?;
    claimed.coupons.first().map(|coupon| coupon.id)
}
