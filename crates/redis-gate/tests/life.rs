//! The end of an admission at the gate: settled or released, once.

use coupon::{Claim, ClaimId, Epoch, UserId};
use redis_gate::{OpenFacts, QueueOptions, Refusal, RequestState, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, refused};

/// How many requests an entry without a limit keeps; a constant of `settle.lua`.
const REQUESTS_KEPT: usize = 32;

#[tokio::test]
async fn settling_is_effective_once_and_ends_the_flight() {
    let gate = TestGate::open("settle", facts()).await;
    let one = claim(USER, "a", 1);
    let other = claim(UserId(71), "a", 1);
    gate.admit(&one).await;
    gate.admit(&other).await;
    let landed = [
        (one.user_id, one.id),
        (other.user_id, other.id),
        (one.user_id, one.id),
        (one.user_id, other.id),
        (UserId(72), ClaimId(1)),
    ];
    assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, &landed).await.unwrap(), Some(2));
    let settled = gate.memory().await;
    assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, &landed).await.unwrap(), Some(0));
    assert_eq!(gate.memory().await, settled);
    assert_eq!((gate.in_flight().await, gate.stock().await), (0, 8));
    assert_eq!(gate.entry(USER).await.requests[0].state, RequestState::Landed);
}

#[tokio::test]
async fn two_admissions_of_one_user_are_settled_by_one_call() {
    let gate = TestGate::open("settle both", OpenFacts { limit: 5, ..facts() }).await;
    let one = claim(USER, "a", 1);
    let two = claim(USER, "b", 2);
    gate.admit(&one).await;
    gate.admit(&two).await;
    let landed = [(USER, one.id), (USER, two.id)];
    assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, &landed).await.unwrap(), Some(2));
    let states =
        gate.entry(USER).await.requests.iter().map(|request| request.state).collect::<Vec<_>>();
    assert_eq!(states, [RequestState::Landed, RequestState::Landed]);
    assert_eq!((gate.in_flight().await, gate.entry(USER).await.taken), (0, vec![1, 2, 3]));
}

#[tokio::test]
async fn releasing_gives_back_exactly_what_was_taken_and_only_once() {
    let gate = TestGate::open("release", OpenFacts { limit: 5, ..facts() }).await;
    let one = claim(USER, "a", 1);
    let two = claim(USER, "b", 2);
    let three = claim(USER, "c", 1);
    for claim in [&one, &two, &three] {
        gate.admit(claim).await;
    }
    assert_eq!(gate.release(&two).await, Some(true));
    assert_eq!(gate.entry(USER).await.taken, [1, 4]);
    assert_eq!((gate.stock().await, gate.in_flight().await), (8, 2));
    let released = gate.memory().await;
    assert_eq!(gate.release(&two).await, Some(false));
    assert_eq!(gate.memory().await, released);
    // The released numbers are the lowest free ones. The key may come back with another quantity.
    assert_eq!(gate.admit(&claim(USER, "b", 3)).await, [2, 3, 5]);
    assert_eq!(gate.release(&two).await, Some(false), "the id is spent, though its key is not");
    assert_eq!(gate.stock().await, 5);
}

#[tokio::test]
async fn a_landed_admission_cannot_be_released_nor_a_released_one_settled() {
    let gate = TestGate::open("one end", facts()).await;
    let landed = claim(USER, "a", 1);
    let released = claim(USER, "b", 1);
    gate.admit(&landed).await;
    gate.admit(&released).await;
    gate.settle(&landed).await;
    gate.release(&released).await;
    let before = gate.memory().await;
    assert_eq!(gate.release(&landed).await, Some(false));
    assert_eq!(gate.settle(&released).await, Some(0));
    assert_eq!(gate.memory().await, before);
    assert_eq!(gate.entry(USER).await.taken, [1]);
}

