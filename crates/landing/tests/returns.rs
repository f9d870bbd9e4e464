//! Returns beside landings and rebuilds: gate and MySQL agree about stock, numbers and lapses, and no correct gate is
//! rebuilt.

use chrono::TimeDelta;
use coupon::{ClaimId, CouponId, HoldTerms, ReturnedStock, UserId};
use landing::{
    claims::Answer,
    gates::{Gates, PRELOAD},
    keeper::Keeper,
    movements,
    queue::NoQueue,
};
use mysql_store::{
    connect,
    look_up::{self, ClaimFate},
    returns::{self, Cause, GivenBack, Return},
};
use redis_gate::Refusal;
use runtime::FailPoints;

use crate::harness::{Process, TEMPLATE, USER, World, again, claim, now};

/// The template with holds, its gate open.
async fn holding(name: &str, stock: i64, limit: u32, hold: HoldTerms) -> World {
    let world = World::without_gate(name, stock, limit).await;
    let hold_ms = hold.hold.unwrap().num_milliseconds();
    let allowed = hold.lapses_allowed;
    world
        .execute(&format!(
            "update coupon_template set hold_ms = {hold_ms}, lapses_allowed = {allowed}"
        ))
        .await;
    world.rebuild().await;
    world
}

fn terms(lapses_allowed: u32) -> HoldTerms {
    HoldTerms { hold: Some(TimeDelta::minutes(5)), lapses_allowed, ..HoldTerms::default() }
}

/// Ends the holds of a claim, as if their time had passed, in MySQL only.
async fn lapse(world: &World, claim: ClaimId) -> GivenBack {
    world
        .execute(&format!(
            "update user_coupon set valid_until = '2001-01-01', version = version + 1 \
             where claim_id = {claim} and status = 4"
        ))
        .await;
    let mut transaction = connect::begin(&world.pool).await.unwrap();
    let what = Return {
        template: TEMPLATE,
        returned_stock: ReturnedStock::Resell,
        cause: Cause::Lapse,
        reason: "lapsed",
        actor: "deadline",
        now: now(),
    };
    let ids = of_claim(world, claim).await;
    let given_back = what.of(&mut transaction, &ids).await.unwrap().unwrap();
    connect::commit(transaction).await.unwrap();
    given_back
}

async fn of_claim(world: &World, claim: ClaimId) -> Vec<CouponId> {
    let mut connection = world.connection().await;
    let fate = look_up::claim_fate(&mut connection, claim).await.unwrap();
    let Some(ClaimFate::Landed(landed)) = fate else { panic!("{fate:?}") };
    landed.coupons.iter().map(|coupon| coupon.id).collect()
}

async fn catch_up(world: &World) {
    let mut connection = world.connection().await;
    movements::catch_up(&mut connection, &world.gate, TEMPLATE).await.unwrap();
}

/// The gate's lapses are MySQL's.
async fn assert_same_lapses(world: &World) {
    let mut connection = world.connection().await;
    let counted = returns::lapses_after(&mut connection, TEMPLATE, UserId(-1)).await.unwrap();
    for one in counted {
        assert_eq!(i64::from(world.entry(one.user).await.lapses), one.count, "{}", one.user);
    }
}

