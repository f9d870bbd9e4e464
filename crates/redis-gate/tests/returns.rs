//! Returns at the gate: freed numbers, lapses and bans, once and in order, and while a gate is loading.

use coupon::{Lapses, Numbers, Returned, UserId};
use redis_gate::{Moved, OpenFacts, Refusal, RequestState, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, claim, facts, refused};

fn returned(user: UserId, numbers: &[u8], lapses: u8) -> Returned {
    Returned { user, numbers: Numbers::from(numbers), lapses: Lapses::Add(lapses) }
}

fn lifted(user: UserId) -> Returned {
    Returned { user, numbers: Numbers::new(), lapses: Lapses::Lift }
}

async fn give_back(gate: &TestGate, seq: i64, delta_stock: i64, returned: &[Returned]) -> Moved {
    gate.gate.apply_movement(TEMPLATE, EPOCH, seq, delta_stock, returned).await.unwrap()
}

/// Lands a claim as far as the gate is concerned.
async fn land(gate: &TestGate, user: UserId, key: &str, quantity: u32) -> coupon::Claim {
    let landed = claim(user, key, quantity);
    gate.admit(&landed).await;
    gate.settle(&landed).await;
    landed
}

#[tokio::test]
async fn a_return_frees_stock_and_numbers_once_and_keeps_the_request() {
    let gate = TestGate::open("return", OpenFacts { limit: 2, stock: 2, ..facts() }).await;
    let first = land(&gate, USER, "a", 2).await;
    assert_eq!(gate.claim(&claim(USER, "b", 1)).await, refused(Refusal::Limit { taken: 2 }));
    let back = [returned(USER, &[1], 0)];
    assert_eq!(give_back(&gate, 2, 1, &back).await, Moved::Applied(1));
    assert_eq!(give_back(&gate, 2, 1, &back).await, Moved::Already);
    assert_eq!(give_back(&gate, 4, 1, &back).await, Moved::Gap(2));
    assert_eq!(gate.entry(USER).await.taken, [2]);
    // The old key is answered as before.
    let replay = gate.claim(&first).await;
    assert!(
        matches!(&replay, Verdict::Replay { id, state: RequestState::Landed, .. } if *id == first.id),
        "{replay:?}"
    );
    assert_eq!(gate.admit(&claim(USER, "c", 1)).await, [1]);
    // The same return again, after its number was claimed again, frees nothing.
    assert_eq!(give_back(&gate, 2, 1, &back).await, Moved::Already);
    assert_eq!((gate.stock().await, gate.entry(USER).await.taken), (0, vec![1, 2]));
}

/// The settler is behind, or its process died: the claim is in MySQL, and its coupon came back already.
#[tokio::test]
async fn a_return_that_comes_before_its_claim_is_settled_shows_that_it_has_landed() {
    let gate = TestGate::open("return first", OpenFacts { limit: 2, stock: 2, ..facts() }).await;
    let first = claim(USER, "a", 2);
    gate.admit(&first).await;
    assert_eq!(give_back(&gate, 2, 1, &[returned(USER, &[1], 1)]).await, Moved::Applied(1));
    let replay = gate.claim(&first).await;
    assert!(
        matches!(&replay, Verdict::Replay { id, state: RequestState::Landed, .. } if *id == first.id),
        "{replay:?}"
    );
    assert_eq!(gate.admit(&claim(USER, "b", 1)).await, [1]);
    gate.settle(&first).await;
    assert_eq!(give_back(&gate, 3, 1, &[returned(USER, &[2], 1)]).await, Moved::Applied(1));
    assert_eq!((gate.stock().await, gate.entry(USER).await.taken), (1, vec![1]));
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.unreadable, gate.entry(USER).await.lapses), (None, 2));
}

