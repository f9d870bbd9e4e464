//! Text in the gate that no script wrote: it stops its user or its template, and no others.

use coupon::{ClaimMode, Epoch, TemplateId, TemplateState, UserId};
use redis_gate::{Moved, QueueOptions, REFUSING, SoldOutLook, Unloaded, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, now, queued_facts};

/// The epoch after [`EPOCH`].
const NEXT: Epoch = Epoch(EPOCH.0 + 1);

/// Texts that Lua's `tonumber` reads as numbers, and others that no script writes. `HINCRBY` takes none of them.
const NO_NUMBERS: [&str; 16] = [
    "x",
    "",
    " 5",
    "5 ",
    "5\n",
    "05",
    "-0",
    "5.0",
    "0x10",
    "1e3",
    "1e400",
    "nan",
    "-nan",
    "inf",
    "9223372036854775808",
    "5 6",
];

#[tokio::test]
async fn an_entry_that_cannot_be_read_stops_its_user_and_nobody_else() {
    let gate = TestGate::open("unreadable entry", facts()).await;
    let damaged = claim(USER, "a", 1);
    let other = claim(UserId(71), "a", 1);
    let third = claim(UserId(72), "a", 1);
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
    let fields = [
        "epoch",
        "users",
        "starts",
        "ends",
        "limit",
        "stock",
        "movement",
        "version",
        "lapses_allowed",
    ];
    let mut epoch = EPOCH;
    for (field, text) in fields.into_iter().flat_map(|field| NO_NUMBERS.map(|text| (field, text))) {
        let what = format!("{field} = {text:?}");
        gate.set_meta(field, text).await;
        assert!(!gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open(), "{what}");
        // Claims need all fields but these.
        if !["movement", "version"].contains(&field) {
            let asked = claim(USER, "a", 1);
            let sent = gate.gate.claim(&asked, epoch, now(), QueueOptions::direct());
            assert_eq!(sent.await.unwrap(), Verdict::NotLoaded, "{what}");
        }
        if ["movement", "stock", "users", "epoch"].contains(&field) {
            let moved = gate.gate.apply_movement(TEMPLATE, epoch, 2, 5, &[]).await.unwrap();
            assert_eq!(moved, Moved::NotLoaded, "{what}");
        }
        if field == "version" {
            let state = TemplateState::Published;
            let mode = ClaimMode::Direct;
            let set = gate.gate.set_state(TEMPLATE, epoch, 1, state, mode).await.unwrap();
            assert_eq!(set, Some(true), "{what}: it is readable again");
        }
        if field == "ends" {
            let gone = gate.gate.unload(TEMPLATE, epoch, now()).await.unwrap();
            assert_eq!(gone, Unloaded::Gone, "{what}");
        }
        let look = SoldOutLook { template: TEMPLATE, epoch, users: None };
        let found = gate.gate.sold_out(&[look]).await.pop().unwrap();
        assert_eq!(found.unwrap(), None, "{what}");
        epoch = Epoch(epoch.0 + 1);
        gate.rebuild(epoch, facts()).await;
        assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open(), "{what}");
    }
}

/// MySQL's epoch rises by steps, so a gate cannot be that far ahead of it.
#[tokio::test]
async fn an_epoch_that_cannot_be_one_keeps_no_other_from_beginning() {
    let gate = TestGate::open("far epoch", facts()).await;
    for (known, begins) in [
        (NEXT.0 + 1, false),
        (NEXT.0 + Epoch::LEAP_MAX, false),
        (NEXT.0 + Epoch::LEAP_MAX + 1, true),
        ((1 << 53) - 1, true),
        (i64::MAX, true),
        (i64::MIN, true),
    ] {
        gate.set_meta("epoch", &known.to_string()).await;
        assert_eq!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap(), begins, "{known}");
    }
}

/// Its rebuilder asks once more before it loads.
#[tokio::test]
async fn a_gate_that_is_loading_an_epoch_stays_as_it_is_when_that_begins_again() {
    let gate = TestGate::open("begun again", facts()).await;
    assert!(!gate.gate.begin(TEMPLATE, EPOCH).await.unwrap(), "it is open");
    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    assert!(gate.gate.load(TEMPLATE, NEXT, &[(USER, vec![1])]).await.unwrap());
    gate.send(&["SET", &gate.outbox_key(), "x"]).await;
    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    assert_eq!(gate.gate.user_count(TEMPLATE, NEXT).await.unwrap(), 1);
    assert_eq!(gate.outbox_len().await, 0, "a key of another type is gone");
    gate.send(&["DEL", &gate.meta()]).await;
    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    assert_eq!(gate.gate.user_count(TEMPLATE, NEXT).await.unwrap(), 0, "begun anew");
    assert!(gate.gate.open(TEMPLATE, NEXT, &facts()).await.unwrap());
}

#[tokio::test]
async fn a_mode_that_no_template_has_is_a_lost_gate() {
    let gate = TestGate::open("unreadable mode", facts()).await;
    for mode in ["x", "", "Queued"] {
        gate.set_meta("mode", mode).await;
        assert!(!gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open(), "{mode:?}");
        assert_eq!(gate.claim(&claim(USER, "a", 1)).await, Verdict::NotLoaded, "{mode:?}");
    }
}

/// Redis undoes nothing of a script that fails in the middle.
#[tokio::test]
async fn a_release_that_cannot_give_stock_back_ends_the_admission_all_the_same() {
    let gate = TestGate::open("release without stock", facts()).await;
    let admitted = claim(USER, "a", 1);
    gate.admit(&admitted).await;
    gate.set_meta("stock", "nan").await;
    assert_eq!(gate.release(&admitted).await, Some(true));
    assert_eq!(gate.in_flight().await, 0);
}

#[tokio::test]
async fn a_success_is_held_back_no_longer_than_a_script_notes() {
    let gate = TestGate::open("long note", facts()).await;
    let refusing = gate.meta().replace(":meta", ":refusing");
    gate.send(&["SET", &refusing, "x", "PX", "9000000000000000"]).await;
    let options = QueueOptions::direct();
    let asked = claim(USER, "a", 1);
    let answer = gate.gate.claim_to_answer(&asked, EPOCH, now(), options).await;
    let (verdict, wait) = answer.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    assert!(wait <= 2 * REFUSING, "{wait:?}");
}

/// One gate's key must not hide the others' claims from the relays.
#[tokio::test]
async fn an_outbox_of_another_type_holds_nothing_and_hides_no_other() {
    let gate = TestGate::open("outbox of another type", queued_facts()).await;
    gate.queue(&claim(USER, "a", 1)).await;
    let other = TemplateId(TEMPLATE.0 + 1);
    let foreign = gate.outbox_key().replace(&format!("{TEMPLATE}:0"), &format!("{other}:0"));
    gate.send(&["SET", &foreign, "x"]).await;
    let lengths = gate.gate.outbox_lens(&[other, TEMPLATE]).await;
    assert_eq!(lengths.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 1]);
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
    let error = gate.gate.apply_movement(TEMPLATE, EPOCH, 2, 5, &[]).await.unwrap_err();
    assert!(error.is_of_keys(), "{error}");
    gate.rebuild(NEXT, facts()).await;
    assert!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().is_open());
}
