//! The resolver: every admission left in flight ends, correctly even without grace.

use std::{collections::BTreeSet, time::Duration};

use chrono::TimeDelta;
use coupon::{Claim, ClaimState, Epoch, RequestId, TemplateId, TemplateState, UserId};
use futures::future::join_all;
use landing::{
    claims::{
        Answer, Unavailable,
        fate::{Asker, ClaimQuery, Fate, fate},
    },
    resolver::{Resolved, Resolver},
};
use mysql_store::claim as claims;
use redis_gate::{QueueOptions, RequestState, Verdict};
use sqlx::Connection;
use testkit::until_true;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::{
    OPERATOR, Process, TEMPLATE, USER, World, again, claim, execute, now, until_session,
};

fn resolver(world: &World, grace: Duration) -> Resolver {
    Resolver { grace, ..world.resolver() }
}

async fn look(world: &World) -> Resolved {
    world.resolve().await
}

/// Passes a claim through the gate, as a process that then dies.
async fn admit(world: &World, claim: &Claim) -> Epoch {
    let epoch = world.meta().await.epoch;
    let verdict = world.gate.claim(claim, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    epoch
}

/// Statements of a landing of one coupon, without the end of its transaction.
fn rows_of(claim: &Claim, epoch: Epoch) -> String {
    let Claim { id, user_id, request_id, .. } = claim;
    format!(
        "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, \
         valid_from, valid_until, created_at) values ({TEMPLATE}, {user_id}, '{request_id}', {id}, \
         1, 1, repeat(x'00', 16), now(), now(), now()); \
         insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
         status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until) values \
         ({id}, {TEMPLATE}, {user_id}, 1, {id}, 1, 0, 1, 0, now(), now(), now(), now()); \
         update template_stock set stock = stock - 1 \
         where template_id = {TEMPLATE} and epoch = {epoch}"
    )
}

#[tokio::test]
async fn an_admission_that_never_landed_is_fenced_and_released() {
    let world = World::open("never landed", 10, 1).await;
    let lost = claim(USER, "a", 1);
    let epoch = admit(&world, &lost).await;
    assert_eq!(look(&world).await, Resolved { released: 1, ..Resolved::default() });
    let mut connection = world.connection().await;
    let state = claims::state_of(&mut connection, lost.id).await.unwrap();
    assert_eq!(state, Some(ClaimState::Void));
    world.assert_gate_equals_mysql().await;
    assert_eq!(look(&world).await, Resolved::default(), "nothing is left");
    // The client's key is free, but the admission's id is not.
    assert_eq!(admit(&world, &again(&lost)).await, epoch);
    let key = RequestId::from_client("a").unwrap();
    let landed = claims::landed_under_key(&mut connection, TEMPLATE, USER, &key).await.unwrap();
    assert_eq!(landed, None);
}

#[tokio::test]
async fn an_admission_that_landed_is_settled() {
    let world = World::open("landed unsettled", 10, 1).await;
    let landed = claim(USER, "a", 1);
    let epoch = admit(&world, &landed).await;
    world.execute(&rows_of(&landed, epoch)).await;
    assert_eq!(look(&world).await, Resolved { settled: 1, ..Resolved::default() });
    let entry = world.gate.entry(TEMPLATE, epoch, USER).await.unwrap().unwrap();
    assert_eq!(entry.requests[0].state, RequestState::Landed);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test]
