//! Movements, states, unloading: each call takes effect once, even if it comes late or twice.

use chrono::TimeDelta;
use coupon::{ClaimMode, Epoch, TemplateState, UserId};
use redis_gate::{
    GateError, Halted, Moved, OpenFacts, Phase, QueueOptions, Refusal, Unloaded, Verdict,
};

use crate::harness::{EPOCH, OwnRedis, TEMPLATE, TestGate, USER, claim, facts, now, refused};

const OLDER: Epoch = Epoch(6);
const NEWER: Epoch = Epoch(8);

async fn apply(gate: &TestGate, seq: i64, delta: i64) -> Moved {
    gate.gate.apply_movement(TEMPLATE, EPOCH, seq, delta, &[]).await.unwrap()
}

async fn set_state(
    gate: &TestGate,
    epoch: Epoch,
    version: i64,
    state: TemplateState,
) -> Option<bool> {
    gate.gate.set_state(TEMPLATE, epoch, version, state, ClaimMode::Direct).await.unwrap()
}

async fn unload(gate: &TestGate) -> Unloaded {
    gate.gate.unload(TEMPLATE, EPOCH, now()).await.unwrap()
}

#[tokio::test]
async fn movements_apply_in_order_and_once_each() {
    let gate = TestGate::open("movements", facts()).await;
    assert_eq!(apply(&gate, 2, 5).await, Moved::Applied(15));
    assert_eq!(apply(&gate, 3, -4).await, Moved::Applied(11));
    let before = gate.memory().await;
    for seq in 1..=3 {
        assert_eq!(apply(&gate, seq, 100).await, Moved::Already);
    }
    assert_eq!(apply(&gate, 5, 100).await, Moved::Gap(3));
    assert_eq!(gate.memory().await, before);
    assert_eq!(apply(&gate, 4, 1).await, Moved::Applied(12));
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().movement, 4);
}

#[tokio::test]
async fn a_cut_may_leave_the_stock_below_zero_and_what_is_in_flight_fills_it_up() {
    let gate = TestGate::open("cut", OpenFacts { limit: 5, stock: 4, ..facts() }).await;
    let admitted = claim(USER, "a", 3);
    gate.admit(&admitted).await;
    assert_eq!(apply(&gate, 2, -4).await, Moved::Applied(-3));
    assert_eq!(gate.claim(&claim(UserId(71), "a", 1)).await, refused(Refusal::SoldOut));
    gate.release(&admitted).await;
    assert_eq!(gate.stock().await, 0);
    assert_eq!(gate.claim(&claim(UserId(71), "a", 1)).await, refused(Refusal::SoldOut));
    assert_eq!(apply(&gate, 3, 1).await, Moved::Applied(1));
    assert_eq!(gate.admit(&claim(UserId(71), "a", 1)).await, [1]);
}

#[tokio::test]
async fn a_movement_has_no_effect_on_a_gate_that_is_absent_loading_or_another() {
    let gate = TestGate::absent("movement elsewhere").await;
    assert_eq!(apply(&gate, 1, 5).await, Moved::NotLoaded);
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    let before = gate.memory().await;
    assert_eq!(apply(&gate, 1, 5).await, Moved::NotLoaded);
    assert_eq!(gate.memory().await, before);
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts()).await.unwrap());
    let before = gate.memory().await;
    for epoch in [OLDER, NEWER] {
        let moved = gate.gate.apply_movement(TEMPLATE, epoch, 2, 5, &[]).await.unwrap();
        assert_eq!(moved, Moved::OtherEpoch(EPOCH));
    }
    assert_eq!(gate.memory().await, before);
    gate.set_meta("run", "another/run").await;
    assert_eq!(apply(&gate, 2, 5).await, Moved::NotLoaded);
    assert_eq!(gate.stock().await, 10);
}

#[tokio::test]
async fn a_movement_is_applied_in_the_gates_own_numbers() {
    // Beyond 2^31 in one step, and far below the limit of Lua's exact numbers.
    let gate = TestGate::open("large", OpenFacts { stock: 900_000_000, ..facts() }).await;
    assert_eq!(apply(&gate, 2, 1_000_000_000).await, Moved::Applied(1_900_000_000));
    assert_eq!(apply(&gate, 3, 1_000_000_000).await, Moved::Applied(2_900_000_000));
    assert_eq!(apply(&gate, 4, -2_900_000_000).await, Moved::Applied(0));
}

