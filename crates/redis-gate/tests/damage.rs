//! Text in the gate that no script wrote: it stops its user or its template, and no others.

use coupon::{ClaimMode, Epoch, TemplateState, UserId};
use redis_gate::{Moved, QueueOptions, Unloaded, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, now, queued_facts};

/// The epoch after [`EPOCH`].
const NEXT: Epoch = Epoch(EPOCH.0 + 1);

#[tokio::test]
async fn an_entry_that_cannot_be_read_stops_its_user_and_nobody_else() {
    let gate = TestGate::open("unreadable entry", facts()).await;
    let (damaged, other, third) =
        (claim(USER, "a", 1), claim(UserId(71), "a", 1), claim(UserId(72), "a", 1));
    for claim in [&damaged, &other, &third] {
        gate.admit(claim).await;
    }
    let users = gate.users(EPOCH);
    for text in ["garbage", "", "\u{1}", "\u{1}\0\u{1}1too short"] {
        gate.send(&["HSET", &users, "70", text]).await;
        gate.send(&["HDEL", &gate.meta(), "unreadable"]).await;
        assert_eq!(gate.claim(&again(&damaged)).await, Verdict::NotLoaded, "{text:?}");
        let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
        assert_eq!(meta.unreadable.as_deref(), Some("70"), "{text:?}");
    }
    let all = [&damaged, &other].map(|claim| (claim.user_id, claim.id));
    assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, &all).await.unwrap(), Some(1));
    assert_eq!(gate.release(&damaged).await, Some(false), "nobody knows what it took");
    assert_eq!(gate.release(&third).await, Some(true));
    assert_eq!(gate.in_flight().await, 0);
    gate.admit(&claim(UserId(71), "b", 1)).await;

    gate.rebuild(NEXT, facts()).await;
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!(meta.unreadable, None);
    let verdict =
        gate.gate.claim(&again(&damaged), NEXT, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_number_that_cannot_be_read_is_a_lost_gate_which_the_next_epoch_replaces() {
    let gate = TestGate::open("unreadable number", facts()).await;
    for field in ["epoch", "users", "starts", "ends", "limit", "stock", "movement", "version"] {
        gate.set_meta(field, "x").await;
        assert!(!gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open(), "{field}");
        // Claims need all fields but these.
        if !["movement", "version", "epoch"].contains(&field) {
            assert_eq!(gate.claim(&claim(USER, "a", 1)).await, Verdict::NotLoaded, "{field}");
        }
        if ["movement", "stock"].contains(&field) {
            let moved = gate.gate.apply_movement(TEMPLATE, EPOCH, (2, 5), &[]).await.unwrap();
            assert_eq!(moved, Moved::NotLoaded, "{field}");
        }
        if field == "version" {
            let state = TemplateState::Published;
            let mode = ClaimMode::Direct;
            let set = gate.gate.set_state(TEMPLATE, EPOCH, 1, state, mode).await.unwrap();
            assert_eq!(set, Some(true), "it is readable again");
        }
        if field == "ends" {
            let gone = gate.gate.unload(TEMPLATE, EPOCH, now()).await.unwrap();
            assert_eq!(gone, Unloaded::Gone);
        }
        gate.send(&["DEL", &gate.meta()]).await;
        gate.rebuild(EPOCH, facts()).await;
    }
    gate.set_meta("epoch", "x").await;
    gate.rebuild(NEXT, facts()).await;
    assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open());
}

#[tokio::test]
async fn a_state_that_no_template_has_is_a_lost_gate_and_no_pause() {
    let gate = TestGate::open("unreadable state", facts()).await;
    for state in [&b"x"[..], b"", b"\xff"] {
        gate.send_bytes(&[b"HSET", gate.meta().as_bytes(), b"state", state]).await;
        assert!(!gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open(), "{state:?}");
        assert_eq!(gate.claim(&claim(USER, "a", 1)).await, Verdict::NotLoaded, "{state:?}");
    }
    gate.rebuild(NEXT, facts()).await;
    assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open());
}