async fn an_admission_younger_than_the_grace_is_left_alone() {
    let world = World::open("grace", 10, 1).await;
    admit(&world, &claim(USER, "a", 1)).await;
    let patient = resolver(&world, Duration::from_secs(10));
    let early = now() + TimeDelta::milliseconds(9_999);
    assert_eq!(patient.look(early).await.unwrap(), Resolved::default());
    let late = now() + TimeDelta::seconds(10);
    assert_eq!(patient.look(late).await.unwrap(), Resolved { released: 1, ..Resolved::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_landing_is_waited_for_and_its_end_decides() {
    for commits in [true, false] {
        let world = World::open("open landing", 10, 1).await;
        let open = claim(USER, "a", 1);
        let epoch = admit(&world, &open).await;
        let mut lander = world.connection().await;
        let mut transaction = lander.begin().await.unwrap();
        execute(&mut transaction, &rows_of(&open, epoch)).await;
        let looker = resolver(&world, Duration::ZERO);
        let looking = tokio::spawn(async move { looker.look(now()).await.unwrap() });
        let waits = "db = database() and info like 'insert into claim%'";
        until_session(&mut world.connection().await, waits).await;
        if commits { transaction.commit().await } else { transaction.rollback().await }.unwrap();
        let (settled, released) = if commits { (1, 0) } else { (0, 1) };
        assert_eq!(looking.await.unwrap(), Resolved { settled, released, stuck: 0 });
        world.assert_gate_equals_mysql().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resolvers_of_all_processes_at_once_end_each_admission_once() {
    let world = World::open("all at once", 100, 1).await;
    for user in 0..20 {
        let left = claim(UserId(user), "a", 1);
        let epoch = admit(&world, &left).await;
        if user % 2 == 0 {
            world.execute(&rows_of(&left, epoch)).await;
        }
    }
    let (one, other, third) = tokio::join!(look(&world), look(&world), look(&world));
    assert!(one.settled + other.settled + third.settled >= 10);
    assert_eq!((world.meta().await.stock, world.left().await), (90, 90));
    world.assert_gate_equals_mysql().await;
}

#[tokio::test]
async fn admissions_of_a_template_that_has_ended_are_resolved_too() {
    let world = World::open("ended", 10, 1).await;
    admit(&world, &claim(USER, "a", 1)).await;
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    let after = now() + TimeDelta::hours(2);
    let resolved = resolver(&world, Duration::ZERO).look(after).await.unwrap();
    assert_eq!(resolved, Resolved { settled: 0, released: 1, stuck: 1 });
}

#[tokio::test]
async fn admissions_in_flight_for_more_than_a_minute_are_counted_as_stuck() {
    let world = World::open("stuck", 10, 1).await;
    let epoch = admit(&world, &claim(USER, "a", 1)).await;
    let young = claim(UserId(71), "a", 1);
    world
        .gate
        .claim(&young, epoch, now() + TimeDelta::seconds(30), QueueOptions::direct())
        .await
        .unwrap();
    let resolver = resolver(&world, Duration::ZERO);
    let look = resolver.look(now() + TimeDelta::seconds(61)).await;
    assert_eq!(look.unwrap(), Resolved { settled: 0, released: 2, stuck: 1 });
}

#[tokio::test]
async fn a_resolver_that_dies_at_any_of_its_steps_leaves_the_rest_to_the_next() {
    for (point, lands) in [
        ("resolver.before_fence", false),
        ("resolver.before_release", false),
        ("resolver.before_settle", true),
    ] {
        let world = World::open("dying resolver", 10, 1).await;
        let left = claim(USER, "a", 1);
        let epoch = admit(&world, &left).await;
        if lands {
            world.execute(&rows_of(&left, epoch)).await;
        }
        let dying = world.resolver();
        dying.points.fail(point);
        dying.look(now()).await.unwrap_err();
        assert_eq!(world.entry(USER).await.requests[0].state, RequestState::Pending, "{point}");
        let (settled, released) = if lands { (1, 0) } else { (0, 1) };
        assert_eq!(look(&world).await, Resolved { settled, released, stuck: 0 });
        world.assert_gate_equals_mysql().await;
    }
}

#[tokio::test]
async fn a_template_that_cannot_be_looked_at_keeps_no_other_from_being_resolved() {
    let world = World::open("one fails", 10, 1).await;
    let other = TemplateId(11);
    world.publish(other, 10, 1).await;
    let epoch = world.rebuild_gate_of(other).await;
    let left = Claim { template_id: other, ..claim(USER, "a", 1) };
    world.gate.claim(&left, epoch, now(), QueueOptions::direct()).await.unwrap();
    admit(&world, &claim(USER, "a", 1)).await;
    let resolver = world.resolver();
    // Fails for the first template.
    resolver.points.fail("resolver.before_fence");
    resolver.look(now()).await.unwrap_err();
    assert_eq!(world.gate.in_flight_count(other, epoch).await.unwrap(), 0);
    assert_eq!(look(&world).await, Resolved { released: 1, ..Resolved::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_whose_fence_fails_keeps_no_other_from_being_ended() {
    let world = World::open("one fence fails", 10, 1).await;
    let stuck = claim(UserId(1), "a", 1);
    admit(&world, &stuck).await;
    for user in 2..=4 {
        admit(&world, &claim(UserId(user), "a", 1)).await;
    }
    let trigger = format!(
        "create trigger no_fence before insert on claim for each row \
         if new.id = {} then signal sqlstate '45000' set message_text = 'not this one'; end if",
        stuck.id
    );
    world.execute(&trigger).await;
    let failed = world.resolver().look(now()).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(world.rows().await.fences, 3);
    let epoch = world.meta().await.epoch;
    assert_eq!(world.gate.in_flight_count(TEMPLATE, epoch).await.unwrap(), 1);
    world.execute("drop trigger no_fence").await;
    assert_eq!(look(&world).await.released, 1);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test]
async fn who_asks_for_a_claim_of_somebody_else_does_not_end_it() {
    let world = World::open("asked by another", 10, 1).await;
    let theirs = claim(USER, "a", 1);
    let epoch = admit(&world, &theirs).await;
    let asked = |asker| ClaimQuery { id: theirs.id, template: Some(TEMPLATE), asker };
    let later = now() + TimeDelta::minutes(2);
    for asker in [Asker::User(UserId(71)), OPERATOR] {
        let fate = fate(&world.pool, &world.gate, asked(asker), later, || Ok(())).await.unwrap();
        assert!(matches!(fate, Fate::Processing { user: Some(USER), .. }), "{fate:?}");
    }
    // A wrong clock does not make it count as lost either.
    for minutes in [-20, -2, 2, 20] {
        let now = now() + TimeDelta::minutes(minutes);
        for asker in [Asker::User(USER), OPERATOR] {
            let fate = fate(&world.pool, &world.gate, asked(asker), now, || Ok(())).await.unwrap();
            assert!(
                matches!(fate, Fate::Processing { user: Some(USER), .. }),
                "{minutes} {fate:?}"
            );
        }
    }
    assert_eq!(world.rows().await.fences, 0);
    assert_eq!(world.gate.in_flight_count(TEMPLATE, epoch).await.unwrap(), 1);
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn resolvers_without_any_grace_that_race_every_landing_double_and_lose_nothing() {
        // Each lane claims sequentially, in parallel with the other lanes, which makes many batches and many scans. On some
        // machines chance alone causes no fence, so one process is held at its first landing until there is one.
        const LANES: i64 = 16;
        const LENGTH: i64 = 50;
        const USERS: i64 = LANES * LENGTH;
        let world = World::open("races", USERS + 10, 1).await;
        let processes = [Process::start(&world, "a").await, Process::start(&world, "b").await];
        let racing: Vec<_> = (0..2)
            .map(|_| {
                let resolver = world.resolver();
                AbortOnDropHandle::new(tokio::spawn(async move {
                    loop {
                        resolver.look(now()).await.unwrap();
                    }
                }))
            })
            .collect();
        let held = processes[0].points.hold("landing.before_begin");
        let slow_start = async {
            until_true(async || world.rows().await.fences > 0).await;
            held.let_go();
        };
        let insist = async |user: i64| {
            let first = claim(UserId(user), "a", 1);
            let process = &processes[usize::try_from(user % 2).unwrap()];
            loop {
                match process.retry(&first).await {
                    Answer::Landed { claim, .. } => return claim,
                    Answer::Unavailable(Unavailable::GivenUp) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        let lane = async |lane: i64| {
            let mut landed = Vec::new();
            for user in lane * LENGTH..(lane + 1) * LENGTH {
                landed.push(insist(user).await);
            }
            landed
        };
        let (landed, ()) = tokio::join!(join_all((0..LANES).map(lane)), slow_start);
        let landed = landed.concat();
        assert!(racing.iter().all(|one| !one.is_finished()), "they raced to the end");
        drop(racing);
        world.resolve().await;
        let rows = world.rows().await;
        assert_eq!((rows.landed, rows.coupons, world.left().await), (USERS, USERS, 10));
        assert!(rows.fences > 0, "nobody was ever in the way");
        world.assert_gate_equals_mysql().await;
        let ids: BTreeSet<_> = landed.iter().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), landed.len());
    }
}
