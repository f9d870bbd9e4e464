//! Expiry: a coupon cannot be used from its very deadline on, and its expiry is recorded once, whichever worker
//! stops.

pub(crate) mod workers;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod clocks;
    pub(crate) mod deadlines;
    pub(crate) mod report;
    pub(crate) mod sweep;
}

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, EXPIRY_SHARDS, TemplateId, UserId};
use devstack::{Platform, PlatformOptions};
use futures::future::join_all;
use mysql_store::{
    MySqlConnection,
    verify::{self as store, BULK_ROWS},
};
use pipeline_tests::{REST_MAX, World, until};
use runtime::Backoff;
use shopper::{Claimed, CouponQuery, NewTemplate, Shopper};
use topic::{Event, TableReader, UserCouponRow, decode};
use verifier::{Verdict, at_rest, verify};

/// Age at its deadline of a coupon inserted without a claim.
const LIFE: TimeDelta = TimeDelta::days(1);

/// Validity of a brief coupon.
const BRIEF_MS: i64 = 2_000;

/// Coupons that end at one moment, and users who race for them: few, so that two cores answer them close to the deadline.
const LANES: i64 = 50;

/// Shortest time from a round's start to its coupons' deadline. It is longer if half of the uses took longer in the
/// last round.
const AHEAD: TimeDelta = TimeDelta::milliseconds(500);

/// Step by which the next use is sent earlier or later. Each equal outcome in a row doubles it, up to [`DOUBLED_MAX`]
/// times.
const NUDGE: TimeDelta = TimeDelta::milliseconds(5);
const DOUBLED_MAX: u32 = 8;

/// Shortest and longest pause before a use is tried again.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

fn shopper(world: &World, user: i64) -> Shopper {
    world.api().shopper(UserId(user)).unwrap()
}

/// Claims one coupon; returns its id.
async fn claim(shopper: &Shopper, template: TemplateId) -> CouponId {
    let answer = shopper.claim(template, None, 1).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json::<Claimed>().unwrap().coupons[0].id
}

/// Retries a use until the answer is final; returns whether the coupon is used. The race is in the first try: users who
/// are refused for a moment and try again at once would take the processor from all others.
async fn use_until_answered(shopper: &Shopper, id: CouponId) -> bool {
    let mut pause = Backoff::new(RETRY_MIN, RETRY_MAX);
    loop {
        if let Ok(answer) = shopper.use_coupon(id, "order").await {
            match answer.status {
                200 => return true,
                409 => {
                    assert_eq!(answer.code().as_deref(), Some("COUPON_EXPIRED"), "{}", answer.body);
                    return false;
                }
                status => assert!(answer.is_passing(), "{status}: {}", answer.body),
            }
        }
        pause.wait().await;
    }
}

/// Inserts coupons without claims and without a template that end at `deadline`, see [`insert_of`].
pub(crate) async fn insert(
    connection: &mut MySqlConnection,
    ids: impl IntoIterator<Item = i64>,
    deadline: DateTime<Utc>,
    changed_at: DateTime<Utc>,
) {
    insert_of(connection, TemplateId(0), ids, deadline, changed_at).await;
}

/// Inserts coupons without claims that end at `deadline`. Each belongs to a user of its own with the coupon's id as
/// id. Shards are assigned in turn.
async fn insert_of(
    connection: &mut MySqlConnection,
    template: TemplateId,
    ids: impl IntoIterator<Item = i64>,
    deadline: DateTime<Utc>,
    changed_at: DateTime<Utc>,
) {
    let [claimed, changed, until] =
        [deadline - LIFE, changed_at, deadline].map(|at| at.format("'%F %T%.3f'").to_string());
    let row = |id: i64| {
        let shard = id % EXPIRY_SHARDS;
        format!(
            "({id}, {template}, {id}, 1, {id}, 1, 0, 1, {shard}, {claimed}, {changed}, {claimed}, {until})"
        )
    };
    let rows: Vec<String> = ids.into_iter().map(row).collect();
    let sql = format!(
        "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
         status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until) values {}",
        rows.join(", ")
    );
    store::execute(connection, &sql).await.unwrap();
}

/// A user who uses one coupon after another near its deadline: earlier after one that had expired, later after one
/// that was used. So both outcomes occur, however long a use takes.
#[derive(Default)]
struct Racer {
    /// How long before the deadline a use is sent.
    lead: TimeDelta,
    last: Option<bool>,
    /// Number of outcomes that were equal to the one before, in a row.
    alike: u32,
    /// How long the last use took.
    took: TimeDelta,
}

