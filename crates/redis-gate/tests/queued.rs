//! Queued claims at the gate: which door a claim takes, and how it leaves.

use chrono::TimeDelta;
use coupon::{ClaimMode, Epoch, TemplateState, UserId};
use redis_gate::{
    OUTBOX_MAX, OpenFacts, QUEUED_PER_USER_MAX, QueueOptions, Refusal, RequestState, Unloaded,
    Verdict,
};

use crate::harness::{
    EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, now, queued_facts, refused,
};

/// The epoch after [`EPOCH`].
const NEXT: Epoch = Epoch(EPOCH.0 + 1);

const OTHER: UserId = UserId(71);

#[tokio::test]
async fn a_queued_claim_takes_what_an_admission_takes_and_is_not_in_flight() {
    let gate = TestGate::open("queued", queued_facts()).await;
    let first = claim(USER, "a", 2);
    let run = gate.gate.run_of(TEMPLATE).await.unwrap();
    let Verdict::Queued { numbers, left, entry, look_in_mysql, run: of } = gate.claim(&first).await
    else {
        panic!("not queued")
    };
    assert_eq!((numbers, left, look_in_mysql, of), (vec![1, 2], 8, false, run));
    assert!(entry.contains('-'), "{entry}");
    assert_eq!((gate.stock().await, gate.in_flight().await), (8, 0));
    assert_eq!((gate.queued().await, gate.outbox_len().await), (1, 1));
    let there = gate.entry(USER).await;
    assert_eq!((there.taken, there.look_in_mysql), (vec![1, 2], false));
    assert_eq!(there.requests[0].state, RequestState::Queued);
    let flights = gate.gate.queued_flights(TEMPLATE, EPOCH, now(), 0, 10).await.unwrap();
    let flight = flights.admissions[0];
    assert_eq!((flight.id, flight.user, flight.admitted_at), (first.id, USER, now()));
    let found = gate.gate.find_in_flight(TEMPLATE, EPOCH, first.id).await.unwrap();
    assert_eq!(found, Some(flight));
}

/// The layout is a contract with every version that shares the gate: `lua/gate/includes/entry.lua`.
#[tokio::test]
async fn a_queued_request_has_a_state_of_its_own_in_the_entry() {
    let gate = TestGate::open("queued bytes", queued_facts()).await;
    let first = claim(USER, "a", 2);
    gate.queue(&first).await;
    let id = first.id.to_string();
    let mut entry = b"\x01\x00\x0211".to_vec();
    entry.extend(first.request_id.digest());
    entry.extend(first.payload_hash.0);
    entry.extend(b"q\x02");
    entry.extend([u8::try_from(id.len()).unwrap()]);
    entry.extend(id.as_bytes());
    entry.extend(b"\x02\x01\x02");
    assert_eq!(gate.memory().await[&gate.users(EPOCH)][USER.to_string().as_bytes()], entry);
}