fn keeper(world: &World) -> (Gates, Keeper) {
    Gates::new(
        world.pool.clone(),
        world.gate.clone(),
        std::sync::Arc::new(NoQueue),
        "keeper",
        PRELOAD,
        FailPoints::default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lapsed_number_is_claimed_again_and_the_old_key_still_has_its_claim() {
    let world = holding("claimed again", 1, 1, terms(0)).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 1);
    let landed = process.land(&first).await;
    assert!(landed.held_until.is_some());
    let other = claim(UserId(71), "a", 1);
    assert_eq!(process.claim(&other).await, Answer::Refused(Refusal::SoldOut));
    lapse(&world, first.id).await;
    catch_up(&world).await;
    let second = process.land(&claim(USER, "b", 1)).await;
    assert_eq!(second.coupons[0].claim_no, 1);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
    for rebuilt in [false, true] {
        if rebuilt {
            world.rebuild().await;
        }
        let replayed = process.retry(&again(&first)).await;
        let Answer::Landed { claim, .. } = replayed else { panic!("{replayed:?}") };
        assert_eq!(claim, landed, "rebuilt: {rebuilt}");
    }
    world.settled().await;
    world.assert_gate_equals_mysql().await;
    assert_eq!(world.number("select count(*) from user_coupon where issued_no is null").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_all_of_whose_coupons_came_back_keeps_his_answers_after_a_rebuild() {
    let world = holding("all came back", 9, 2, terms(0)).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 2);
    let landed = process.land(&first).await;
    lapse(&world, first.id).await;
    world.rebuild().await;
    let entry = world.entry(USER).await;
    assert_eq!((entry.taken, entry.look_in_mysql), (vec![], true));
    let Answer::Landed { claim, .. } = process.retry(&again(&first)).await else { panic!() };
    assert_eq!(claim, landed);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

/// Rounds of claims, lapses and rebuilds at the same time, and the users of each.
const ROUNDS: i64 = 8;
const USERS: i64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_begins_no_epoch_and_misses_nothing_while_holds_come_back() {
    let world = holding("keeper beside", 20, 1, terms(0)).await;
    let process = Process::without_keeper(&world, "a").await;
    let epoch = world.meta().await.epoch;
    let (_gates, mut keeper) = keeper(&world);
    let mut claims = Vec::new();
    for user in 0..8 {
        let mine = claim(UserId(user), "a", 1);
        process.land(&mine).await;
        claims.push(mine.id);
    }
    for id in claims {
        // Committed, but unknown to the gate: neither look may take that for a fault.
        keeper.look(now()).await.unwrap();
        lapse(&world, id).await;
        keeper.look(now()).await.unwrap();
        assert_eq!((keeper.missing(), world.meta().await.epoch), (0, epoch));
    }
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_ban_survives_a_rebuild_with_and_without_a_limit() {
        for limit in [0, 2] {
            let world = holding(&format!("ban {limit}"), 9, limit, terms(1)).await;
            let process = Process::start(&world, "a").await;
            let first = claim(USER, "a", 1);
            process.land(&first).await;
            lapse(&world, first.id).await;
            catch_up(&world).await;
            let refused = Answer::Refused(Refusal::Banned { lapses: 1 });
            assert_eq!(process.claim(&claim(USER, "b", 1)).await, refused);
            world.rebuild().await;
            assert_eq!(process.retry(&claim(USER, "b", 1)).await, refused);
            let mut transaction = connect::begin(&world.pool).await.unwrap();
            let lifted = returns::lift(&mut transaction, TEMPLATE, USER, "r", "test", now());
            lifted.await.unwrap().unwrap();
            connect::commit(transaction).await.unwrap();
            catch_up(&world).await;
            process.land(&claim(USER, "b", 1)).await;
            world.settled().await;
            world.rebuild().await;
            world.assert_gate_equals_mysql().await;
            assert_same_lapses(&world).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rebuilds_in_the_middle_of_claims_and_lapses_end_with_a_gate_that_equals_mysql() {
        let world = holding("in the middle", 40, 1, terms(100)).await;
        let process = Process::without_keeper(&world, "a").await;
        for round in 0..ROUNDS {
            let epoch = world.meta().await.epoch;
            let turns = async {
                for user in 0..USERS {
                    let mine = claim(UserId(user), &format!("key-{round}"), 1);
                    if let Answer::Landed { claim, .. } = process.retry(&mine).await {
                        lapse(&world, claim.id).await;
                        catch_up(&world).await;
                    }
                }
            };
            let rebuilds = async {
                for _ in 0..3 {
                    world.rebuild().await;
                }
            };
            tokio::join!(turns, rebuilds);
            assert!(world.meta().await.epoch > epoch);
            world.settled().await;
            catch_up(&world).await;
            world.assert_gate_equals_mysql().await;
            assert_same_lapses(&world).await;
        }
        let live = "select count(*) from user_coupon where issued_no is null";
        assert_eq!(world.number(live).await, 0);
        assert_eq!(world.left().await, 40);
    }
}
