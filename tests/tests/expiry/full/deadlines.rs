//! A deadline that no worker keeps, that many uses race, and in whose middle a worker is stopped.

use super::super::*;

/// Rows that are inserted while a worker is stopped or goes.
const MORE_ROWS: usize = 1_000;

#[tokio::test]
async fn with_no_worker_a_coupon_ends_on_time_all_the_same() {
    let mut world = World::start("law").await;
    world.platform.expiry_worker.kill().unwrap();
    let lasting = world.template(10, |new| new).await;
    let brief = world.template(10, |new| NewTemplate { valid_for_ms: BRIEF_MS, ..new }).await;
    let anna = shopper(&world, 1);
    let bert = shopper(&world, 2);
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
async fn of_a_thousand_uses_at_the_deadline_each_has_one_winner() {
    uses_race_for_their_deadline("races", 1_000).await;
}

#[tokio::test]
#[ignore = "minutes of the same races; ./dev soak of_ten_thousand_uses"]
async fn of_ten_thousand_uses_at_the_deadline_each_has_one_winner() {
    uses_race_for_their_deadline("many races", 10_000).await;
}

async fn uses_race_for_their_deadline(name: &str, races: i64) {
    let world = World::start(name).await;
    let mut connection = world.mysql().await;
    // A use of a coupon needs the terms of its template.
    let template = world.template(1, |new| new).await;
    let mut racers: Vec<Racer> = (0..LANES).map(|_| Racer::default()).collect();
    let mut answers = BTreeMap::new();
    let mut slowest = TimeDelta::zero();
    for first in (1..=races).step_by(LANES as usize) {
        let begun = world.clock.now();
        let mut took: Vec<TimeDelta> = racers.iter().map(|racer| racer.took).collect();
        took.sort();
        let deadline = begun + slowest + AHEAD.max(took[took.len() / 2]);
        let ids = first..first + LANES;
        insert_of(&mut connection, template, ids, deadline, deadline - LIFE).await;
        // One slow round must not slow all others.
        slowest = (slowest / 2).max(world.clock.now() - begun);
        let racers = racers.iter_mut().zip(first..);
        answers.extend(join_all(racers.map(|(racer, id)| racer.race(&world, id, deadline))).await);
    }

    let counts = world.until(template, |counts| counts.unused == 0).await;
    assert_eq!((counts.used + counts.expired, answers.len() as i64), (races, races));
    // The races are close only if both outcomes occur.
    assert!(counts.used.min(counts.expired) > races / 10, "{counts:?}");
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
    insert_bulk(&mut connection, 1, now).await;
    let bulk = TemplateId(0);
    world.until(bulk, |counts| counts.expired > BULK_ROWS / 10).await;
    world.platform.expiry_worker.pause().unwrap();
    let stopped_at = world.count(bulk).await.expired;
    assert!(stopped_at < BULK_ROWS, "it had ended");
    let mut other = another_worker(&world, "second");
    other.expiry_worker.start().await.unwrap();
    world.until(bulk, |counts| counts.expired == BULK_ROWS).await;
    // It resumes when some deadlines are near and others far.
    let soon = world.clock.now() + TimeDelta::seconds(1);
    let far = now + TimeDelta::days(1);
    let mut ids = 1 + BULK_ROWS..;
    let mut more = || ids.by_ref().take(MORE_ROWS).collect::<Vec<i64>>();
    insert(&mut connection, more(), soon, now).await;
    insert(&mut connection, more(), far, now).await;
    world.platform.expiry_worker.resume().unwrap();
    let more_rows = MORE_ROWS as i64;
    world.until(bulk, |counts| counts.expired == BULK_ROWS + more_rows).await;
    // It owns its shards again after the other one stops.
    other.expiry_worker.stop().await.unwrap();
    let due = world.clock.now();
    insert(&mut connection, more(), due, now).await;
    let counts = world.until(bulk, |counts| counts.expired == BULK_ROWS + 2 * more_rows).await;
    assert_eq!((counts.unused, counts.due), (more_rows, 0));
    let truth = statuses(&mut connection).await;
    assert_ended_once(&world, &truth).await;
    world.end().await;
}