#[tokio::test]
async fn the_gate_decides_the_door_and_hears_the_caller_only_in_mode_spill() {
    let doors = [
        (ClaimMode::Direct, [false, false]),
        (ClaimMode::Spill, [false, true]),
        (ClaimMode::Queued, [true, true]),
    ];
    for (mode, queues) in doors {
        let gate = TestGate::open("doors", OpenFacts { mode, ..facts() }).await;
        for (behind, queues) in [false, true].into_iter().zip(queues) {
            let queueing = QueueOptions { behind, ..QueueOptions::direct() };
            let claim = claim(USER, &format!("{behind}"), 1);
            let verdict = gate.gate.claim(&claim, EPOCH, now(), queueing).await.unwrap();
            assert_eq!(matches!(verdict, Verdict::Queued { .. }), queues, "{mode:?} {verdict:?}");
            assert_eq!(matches!(verdict, Verdict::Admitted { .. }), !queues, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_mode_is_taken_with_the_state_if_its_version_is_newer() {
    let gate = TestGate::open("modes", OpenFacts { version: 2, ..facts() }).await;
    let published = TemplateState::Published;
    let set = async |epoch, version, mode| {
        gate.gate.set_state(TEMPLATE, epoch, version, published, mode).await.unwrap()
    };
    assert_eq!(set(EPOCH, 3, ClaimMode::Queued).await, Some(true));
    for version in [2, 3] {
        assert_eq!(set(EPOCH, version, ClaimMode::Direct).await, Some(false));
    }
    gate.queue(&claim(USER, "a", 1)).await;
    assert_eq!(set(EPOCH, 4, ClaimMode::Direct).await, Some(true));
    gate.admit(&claim(USER, "b", 1)).await;

    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    assert_eq!(set(NEXT, 6, ClaimMode::Spill).await, Some(true));
    // Facts read from MySQL before that change.
    assert!(gate.gate.open(TEMPLATE, NEXT, &OpenFacts { version: 5, ..facts() }).await.unwrap());
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.version, meta.mode), (6, ClaimMode::Spill));
}

#[tokio::test]
async fn a_gate_that_was_not_told_its_mode_is_direct() {
    let gate = TestGate::open("no mode", queued_facts()).await;
    gate.send(&["HDEL", &gate.meta(), "mode"]).await;
    gate.admit(&claim(USER, "a", 1)).await;
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().mode, ClaimMode::Direct);
    assert_eq!((gate.outbox_len().await, gate.queued().await), (0, 0));
}

#[tokio::test]
async fn a_replay_goes_through_either_door_and_a_queued_one_has_its_time() {
    let gate = TestGate::open("queued replay", queued_facts()).await;
    let queued = claim(USER, "a", 1);
    let direct = claim(OTHER, "a", 1);
    let (numbers, _, run) = gate.queue(&queued).await;
    let state = TemplateState::Published;
    gate.gate.set_state(TEMPLATE, EPOCH, 2, state, ClaimMode::Direct).await.unwrap();
    gate.admit(&direct).await;
    let replay = Verdict::Replay {
        id: queued.id,
        state: RequestState::Queued,
        numbers,
        look_in_mysql: false,
        admitted_at: Some(now()),
        run,
    };
    for state in ["published", "paused", "ended"] {
        gate.set_meta("state", state).await;
        let later = now() + TimeDelta::milliseconds(500);
        let verdict = gate.gate.claim(&again(&queued), EPOCH, later, QueueOptions::direct()).await;
        assert_eq!(verdict.unwrap(), replay, "{state}");
    }
    gate.set_meta("mode", "queued").await;
    let pending = gate.replay_of(&direct, RequestState::Pending).await;
    assert_eq!(gate.claim(&again(&direct)).await, pending);
    assert_eq!(gate.claim(&claim(USER, "a", 2)).await, Verdict::KeyReused);
    assert_eq!((gate.queued().await, gate.outbox_len().await), (1, 1), "a replay adds nothing");
}

#[tokio::test]
async fn a_queued_claim_of_a_loaded_user_is_looked_up_first() {
    let gate = TestGate::absent("queued look").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    // The user with coupons keeps them, in whichever order the two are loaded.
    assert!(gate.gate.load_rejected(TEMPLATE, EPOCH, &[USER, OTHER]).await.unwrap());
    assert!(gate.gate.load(TEMPLATE, EPOCH, &[(USER, vec![2])]).await.unwrap());
    assert!(gate.gate.load_rejected(TEMPLATE, EPOCH, &[USER, OTHER]).await.unwrap());
    let limit = 3;
    let facts = OpenFacts { limit, ..queued_facts() };
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    assert!(!gate.gate.load_rejected(TEMPLATE, EPOCH, &[UserId(72)]).await.unwrap());
    assert_eq!(gate.gate.meta(TEMPLATE).await.unwrap().unwrap().users, 2);
    let looks =
        [(USER, vec![1, 3], true), (OTHER, vec![1, 2], true), (UserId(72), vec![1, 2], false)];
    for (user, expected, look) in looks {
        let asked = claim(user, "a", 2);
        let before = gate.memory().await;
        if look {
            assert_eq!(gate.claim(&asked).await, Verdict::LookFirst, "{user}");
            assert_eq!(gate.memory().await, before, "nothing is taken");
        }
        let verdict = gate.claim_looked(&asked).await;
        let Verdict::Queued { numbers, look_in_mysql, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!((numbers, look_in_mysql), (expected, look), "{user}");
        let replay = gate.claim(&again(&asked)).await;
        let Verdict::Replay { look_in_mysql, .. } = replay else { panic!("{replay:?}") };
        assert_eq!(look_in_mysql, look, "{user}");
    }
}

#[tokio::test]
async fn without_a_limit_a_queued_claim_is_looked_up_first_only_where_the_entry_says_so() {
    let gate = TestGate::absent("queued unlimited").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert!(gate.gate.load_rejected(TEMPLATE, EPOCH, &[OTHER]).await.unwrap());
    let facts = OpenFacts { limit: 0, ..queued_facts() };
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    for (user, look) in [(USER, false), (OTHER, true)] {
        let verdict = gate.claim_looked(&claim(user, "a", 2)).await;
        let Verdict::Queued { look_in_mysql, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(look_in_mysql, look, "{user}");
    }
}

#[tokio::test]
async fn a_queued_claim_that_landed_is_settled_once_and_never_released() {
    let gate = TestGate::open("queued settle", queued_facts()).await;
    let first = claim(USER, "a", 1);
    gate.queue(&first).await;
    assert_eq!(gate.settle(&first).await, Some(1));
    assert_eq!(gate.settle(&first).await, Some(0));
    assert_eq!(gate.release(&first).await, Some(false));
    assert_eq!((gate.queued().await, gate.stock().await), (0, 9));
    let replay = gate.replay_of(&first, RequestState::Landed).await;
    assert_eq!(gate.claim(&again(&first)).await, replay);
}

#[tokio::test]
async fn a_rejected_claim_gives_everything_back_and_its_key_is_looked_up_from_then_on() {
    let gate = TestGate::open("queued release", queued_facts()).await;
    let first = claim(USER, "a", 2);
    gate.queue(&first).await;
    assert_eq!(gate.release(&first).await, Some(true));
    assert_eq!(gate.release(&first).await, Some(false));
    assert_eq!((gate.queued().await, gate.stock().await), (0, 10));
    let entry = gate.entry(USER).await;
    assert_eq!((entry.taken, entry.requests.len(), entry.look_in_mysql), (vec![], 0, true));
    assert_eq!(gate.claim(&again(&first)).await, Verdict::LookFirst);
    let verdict = gate.claim_looked(&again(&first)).await;
    assert!(matches!(verdict, Verdict::Queued { look_in_mysql: true, .. }), "{verdict:?}");

    // A direct admission leaves no answer under its key.
    gate.set_meta("mode", "direct").await;
    let direct = claim(OTHER, "a", 2);
    gate.admit(&direct).await;
    assert_eq!(gate.release(&direct).await, Some(true));
    assert!(!gate.entry(OTHER).await.look_in_mysql);
}

#[tokio::test]
async fn a_full_outbox_refuses_what_would_be_queued_and_nothing_else() {
    let gate = TestGate::open("full outbox", queued_facts()).await;
    let first = claim(USER, "a", 1);
    gate.queue(&first).await;
    let fill = "for _ = 2, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'a', 'b') end";
    let outbox = gate.outbox_key();
    let most = OUTBOX_MAX.to_string();
    gate.send(&["EVAL", fill, "1", &outbox, &most]).await;
    let before = gate.memory().await;
    assert_eq!(gate.claim(&claim(OTHER, "a", 1)).await, Verdict::OutboxFull);
    let replay = gate.claim(&again(&first)).await;
    assert!(matches!(replay, Verdict::Replay { .. }), "{replay:?}");
    let limit = gate.claim(&claim(USER, "b", 2)).await;
    assert_eq!(limit, refused(Refusal::Limit { taken: 1 }));
    assert_eq!(gate.memory().await, before);
    gate.set_meta("mode", "spill").await;
    gate.admit(&claim(OTHER, "a", 1)).await;
    gate.send(&["XTRIM", &outbox, "MAXLEN", "=", "99999"]).await;
    gate.set_meta("mode", "queued").await;
    gate.queue(&claim(OTHER, "b", 1)).await;
    assert_eq!(gate.claim(&claim(UserId(72), "a", 1)).await, Verdict::OutboxFull);
}

/// Without a limit on coupons, nothing else bounds what each call of this user decodes.
#[tokio::test]
async fn a_user_with_hundreds_of_queued_claims_waits_for_them_and_nobody_else_does() {
    let gate =
        TestGate::open("much queued", OpenFacts { limit: 0, stock: 9_999, ..queued_facts() }).await;
    let claims: Vec<_> =
        (0..QUEUED_PER_USER_MAX).map(|at| claim(USER, &format!("key-{at}"), 1)).collect();
    for claim in &claims {
        gate.queue(claim).await;
    }
    let before = gate.memory().await;
    assert_eq!(gate.claim(&claim(USER, "more", 1)).await, Verdict::TooManyQueued);
    let replay = gate.claim(&again(&claims[7])).await;
    assert!(matches!(replay, Verdict::Replay { .. }), "{replay:?}");
    assert_eq!(gate.memory().await, before);
    gate.queue(&claim(OTHER, "a", 1)).await;
    let landed: Vec<_> = claims.iter().map(|claim| (USER, claim.id)).collect();
    for some in landed.chunks(50) {
        assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, some).await.unwrap(), Some(50));
    }
    assert_eq!(gate.gate.settle(TEMPLATE, EPOCH, &landed).await.unwrap(), Some(0), "once");
    assert_eq!(gate.queued().await, 1);
    let entry = gate.entry(USER).await;
    let kept: Vec<_> = entry.requests.iter().map(|request| request.id).collect();
    let newest: Vec<_> =
        claims[QUEUED_PER_USER_MAX - kept.len()..].iter().map(|claim| claim.id).collect();
    assert_eq!((kept.len(), kept), (32, newest));
    gate.queue(&claim(USER, "more", 1)).await;
}

#[tokio::test]
async fn a_gate_is_not_unloaded_before_its_queue_and_its_outbox_are_empty() {
    let gate = TestGate::open("unload queued", queued_facts()).await;
    let first = claim(USER, "a", 1);
    let (_, entry, run) = gate.queue(&first).await;
    let ended = TemplateState::Ended;
    let mode = ClaimMode::Queued;
    gate.gate.set_state(TEMPLATE, EPOCH, 2, ended, mode).await.unwrap();
    let unload = async || gate.gate.unload(TEMPLATE, EPOCH, now()).await.unwrap();
    assert_eq!(unload().await, Unloaded::InFlight);
    gate.settle(&first).await;
    assert_eq!(unload().await, Unloaded::InFlight, "its claim is in the outbox");
    assert!(gate.gate.trim_outbox(TEMPLATE, &run, &[entry]).await.unwrap());
    assert_eq!(unload().await, Unloaded::Gone);
    assert!(gate.memory().await.is_empty());
}

#[tokio::test]
async fn an_outbox_outlives_its_gate_and_every_epoch() {
    let gate = TestGate::open("outbox stays", queued_facts()).await;
    gate.queue(&claim(USER, "a", 1)).await;
    assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
    let left: Vec<String> = gate.memory().await.into_keys().collect();
    assert_eq!(left, [gate.meta(), gate.outbox_key()], "the older epoch's queue is gone");
    // A gate that is loading answers no claims, so it is unloaded.
    assert_eq!(gate.gate.unload(TEMPLATE, NEXT, now()).await.unwrap(), Unloaded::Gone);
    let left: Vec<String> = gate.memory().await.into_keys().collect();
    assert_eq!(left, [gate.outbox_key()]);
    gate.rebuild(EPOCH, queued_facts()).await;
    gate.queue(&claim(OTHER, "a", 1)).await;
    assert_eq!(gate.outbox_len().await, 2);
    gate.send(&["DEL", &gate.meta()]).await;
    assert_eq!(gate.gate.remove_stale().await.unwrap(), 2, "users and queue");
    let left: Vec<String> = gate.memory().await.into_keys().collect();
    assert_eq!(left, [gate.outbox_key()]);
}

/// Redis undoes nothing of a script that fails in the middle.
#[tokio::test]
async fn a_claim_that_cannot_be_queued_takes_nothing() {
    for wrong in ["queue", "outbox"] {
        let gate = TestGate::open("wrong queue", queued_facts()).await;
        let key = if wrong == "queue" { gate.queued_key(EPOCH) } else { gate.outbox_key() };
        gate.send(&["SET", &key, "x"]).await;
        let error =
            gate.gate.claim(&claim(USER, "a", 1), EPOCH, now(), QueueOptions::direct()).await;
        assert!(error.unwrap_err().is_of_keys(), "{wrong}");
        let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
        assert_eq!((meta.stock, meta.users), (queued_facts().stock, 0), "{wrong}");
        assert!(gate.gate.begin(TEMPLATE, NEXT).await.unwrap());
        assert!(gate.gate.open(TEMPLATE, NEXT, &queued_facts()).await.unwrap());
        let queued =
            gate.gate.claim(&claim(USER, "a", 1), NEXT, now(), QueueOptions::direct()).await;
        assert!(matches!(queued, Ok(Verdict::Queued { .. })), "{wrong}: {queued:?}");
        assert_eq!(gate.outbox_len().await, 1, "{wrong}: the first left nothing there");
    }
}

#[tokio::test]
async fn a_gate_that_lost_a_queued_claim_says_nothing_of_it_and_is_reported() {
    let gate = TestGate::open("lost queue", queued_facts()).await;
    let first = claim(USER, "a", 1);
    gate.queue(&first).await;
    gate.send(&["DEL", &gate.queued_key(EPOCH)]).await;
    assert_eq!(gate.claim(&again(&first)).await, Verdict::NotLoaded);
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!(meta.unreadable, Some(USER.to_string()));
}