/// A driver that cannot convert an answer would drop the connection, for every other call too.
#[tokio::test]
async fn bytes_that_are_no_text_are_counted_or_passed_over_like_any_other_damage() {
    let gate = TestGate::open("no text", queued_facts()).await;
    let first = claim(USER, "a", 1);
    gate.queue(&first).await;
    let garbage = b"\xff\xfe";
    for (key, score) in [(gate.in_flight_key(EPOCH), b"1"), (gate.queued_key(EPOCH), b"2")] {
        gate.send_bytes(&[b"ZADD", key.as_bytes(), score, garbage]).await;
        gate.send_bytes(&[b"ZADD", key.as_bytes(), b"1.5", b"5:6"]).await;
    }
    gate.send_bytes(&[b"HSET", gate.users(EPOCH).as_bytes(), garbage, garbage]).await;
    gate.send_bytes(&[b"HSET", gate.meta().as_bytes(), garbage, garbage]).await;
    let prefix = gate.outbox_key().replace(&format!("{TEMPLATE}:0"), "?");
    let (before, behind) = prefix.split_once('?').unwrap();
    let stream = [before.as_bytes(), garbage, behind.as_bytes()].concat();
    gate.send_bytes(&[b"XADD", &stream, b"*", b"a", b"b"]).await;

    let flights = gate.gate.in_flight(TEMPLATE, EPOCH, now(), 0, 9).await.unwrap();
    assert_eq!((flights.admissions.len(), flights.unreadable), (0, 2));
    let flights = gate.gate.queued_flights(TEMPLATE, EPOCH, now(), 0, 9).await.unwrap();
    assert_eq!((flights.admissions.len(), flights.unreadable), (1, 2));
    let found = gate.gate.find_in_flight(TEMPLATE, EPOCH, first.id).await.unwrap();
    assert_eq!(found.map(|found| found.user), Some(USER));
    assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open());
    assert!(gate.gate.account(TEMPLATE, EPOCH).await.unwrap().is_some());
    let (_, entries) = gate.gate.entries_from(TEMPLATE, EPOCH, 0).await.unwrap();
    assert_eq!(entries.iter().filter(|(_, entry)| entry.is_none()).count(), 1);
    assert_eq!(gate.gate.outboxes().await.unwrap(), [TEMPLATE]);
}

/// Redis undoes nothing of a script that fails in the middle.
#[tokio::test]
async fn a_claim_that_cannot_be_noted_in_flight_takes_nothing() {
    let gate = TestGate::open("wrong in flight", facts()).await;
    gate.send(&["SET", &gate.in_flight_key(EPOCH), "x"]).await;
    let error = gate
        .gate
        .claim(&claim(USER, "a", 1), EPOCH, now(), QueueOptions::direct())
        .await
        .unwrap_err();
    assert!(error.is_of_keys(), "{error}");
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.stock, meta.users), (facts().stock, 0));
}

#[tokio::test]
async fn a_key_of_another_type_is_named_as_such_and_replaced_by_the_next_epoch() {
    let gate = TestGate::open("wrong type", facts()).await;
    gate.send(&["SET", &gate.users(EPOCH), "x"]).await;
    let error = gate
        .gate
        .claim(&claim(USER, "a", 1), EPOCH, now(), QueueOptions::direct())
        .await
        .unwrap_err();
    assert!(error.is_of_keys(), "{error}");
    gate.send(&["SET", &gate.meta(), "x"]).await;
    assert!(gate.gate.meta(TEMPLATE).await.unwrap_err().is_of_keys());
    let error = gate.gate.apply_movement(TEMPLATE, EPOCH, (2, 5), &[]).await.unwrap_err();
    assert!(error.is_of_keys(), "{error}");
    gate.rebuild(NEXT, facts()).await;
    assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open());
}
