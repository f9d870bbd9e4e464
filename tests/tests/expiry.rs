//! The end of a coupon: by the law at its very deadline, and written down once, whoever is stopped.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use devstack::{Platform, PlatformOptions};
use mysql_store::{
    MySqlConnection, connect, snapshot,
    verify::{self as store, BULK_ROWS},
};
use pipeline_tests::{REST_MAX, World, until};
use shopper::{Claimed, CouponQuery, NewTemplate, Shopper, Wish};
use tokio::{sync::Semaphore, task::JoinSet};
use topic::{Event, TableReader, UserCouponRow, decode};
use verifier::{Verdict, settled, verify};

/// How long a brief coupon is valid.
const BRIEF_MS: i64 = 2_000;

/// Requests under way at a time.
const CONNECTIONS: usize = 64;

/// Of the races, so many users press the button only after the deadline.
const TOO_LATE: i64 = 500;

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
    // Anna has a whole view, Bert none; and of Anna's last coupon the view has not heard.
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
    assert_eq!(listed(&world, anna.user()).await, Some(2), "nobody has told the view");
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
    // The verifier does not let a worker off that never comes.
    assert_eq!(broken(&world, world.clock.now(), "I9").await, [""; 0]);
    let examples = broken(&world, world.clock.now() + TimeDelta::minutes(2), "I9").await;
    assert_eq!(examples.len(), 3, "{examples:?}");

    world.platform.sync_consumer.resume().unwrap();
    world.platform.expiry_worker.start().await.unwrap();
    // And one that has ended before it lands.
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
    let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
    let deadline = world.clock.now() + TimeDelta::seconds(4);
    insert_bulk(&mut connection, 1, deadline).await;
    let mut users: Vec<i64> = (1..=BULK_ROWS).collect();
    fastrand::shuffle(&mut users);
    let (late, early) = users.split_at(usize::try_from(TOO_LATE).unwrap());
    let (door, mut uses) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
    let press = |id: i64, door: Arc<Semaphore>| {
        let user = shopper(&world, id);
        async move {
            let _connection = door.acquire_owned().await.unwrap();
            (id, use_until_answered(&user, CouponId(id)).await)
        }
    };
    early.iter().for_each(|id| drop(uses.spawn(press(*id, Arc::clone(&door)))));
    until(async || world.clock.now(), |now| *now >= deadline).await;
    late.iter().for_each(|id| drop(uses.spawn(press(*id, Arc::clone(&door)))));
    let answers: BTreeMap<i64, bool> = uses.join_all().await.into_iter().collect();

    let bulk = TemplateId(0);
    let counts = world.until(bulk, |counts| counts.unused == 0).await;
    assert_eq!(counts.used + counts.expired, BULK_ROWS);
    assert!(counts.used > 0 && counts.expired >= TOO_LATE, "{counts:?}");
    println!("{} of {BULK_ROWS} were used, the others expired", counts.used);
    let truth = statuses(&mut connection).await;
    for (id, used) in &answers {
        let expected = if *used { CouponStatus::Used } else { CouponStatus::Expired };
        assert_eq!(truth[id], expected, "coupon {id} is what its user was told");
    }
    assert_ended_once(&world, &truth).await;
    world.end().await;
}

#[tokio::test]
async fn a_worker_that_was_stopped_in_the_middle_and_wakes_flips_nothing_twice_or_early() {
    let mut world = World::start("zombie").await;
    let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
    let now = world.clock.now();
    for batch in 0..3 {
        insert_bulk(&mut connection, 1 + batch * BULK_ROWS, now).await;
    }
    let bulk = TemplateId(0);
    world.until(bulk, |counts| counts.expired > BULK_ROWS / 10).await;
    world.platform.expiry_worker.pause().unwrap();
    let mut other = second_worker(&world);
    other.expiry_worker.start().await.unwrap();
    world.until(bulk, |counts| counts.expired == 3 * BULK_ROWS).await;
    // It wakes among deadlines that are about to come, and one that is not.
    let (soon, far) = (world.clock.now() + TimeDelta::seconds(1), now + TimeDelta::days(1));
    insert_bulk(&mut connection, 1 + 3 * BULK_ROWS, soon).await;
    insert_bulk(&mut connection, 1 + 4 * BULK_ROWS, far).await;
    world.platform.expiry_worker.resume().unwrap();
    world.until(bulk, |counts| counts.expired == 4 * BULK_ROWS).await;
    // And has its shards again when the other one goes.
    other.expiry_worker.stop().await.unwrap();
    insert_bulk(&mut connection, 1 + 5 * BULK_ROWS, world.clock.now()).await;
    let counts = world.until(bulk, |counts| counts.expired == 5 * BULK_ROWS).await;
    assert_eq!((counts.unused, counts.due), (BULK_ROWS, 0));
    let truth = statuses(&mut connection).await;
    assert_ended_once(&world, &truth).await;
    world.end().await;
}