#[tokio::test]
async fn a_user_whose_holds_lapsed_too_often_is_refused_until_the_ban_is_lifted() {
    let facts = OpenFacts { limit: 2, stock: 9, lapses_allowed: 2, ..facts() };
    let gate = TestGate::open("banned", facts).await;
    let first = land(&gate, USER, "a", 2).await;
    give_back(&gate, 2, 1, &[returned(USER, &[1], 1)]).await;
    assert_eq!(gate.admit(&claim(USER, "b", 1)).await, [1]);
    give_back(&gate, 3, 1, &[returned(USER, &[2], 1)]).await;
    assert_eq!(gate.entry(USER).await.lapses, 2);
    assert_eq!(gate.claim(&claim(USER, "c", 1)).await, refused(Refusal::Banned { lapses: 2 }));
    // The user's old key is still answered, and other users' claims are admitted.
    assert!(matches!(gate.claim(&first).await, Verdict::Replay { .. }));
    assert_eq!(gate.admit(&claim(UserId(71), "a", 1)).await, [1]);
    assert_eq!(give_back(&gate, 4, 0, &[lifted(USER)]).await, Moved::Applied(7));
    assert_eq!(gate.admit(&claim(USER, "c", 1)).await, [2]);
}

#[tokio::test]
async fn without_a_limit_a_user_without_an_entry_gets_one_by_lapsing() {
    let facts = OpenFacts { limit: 0, lapses_allowed: 1, ..facts() };
    let gate = TestGate::open("entry by lapse", facts).await;
    give_back(&gate, 2, 1, &[returned(USER, &[], 1), returned(UserId(71), &[], 0)]).await;
    let refusal = Refusal::Banned { lapses: 1 };
    assert_eq!(
        gate.claim(&claim(USER, "a", 1)).await,
        Verdict::Refused { refusal, look_in_mysql: true }
    );
    gate.admit(&claim(UserId(71), "a", 1)).await;
}

#[tokio::test]
async fn what_returns_while_a_gate_is_loaded_is_applied_to_what_was_read() {
    let gate = TestGate::absent("load returned").await;
    let back = [returned(USER, &[2], 1), returned(UserId(72), &[], 1)];
    assert!(!gate.gate.load_returned(TEMPLATE, EPOCH, &back).await.unwrap(), "there is no gate");
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert!(gate.gate.load(TEMPLATE, EPOCH, &[(USER, vec![1, 2])]).await.unwrap());
    let counts = [(USER, 1), (UserId(71), 3)];
    assert!(gate.gate.load_lapses(TEMPLATE, EPOCH, &counts).await.unwrap());
    assert!(gate.gate.load_lapses(TEMPLATE, EPOCH, &counts).await.unwrap(), "again is no harm");
    assert!(gate.gate.load_returned(TEMPLATE, EPOCH, &back).await.unwrap());
    let facts = OpenFacts { limit: 2, lapses_allowed: 2, movement: 4, ..facts() };
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    assert!(!gate.gate.load_returned(TEMPLATE, EPOCH, &back).await.unwrap(), "it is open");
    let entry = gate.entry(USER).await;
    assert_eq!((entry.taken, entry.lapses, entry.look_in_mysql), (vec![1], 2, true));
    assert_eq!(gate.entry(UserId(72)).await.lapses, 1);
    let banned = Verdict::Refused { refusal: Refusal::Banned { lapses: 3 }, look_in_mysql: true };
    assert_eq!(gate.claim(&claim(UserId(71), "a", 1)).await, banned);
}

/// Numbers that come back again and again would otherwise let an entry grow without bound.
#[tokio::test]
async fn an_entry_under_a_limit_drops_its_oldest_requests_too() {
    let gate = TestGate::open("dropped", OpenFacts { limit: 1, stock: 1, ..facts() }).await;
    let first = land(&gate, USER, "first", 1).await;
    for (seq, key) in (2..).zip((0..40).map(|key| format!("key-{key}"))) {
        give_back(&gate, seq, 1, &[returned(USER, &[1], 0)]).await;
        land(&gate, USER, &key, 1).await;
    }
    let entry = gate.entry(USER).await;
    assert_eq!((entry.requests.len(), entry.look_in_mysql), (32, true));
    assert!(entry.floor.is_some_and(|floor| floor >= first.id));
    give_back(&gate, 42, 1, &[returned(USER, &[1], 0)]).await;
    assert_eq!(gate.claim(&first).await, Verdict::TooOld, "it may not be admitted again");
}
