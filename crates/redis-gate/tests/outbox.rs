//! The outbox: which entries relays get, and which process may remove them.

use std::{slice, time::Duration};

use coupon::{
    AcceptAfter, Admission, Claim, ClaimId, ClaimMode, Epoch, QueuedClaim, TemplateId,
    TemplateState, UserId,
};
use redis_gate::{Gate, GateRedis, OutboxFrom, OutboxRead, QueueOptions, Run, Verdict};

use crate::harness::{
    EPOCH, OwnRedis, TEMPLATE, TestGate, USER, again, claim, now, queued_facts, raw, send,
};

/// The epoch after [`EPOCH`].
const NEXT: Epoch = Epoch(EPOCH.0 + 1);

const OTHER: UserId = UserId(71);

/// Server settings of a production gate.
const KEPT: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// More entries than a test has.
const MANY: usize = 10;

async fn read(gate: &TestGate, worker: &str, from: OutboxFrom) -> OutboxRead {
    gate.gate.read_outbox(TEMPLATE, worker, from, MANY).await.unwrap()
}

/// The ids of the entries that a worker is given.
async fn given(gate: &TestGate, worker: &str, from: OutboxFrom) -> Vec<String> {
    read(gate, worker, from).await.entries.into_iter().map(|entry| entry.id).collect()
}

#[tokio::test]
async fn a_relay_is_given_the_claim_as_it_was_admitted() {
    let gate = TestGate::open("outbox claim", queued_facts()).await;
    let trace_parent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    let asked = Claim { trace_parent, ..claim(USER, "a", 2) };
    let queueing = QueueOptions { accept_after: AcceptAfter::Gate, ..QueueOptions::direct() };
    let verdict = gate.gate.claim(&asked, EPOCH, now(), queueing).await.unwrap();
    let Verdict::Queued { numbers, left, entry, run, .. } = verdict else { panic!("{verdict:?}") };
    let read = read(&gate, "worker", OutboxFrom::New).await;
    assert_eq!((read.run, read.entries.len()), (run, 1));
    assert_eq!(read.entries[0].id, entry);
    let expected = QueuedClaim {
        admission: Admission { claim: asked.clone(), epoch: EPOCH, numbers },
        accept_after: AcceptAfter::Gate,
        admitted_at: now(),
        left_after: Some(left),
    };
    assert_eq!(read.entries[0].claim, Ok(expected));
    let looked_for = [asked.id, ClaimId(77)].into();
    let missing = gate.gate.missing_in_outbox(TEMPLATE, looked_for).await.unwrap();
    assert_eq!(missing, [ClaimId(77)].into());
}

#[tokio::test]
async fn entries_older_than_the_group_are_given_once_and_stay_until_they_are_removed() {
    let gate = TestGate::open("outbox group", queued_facts()).await;
    let (_, first, run) = gate.queue(&claim(USER, "a", 1)).await;
    let (_, second, _) = gate.queue(&claim(OTHER, "a", 1)).await;
    let both = [&*first, &*second];
    assert_eq!(given(&gate, "one", OutboxFrom::New).await, both);
    assert!(given(&gate, "two", OutboxFrom::New).await.is_empty());
    assert!(given(&gate, "two", OutboxFrom::Leftovers).await.is_empty());
    assert_eq!(given(&gate, "one", OutboxFrom::Leftovers).await, both);
    for _ in 0..2 {
        assert!(gate.gate.trim_outbox(TEMPLATE, &run, slice::from_ref(&first)).await.unwrap());
        assert_eq!(given(&gate, "one", OutboxFrom::Leftovers).await, [&*second]);
        assert_eq!(gate.outbox_len().await, 1);
    }
    let (_, third, _) = gate.queue(&claim(OTHER, "b", 1)).await;
    assert_eq!(given(&gate, "two", OutboxFrom::New).await, [&*third]);
    assert!(gate.gate.trim_outbox(TEMPLATE, &run, &[second, third]).await.unwrap());
    assert_eq!(gate.outbox_len().await, 0);
    assert!(given(&gate, "one", OutboxFrom::Leftovers).await.is_empty());
}

