//! Looks at gates that are sold out, and their effect on users whom the gate admits later.

use std::{collections::BTreeSet, time::Duration};

use coupon::{Claim, Epoch, TemplateId, TemplateState, UserId};
use redis_gate::{OpenFacts, QueueOptions, REFUSING, Refusal, SoldOutGate, SoldOutLook, Verdict};
use testkit::until;

use crate::harness::{
    EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, now, queued_facts, refused,
};

const OTHER: UserId = UserId(71);

const NEWER: Epoch = Epoch(EPOCH.0 + 1);

fn look(users: Option<u64>) -> SoldOutLook {
    SoldOutLook { template: TEMPLATE, epoch: EPOCH, users }
}

/// Looks as a process that knows this many users.
async fn look_at(gate: &TestGate, users: Option<u64>) -> Option<SoldOutGate> {
    all(gate, &[look(users)]).await[0]
}

async fn all(gate: &TestGate, looks: &[SoldOutLook]) -> Vec<Option<SoldOutGate>> {
    gate.gate.sold_out(looks).await.into_iter().map(Result::unwrap).collect()
}

/// How long the answer to a claim of this user waits. The claim must be admitted or replayed.
async fn wait(gate: &TestGate, user: UserId, epoch: Epoch) -> Duration {
    let claim = claim(user, "a", 1);
    let asked =
        gate.gate.claim_to_answer(&claim, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(asked.0, Verdict::Admitted { .. } | Verdict::Replay { .. }), "{asked:?}");
    asked.1
}

async fn add(gate: &TestGate, seq: i64) {
    gate.gate.apply_movement(TEMPLATE, EPOCH, seq, 1, &[]).await.unwrap();
}

#[tokio::test]
async fn a_gate_that_is_sold_out_says_so_with_the_number_of_its_users() {
    let gate = TestGate::open("looked at", OpenFacts { stock: 2, ..facts() }).await;
    gate.admit(&claim(USER, "a", 1)).await;
    assert_eq!(look_at(&gate, None).await, None, "one is left");
    gate.admit(&claim(OTHER, "a", 1)).await;
    let found = look_at(&gate, None).await.unwrap();
    let window_ms = (facts().starts_at.timestamp_millis(), facts().ends_at.timestamp_millis());
    assert_eq!(found, SoldOutGate { users: 2, window_ms, limit: facts().limit.into() });
    let mut users = BTreeSet::new();
    let mut cursor = 0;
    loop {
        let (next, page) = gate.gate.users_from(TEMPLATE, EPOCH, cursor).await.unwrap();
        users.extend(page.into_iter().map(Option::unwrap));
        if next == 0 {
            break;
        }
        cursor = next;
    }
    assert_eq!(users, BTreeSet::from([USER, OTHER]));

    // Several in one call, also after Redis forgot the script; one of them is absent.
    gate.send(&["SCRIPT", "FLUSH"]).await;
    let absent = SoldOutLook { template: TemplateId(2), ..look(None) };
    assert_eq!(all(&gate, &[absent, look(Some(2))]).await, [None, Some(found)]);
    let older = SoldOutLook { epoch: Epoch(EPOCH.0 - 1), ..look(Some(2)) };
    assert_eq!(all(&gate, &[older]).await, [None]);
}

#[tokio::test]
async fn a_gate_that_refuses_for_another_reason_or_not_for_good_is_not_called_sold_out() {
    let none = OpenFacts { stock: 0, ..facts() };
    for (name, facts) in [
        ("paused", OpenFacts { state: TemplateState::Paused, ..none }),
        ("ended", OpenFacts { state: TemplateState::Ended, ..none }),
        ("without a limit", OpenFacts { limit: 0, ..none }),
    ] {
        let gate = TestGate::open(name, facts).await;
        assert_eq!(look_at(&gate, None).await, None, "{name}");
    }
    let gate = TestGate::open("lost a user", OpenFacts { stock: 1, ..facts() }).await;
    gate.admit(&claim(USER, "a", 1)).await;
    assert!(look_at(&gate, None).await.is_some());
    gate.send(&["HDEL", &gate.users(EPOCH), &USER.to_string()]).await;
    assert_eq!(look_at(&gate, None).await, None, "it answers NOT_LOADED");
    gate.send(&["SET", &gate.users(EPOCH), "x"]).await;
    assert_eq!(look_at(&gate, None).await, None, "it answers an error");
    assert!(gate.gate.begin(TEMPLATE, NEWER).await.unwrap());
    assert_eq!(look_at(&gate, None).await, None, "it is loading");
}