#[tokio::test]
async fn another_users_name_ends_nobodys_admission() {
    let gate = TestGate::open("wrong user", facts()).await;
    let mine = claim(USER, "a", 1);
    let theirs = claim(UserId(71), "a", 1);
    gate.admit(&mine).await;
    gate.admit(&theirs).await;
    let before = gate.memory().await;
    let crossed = gate.gate.release(TEMPLATE, EPOCH, USER, theirs.id).await.unwrap();
    assert_eq!(crossed, Some(false));
    assert_eq!(gate.memory().await, before);
}

#[tokio::test]
async fn under_another_epoch_or_run_nothing_is_settled_or_released() {
    let gate = TestGate::open("late packets", facts()).await;
    let claim = claim(USER, "a", 1);
    gate.admit(&claim).await;
    let before = gate.memory().await;
    for epoch in [Epoch(6), Epoch(8)] {
        let pair = [(USER, claim.id)];
        assert_eq!(gate.gate.settle(TEMPLATE, epoch, &pair).await.unwrap(), None);
        assert_eq!(gate.gate.release(TEMPLATE, epoch, USER, claim.id).await.unwrap(), None);
    }
    assert_eq!(gate.memory().await, before);
    gate.set_meta("run", "another/run").await;
    let before = gate.memory().await;
    assert_eq!(gate.settle(&claim).await, None);
    assert_eq!(gate.release(&claim).await, None);
    assert_eq!(gate.memory().await, before);
}

#[tokio::test]
async fn a_released_users_entry_stays_and_the_gate_stays_loaded() {
    let gate = TestGate::open("entry stays", facts()).await;
    let first = claim(USER, "a", 2);
    gate.admit(&first).await;
    gate.release(&first).await;
    assert_eq!(gate.gate.user_count(TEMPLATE, EPOCH).await.unwrap(), 1);
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().users, 1);
    let verdict = gate.claim(&again(&first)).await;
    assert_eq!(verdict, Verdict::Admitted { numbers: vec![1, 2], left: 8 });
}

#[tokio::test]
async fn without_a_limit_the_newest_requests_are_kept_and_a_pending_one_always() {
    let gate = TestGate::open("unlimited", OpenFacts { limit: 0, stock: 1000, ..facts() }).await;
    let pending = claim(USER, "pending", 1);
    gate.admit(&pending).await;
    let landed: Vec<_> =
        (0..2 * REQUESTS_KEPT).map(|n| claim(USER, &format!("key-{n}"), 2)).collect();
    for claim in &landed {
        assert_eq!(gate.admit(claim).await, [] as [u8; 0], "no numbers without a limit");
        assert_eq!(gate.settle(claim).await, Some(1));
    }
    let entry = gate.entry(USER).await;
    assert_eq!(entry.requests.len(), REQUESTS_KEPT);
    assert_eq!(entry.requests[0].id, pending.id);
    let kept: Vec<ClaimId> = entry.requests[1..].iter().map(|request| request.id).collect();
    let newest: Vec<ClaimId> =
        landed[landed.len() - kept.len()..].iter().map(|claim| claim.id).collect();
    assert_eq!(kept, newest);
    assert!(entry.look_in_mysql, "older requests are known to MySQL only");

    // Late packets of a claim that was dropped meanwhile, and of an older one: neither is admitted.
    let dropped = &landed[landed.len() - kept.len() - 1];
    assert_eq!(entry.floor, Some(dropped.id));
    let stock = gate.gate.meta(TEMPLATE).await.unwrap().unwrap().stock;
    for late in [dropped, &landed[0]] {
        assert_eq!(gate.claim(late).await, Verdict::TooOld);
    }
    assert_eq!(gate.entry(USER).await, entry);
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().stock, stock);
    assert_eq!(gate.gate.in_flight_count(TEMPLATE, EPOCH).await.unwrap(), 1, "the pending one");
    // The key itself may be reused; MySQL's row decides about it.
    assert!(matches!(gate.claim(&again(dropped)).await, Verdict::Admitted { .. }));
}

