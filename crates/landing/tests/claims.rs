//! Claims from the gate to their answer, in processes on real servers.

use std::sync::Arc;

use coupon::{ClaimMode, Epoch, TemplateState, UserId};
use futures::future::join_all;
use landing::claims::{Answer, Unavailable};
use mysql_store::{claim as claims, stock};
use redis_gate::{OpenFacts, Refusal, RequestState};
use testkit::until_true;

use crate::harness::{Process, TEMPLATE, USER, World, again, claim, template};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_lands_is_settled_and_is_answered_alike_ever_after() {
    let world = World::open("a claim", 10, 2).await;
    let here = Process::start(&world, "a").await;
    let there = Process::start(&world, "b").await;
    let first = claim(USER, "a", 2);
    let Answer::Landed { claim: landed, replayed: false } = here.claim(&first).await else {
        panic!("not landed now");
    };
    world.settled().await;
    let epoch = world.meta().await.epoch;
    let entry = world.gate.entry(TEMPLATE, epoch, USER).await.unwrap().unwrap();
    assert_eq!(entry.requests[0].state, RequestState::Landed);
    let stored =
        claims::landed_under_key(&mut world.connection().await, TEMPLATE, USER, &first.request_id)
            .await;
    assert_eq!(stored.unwrap().as_ref(), Some(&landed));
    for process in [&here, &there] {
        let replay = Answer::Landed { claim: landed.clone(), replayed: true };
        assert_eq!(process.claim(&again(&first)).await, replay);
        assert_eq!(process.claim(&claim(USER, "a", 1)).await, Answer::KeyReused);
    }
    assert_eq!(world.left().await, 8);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_sent_many_times_to_two_processes_lands_once() {
    let world = World::open("one key", 10, 5).await;
    let processes = [Process::start(&world, "a").await, Process::start(&world, "b").await];
    let first = claim(USER, "a", 1);
    let sends = (0..40).map(|n| {
        let process = &processes[n % 2];
        let claim = again(&first);
        async move { process.claim(&claim).await }
    });
    let mut landed = Vec::new();
    for answer in join_all(sends).await {
        match answer {
            Answer::Landed { claim, .. } => landed.push(claim),
            Answer::InProgress => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(landed.iter().all(|claim| *claim == landed[0]) && !landed.is_empty());
    assert_eq!(processes[1].land(&again(&first)).await, landed[0]);
    world.settled().await;
    assert_eq!(world.left().await, 9);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_over_all_keys_and_processes() {
    let world = World::open("limit", 100, 3).await;
    let processes = [Process::start(&world, "a").await, Process::start(&world, "b").await];
    let sends = (0..60).map(|n| {
        let process = &processes[n % 2];
        let claim = claim(USER, &format!("key-{n}"), 1);
        async move { process.claim(&claim).await }
    });
    let answers = join_all(sends).await;
    let landed = answers.iter().filter(|one| matches!(one, Answer::Landed { .. })).count();
    let limited = Answer::Refused(Refusal::Limit { taken: 3 });
    let refused = answers.iter().filter(|one| **one == limited).count();
    assert_eq!((landed, refused, world.left().await), (3, 57, 97), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stock_is_sold_exactly() {
    let world = World::open("exactly", 30, 2).await;
    let processes = [Process::start(&world, "a").await, Process::start(&world, "b").await];
    let sends = (0..90).map(|n| {
        let process = &processes[n % 2];
        let claim = claim(UserId(n as i64), "a", 1);
        async move { process.claim(&claim).await }
    });
    let answers = join_all(sends).await;
    let landed = answers.iter().filter(|one| matches!(one, Answer::Landed { .. })).count();
    let sold_out = Answer::Refused(Refusal::SoldOut);
    let refused = answers.iter().filter(|one| **one == sold_out).count();
    assert_eq!((landed, refused), (30, 60), "{answers:?}");
    world.settled().await;
    assert_eq!(world.left().await, 0);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_wave_in_a_process_that_has_not_heard_of_the_gate_lands() {
    let world = World::open("first wave", 100, 1).await;
    let process = Process::without_keeper(&world, "a").await;
    let sends = (0..50).map(|n| {
        let process = &process;
        let claim = claim(UserId(n), "a", 1);
        async move { process.claim(&claim).await }
    });
    for answer in join_all(sends).await {
        assert!(matches!(answer, Answer::Landed { .. }), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_cancels_nothing() {
    let world = World::open("hang up", 10, 1).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 1);
    let waiting = process.claims.claim(Arc::clone(&process.template), first.clone());
    // Poll once and drop, like a handler whose client has disconnected.
    tokio::select! {
        biased;
        _ = waiting => panic!("answered at once"),
        () = std::future::ready(()) => {}
    }
    process.claims.drain().await;
    assert_eq!(world.left().await, 9);
    assert_eq!(process.land(&again(&first)).await.id, first.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_paused_in_mysql_refuses_what_the_gate_let_through() {
    let world = World::open("paused", 10, 2).await;
    let process = Process::start(&world, "a").await;
    world.change_state(TEMPLATE, TemplateState::Paused).await;
    let first = claim(USER, "a", 1);
    assert_eq!(process.claim(&first).await, Answer::Refused(Refusal::Paused));
    let meta = world.meta().await;
    assert_eq!(world.gate.in_flight_count(TEMPLATE, meta.epoch).await.unwrap(), 0);
    assert_eq!(meta.stock, 10, "given back");
    process.publish(&world).await;
    let landed = process.land(&again(&first)).await;
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    let late = claim(UserId(71), "a", 1);
    assert_eq!(process.claim(&late).await, Answer::Refused(Refusal::Ended));
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.claim(&again(&first)).await, replay, "its answer stays");
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_promised_too_much_is_mended() {
    let world = World::open("short", 10, 2).await;
    let process = Process::start(&world, "a").await;
    world.execute("update template_stock set stock = 0, total = 0").await;
    let answer = process.claim(&claim(USER, "a", 1)).await;
    assert_eq!(answer, Answer::Refused(Refusal::SoldOut));
    // The refused claim requested a new epoch. After that the gate itself refuses.
    until_true(async || world.meta().await.stock == 0).await;
    assert_eq!(process.retry(&claim(USER, "a", 1)).await, Answer::Refused(Refusal::SoldOut));
    assert_eq!(world.number("select count(*) from user_coupon").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_mysql_knows_better_brings_a_new_epoch_and_the_next_number() {
    let world = World::open("number taken", 10, 2).await;
    let before = Process::without_keeper(&world, "before").await;
    let first = before.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    // A gate that has lost the user's entry, unnoticed. A keeper would rebuild it between its two steps.
    let epoch = world.meta().await.epoch;
    let wrong = gate_without_users(&world, epoch).await;
    let process = Process::start(&world, "a").await;
    let second = process.land(&claim(USER, "b", 1)).await;
    assert_eq!((first.coupons[0].claim_no, second.coupons[0].claim_no), (1, 2));
    assert!(world.meta().await.epoch > wrong);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

/// Opens the gate under a new epoch of MySQL, as if the user had nothing.
async fn gate_without_users(world: &World, epoch: Epoch) -> Epoch {
    let mut connection = world.connection().await;
    let next = stock::next_epoch(&mut connection, TEMPLATE).await.unwrap().unwrap();
    assert!(next > epoch && world.gate.begin(TEMPLATE, next).await.unwrap());
    let window = template(TEMPLATE, 2).window;
    let facts = OpenFacts {
        version: 2,
        state: TemplateState::Published,
        mode: ClaimMode::Direct,
        starts_at: window.starts_at,
        ends_at: window.ends_at,
        limit: 2,
        stock: world.left().await,
        movement: 1,
        lapses_allowed: 0,
    };
    assert!(world.gate.open(TEMPLATE, next, &facts).await.unwrap());
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rebuild_a_landed_key_is_answered_and_its_stock_stays() {
    let world = World::open("after rebuild", 10, 5).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 2);
    let landed = process.land(&first).await;
    world.settled().await;
    // The new gate knows the numbers, not the key, and admits the request.
    world.rebuild().await;
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.retry(&first).await, replay);
    assert_eq!(process.retry(&claim(USER, "a", 1)).await, Answer::KeyReused);
    assert_eq!(world.left().await, 8);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_whose_epoch_has_passed_is_admitted_once_more() {
    let world = World::open("stale epoch", 10, 2).await;
    let process = Process::start(&world, "a").await;
    process.gates.next_look().await;
    // A rebuilder dies after its first step, so nothing can land under the gate's epoch.
    let mut connection = world.connection().await;
    let begun = stock::next_epoch(&mut connection, TEMPLATE).await.unwrap().unwrap();
    let first = claim(USER, "a", 1);
    match process.retry(&first).await {
        Answer::Landed { .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(world.meta().await.epoch > begun);
    assert_eq!(world.left().await, 9);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_gate_says_loading_comes_back_by_itself_and_knows_its_winner() {
    let world = World::open("lost gate", 1, 1).await;
    let process = Process::start(&world, "a").await;
    let winner = claim(USER, "a", 1);
    let landed = process.land(&winner).await;
    process.gates.next_look().await;
    world.lose_gate().await;
    let loading = process.claim(&again(&winner)).await;
    assert_eq!(loading, Answer::Unavailable(Unavailable::GateLoading));
    // Sold out, but the winner who retries gets the coupon.
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_eq!(process.retry(&winner).await, replay);
    let loser = claim(UserId(71), "a", 1);
    assert_eq!(process.retry(&loser).await, Answer::Refused(Refusal::SoldOut));
    let other_key = claim(USER, "b", 1);
    assert_eq!(process.retry(&other_key).await, Answer::Refused(Refusal::Limit { taken: 1 }));
    assert_eq!(world.left().await, 0);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_lost_under_load_sells_exactly_the_stock() {
    let world = World::open("lost under load", 40, 1).await;
    let processes = [Process::start(&world, "a").await, Process::start(&world, "b").await];
    let sends = (0..120).map(|n| {
        let process = &processes[n % 2];
        let world = &world;
        let claim = claim(UserId(n as i64), "a", 1);
        async move {
            if n == 30 {
                world.lose_gate().await;
            }
            process.retry(&claim).await
        }
    });
    let answers = join_all(sends).await;
    let landed = answers.iter().filter(|one| matches!(one, Answer::Landed { .. })).count();
    assert_eq!((landed, world.left().await), (40, 0), "{answers:?}");
    assert_eq!(world.number("select count(*) from user_coupon").await, 40);
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_limit_a_key_lands_once_and_other_keys_too() {
    let world = World::open("unlimited", 100, 0).await;
    let process = Process::start(&world, "a").await;
    let first = process.land(&claim(USER, "a", 3)).await;
    let second = process.land(&claim(USER, "b", 3)).await;
    assert_ne!(first.coupons, second.coupons);
    world.settled().await;
    world.lose_gate().await;
    let replay = Answer::Landed { claim: first, replayed: true };
    assert_eq!(process.retry(&claim(USER, "a", 3)).await, replay);
    assert_eq!((world.left().await, world.meta().await.stock), (94, 94));
}