#[tokio::test]
async fn a_state_is_taken_if_its_version_is_newer_and_refuses_or_admits_at_once() {
    let gate = TestGate::open("states", OpenFacts { version: 2, ..facts() }).await;
    let set = async |version, state| set_state(&gate, EPOCH, version, state).await;
    assert_eq!(set(3, TemplateState::Paused).await, Some(true));
    assert_eq!(gate.claim(&claim(USER, "a", 1)).await, refused(Refusal::Paused));
    let before = gate.memory().await;
    for version in [1, 2, 3] {
        assert_eq!(set(version, TemplateState::Published).await, Some(false));
    }
    assert_eq!(gate.memory().await, before);
    // A call that overtook another one: the later version stays.
    assert_eq!(set(5, TemplateState::Published).await, Some(true));
    assert_eq!(set(4, TemplateState::Ended).await, Some(false));
    gate.admit(&claim(USER, "a", 1)).await;
    assert_eq!(set(6, TemplateState::Ended).await, Some(true));
    assert_eq!(gate.claim(&claim(UserId(71), "a", 1)).await, refused(Refusal::Ended));
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.version, meta.epoch, meta.stock), (6, EPOCH, 9));
}

#[tokio::test]
async fn a_state_has_no_effect_under_another_epoch_or_run() {
    let gate = TestGate::absent("state elsewhere").await;
    let set = async |epoch| set_state(&gate, epoch, 9, TemplateState::Paused).await;
    assert_eq!(set(EPOCH).await, None);
    assert!(gate.memory().await.is_empty());
    gate.rebuild(EPOCH, facts()).await;
    let before = gate.memory().await;
    for epoch in [OLDER, NEWER] {
        assert_eq!(set(epoch).await, None);
    }
    assert_eq!(gate.memory().await, before);
    gate.set_meta("run", "another/run").await;
    let before = gate.memory().await;
    assert_eq!(set(EPOCH).await, None);
    assert_eq!(gate.memory().await, before);
}

#[tokio::test]
async fn a_pause_while_the_gate_loads_outlives_its_opening() {
    let gate = TestGate::absent("pause while loading").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    let paused = TemplateState::Paused;
    assert_eq!(set_state(&gate, EPOCH, 3, paused).await, Some(true));
    // Facts read from MySQL before the pause.
    assert!(gate.gate.open(TEMPLATE, EPOCH, &OpenFacts { version: 2, ..facts() }).await.unwrap());
    assert_eq!(gate.claim(&claim(USER, "a", 1)).await, refused(Refusal::Paused));
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().version, 3);
    // Facts read after the pause.
    assert!(gate.gate.begin(TEMPLATE, NEWER).await.unwrap());
    let resumed = OpenFacts { version: 4, ..facts() };
    assert_eq!(set_state(&gate, NEWER, 3, paused).await, Some(true));
    assert!(gate.gate.open(TEMPLATE, NEWER, &resumed).await.unwrap());
    let verdict =
        gate.gate.claim(&claim(USER, "a", 1), NEWER, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
}

#[tokio::test]
async fn an_ended_gate_goes_once_nothing_is_in_flight_and_leaves_nothing() {
    let gate = TestGate::open("unload", facts()).await;
    let admitted = claim(USER, "a", 1);
    gate.admit(&admitted).await;
    assert_eq!(unload(&gate).await, Unloaded::Open);
    set_state(&gate, EPOCH, 2, TemplateState::Paused).await;
    assert_eq!(unload(&gate).await, Unloaded::Open, "it may be resumed");
    set_state(&gate, EPOCH, 3, TemplateState::Ended).await;
    let before = gate.memory().await;
    assert_eq!(unload(&gate).await, Unloaded::InFlight);
    assert_eq!(gate.gate.unload(TEMPLATE, OLDER, now()).await.unwrap(), Unloaded::OtherEpoch);
    assert_eq!(gate.memory().await, before);
    gate.settle(&admitted).await;
    assert_eq!(unload(&gate).await, Unloaded::Gone);
    assert!(gate.memory().await.is_empty());
    assert_eq!(unload(&gate).await, Unloaded::OtherEpoch);
    // Late calls find nothing and create nothing.
    assert_eq!(gate.claim(&claim(USER, "b", 1)).await, Verdict::NotLoaded);
    assert_eq!((gate.settle(&admitted).await, gate.release(&admitted).await), (None, None));
    assert_eq!(apply(&gate, 2, 1).await, Moved::NotLoaded);
    assert!(!gate.gate.load(TEMPLATE, EPOCH, &[(USER, vec![1])]).await.unwrap());
    assert!(gate.memory().await.is_empty());
}

#[tokio::test]
async fn a_gate_whose_window_is_over_goes_whatever_its_state() {
    let gate = TestGate::open("window over", facts()).await;
    let at = |ms| facts().ends_at + TimeDelta::milliseconds(ms);
    let unload = async |now| gate.gate.unload(TEMPLATE, EPOCH, now).await.unwrap();
    assert_eq!(unload(at(-1)).await, Unloaded::Open);
    assert_eq!(unload(at(0)).await, Unloaded::Gone);
    assert!(gate.memory().await.is_empty());
}

