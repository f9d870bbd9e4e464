//! [`Crowd`]: many users at once, each as a good client behaves.
//!
//! All requests of a run wait behind one closed door; when it opens, as many as there are connections
//! pass at a time. Whoever gets no answer, or "not now", sends the same request with the same key again
//! until the answer is final or patience ends. Every request sent goes into the history, answered or not.

use std::{sync::Arc, time::Duration};

use coupon::{CouponId, TemplateId, UserId};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};
use verifier::{History, Record};

use crate::{Answer, Api, Claimed, Latency, Shopper, ShopperError};

/// Pause before a request is sent again, at least. A person's client would heed Retry-After, which is
/// seconds; runs are short.
const PAUSE_MIN_MS: u64 = 20;

/// And at most: jittered, so that those who were refused together do not come back together.
const PAUSE_MAX_MS: u64 = 200;

/// How long a winner waits for the coupon to show in the list.
const VISIBLE_MAX: Duration = Duration::from_secs(30);

/// What one user wants.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Of which template.
    pub template: TemplateId,
    /// Who.
    pub user: UserId,
    /// The idempotency key; absent: none is sent.
    pub key: Option<String>,
    /// How many coupons.
    pub quantity: u32,
    /// How often the request is sent at the same time: 1, or more for a nervous finger.
    pub copies: u32,
    /// Whether it is sent once more after a final answer, as after a page reload.
    pub again: bool,
    /// Whether, having won, the user watches the list until the coupon shows.
    pub watch: bool,
}

impl Wish {
    /// One coupon, without a key, sent once.
    pub fn one(template: TemplateId, user: UserId) -> Self {
        Self { template, user, key: None, quantity: 1, copies: 1, again: false, watch: false }
    }

    /// The same, with a key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// A crowd before one or more api processes.
#[derive(Clone)]
pub struct Crowd {
    apis: Vec<Api>,
    connections: usize,
    patience: Duration,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// Every request and its answer.
    pub history: History,
    /// From sending a request to its answer.
    pub answered: Latency,
    /// From a 201 to the list showing the coupon, for those who watched.
    pub visible: Latency,
    /// Watchers who never saw their coupon.
    pub never_visible: usize,
    /// Wishes without a final answer when patience ended.
    pub given_up: usize,
    /// From the opening of the door to the last final answer.
    pub elapsed: Duration,
}

impl Crowd {
    /// A crowd that spreads over `apis`, with at most `connections` requests under way, and gives up
    /// a wish after `patience`.
    pub fn new(apis: Vec<Api>, connections: usize, patience: Duration) -> Self {
        Self { apis, connections, patience }
    }

    /// Sends all wishes at once and waits for the last answer.
    ///
    /// # Errors
    /// A token cannot be signed.
    ///
    /// # Panics
    /// A wish's own task panicked.
    pub async fn run(&self, wishes: Vec<Wish>) -> Result<Run, ShopperError> {
        let door = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for (index, wish) in wishes.into_iter().enumerate() {
            for copy in 0..wish.copies as usize {
                let api = &self.apis[(index + copy) % self.apis.len()];
                let visit = Visit {
                    shopper: api.shopper(wish.user)?,
                    api: api.clone(),
                    // One copy watches and comes again; the others only want it too.
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

/// What came of one visit; a [`Run`] holds histograms, which are too large for each of thousands.
#[derive(Default)]
struct Part {
    records: Vec<Record>,
    answered: Vec<Duration>,
    /// Outer: whether it watched; inner: whether it saw.
    visible: Option<Option<Duration>>,
    given_up: usize,
}

/// One copy of a wish on its way.
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
    /// Walks to a final answer; also tells when it came.
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

    /// Sends until the answer is final; absent: patience ended.
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
