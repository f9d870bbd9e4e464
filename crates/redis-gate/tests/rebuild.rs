//! Begin, load, open: each refuses the late calls of an overtaken rebuilder.

use coupon::{Epoch, TemplateState, UserId};
use redis_gate::{LOAD_USERS_MAX, OpenFacts, Phase, QueueOptions, Refusal, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, claim, facts, now, refused};

const OLDER: Epoch = Epoch(6);
const NEWER: Epoch = Epoch(8);

#[tokio::test]
async fn begin_is_refused_for_an_older_epoch_and_for_its_own_once_the_gate_is_open() {
    let gate = TestGate::absent("begin").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    for phase in [Phase::Loading, Phase::Open] {
        let before = gate.memory().await;
        assert!(!gate.gate.begin(TEMPLATE, OLDER).await.unwrap(), "{phase:?}");
        // The rebuilder of a gate that is loading asks once more before it loads.
        let begins = gate.gate.begin(TEMPLATE, EPOCH).await.unwrap();
        assert_eq!(begins, phase == Phase::Loading);
        assert_eq!(gate.memory().await, before);
        assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().phase, phase);
        gate.gate.open(TEMPLATE, EPOCH, &facts()).await.unwrap();
    }
    assert!(gate.gate.begin(TEMPLATE, NEWER).await.unwrap());
    assert_eq!(gate.claim(&claim(USER, "a", 1)).await, Verdict::NotLoaded);
}

#[tokio::test]
async fn load_and_open_work_only_while_the_gate_is_exactly_loading_their_epoch() {
    let gate = TestGate::absent("exactly").await;
    let refuses = async |epoch: Epoch| {
        let before = gate.memory().await;
        assert!(!gate.gate.load(TEMPLATE, epoch, &[(USER, vec![1])]).await.unwrap());
        assert!(!gate.gate.open(TEMPLATE, epoch, &facts()).await.unwrap());
        assert_eq!(gate.memory().await, before);
    };
    refuses(EPOCH).await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    refuses(OLDER).await;
    refuses(NEWER).await;
    gate.set_meta("run", "another/run").await;
    refuses(EPOCH).await;
    assert!(gate.gate.begin(TEMPLATE, NEWER).await.unwrap());
    refuses(EPOCH).await;
    assert!(gate.gate.load(TEMPLATE, NEWER, &[(USER, vec![1])]).await.unwrap());
    assert!(gate.gate.open(TEMPLATE, NEWER, &facts()).await.unwrap());
    refuses(NEWER).await;
}

#[tokio::test]
async fn a_loaded_gate_counts_its_users_and_keeps_their_numbers() {
    let gate = TestGate::absent("loaded").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    let users = [(USER, vec![1, 3]), (UserId(71), vec![2])];
    // The answer to the first call may have been lost.
    for _ in 0..2 {
        assert!(gate.gate.load(TEMPLATE, EPOCH, &users).await.unwrap());
    }
    let facts = OpenFacts { limit: 4, stock: 5, movement: 9, version: 6, ..facts() };
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.users, meta.stock, meta.movement, meta.version), (2, 5, 9, 6));
    assert_eq!((meta.phase, meta.epoch, meta.of_this_run), (Phase::Open, EPOCH, true));
    assert_eq!(gate.admit(&claim(USER, "a", 2)).await, [2, 4]);
    assert_eq!(gate.admit(&claim(UserId(71), "a", 2)).await, [1, 3]);
    assert_eq!(gate.gate.entries(TEMPLATE, EPOCH).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_full_chunk_of_users_with_all_their_numbers_fits_one_call() {
    let gate = TestGate::absent("chunk").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    let users: Vec<_> =
        (0..LOAD_USERS_MAX as i64).map(|user| (UserId(user), (1..=100).collect())).collect();
    assert!(gate.gate.load(TEMPLATE, EPOCH, &users).await.unwrap());
    assert!(gate.gate.open(TEMPLATE, EPOCH, &OpenFacts { limit: 100, ..facts() }).await.unwrap());
    assert_eq!(gate.gate.user_count(TEMPLATE, EPOCH).await.unwrap(), 1000);
    let verdict = gate.claim(&claim(UserId(5), "a", 1)).await;
    let refusal = Refusal::Limit { taken: 100 };
    assert_eq!(verdict, Verdict::Refused { refusal, look_in_mysql: true });
}

#[tokio::test]
async fn a_gate_opens_in_the_state_that_its_template_has() {
    let gate = TestGate::absent("state").await;
    let states = [
        (TemplateState::Paused, Refusal::Paused),
        (TemplateState::Ended, Refusal::Ended),
        (TemplateState::Draft, Refusal::Paused),
    ];
    for (epoch, (state, refusal)) in (1..).map(Epoch).zip(states) {
        gate.rebuild(epoch, OpenFacts { state, ..facts() }).await;
        let verdict = gate
            .gate
            .claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct())
            .await
            .unwrap();
        assert_eq!(verdict, refused(refusal));
    }
}

#[tokio::test]
async fn an_opened_gate_has_forgotten_its_older_epochs() {
    let gate = TestGate::open("older epochs", facts()).await;
    gate.admit(&claim(USER, "a", 1)).await;
    assert_eq!(gate.memory().await.len(), 3);
    // Two rebuilders die after loading, the third one opens. Two epochs are never in memory together.
    for epoch in [8, 9, 10].map(Epoch) {
        assert!(gate.gate.begin(TEMPLATE, epoch).await.unwrap());
        assert!(gate.gate.load(TEMPLATE, epoch, &[(USER, vec![1])]).await.unwrap());
        let left: Vec<String> = gate.memory().await.into_keys().collect();
        assert_eq!(left, [gate.meta(), gate.users(epoch)]);
    }
    assert!(gate.gate.open(TEMPLATE, Epoch(10), &facts()).await.unwrap());
    let left: Vec<String> = gate.memory().await.into_keys().collect();
    assert_eq!(left, [gate.meta(), gate.users(Epoch(10))]);
}

#[tokio::test]
async fn a_new_epoch_begins_without_anything_that_lay_under_its_name() {
    let gate = TestGate::absent("leftovers").await;
    gate.send(&["HSET", &gate.users(EPOCH), "70", "left over"]).await;
    gate.rebuild(EPOCH, facts()).await;
    assert_eq!(gate.admit(&claim(USER, "a", 1)).await, [1]);
}
