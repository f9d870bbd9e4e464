//! The load of an upgrade: waves of claims in every mode. Some winners read their lists, and some redeem their coupons.
//!
//! Nothing here needs the schema of this version, so the load begins before the migration.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use chrono::TimeDelta;
use coupon::{CouponId, TemplateId, UserId};
use futures::future::join_all;
use pipeline_tests::{Mode, until_within};
use runtime::Clock;
use shopper::{Answer, Api, Claimed, Crowd, NewTemplate, Run, Wish};
use verifier::Record;

/// Each mode has a template. A 202 behind a replica would need a gate of the test's own.
const MODES: [Mode; 4] =
    [("direct", "topic"), ("queued", "topic"), ("queued", "gate"), ("spill", "topic")];

/// Coupons of a template: they never sell out, so no claim may be refused.
const PLENTY: i64 = 1_000_000;

/// Users of a wave: few, because waves go on for minutes, and the verifier reads what all of them got.
const USERS: i64 = 20;

/// Concurrent requests of a wave: all of it.
const CONNECTIONS: usize = 32;

/// How long a user retries: longer than any process is away while it is replaced.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every claim has a key, since the last of several equal requests may meet another version than the first.
const KEY: &str = "wave";

/// Every so many users claim at both apis at once, by the same key.
const COPIES_EVERY: i64 = 4;

/// Every so many users claim again once they have won, by the same key.
const AGAIN_EVERY: i64 = 3;

/// Every so many users redeem what they won.
const REDEEMS_EVERY: i64 = 5;

/// Waves that must end before a state counts as tried: the first of them may have begun before it.
const WAVES: i64 = 2;

/// Longest time for them: a wave waits for whatever is being replaced.
const WAVES_WITHIN: Duration = Duration::from_secs(120);

/// Claims from several templates until it is told to end.
pub(super) struct Load {
    templates: Vec<Waves>,
    is_over: Cell<bool>,
}

/// What the users of one template were told.
pub(super) struct Heard {
    pub(super) template: TemplateId,
    pub(super) runs: Vec<Run>,
    /// Coupons whose redemption was confirmed.
    pub(super) redeemed: i64,
}

/// The claims of one template. Each has its own waves, so that one whose process is away delays no other.
struct Waves {
    template: TemplateId,
    apis: Vec<Api>,
    ended: Cell<i64>,
}

impl Load {
    /// Publishes the templates.
    pub(super) async fn publish(apis: &[Api], clock: &Clock) -> Self {
        let mut templates = Vec::new();
        for (mode, after) in MODES {
            let simple = NewTemplate::simple("A sale", PLENTY, clock.now(), TimeDelta::hours(1));
            let published = apis[0].publish_new(&simple.in_mode(mode, after)).await.unwrap();
            let apis = apis.to_vec();
            templates.push(Waves { template: published.id, apis, ended: Cell::new(0) });
        }
        Self { templates, is_over: Cell::new(false) }
    }

    /// Claims until [`Load::end`], and returns what the users of each template were told.
    ///
    /// # Panics
    /// A claim is refused or remains without an answer, a list lacks what its user won, or a redemption fails.
    pub(super) async fn run(&self) -> Vec<Heard> {
        join_all(self.templates.iter().map(|waves| waves.run(&self.is_over))).await
    }

    pub(super) fn end(&self) {
        self.is_over.set(true);
    }

    /// Waits until claims from each template have met the processes of this moment.
    pub(super) async fn pass(&self) {
        let before = self.ended();
        let ended = async || self.ended();
        let have_passed =
            |now: &Vec<i64>| now.iter().zip(&before).all(|(now, before)| now - before >= WAVES);
        until_within(WAVES_WITHIN, ended, have_passed).await;
    }

    fn ended(&self) -> Vec<i64> {
        self.templates.iter().map(|waves| waves.ended.get()).collect()
    }

    /// Sends the claims of the first waves again.
    pub(super) async fn repeat_first(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for waves in &self.templates {
            runs.push(waves.send(0).await);
        }
        runs
    }

    /// The users who have read their lists since they won.
    pub(super) fn readers(&self) -> BTreeSet<UserId> {
        self.ended().into_iter().flat_map(|waves| (0..waves).map(reader)).collect()
    }
}

impl Waves {
    async fn run(&self, is_over: &Cell<bool>) -> Heard {
        let mut heard = Heard { template: self.template, runs: Vec::new(), redeemed: 0 };
        while !is_over.get() {
            let wave = self.ended.get();
            let run = self.send(wave).await;
            heard.redeemed += self.redeem(&run).await;
            heard.runs.push(run);
            self.ended.set(wave + 1);
        }
        heard
    }

    /// Sends the claims of a wave, and follows them to their ends.
    async fn send(&self, wave: i64) -> Run {
        let crowd = Crowd::new(self.apis.clone(), CONNECTIONS, PATIENCE);
        let run = crowd.run(self.wishes(wave)).await.unwrap();
        assert_eq!(run.given_up, 0, "wave {wave}: every user has a final answer");
        assert_eq!(run.never_visible, 0, "wave {wave}: every reader sees what was won");
        let refused: Vec<&Record> =
            run.history.records.iter().filter(|record| record.is_refused()).collect();
        assert!(refused.is_empty(), "wave {wave}: {refused:#?}");
        run
    }

    fn wishes(&self, wave: i64) -> Vec<Wish> {
        let of_user = |user: i64| Wish {
            copies: if user % COPIES_EVERY == 0 { 2 } else { 1 },
            again: user % AGAIN_EVERY == 0,
            watch: UserId(user) == reader(wave),
            ..Wish::one(self.template, UserId(user)).with_key(KEY)
        };
        users(wave).map(of_user).collect()
    }

    /// Redeems the coupons of some winners, each at every api: the later one must know of the redemption by the first.
    /// Returns how many were redeemed.
    async fn redeem(&self, run: &Run) -> i64 {
        let landed = run.history.records.iter().filter(|record| record.is_landed());
        let mut won: BTreeMap<CouponId, UserId> = BTreeMap::new();
        for record in landed.filter(|record| record.user.0 % REDEEMS_EVERY == 0) {
            let claimed: Claimed = serde_json::from_str(record.body.as_deref().unwrap()).unwrap();
            won.extend(claimed.coupons.iter().map(|coupon| (coupon.id, record.user)));
        }
        let is_definite =
            |answer: &Option<Answer>| answer.as_ref().is_some_and(|answer| !answer.is_passing());
        for (coupon, user) in &won {
            let order = format!("order-{coupon}");
            for api in &self.apis {
                let shopper = api.shopper(*user).unwrap();
                let used = async || shopper.use_coupon(*coupon, &order).await.ok();
                let answer = until_within(PATIENCE, used, is_definite).await.unwrap();
                assert_eq!(answer.status, 200, "user {user}: {answer:?}");
            }
        }
        i64::try_from(won.len()).unwrap()
    }
}

/// The users of a wave: the same for each template, so that a list has coupons of several.
fn users(wave: i64) -> Range<i64> {
    let first = wave * USERS + 1;
    first..first + USERS
}

/// The user of a wave who reads the list: by turns at each api.
fn reader(wave: i64) -> UserId {
    UserId(users(wave).start + wave % USERS)
}
