//! Expiry: a coupon cannot be used from its very deadline on, and its expiry is recorded once, whichever worker
//! stops.

pub(crate) mod clocks;
pub(crate) mod report;
pub(crate) mod sweep;
pub(crate) mod workers;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, EXPIRY_SHARDS, TemplateId, UserId};
use devstack::{Platform, PlatformOptions};
use futures::future::join_all;
use mysql_store::{
    MySqlConnection, snapshot,
    verify::{self as store, BULK_ROWS},
};
use pipeline_tests::{REST_MAX, World, until};
use shopper::{Claimed, CouponQuery, NewTemplate, Shopper};
use topic::{Event, TableReader, UserCouponRow, decode};
use verifier::{Verdict, at_rest, verify};

/// Age at its deadline of a coupon inserted without a claim.
const LIFE: TimeDelta = TimeDelta::days(1);

/// Validity of a brief coupon.
const BRIEF_MS: i64 = 2_000;

/// Coupons that end at one moment, and users who race for them.
const LANES: i64 = 250;

/// From a round's start to its coupons' deadline: longer than a use takes.
const AHEAD: TimeDelta = TimeDelta::milliseconds(500);

/// Step by which the next use is sent earlier or later, times the number of equal outcomes in a row.
const NUDGE: TimeDelta = TimeDelta::milliseconds(5);

