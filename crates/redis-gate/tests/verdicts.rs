//! Every verdict of `claim.lua`, in its order.

use chrono::TimeDelta;
use coupon::{Epoch, UserId};
use redis_gate::{OpenFacts, QueueOptions, Refusal, RequestState, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, USER, again, claim, facts, now, refused};

#[tokio::test]
async fn an_admission_takes_the_lowest_free_numbers_and_the_stock() {
    let gate = TestGate::open("admission", facts()).await;
    let verdict = gate.claim(&claim(USER, "a", 1)).await;
    assert_eq!(verdict, Verdict::Admitted { numbers: vec![1], left: 9 });
    let verdict = gate.claim(&claim(USER, "b", 1)).await;
    assert_eq!(verdict, Verdict::Admitted { numbers: vec![2], left: 8 });
    let verdict = gate.claim(&claim(UserId(71), "a", 2)).await;
    assert_eq!(verdict, Verdict::Admitted { numbers: vec![1, 2], left: 6 });
    assert_eq!((gate.stock().await, gate.in_flight().await), (6, 3));
}

#[tokio::test]
async fn a_replay_comes_before_every_refusal_and_keeps_the_first_id() {
    let gate = TestGate::open("replay", OpenFacts { limit: 1, stock: 1, ..facts() }).await;
    let settled = claim(USER, "a", 1);
    let pending = claim(UserId(71), "a", 1);
    gate.admit(&settled).await;
    gate.settle(&settled).await;
    gate.set_meta("stock", "1").await;
    gate.admit(&pending).await;
    for (field, value) in [("version", "1"), ("state", "paused"), ("state", "ended"), ("ends", "1")]
    {
        gate.set_meta(field, value).await;
        for (claim, state) in [(&settled, RequestState::Landed), (&pending, RequestState::Pending)]
        {
            let replay = gate.replay_of(claim, state).await;
            assert_eq!(gate.claim(claim).await, replay, "{field} {value}");
            assert_eq!(gate.claim(&again(claim)).await, replay, "{field} {value}");
        }
    }
}

#[tokio::test]
async fn a_key_with_another_payload_is_reused_whether_pending_or_landed() {
    let gate = TestGate::open("key reused", facts()).await;
    let first = claim(USER, "a", 1);
    gate.admit(&first).await;
    assert_eq!(gate.claim(&claim(USER, "a", 2)).await, Verdict::KeyReused);
    gate.settle(&first).await;
    assert_eq!(gate.claim(&claim(USER, "a", 2)).await, Verdict::KeyReused);
    assert_eq!(gate.admit(&claim(UserId(71), "a", 2)).await, [1, 2]);
}

#[tokio::test]
async fn a_caller_of_another_epoch_hears_the_gates_and_changes_nothing() {
    let gate = TestGate::open("other epoch", facts()).await;
    gate.admit(&claim(USER, "a", 1)).await;
    let before = gate.memory().await;
    for epoch in [Epoch::UNKNOWN, Epoch(6), Epoch(8)] {
        for claim in [claim(USER, "a", 1), claim(UserId(71), "a", 1)] {
            let verdict =
                gate.gate.claim(&claim, epoch, now(), QueueOptions::direct()).await.unwrap();
            assert_eq!(verdict, Verdict::OtherEpoch(EPOCH));
        }
    }
    assert_eq!(gate.memory().await, before);
}

#[tokio::test]
async fn a_gate_that_is_absent_or_loading_says_nothing() {
    let gate = TestGate::absent("absent").await;
    let claim = claim(USER, "a", 1);
    assert_eq!(gate.claim(&claim).await, Verdict::NotLoaded);
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert_eq!(gate.claim(&claim).await, Verdict::NotLoaded);
    assert!(gate.gate.load(TEMPLATE, EPOCH, &[(USER, vec![1])]).await.unwrap());
    assert_eq!(gate.claim(&claim).await, Verdict::NotLoaded);
    let unknown =
        gate.gate.claim(&claim, Epoch::UNKNOWN, now(), QueueOptions::direct()).await.unwrap();
    assert_eq!(unknown, Verdict::NotLoaded, "not even its epoch");
}

#[tokio::test]
async fn a_gate_that_lost_one_user_all_users_or_its_run_says_nothing() {
    let one = USER.to_string();
    let other = UserId(71);
    for lost in ["one", "all", "run"] {
        let gate = TestGate::open("lost users", facts()).await;
        gate.admit(&claim(USER, "a", 1)).await;
        gate.admit(&claim(other, "a", 1)).await;
        let users = gate.users(EPOCH);
        match lost {
            "one" => gate.send(&["HDEL", &users, &one]).await,
            "all" => gate.send(&["DEL", &users]).await,
            _ => gate.set_meta("run", "another/run").await,
        }
        for user in [USER, other, UserId(72)] {
            assert_eq!(gate.claim(&claim(user, "a", 1)).await, Verdict::NotLoaded, "{lost}");
        }
    }
}