#[tokio::test]
async fn the_lengths_of_thousands_of_outboxes_come_in_their_order() {
    let gate = TestGate::open("outbox lengths", queued_facts()).await;
    gate.queue(&claim(USER, "a", 1)).await;
    gate.queue(&claim(OTHER, "a", 1)).await;
    let mut asked: Vec<TemplateId> = (1..=2_500).map(|n| TemplateId(TEMPLATE.0 + n)).collect();
    asked[1_700] = TEMPLATE;
    let mut lengths = vec![0; asked.len()];
    lengths[1_700] = 2;
    let counted = gate.gate.outbox_lens(&asked).await;
    assert_eq!(counted.into_iter().map(Result::unwrap).collect::<Vec<_>>(), lengths);
    assert!(gate.gate.outbox_lens(&[]).await.is_empty());
}

#[tokio::test]
async fn a_dead_relays_entries_are_taken_over_once_they_were_idle_long_enough() {
    let gate = TestGate::open("outbox takeover", queued_facts()).await;
    let (_, entry, _) = gate.queue(&claim(USER, "a", 1)).await;
    let take = async |idle| {
        let taken = gate.gate.take_over_outbox(TEMPLATE, "alive", idle, MANY).await.unwrap();
        taken.entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    assert!(take(Duration::ZERO).await.is_empty(), "nobody was given it");
    assert_eq!(given(&gate, "dead", OutboxFrom::New).await, [&*entry]);
    assert!(take(Duration::from_hours(1)).await.is_empty());
    assert_eq!(take(Duration::ZERO).await, [&*entry]);
    assert!(given(&gate, "dead", OutboxFrom::Leftovers).await.is_empty());
    assert_eq!(given(&gate, "alive", OutboxFrom::Leftovers).await, [&*entry]);
    gate.send(&["XDEL", &gate.outbox_key(), &entry]).await;
    assert!(take(Duration::ZERO).await.is_empty(), "it is gone");
}

#[tokio::test]
async fn without_an_outbox_there_is_nothing_to_read_and_none_is_made() {
    let gate = TestGate::open("no outbox", queued_facts()).await;
    let before = gate.memory().await;
    assert!(given(&gate, "worker", OutboxFrom::New).await.is_empty());
    let taken = gate.gate.take_over_outbox(TEMPLATE, "worker", Duration::ZERO, MANY).await;
    assert!(taken.unwrap().entries.is_empty());
    assert_eq!(gate.outbox_len().await, 0);
    let looked_for = [ClaimId(77)].into();
    assert_eq!(gate.gate.missing_in_outbox(TEMPLATE, looked_for).await.unwrap().len(), 1);
    assert!(gate.gate.outboxes().await.unwrap().is_empty());
    assert_eq!(gate.memory().await, before);
}

#[tokio::test]
async fn outboxes_are_found_in_redis_whatever_became_of_their_gates() {
    let gate = TestGate::open("outboxes", queued_facts()).await;
    gate.queue(&claim(USER, "a", 1)).await;
    gate.send(&["DEL", &gate.meta()]).await;
    gate.send(&["SET", &gate.outbox_key().replace("{1:", "{2:"), "no stream"]).await;
    assert_eq!(gate.gate.outboxes().await.unwrap(), [TEMPLATE]);
}

#[tokio::test]
async fn a_published_claim_is_confirmed_only_by_its_own_gate_and_leaves_the_outbox() {
    let gate = TestGate::open("published", queued_facts()).await;
    let first = claim(USER, "a", 1);
    let (_, entry, run) = gate.queue(&first).await;
    let server = OwnRedis::start("other run", &[]).await;
    let other = Gate::new(GateRedis::connect(&server.url).await.unwrap(), "");
    let other = other.run_of(TEMPLATE).await.unwrap();
    let confirm = async |epoch: Epoch, run: &Run, user: UserId, entry: Option<&str>| {
        gate.gate.published(TEMPLATE, epoch, run, user, first.id, entry).await.unwrap()
    };
    let before = gate.memory().await;
    assert!(!confirm(NEXT, &run, USER, Some(&*entry)).await);
    assert!(!confirm(EPOCH, &other, USER, Some(&*entry)).await);
    assert!(!confirm(EPOCH, &run, OTHER, Some(&*entry)).await);
    assert_eq!(gate.memory().await, before);
    // A relay may get the entry at the same time.
    assert_eq!(given(&gate, "relay", OutboxFrom::New).await, [&*entry]);
    assert!(confirm(EPOCH, &run, USER, None).await);
    assert_eq!(gate.outbox_len().await, 1, "without its id it is the relay's to remove");
    for _ in 0..2 {
        assert!(confirm(EPOCH, &run, USER, Some(&*entry)).await);
        assert_eq!(gate.outbox_len().await, 0);
        assert!(given(&gate, "relay", OutboxFrom::Leftovers).await.is_empty());
    }
    gate.settle(&first).await;
    assert!(confirm(EPOCH, &run, USER, None).await, "it has landed meanwhile");
    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    for epoch in [EPOCH, NEXT] {
        assert!(!confirm(epoch, &run, USER, None).await, "a rebuild has begun");
    }
}

#[tokio::test]
async fn a_claim_that_was_released_is_not_confirmed() {
    let gate = TestGate::open("published late", queued_facts()).await;
    let first = claim(USER, "a", 1);
    let (_, entry, run) = gate.queue(&first).await;
    gate.release(&first).await;
    let confirmed =
        gate.gate.published(TEMPLATE, EPOCH, &run, USER, first.id, Some(&entry)).await.unwrap();
    assert!(!confirmed);
    assert_eq!(gate.outbox_len().await, 1, "relays end it");
    // A pending claim of the direct way cannot be confirmed as published.
    let state = TemplateState::Published;
    gate.gate.set_state(TEMPLATE, EPOCH, 2, state, ClaimMode::Direct).await.unwrap();
    let direct = again(&first);
    gate.admit(&direct).await;
    let confirmed = gate.gate.published(TEMPLATE, EPOCH, &run, USER, direct.id, None).await;
    assert!(!confirmed.unwrap());
}

#[tokio::test]
async fn entries_that_were_removed_meanwhile_are_no_leftovers() {
    let gate = TestGate::open("outbox gaps", queued_facts()).await;
    for key in ["a", "b"] {
        gate.queue(&claim(USER, key, 1)).await;
    }
    let (_, last, _) = gate.queue(&claim(OTHER, "a", 1)).await;
    let all = given(&gate, "worker", OutboxFrom::New).await;
    gate.send(&["XDEL", &gate.outbox_key(), &all[0], &all[1]]).await;
    // A page that holds only such entries is not the end.
    let page = gate.gate.read_outbox(TEMPLATE, "worker", OutboxFrom::Leftovers, 2).await.unwrap();
    assert_eq!(page.entries[0].id, last);
    gate.send(&["XDEL", &gate.outbox_key(), &last]).await;
    assert!(given(&gate, "worker", OutboxFrom::Leftovers).await.is_empty());
    let pending = send(&mut raw(&gate.url).await, &["XPENDING", &gate.outbox_key(), "relay"]).await;
    assert!(
        matches!(&pending, redis::Value::Array(counts) if counts[0] == redis::Value::Int(0)),
        "{pending:?}"
    );
}

#[tokio::test]
async fn entries_read_before_a_restart_are_removed_only_after_they_were_read_again() {
    let mut server = OwnRedis::start("outbox restart", KEPT).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, queued_facts()).await;
    let first = claim(USER, "a", 1);
    let (_, entry, run) = gate.queue(&first).await;
    assert_eq!(read(&gate, "worker", OutboxFrom::New).await.run, run);
    server.crash_and_start(KEPT).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    assert!(!gate.gate.trim_outbox(TEMPLATE, &run, slice::from_ref(&entry)).await.unwrap());
    // Meta and the claim still have the previous run; the server has a new one.
    let confirmed =
        gate.gate.published(TEMPLATE, EPOCH, &run, USER, first.id, Some(&entry)).await.unwrap();
    assert!(!confirmed);
    assert_eq!(gate.outbox_len().await, 1);
    let again = read(&gate, "worker", OutboxFrom::Leftovers).await;
    assert!(again.run != run && again.entries[0].id == entry);
    assert!(gate.gate.trim_outbox(TEMPLATE, &again.run, &[entry]).await.unwrap());
    assert_eq!(gate.outbox_len().await, 0, "the gate needs no rebuild for that");
}