#[tokio::test]
async fn a_gate_that_answers_nobody_goes_as_it_is() {
    let gate = TestGate::open("answers nobody", facts()).await;
    gate.admit(&claim(USER, "a", 1)).await;
    gate.set_meta("run", "another/run").await;
    assert_eq!(unload(&gate).await, Unloaded::Gone);
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().phase, Phase::Loading);
    assert_eq!(unload(&gate).await, Unloaded::Gone);
    assert!(gate.memory().await.is_empty());
}

#[tokio::test]
async fn a_gate_that_goes_while_it_is_loaded_anew_takes_the_one_before_along() {
    let gate = TestGate::open("half loaded", facts()).await;
    gate.admit(&claim(USER, "a", 1)).await;
    assert!(gate.gate.begin(TEMPLATE, NEWER).await.unwrap());
    assert!(gate.gate.templates().await.unwrap().contains(&TEMPLATE));
    assert_eq!(gate.gate.unload(TEMPLATE, NEWER, now()).await.unwrap(), Unloaded::Gone);
    assert!(gate.memory().await.is_empty());
    assert!(gate.gate.templates().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_full_gate_can_still_be_cut_paused_and_unloaded() {
    let server = OwnRedis::start("full gate", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, facts()).await;
    gate.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = gate
        .gate
        .claim(&claim(USER, "a", 1), EPOCH, now(), QueueOptions::direct())
        .await
        .unwrap_err();
    assert!(matches!(error, GateError::Refused { .. }), "{error:?}");
    assert_eq!(apply(&gate, 2, -1).await, Moved::Applied(9));
    let ended = TemplateState::Ended;
    assert_eq!(set_state(&gate, EPOCH, 2, ended).await, Some(true));
    assert_eq!(unload(&gate).await, Unloaded::Gone);
}

#[tokio::test]
async fn a_pause_at_the_gate_refuses_claims_in_every_state_and_epoch_until_it_is_lifted() {
    let gate = TestGate::open("halt", facts()).await;
    let admitted = claim(USER, "a", 1);
    gate.admit(&admitted).await;
    assert_eq!(gate.gate.halt(TEMPLATE, b"first").await.unwrap(), Halted::Now);
    assert_eq!(gate.gate.halt(TEMPLATE, b"first").await.unwrap(), Halted::Now, "sent twice");
    let second = gate.gate.halt(TEMPLATE, b"second").await.unwrap();
    assert_eq!(second, Halted::Before(b"first".to_vec()));
    assert_eq!(gate.claim(&claim(UserId(71), "a", 1)).await, refused(Refusal::Paused));
    let replay = gate.replay_of(&admitted, redis_gate::RequestState::Pending).await;
    assert_eq!(gate.claim(&admitted).await, replay, "what was admitted before is not refused");
    assert_eq!(gate.settle(&admitted).await, Some(1));

    assert_eq!(set_state(&gate, EPOCH, 9, TemplateState::Published).await, Some(true));
    assert_eq!(gate.claim(&claim(UserId(71), "b", 1)).await, refused(Refusal::Paused));
    gate.rebuild(NEWER, OpenFacts { version: 10, ..facts() }).await;
    let ask = async |user| {
        let asked = claim(UserId(user), "c", 1);
        gate.gate.claim(&asked, NEWER, now(), QueueOptions::direct()).await.unwrap()
    };
    assert_eq!(ask(71).await, refused(Refusal::Paused));

    assert!(!gate.gate.lift_halt(TEMPLATE, b"second").await.unwrap(), "another's");
    assert_eq!(ask(71).await, refused(Refusal::Paused));
    assert!(gate.gate.lift_halt(TEMPLATE, b"first").await.unwrap());
    assert!(!gate.gate.lift_halt(TEMPLATE, b"first").await.unwrap());
    assert!(matches!(ask(71).await, Verdict::Admitted { .. }));
}

#[tokio::test]
async fn a_gate_that_is_absent_cannot_be_paused_and_one_that_is_loading_opens_paused() {
    let gate = TestGate::absent("halt elsewhere").await;
    assert_eq!(gate.gate.halt(TEMPLATE, b"a").await.unwrap(), Halted::NotLoaded);
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert_eq!(gate.gate.halt(TEMPLATE, b"\xff\0").await.unwrap(), Halted::Now, "it is loading");
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts()).await.unwrap());
    assert_eq!(gate.claim(&claim(USER, "a", 1)).await, refused(Refusal::Paused));
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert!(
        gate.gate.lift_halt(TEMPLATE, &meta.halt.unwrap()).await.unwrap(),
        "whatever its bytes"
    );
    gate.set_meta("run", "another/run").await;
    assert_eq!(gate.gate.halt(TEMPLATE, b"a").await.unwrap(), Halted::NotLoaded);
    assert!(!gate.gate.lift_halt(TEMPLATE, b"a").await.unwrap());
}