#[tokio::test]
async fn with_no_worker_a_coupon_ends_on_time_all_the_same() {
    let mut world = World::start("law").await;
    world.platform.expiry_worker.kill().unwrap();
    let lasting = world.template(10, |new| new).await;
    let brief = world.template(10, |new| NewTemplate { valid_for_ms: BRIEF_MS, ..new }).await;
    let (anna, bert) = (shopper(&world, 1), shopper(&world, 2));
    anna.all_coupons().await.unwrap();
    let kept = [claim(&anna, lasting).await, claim(&bert, lasting).await];
    let ended = [claim(&anna, brief).await, claim(&bert, brief).await];
    // Anna has a whole view, Bert none; and Anna's view has not received her last coupon.
    until(async || listed(&world, anna.user()).await, |listed| *listed == Some(2)).await;
    world.platform.sync_consumer.pause().unwrap();
    let other = world.template(10, |new| NewTemplate { valid_for_ms: BRIEF_MS, ..new }).await;
    let unheard = claim(&anna, other).await;
    let deadline = anna.coupon(unheard).await.unwrap().valid_until;
    until(async || world.clock.now(), |now| *now >= deadline).await;

    let own = CouponQuery { after: Some(unheard), ..CouponQuery::default() };
    let one = CouponQuery { limit: Some(1), ..CouponQuery::default() };
    for query in [CouponQuery::default(), one, own] {
        let page = anna.coupons(&query).await.unwrap();
        let shown: Vec<_> = page.data.iter().map(|coupon| coupon.id).collect();
        assert_eq!(shown, [kept[0]], "{query:?}");
    }
    assert_eq!(listed(&world, anna.user()).await, Some(2), "the view has not learnt of it");
    for (user, kept, ended) in [(&anna, kept[0], ended[0]), (&bert, kept[1], ended[1])] {
        let shown = user.all_coupons().await.unwrap();
        assert_eq!(shown.iter().map(|coupon| coupon.id).collect::<Vec<_>>(), [kept]);
        let query = CouponQuery { status: Some("expired"), ..CouponQuery::default() };
        let expired = user.coupons(&query).await.unwrap().data;
        assert!(expired.iter().any(|coupon| coupon.id == ended && coupon.status == "expired"));
        assert!(expired.iter().all(|coupon| coupon.id != kept));
        assert_eq!(user.coupon(ended).await.unwrap().status, "expired");
        let answer = user.use_coupon(ended, "order").await.unwrap();
        assert_eq!(answer.code().as_deref(), Some("COUPON_EXPIRED"), "{}", answer.body);
    }
    let counts = world.count(brief).await;
    assert_eq!((counts.unused, counts.due, counts.changes), (2, 2, 2), "nothing was written");
    // The verifier reports a worker that never comes.
    assert_eq!(broken(&world, world.clock.now(), "I9").await, [""; 0]);
    let examples = broken(&world, world.clock.now() + TimeDelta::minutes(2), "I9").await;
    assert_eq!(examples.len(), 3, "{examples:?}");

    world.platform.sync_consumer.resume().unwrap();
    world.platform.expiry_worker.start().await.unwrap();
    // A coupon that expires before it lands is flipped too.
    let dead_born = world.template(10, |new| NewTemplate { valid_for_ms: 1, ..new }).await;
    claim(&anna, dead_born).await;
    for (template, expired) in [(brief, 2), (other, 1), (dead_born, 1)] {
        world.until(template, |counts| counts.expired == expired).await;
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn of_ten_thousand_uses_at_the_deadline_each_has_one_winner() {
    let world = World::start("races").await;
    let mut connection = world.mysql().await;
    // A use of a coupon needs the terms of its template.
    let template = world.template(1, |new| new).await;
    let mut racers: Vec<Racer> = (0..LANES).map(|_| Racer::default()).collect();
    let mut answers = BTreeMap::new();
    let mut slowest = TimeDelta::zero();
    for first in (1..=BULK_ROWS).step_by(LANES as usize) {
        let begun = world.clock.now();
        let deadline = begun + slowest + AHEAD;
        let ids = first..first + LANES;
        insert_of(&mut connection, template, ids, deadline, deadline - LIFE).await;
        slowest = slowest.max(world.clock.now() - begun);
        let racers = racers.iter_mut().zip(first..);
        answers.extend(join_all(racers.map(|(racer, id)| racer.race(&world, id, deadline))).await);
    }

    let counts = world.until(template, |counts| counts.unused == 0).await;
    assert_eq!((counts.used + counts.expired, answers.len() as i64), (BULK_ROWS, BULK_ROWS));
    // The races are close only if both outcomes occur.
    assert!(counts.used.min(counts.expired) > BULK_ROWS / 10, "{counts:?}");
    println!("{} of {BULK_ROWS} were used, the others expired", counts.used);
    let truth = statuses(&mut connection).await;
    for (id, used) in &answers {
        let expected = if *used { CouponStatus::Used } else { CouponStatus::Expired };
        assert_eq!(truth[id], expected, "coupon {id} is what its user was answered");
    }
    assert_ended_once(&world, &truth).await;
    world.end().await;
}

#[tokio::test]
async fn a_worker_that_was_stopped_in_the_middle_and_wakes_flips_nothing_twice_or_early() {
    let mut world = World::start("zombie").await;
    let mut connection = world.mysql().await;
    let now = world.clock.now();
    for batch in 0..3 {
        insert_bulk(&mut connection, 1 + batch * BULK_ROWS, now).await;
    }
    let bulk = TemplateId(0);
    world.until(bulk, |counts| counts.expired > BULK_ROWS / 10).await;
    world.platform.expiry_worker.pause().unwrap();
    let mut other = another_worker(&world, "second");
    other.expiry_worker.start().await.unwrap();
    world.until(bulk, |counts| counts.expired == 3 * BULK_ROWS).await;
    // It resumes when some deadlines are near and others far.
    let (soon, far) = (world.clock.now() + TimeDelta::seconds(1), now + TimeDelta::days(1));
    insert_bulk(&mut connection, 1 + 3 * BULK_ROWS, soon).await;
    insert_bulk(&mut connection, 1 + 4 * BULK_ROWS, far).await;
    world.platform.expiry_worker.resume().unwrap();
    world.until(bulk, |counts| counts.expired == 4 * BULK_ROWS).await;
    // It owns its shards again after the other one stops.
    other.expiry_worker.stop().await.unwrap();
    insert_bulk(&mut connection, 1 + 5 * BULK_ROWS, world.clock.now()).await;
    let counts = world.until(bulk, |counts| counts.expired == 5 * BULK_ROWS).await;
    assert_eq!((counts.unused, counts.due), (BULK_ROWS, 0));
    let truth = statuses(&mut connection).await;
    assert_ended_once(&world, &truth).await;
    world.end().await;
}

fn shopper(world: &World, user: i64) -> Shopper {
    world.api().shopper(UserId(user)).unwrap()
}

/// Claims one coupon; returns its id.
async fn claim(shopper: &Shopper, template: TemplateId) -> CouponId {
    let answer = shopper.claim(template, None, 1).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json::<Claimed>().unwrap().coupons[0].id
}

/// Retries a use until the answer is final; returns whether the coupon is used.
async fn use_until_answered(shopper: &Shopper, id: CouponId) -> bool {
    loop {
        let Ok(answer) = shopper.use_coupon(id, "order").await else { continue };
        match answer.status {
            200 => return true,
            409 => {
                assert_eq!(answer.code().as_deref(), Some("COUPON_EXPIRED"), "{}", answer.body);
                return false;
            }
            status => assert!(answer.is_passing(), "{status}: {}", answer.body),
        }
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
    /// Number of equal outcomes in a row.
    alike: i32,
}

impl Racer {
    async fn race(&mut self, world: &World, id: i64, deadline: DateTime<Utc>) -> (i64, bool) {
        let ahead = deadline - self.lead - world.clock.now();
        // The test is about this very moment, so it sleeps instead of polling.
        tokio::time::sleep(ahead.to_std().unwrap_or_default()).await;
        let used = use_until_answered(&shopper(world, id), CouponId(id)).await;
        self.alike = if self.last.replace(used) == Some(used) { self.alike + 1 } else { 1 };
        self.lead += if used { -NUDGE } else { NUDGE } * self.alike;
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
    let mut after = 0;
    loop {
        let rows = snapshot::user_coupon_after(connection, after, 10_000).await.unwrap();
        let Some(last) = rows.last() else { return statuses };
        after = last.id.0;
        statuses.extend(rows.iter().map(|row| (row.id.0, row.status)));
    }
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
    let (mut ends, mut latest) = (BTreeMap::new(), BTreeMap::new());
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
    let (brokers, topic) = (&world.sources.brokers, world.sources.topics.user_coupon());
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