/// A master that was a replica for a moment has another server's data, and perhaps the same connections.
#[tokio::test]
async fn a_server_whose_history_changed_under_a_connection_removes_nothing_for_it() {
    let server = OwnRedis::start("outbox history", &["--enable-debug-command", "yes"]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, queued_facts()).await;
    let (_, entry, run) = gate.queue(&claim(USER, "a", 1)).await;
    assert_eq!(given(&gate, "worker", OutboxFrom::New).await, [&*entry]);
    gate.send(&["DEBUG", "CHANGE-REPL-ID"]).await;
    assert!(!gate.gate.trim_outbox(TEMPLATE, &run, slice::from_ref(&entry)).await.unwrap());
    assert_eq!(gate.outbox_len().await, 1);
    let again = read(&gate, "worker", OutboxFrom::Leftovers).await;
    assert!(gate.gate.trim_outbox(TEMPLATE, &again.run, &[entry]).await.unwrap());
    assert_eq!(gate.outbox_len().await, 0);
}

#[tokio::test]
async fn a_full_redis_still_hands_out_its_outbox() {
    let server = OwnRedis::start("outbox memory", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, queued_facts()).await;
    let first = claim(USER, "a", 1);
    let second = claim(OTHER, "a", 1);
    let (_, confirmed, run) = gate.queue(&first).await;
    let (_, relayed, _) = gate.queue(&second).await;
    gate.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused =
        gate.gate.claim(&claim(OTHER, "b", 1), EPOCH, now(), QueueOptions::direct()).await;
    assert!(refused.is_err_and(|error| error.is_out_of_memory()));
    // The group too is created only now.
    assert_eq!(given(&gate, "worker", OutboxFrom::New).await.len(), 2);
    let call = gate.gate.published(TEMPLATE, EPOCH, &run, USER, first.id, Some(&confirmed));
    assert!(call.await.unwrap());
    assert!(gate.gate.trim_outbox(TEMPLATE, &run, &[relayed]).await.unwrap());
    assert_eq!(gate.outbox_len().await, 0);
}

#[tokio::test]
async fn an_entry_that_no_script_wrote_is_named_and_can_be_removed() {
    let gate = TestGate::open("foreign entry", queued_facts()).await;
    // Its id says that it is from 1970.
    gate.send(&["XADD", &gate.outbox_key(), "1-1", "user", "70", "what", "\u{1b}"]).await;
    gate.queue(&claim(USER, "a", 1)).await;
    let read = read(&gate, "worker", OutboxFrom::New).await;
    let [foreign, ours] = &*read.entries else { panic!("{read:?}") };
    let error = foreign.claim.as_ref().unwrap_err();
    assert!(error.entry.contains("user=70") && error.entry.contains("what=\\x1b"), "{error:?}");
    assert!(foreign.age > ours.age + Duration::from_hours(24));
    assert!(ours.claim.is_ok());
    assert!(
        gate.gate.trim_outbox(TEMPLATE, &read.run, slice::from_ref(&foreign.id)).await.unwrap()
    );
    assert_eq!(given(&gate, "worker", OutboxFrom::Leftovers).await, [&*ours.id]);
}