#[tokio::test]
async fn the_sweep_finds_exactly_what_was_lost() {
    let hasty = |options: PlatformOptions| {
        options.with_env("SWEEP_SECONDS", "1").with_env("LOST_AFTER_SECONDS", "5")
    };
    let mut world = World::start_with("sweep", hasty).await;
    let template = world.template(60, |new| NewTemplate { valid_for_ms: 500, ..new }).await;
    let wave = |first: i64| (first..first + 30).map(|user| Wish::one(template, UserId(user)));
    world.crowd().run(wave(1).collect()).await.unwrap();
    world.until(template, |counts| counts.expired == 30).await;
    until_swept(&world).await;
    assert_eq!(finds(&world).await, 0, "nothing was lost so far");

    // Without a consumer nobody tells of these, which changed a day ago.
    world.platform.sync_consumer.stop().await.unwrap();
    let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
    insert_bulk(&mut connection, 1, world.clock.now()).await;
    world.until(TemplateId(0), |counts| counts.expired == BULK_ROWS).await;
    assert_eq!(finds(&world).await, BULK_ROWS);

    // What comes late, and what comes as it should, is no find.
    world.platform.sync_consumer.start().await.unwrap();
    world.crowd().run(wave(31).collect()).await.unwrap();
    world.until(template, |counts| counts.expired == 60).await;
    settled(&world.sources, &world.clock, REST_MAX).await.unwrap();
    until_swept(&world).await;
    assert_eq!(finds(&world).await, BULK_ROWS);
    assert_ended_once(&world, &statuses(&mut connection).await).await;
    world.end().await;
}

fn shopper(world: &World, user: i64) -> Shopper {
    world.api().shopper(UserId(user)).unwrap()
}

/// Claims one coupon; its id.
async fn claim(shopper: &Shopper, template: TemplateId) -> CouponId {
    let answer = shopper.claim(template, None, 1).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json::<Claimed>().unwrap().coupons[0].id
}

/// Uses until the answer is final: whether the coupon is used.
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

/// How many coupons the view lists for a user; absent: it is not whole.
async fn listed(world: &World, user: UserId) -> Option<usize> {
    let contents = world.sources.view.contents(user).await.unwrap();
    contents.trusted.then_some(contents.list.len())
}

/// Coupons of no claim, [`BULK_ROWS`] of them with ids and users from `first` on, that end at `deadline`.
async fn insert_bulk(connection: &mut MySqlConnection, first: i64, deadline: DateTime<Utc>) {
    store::insert_bulk(connection, first, deadline - TimeDelta::days(1)).await.unwrap();
}

/// Another worker of the same platform, not started.
fn second_worker(world: &World) -> Platform {
    let options = &world.platform.options;
    let options = PlatformOptions { dir: options.dir.join("second"), ..options.clone() };
    Platform::prepare(world.scope.endpoints.clone(), options).unwrap()
}

async fn finds(world: &World) -> i64 {
    world.sweep_finds().await as i64
}

/// Waits for two more sweeps: the first may be under way already.
async fn until_swept(world: &World) {
    let worker = &world.platform.expiry_worker;
    let sweeps = async || worker.metric("expiry_worker_sweeps_total").await.unwrap_or(0.0);
    let before = sweeps().await;
    until(sweeps, |now| *now >= before + 2.0).await;
}

/// The offenders of an invariant, as the verifier would see them at `now`.
async fn broken(world: &World, now: DateTime<Utc>, invariant: &str) -> Vec<String> {
    let report = verify(&world.sources, None, now).await.unwrap();
    let outcome = report.outcomes.into_iter().find(|outcome| outcome.invariant == invariant);
    match outcome.unwrap().verdict {
        Verdict::Violated { examples } => examples,
        Verdict::Holds { .. } | Verdict::Skipped { .. } => Vec::new(),
    }
}

/// Every coupon's status in MySQL.
async fn statuses(connection: &mut MySqlConnection) -> BTreeMap<i64, CouponStatus> {
    let mut statuses = BTreeMap::new();
    let mut after = 0;
    loop {
        let rows = snapshot::user_coupon_after(connection, after, 10_000).await.unwrap();
        let Some(last) = rows.last() else { return statuses };
        after = last.id.0;
        statuses.extend(rows.iter().map(|row| (row.id.0, row.status)));
    }
}

/// Waits for rest: in MySQL and in the topic each coupon that ended did so once, by the law, and as one
/// thing only.
async fn assert_ended_once(world: &World, truth: &BTreeMap<i64, CouponStatus>) {
    settled(&world.sources, &world.clock, REST_MAX).await.unwrap();
    for invariant in ["I8", "I9", "I10", "I11", "I12"] {
        assert_eq!(broken(world, world.clock.now(), invariant).await, [""; 0], "{invariant}");
    }
    let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
    let bad = store::bad_ends(&mut connection, world.clock.now()).await.unwrap();
    assert_eq!(bad, []);
    let (brokers, topic) = (&world.sources.brokers, world.sources.topics.user_coupon());
    let messages = TableReader::open(brokers, &topic).await.unwrap().read_to_end().await.unwrap();
    let mut ends: BTreeMap<i64, BTreeSet<u8>> = BTreeMap::new();
    for message in messages {
        let event: Event<UserCouponRow> = decode(&message.payload.unwrap()).unwrap();
        let row = event.after.unwrap();
        match row.version {
            1 => assert_eq!(row.status, CouponStatus::Unused.code(), "{row:?}"),
            2 => drop(ends.entry(row.id).or_default().insert(row.status)),
            _ => panic!("changed after its end: {row:?}"),
        }
    }
    for (id, status) in truth {
        let told: Vec<u8> = ends.remove(id).unwrap_or_default().into_iter().collect();
        match status {
            CouponStatus::Unused => assert_eq!(told, [0; 0], "coupon {id}"),
            ended => assert_eq!(told, [ended.code()], "coupon {id}"),
        }
    }
    assert!(ends.is_empty(), "nothing else has ended: {ends:?}");
}