#[tokio::test]
async fn without_a_limit_no_number_of_pending_requests_is_too_many() {
    let gate = TestGate::open("many pending", OpenFacts { limit: 0, stock: 1000, ..facts() }).await;
    let claims: Vec<_> =
        (0..2 * REQUESTS_KEPT).map(|n| claim(USER, &format!("key-{n}"), 1)).collect();
    for claim in &claims {
        gate.admit(claim).await;
    }
    assert_eq!(gate.entry(USER).await.requests.len(), claims.len());
    for claim in &claims {
        let replay = gate.claim(&again(claim)).await;
        assert!(matches!(replay, Verdict::Replay { id, .. } if id == claim.id), "{replay:?}");
    }
    for claim in &claims {
        assert_eq!(gate.settle(claim).await, Some(1));
    }
    assert_eq!(gate.entry(USER).await.requests.len(), REQUESTS_KEPT);
}

#[tokio::test]
async fn without_a_limit_every_refusal_looks_in_mysql() {
    let gate = TestGate::open("unlimited look", OpenFacts { limit: 0, stock: 0, ..facts() }).await;
    let verdict = gate.claim(&claim(USER, "a", 1)).await;
    assert_eq!(verdict, Verdict::Refused { refusal: Refusal::SoldOut, look_in_mysql: true });
    gate.set_meta("limit", "1").await;
    assert_eq!(gate.claim(&claim(USER, "a", 1)).await, refused(Refusal::SoldOut));
}

#[tokio::test]
async fn what_is_in_flight_is_listed_the_oldest_first() {
    let gate = TestGate::open("in flight", facts()).await;
    let claims = [claim(USER, "a", 1), claim(UserId(71), "a", 1), claim(UserId(72), "a", 1)];
    let at = |n: i64| facts().starts_at + chrono::TimeDelta::milliseconds(n);
    for (claim, n) in claims.iter().zip([5, 3, 9]) {
        gate.gate.claim(claim, EPOCH, at(n), QueueOptions::direct()).await.unwrap();
    }
    let listed = gate.gate.in_flight(TEMPLATE, EPOCH, at(5), 0, 10).await.unwrap();
    let listed: Vec<_> =
        listed.admissions.iter().map(|entry| (entry.id, entry.user, entry.admitted_at)).collect();
    assert_eq!(
        listed,
        [(claims[1].id, UserId(71), at(3)), (claims[0].id, USER, at(5))],
        "the one after the given time is left out"
    );
    let oldest = gate.gate.in_flight(TEMPLATE, EPOCH, at(9), 0, 1).await.unwrap();
    assert_eq!((oldest.admissions.len(), oldest.unreadable), (1, 0));
}

#[tokio::test]
async fn one_admission_is_found_among_thousands_in_flight_until_it_is_settled() {
    let gate = TestGate::open("one in flight", OpenFacts { stock: 3_000, ..facts() }).await;
    let at = facts().starts_at;
    let claims: Vec<Claim> = (0..3_000).map(|user| claim(UserId(user), "a", 1)).collect();
    for claim in &claims {
        gate.gate.claim(claim, EPOCH, at, QueueOptions::direct()).await.unwrap();
    }
    let find = |id| gate.gate.find_in_flight(TEMPLATE, EPOCH, id);
    for wanted in [&claims[0], &claims[1_500], &claims[2_999]] {
        let found = find(wanted.id).await.unwrap().unwrap();
        assert_eq!((found.id, found.user, found.admitted_at), (wanted.id, wanted.user_id, at));
        gate.settle(wanted).await;
        assert_eq!(find(wanted.id).await.unwrap(), None);
    }
    // An id that is a prefix of another one must not match it.
    let shorter = claims[7].id.0 / 10;
    assert_eq!(find(ClaimId(shorter)).await.unwrap(), None);
}