#[tokio::test]
async fn of_several_refusals_the_first_in_order_is_given_and_none_leaves_a_trace() {
    let gate = TestGate::open("order of refusals", OpenFacts { stock: 1, ..facts() }).await;
    gate.admit(&claim(USER, "a", 1)).await;
    // First every obstacle applies; then one after the other is removed.
    let early = now() - TimeDelta::seconds(2);
    let late = now() + TimeDelta::seconds(2);
    let starts_at = facts().starts_at;
    let steps = [
        (("state", "ended"), early, Refusal::Ended),
        (("state", "paused"), early, Refusal::NotOpen { starts_at }),
        (("state", "paused"), late, Refusal::Closed),
        (("state", "paused"), now(), Refusal::Paused),
        (("state", "published"), now(), Refusal::Limit { taken: 1 }),
    ];
    for ((field, value), at, refusal) in steps {
        gate.set_meta(field, value).await;
        let before = gate.memory().await;
        let verdict =
            gate.gate.claim(&claim(USER, "b", 2), EPOCH, at, QueueOptions::direct()).await.unwrap();
        assert_eq!(verdict, refused(refusal));
        assert_eq!(gate.memory().await, before, "{refusal:?}");
    }
    let before = gate.memory().await;
    for user in [USER, UserId(71)] {
        assert_eq!(gate.claim(&claim(user, "b", 1)).await, refused(Refusal::SoldOut));
    }
    assert_eq!(gate.memory().await, before);
    gate.set_meta("stock", "1").await;
    let before = gate.memory().await;
    let verdict = gate.claim(&claim(UserId(71), "b", 2)).await;
    assert_eq!(verdict, refused(Refusal::Insufficient { left: 1 }));
    assert_eq!(gate.memory().await, before);
    // A cut may make the stock negative.
    gate.set_meta("stock", "-3").await;
    assert_eq!(gate.claim(&claim(UserId(71), "b", 1)).await, refused(Refusal::SoldOut));
}

#[tokio::test]
async fn the_window_holds_its_first_instant_and_not_its_last() {
    let gate = TestGate::open("window", facts()).await;
    let tick = TimeDelta::milliseconds(1);
    let OpenFacts { starts_at, ends_at, .. } = facts();
    let at = async |at, key| {
        gate.gate.claim(&claim(USER, key, 1), EPOCH, at, QueueOptions::direct()).await.unwrap()
    };
    assert_eq!(at(starts_at - tick, "a").await, refused(Refusal::NotOpen { starts_at }));
    assert_eq!(at(starts_at, "a").await, Verdict::Admitted { numbers: vec![1], left: 9 });
    assert_eq!(at(ends_at - tick, "b").await, Verdict::Admitted { numbers: vec![2], left: 8 });
    assert_eq!(at(ends_at, "c").await, refused(Refusal::Closed));
}

#[tokio::test]
async fn a_refused_key_may_ask_for_less() {
    let gate = TestGate::open("less", OpenFacts { limit: 3, stock: 2, ..facts() }).await;
    let verdict = gate.claim(&claim(USER, "a", 3)).await;
    assert_eq!(verdict, refused(Refusal::Insufficient { left: 2 }));
    assert_eq!(gate.admit(&claim(USER, "a", 2)).await, [1, 2]);
    gate.set_meta("stock", "9").await;
    let verdict = gate.claim(&claim(USER, "b", 2)).await;
    assert_eq!(verdict, refused(Refusal::Limit { taken: 2 }));
    assert_eq!(gate.admit(&claim(USER, "b", 1)).await, [3]);
}

#[tokio::test]
async fn a_user_loaded_from_mysql_is_refused_only_after_a_look_there() {
    let gate = TestGate::absent("look").await;
    assert!(gate.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert!(gate.gate.load(TEMPLATE, EPOCH, &[(USER, vec![1, 2])]).await.unwrap());
    assert!(gate.gate.open(TEMPLATE, EPOCH, &facts()).await.unwrap());
    let look = |refusal| Verdict::Refused { refusal, look_in_mysql: true };
    let verdict = gate.claim(&claim(USER, "a", 1)).await;
    assert_eq!(verdict, look(Refusal::Limit { taken: 2 }));
    // The limit may be raised. Claims made since then do not make the entry complete.
    gate.set_meta("limit", "4").await;
    assert_eq!(gate.admit(&claim(USER, "b", 1)).await, [3]);
    let stranger = claim(UserId(71), "a", 1);
    let insufficient = || claim(USER, "c", 1);
    gate.set_meta("stock", "0").await;
    assert_eq!(gate.claim(&insufficient()).await, look(Refusal::SoldOut));
    assert_eq!(gate.claim(&stranger).await, refused(Refusal::SoldOut));
    for (state, refusal) in [("paused", Refusal::Paused), ("ended", Refusal::Ended)] {
        gate.set_meta("state", state).await;
        assert_eq!(gate.claim(&insufficient()).await, look(refusal));
        assert_eq!(gate.claim(&stranger).await, refused(refusal));
    }
}