#[tokio::test]
async fn who_is_admitted_while_an_api_may_refuse_waits_until_it_may_not() {
    let gate = TestGate::open("noted", OpenFacts { stock: 1, ..facts() }).await;
    gate.admit(&claim(USER, "a", 1)).await;
    // Opened under a later epoch than the first, it has a note.
    until(async || wait(&gate, USER, EPOCH).await, Duration::is_zero).await;
    // Neither look permits refusals from memory: the second is by a process that does not know all users.
    for users in [None, Some(0)] {
        assert!(look_at(&gate, users).await.is_some());
    }
    assert_eq!(wait(&gate, USER, EPOCH).await, Duration::ZERO);

    let mut users = 1;
    let look_and_claim = async || {
        assert!(look_at(&gate, Some(users)).await.is_some());
        add(&gate, facts().movement + i64::try_from(users).unwrap()).await;
        assert_eq!(look_at(&gate, Some(users)).await, None, "reopened");
        users += 1;
        // The winner's claim, and its repetition.
        let winner = UserId(USER.0 + i64::try_from(users).unwrap());
        wait(&gate, winner, EPOCH).await.min(wait(&gate, winner, EPOCH).await)
    };
    // On a busy machine the claim may come only after the note is gone.
    let waits = until(look_and_claim, |waits| !waits.is_zero()).await;
    assert!(waits < 2 * REFUSING, "at most as long as refusals, and a little: {waits:?}");
    // One more user has an entry than the process knows, so this look permits no refusal.
    assert_eq!(look_at(&gate, Some(1)).await.unwrap().users, users);
    let refused = gate.claim(&claim(UserId(1), "a", 1)).await;
    let sold_out = Verdict::Refused { refusal: Refusal::SoldOut, look_in_mysql: false };
    assert_eq!(refused, sold_out);
}

#[tokio::test]
async fn a_gate_that_replaces_another_may_have_lost_its_notes_so_answers_wait() {
    let gate = TestGate::absent("replaced").await;
    let mut epoch = Epoch::FIRST;
    gate.rebuild(epoch, facts()).await;
    assert_eq!(wait(&gate, USER, epoch).await, Duration::ZERO, "there was none before");
    let rebuild_and_claim = async || {
        epoch = Epoch(epoch.0 + 1);
        gate.rebuild(epoch, facts()).await;
        wait(&gate, USER, epoch).await
    };
    until(rebuild_and_claim, |waits| !waits.is_zero()).await;
}

/// The verdict on a claim while an api may refuse its user from memory, and how long a success behind it waits.
async fn while_refused(gate: &TestGate, claim: &Claim, epoch: Epoch) -> (Verdict, Duration) {
    gate.note_refusals().await;
    gate.gate.claim_to_answer(claim, epoch, now(), QueueOptions::direct()).await.unwrap()
}

#[tokio::test]
async fn a_stored_answer_behind_a_refusal_waits_until_no_api_may_refuse_its_user() {
    let unlimited = OpenFacts { limit: 0, ..facts() };
    let asked = claim(USER, "a", 3);
    for (refusal, facts) in [
        (Refusal::SoldOut, OpenFacts { stock: 0, ..unlimited }),
        (Refusal::Insufficient { left: 2 }, OpenFacts { stock: 2, ..unlimited }),
        (Refusal::Paused, OpenFacts { state: TemplateState::Paused, ..unlimited }),
        (Refusal::Ended, OpenFacts { state: TemplateState::Ended, ..unlimited }),
        (Refusal::Closed, OpenFacts { ends_at: unlimited.starts_at, ..unlimited }),
    ] {
        let gate = TestGate::open("refused and looked up", facts).await;
        let (verdict, wait) = while_refused(&gate, &asked, EPOCH).await;
        assert_eq!(verdict, Verdict::Refused { refusal, look_in_mysql: true });
        assert!(!wait.is_zero(), "{refusal:?}");
    }
    // A refusal that is final without MySQL waits for nothing.
    let gate = TestGate::open("refused", facts()).await;
    let (verdict, wait) = while_refused(&gate, &asked, EPOCH).await;
    assert_eq!((verdict, wait), (refused(Refusal::Limit { taken: 0 }), Duration::ZERO));

    let (verdict, wait) = while_refused(&gate, &asked, NEWER).await;
    assert_eq!(verdict, Verdict::OtherEpoch(EPOCH));
    assert!(!wait.is_zero(), "MySQL may have the answer of the older epoch");

    let gate = TestGate::open("look first", queued_facts()).await;
    let first = claim(USER, "a", 1);
    gate.queue(&first).await;
    gate.release(&first).await;
    let (verdict, wait) = while_refused(&gate, &again(&first), EPOCH).await;
    assert_eq!(verdict, Verdict::LookFirst);
    assert!(!wait.is_zero());
}
