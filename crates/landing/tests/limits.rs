//! Limits and keys: numbers are reused, keys are kept apart, and every refusal checks MySQL for the key first.

use chrono::TimeDelta;
use coupon::{Claim, ClaimMode, TemplateId, TemplateState, UserId};
use landing::claims::{Answer, Unavailable};
use redis_gate::{QueueOptions, Refusal, Unloaded, Verdict};

use crate::harness::{Process, Rows, TEMPLATE, USER, World, again, claim, now, template};

/// How many requests an entry without a limit keeps; a constant of `settle.lua`.
const REQUESTS_KEPT: usize = 32;

fn landed(answer: Answer) -> coupon::LandedClaim {
    match answer {
        Answer::Landed { claim, .. } => claim,
        other => panic!("{other:?}"),
    }
}

fn numbers(claim: &coupon::LandedClaim) -> Vec<i64> {
    claim.coupons.iter().map(|coupon| coupon.claim_no).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_one_gives_one() {
    let world = World::open("limit one", 10, 1).await;
    let process = Process::start(&world, "a").await;
    assert_eq!(numbers(&process.land(&claim(USER, "a", 1)).await), [1]);
    let limit = Answer::Refused(Refusal::Limit { taken: 1 });
    assert_eq!(process.claim(&claim(USER, "b", 1)).await, limit);
    assert_eq!(numbers(&process.land(&claim(UserId(71), "a", 1)).await), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_counts_coupons_over_all_keys_and_refuses_whole_claims() {
    let world = World::open("limit five", 20, 5).await;
    let process = Process::start(&world, "a").await;
    assert_eq!(numbers(&process.land(&claim(USER, "a", 3)).await), [1, 2, 3]);
    let limit = Answer::Refused(Refusal::Limit { taken: 3 });
    assert_eq!(process.claim(&claim(USER, "b", 3)).await, limit);
    // A refused key counts as unused.
    assert_eq!(numbers(&process.land(&claim(USER, "b", 2)).await), [4, 5]);
    let limit = Answer::Refused(Refusal::Limit { taken: 5 });
    assert_eq!(process.claim(&claim(USER, "c", 1)).await, limit);
    assert_eq!(world.rows().await, Rows { landed: 2, fences: 0, coupons: 5 });
}

#[tokio::test(flavor = "multi_thread")]
async fn released_numbers_are_used_again() {
    let world = World::open("released", 10, 3).await;
    let process = Process::start(&world, "a").await;
    process.points.fail("claims.after_gate");
    process.claim(&claim(USER, "lost", 2)).await;
    assert_eq!(numbers(&process.land(&claim(USER, "a", 1)).await), [3]);
    let limit = Answer::Refused(Refusal::Limit { taken: 3 });
    assert_eq!(process.claim(&claim(USER, "b", 1)).await, limit);
    world.resolve().await;
    assert_eq!(numbers(&process.land(&claim(USER, "b", 2)).await), [1, 2]);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_as_many_claims_are_under_way_as_may_be_another_is_refused_as_overload_and_a_repetition_waits()
 {
    const MOST: i64 = 4;
    let world = World::open("full house", 10, 1).await;
    let process = Process::start_with(&world, |setup| setup.under_way = MOST as usize).await;
    let mut held = process.points.hold("claims.after_gate");
    let under_way: Vec<Claim> = (0..MOST).map(|user| claim(UserId(user + 1), "a", 1)).collect();
    let answers: Vec<_> = under_way.iter().map(|claim| process.begin(claim)).collect();
    held.reached(under_way.len()).await;
    let another = claim(UserId(MOST + 1), "a", 1);
    let overloaded = Answer::Unavailable(Unavailable::Overloaded);
    assert_eq!(process.claim(&another).await, overloaded);
    assert_eq!(world.meta().await.stock, 10 - MOST, "the gate knows nothing of the other");
    // It repeats a claim that is under way.
    let repetition = process.begin(&again(&under_way[0]));

    held.let_go();
    let mut first = Vec::new();
    for answer in answers {
        first.push(landed(answer.await.unwrap()));
    }
    assert_eq!(landed(repetition.await.unwrap()), first.remove(0));
    process.land(&again(&another)).await;
    assert_eq!(world.rows().await, Rows { landed: 5, fences: 0, coupons: 5 });
}

#[tokio::test(flavor = "multi_thread")]
async fn no_limit_gives_to_every_key_until_nothing_is_left() {
    let world = World::open("no limit", 100, 0).await;
    let process = Process::start(&world, "a").await;
    let first = process.land(&claim(USER, "0", 2)).await;
    // More keys than the gate keeps per user.
    for key in 1..50 {
        process.land(&claim(USER, &key.to_string(), 2)).await;
        world.settled().await;
    }
    assert_eq!(world.rows().await, Rows { landed: 50, fences: 0, coupons: 100 });
    assert!(world.entry(USER).await.requests.len() <= REQUESTS_KEPT);
    let sold_out = Answer::Refused(Refusal::SoldOut);
    assert_eq!(process.claim(&claim(USER, "new", 1)).await, sold_out);
    let replay = Answer::Landed { claim: first, replayed: true };
    assert_eq!(process.claim(&claim(USER, "0", 2)).await, replay, "forgotten by the gate only");
    assert_eq!(process.claim(&claim(USER, "0", 1)).await, Answer::KeyReused);
    assert_eq!(world.meta().await.stock, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_gate_dropped_lands_once_while_there_is_stock() {
    let world = World::open("dropped key", 100, 0).await;
    let process = Process::start(&world, "a").await;
    let first = process.land(&claim(USER, "0", 1)).await;
    for key in 1..40 {
        process.land(&claim(USER, &key.to_string(), 1)).await;
        world.settled().await;
    }
    // The claim is admitted once more, found landed under its first id, and released.
    let replay = Answer::Landed { claim: first, replayed: true };
    assert_eq!(process.claim(&claim(USER, "0", 1)).await, replay);
    world.settled().await;
    assert_eq!((world.left().await, world.meta().await.stock), (60, 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_for_too_much_may_ask_for_less_under_the_same_key() {
    let world = World::open("less", 2, 5).await;
    let process = Process::start(&world, "a").await;
    let too_much = process.claim(&claim(USER, "a", 3)).await;
    assert_eq!(too_much, Answer::Refused(Refusal::Insufficient { left: 2 }));
    let landed = process.land(&claim(USER, "a", 2)).await;
    assert_eq!(numbers(&landed), [1, 2]);
    assert_eq!(process.claim(&claim(USER, "a", 3)).await, Answer::KeyReused);
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.claim(&claim(USER, "a", 2)).await, replay);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_on_another_template_is_another_claim() {
    let world = World::open("another template", 10, 5).await;
    let other = TemplateId(11);
    world.publish(other, 10, 5).await;
    world.rebuild_gate_of(other).await;
    let process = Process::start(&world, "a").await;
    let here = process.land(&claim(USER, "a", 1)).await;
    let there = Claim { template_id: other, ..claim(USER, "a", 2) };
    let there = landed(process.claims.claim(template(other, 5).into(), there).await);
    assert_ne!(here.id, there.id);
    assert_eq!(world.rows().await, Rows { landed: 2, fences: 0, coupons: 3 });
    // The same key of another user is another claim, too.
    let third = process.land(&claim(UserId(71), "a", 2)).await;
    assert_eq!(numbers(&third), [1, 2]);
}

/// A world where [`USER`] has landed under the key `a`, for tests in which the gate loses the key.
struct AfterRebuild {
    world: World,
    process: Process,
    landed: coupon::LandedClaim,
}

impl AfterRebuild {
    async fn new(name: &str, stock: i64, quantity: u32) -> Self {
        let world = World::open(name, stock, 2).await;
        let process = Process::start(&world, "a").await;
        let landed = process.land(&claim(USER, "a", quantity)).await;
        world.settled().await;
        Self { world, process, landed }
    }

    /// Others are refused with `refusal`. The key replays its stored answer, and is refused for another payload.
    async fn assert_winner(&self, refusal: Refusal, stranger: UserId) {
        let quantity = u32::try_from(self.landed.coupons.len()).unwrap();
        let refused = self.process.retry(&claim(stranger, "b", quantity)).await;
        assert_eq!(refused, Answer::Refused(refusal));
        let replay = Answer::Landed { claim: self.landed.clone(), replayed: true };
        let first = claim(USER, "a", quantity);
        assert_eq!(self.process.retry(&again(&first)).await, replay);
        let other = self.process.retry(&claim(USER, "a", 3 - quantity)).await;
        assert_eq!(other, Answer::KeyReused);
        let rows = self.world.rows().await;
        assert_eq!((rows.landed, rows.coupons), (1, i64::from(quantity)));
        self.world.assert_gate_equals_mysql().await;
    }
}

/// A user without coupons.
const STRANGER: UserId = UserId(71);

#[tokio::test(flavor = "multi_thread")]
async fn sold_out_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("sold out", 1, 1).await;
    after.world.rebuild().await;
    after.assert_winner(Refusal::SoldOut, STRANGER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn insufficient_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("insufficient", 3, 2).await;
    after.world.rebuild().await;
    after.assert_winner(Refusal::Insufficient { left: 1 }, STRANGER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("limit looks", 10, 2).await;
    after.world.rebuild().await;
    after.assert_winner(Refusal::Limit { taken: 2 }, USER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("paused looks", 10, 1).await;
    after.world.change_state(TEMPLATE, TemplateState::Paused).await;
    after.world.rebuild().await;
    after.assert_winner(Refusal::Paused, STRANGER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("ended looks", 10, 1).await;
    after.world.change_state(TEMPLATE, TemplateState::Ended).await;
    after.world.rebuild().await;
    after.assert_winner(Refusal::Ended, STRANGER).await;
}

/// Without a limit the gate drops old requests. A packet that arrives only after that, under an id that has landed, is
/// not admitted any more: its coupon would never be given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_so_late_that_the_gate_dropped_it_is_answered_by_mysql_and_costs_no_coupon() {
    let world = World::open("too late", 100, 0).await;
    let process = Process::start(&world, "a").await;
    let unsent = claim(USER, "unsent", 1);
    let first = claim(USER, "first", 1);
    let landed = process.land(&first).await;
    world.settled().await;
    for n in 0..REQUESTS_KEPT {
        process.land(&claim(USER, &format!("later-{n}"), 1)).await;
    }
    world.settled().await;
    let epoch = world.meta().await.epoch;
    assert_eq!(world.entry(USER).await.floor, Some(first.id));
    assert_eq!(
        world.gate.claim(&first, epoch, now(), QueueOptions::direct()).await.unwrap(),
        Verdict::TooOld
    );
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.claim(&first).await, replay);
    let given_up = Answer::Unavailable(Unavailable::GivenUp);
    assert_eq!(process.claim(&unsent).await, given_up, "older than what was dropped");
    process.land(&again(&unsent)).await;
    world.settled().await;
    // Without numbers, only the stock could be wrong in the gate.
    assert_eq!(world.meta().await.stock, world.left().await);
}

/// A version of the template that the gate has not seen.
const NEWEST: i64 = 100;

/// The gate is unloaded soon after the end, so the answer cannot come from there.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_template_without_a_gate_is_ended_and_looks_the_key_up_first() {
    let AfterRebuild { world, landed, .. } = AfterRebuild::new("ended, no gate", 10, 1).await;
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    let epoch = world.gate.meta(TEMPLATE).await.unwrap().unwrap().epoch;
    world
        .gate
        .set_state(TEMPLATE, epoch, NEWEST, TemplateState::Ended, ClaimMode::Direct)
        .await
        .unwrap();
    assert_eq!(world.gate.unload(TEMPLATE, epoch, now()).await.unwrap(), Unloaded::Gone);
    let process = Process::start(&world, "b").await;
    let refused = process.claim(&claim(STRANGER, "b", 1)).await;
    assert_eq!(refused, Answer::Refused(Refusal::Ended));
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.claim(&again(&claim(USER, "a", 1))).await, replay);
    assert_eq!(world.gate.meta(TEMPLATE).await.unwrap(), None, "nobody loads it again");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_after_a_rebuild_looks_the_key_up_first() {
    let after = AfterRebuild::new("closed looks", 10, 1).await;
    after.world.rebuild().await;
    after.process.clock.set(now() + TimeDelta::hours(1));
    after.assert_winner(Refusal::Closed, STRANGER).await;
}

/// A process whose clock is behind the clock of the process that admitted the claim.
#[tokio::test(flavor = "multi_thread")]
async fn not_open_after_a_rebuild_looks_the_key_up_first() {
    let starts_at = template(TEMPLATE, 2).window.starts_at;
    let after = AfterRebuild::new("not open looks", 10, 1).await;
    after.world.rebuild().await;
    after.process.clock.set(starts_at - TimeDelta::seconds(1));
    after.assert_winner(Refusal::NotOpen { starts_at }, STRANGER).await;
}
