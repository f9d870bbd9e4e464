//! [`Crowd`]: many users at once, each behaving like a good client.
//!
//! All requests of a run wait at one closed door. When it opens, as many requests as there are connections pass at a
//! time. A user without an answer, or with "not now", sends the same request with the same key again until the answer
//! is final or the patience ends. The history records every request, answered or not.

use std::{sync::Arc, time::Duration};

use coupon::{CouponId, TemplateId, UserId};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};
use verifier::{History, Record};

use crate::{Answer, Api, Claimed, Latency, Shopper, ShopperError};

/// The shortest pause before a request is repeated. A real client would respect Retry-After, which is in seconds; runs
/// are short.
const PAUSE_MIN_MS: u64 = 20;

/// The longest pause; jitter keeps requests that were refused together from returning together.
const PAUSE_MAX_MS: u64 = 200;

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

    /// Adds an idempotency key.
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
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// Every request and its answer.
    pub history: History,
    /// Time from sending a request to its answer.
    pub answered: Latency,
    /// Time from a 201 until the list shows the coupon, for users who watched.
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
        Self { apis, connections, patience }
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
    part: Part,
}

impl Visit {
    /// Claims until the answer is final. Returns the results and the time of that answer.
    async fn walk(mut self) -> (Part, Instant) {
        let answer = self.insist().await;
        if self.wish.again {
            self.insist().await;
        }
        let answered_at = Instant::now();
        if let Some(coupon) = answer.filter(|_| self.watch).and_then(|answer| won(&answer)) {
            self.part.visible = Some(self.shopper.until_visible(coupon, VISIBLE_MAX).await);
        }
        (self.part, answered_at)
    }

    /// Sends until the answer is final; `None` if the patience ended first.
    async fn insist(&mut self) -> Option<Answer> {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.send().await.filter(|answer| !answer.is_passing()) {
                return Some(answer);
            }
            if began.elapsed() >= self.patience {
                self.part.given_up += 1;
                return None;
            }
            sleep(Duration::from_millis(fastrand::u64(PAUSE_MIN_MS..=PAUSE_MAX_MS))).await;
        }
    }

    async fn send(&mut self) -> Option<Answer> {
        let Wish { template, key, quantity, .. } = &self.wish;
        let _connection = self.door.acquire().await.expect("the door is never closed for good");
        let (began, sent_at) = (Instant::now(), self.api.clock().now());
        let answer = self.shopper.claim(*template, key.as_deref(), *quantity).await.ok();
        if answer.is_some() {
            self.part.answered.push(began.elapsed());
        }
        self.part.records.push(Record {
            template: *template,
            user: self.wish.user,
            key: key.clone(),
            quantity: *quantity,
            sent_at_ms: sent_at.timestamp_millis(),
            status: answer.as_ref().map(|answer| answer.status),
            code: answer.as_ref().and_then(Answer::code),
            replayed: answer.as_ref().is_some_and(|answer| answer.replayed),
            body: answer
                .as_ref()
                .filter(|answer| answer.status == 201)
                .map(|answer| answer.body.clone()),
        });
        answer
    }
}

fn won(answer: &Answer) -> Option<CouponId> {
    let claimed: Claimed = (answer.status == 201).then(|| answer.json().ok())??;
    claimed.coupons.first().map(|coupon| coupon.id)
}