impl Racer {
    async fn race(&mut self, world: &World, id: i64, deadline: DateTime<Utc>) -> (i64, bool) {
        let ahead = deadline - self.lead - world.clock.now();
        // The test is about this very moment, so it sleeps instead of polling.
        tokio::time::sleep(ahead.to_std().unwrap_or_default()).await;
        let sent = world.clock.now();
        let used = use_until_answered(&shopper(world, id), CouponId(id)).await;
        self.took = world.clock.now() - sent;
        self.alike = if self.last.replace(used) == Some(used) { self.alike + 1 } else { 0 };
        self.lead += if used { -NUDGE } else { NUDGE } * (1 << self.alike.min(DOUBLED_MAX));
        (id, used)
    }
}

/// Returns how many coupons the view lists for a user; `None` if it is not whole.
async fn listed(world: &World, user: UserId) -> Option<usize> {
    let contents = world.sources.view.contents(user).await.unwrap();
    contents.trusted.then_some(contents.list.len())
}

/// Inserts [`BULK_ROWS`] coupons without claims, with ids and users from `first` on, that end at `deadline`.
async fn insert_bulk(connection: &mut MySqlConnection, first: i64, deadline: DateTime<Utc>) {
    store::insert_bulk(connection, first, deadline - LIFE).await.unwrap();
}

/// Describes another worker of the same platform, not started; the other processes of the result are never started.
pub(crate) fn another_worker(world: &World, name: &str) -> Platform {
    let options = &world.platform.options;
    let options = PlatformOptions { dir: options.dir.join(name), ..options.clone() };
    Platform::prepare(world.scope.endpoints.clone(), options).unwrap()
}

/// Returns the violations of an invariant that the verifier finds at `now`.
pub(crate) async fn broken(world: &World, now: DateTime<Utc>, invariant: &str) -> Vec<String> {
    let report = verify(&world.sources, None, now).await.unwrap();
    let outcome = report.outcomes.into_iter().find(|outcome| outcome.invariant == invariant);
    match outcome.unwrap().verdict {
        Verdict::Violated { examples, .. } => examples,
        Verdict::Holds { .. } | Verdict::Skipped { .. } => Vec::new(),
    }
}

/// Returns every coupon's status in MySQL.
pub(crate) async fn statuses(connection: &mut MySqlConnection) -> BTreeMap<i64, CouponStatus> {
    let mut statuses = BTreeMap::new();
    let mut from = Some(i64::MIN);
    while let Some(id) = from {
        let page = store::topic_rows::coupons_from(connection, id, 10_000).await.unwrap();
        from = page.next;
        statuses.extend(page.rows.iter().map(|row| (row.id.0, row.status)));
    }
    statuses
}

/// Waits for rest, then asserts that in MySQL and in the topic each coupon ended once, validly, and in one status
/// only.
pub(crate) async fn assert_ended_once(world: &World, truth: &BTreeMap<i64, CouponStatus>) {
    at_rest(&world.sources, &world.clock, REST_MAX).await.unwrap();
    for invariant in ["I8", "I9", "I10", "I11", "I12"] {
        assert_eq!(broken(world, world.clock.now(), invariant).await, [""; 0], "{invariant}");
    }
    let mut connection = world.mysql().await;
    let bad = store::bad_ends(&mut connection, world.clock.now()).await.unwrap();
    assert_eq!(bad, []);
    let mut ends = BTreeMap::new();
    let mut latest = BTreeMap::new();
    for event in events(world).await {
        assert!(!is_early(&event), "by the server's clock: {event:?}");
        let row = event.after.unwrap();
        let version = latest.entry(row.id).or_insert(row.version);
        *version = row.version.max(*version);
        if row.status != CouponStatus::Unused.code() {
            let first = ends.entry(row.id).or_insert((row.version, row.status));
            assert_eq!(*first, (row.version, row.status), "ended twice: {row:?}");
        }
    }
    for (id, (version, _)) in &ends {
        assert_eq!(latest[id], *version, "coupon {id} changed after its end");
    }
    for (id, status) in truth {
        let published = ends.remove(id).map(|(_, status)| status);
        match status {
            CouponStatus::Unused => assert_eq!(published, None, "coupon {id}"),
            ended => assert_eq!(published, Some(ended.code()), "coupon {id}"),
        }
    }
    assert!(ends.is_empty(), "nothing else has ended: {ends:?}");
}

/// Returns every coupon change in the topic.
pub(crate) async fn events(world: &World) -> Vec<Event<UserCouponRow>> {
    let brokers = &world.sources.brokers;
    let topic = world.sources.topics.user_coupon();
    let messages =
        TableReader::open_to_end(brokers, &topic).await.unwrap().read_to_end().await.unwrap();
    messages.iter().map(|message| decode(message.payload.as_deref().unwrap()).unwrap()).collect()
}

/// Whether a coupon expired early by MySQL's clock, which has whole seconds in the binlog.
pub(crate) fn is_early(event: &Event<UserCouponRow>) -> bool {
    let row = event.after.as_ref().unwrap();
    let ended = row.status == CouponStatus::Expired.code();
    ended && event.source.ts_ms + 999 < row.valid_until
}
