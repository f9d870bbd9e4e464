//! Effects of the Redis server on the gate.

use std::time::Duration;

use devstack::TestServers;
use redis_gate::{GateError, GateRedis, QueueOptions, RequestState, Verdict};

use crate::harness::{EPOCH, OwnRedis, TEMPLATE, TestGate, USER, again, claim, facts, now};

/// Server settings of a production gate.
const KEPT: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// Longest wait for a server that is running.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    // On the shared server the flush could hit another test between loading a script and calling it.
    let server = OwnRedis::start("script flush", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, facts()).await;
    gate.send(&["SCRIPT", "FLUSH"]).await;
    let claim = claim(USER, "a", 1);
    assert_eq!(gate.admit(&claim).await, [1]);
    gate.send(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(gate.settle(&claim).await, Some(1));
    gate.send(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(gate.release(&claim).await, Some(false));
}

/// A check that only reads would call a sale well in which every claim fails.
#[tokio::test]
async fn a_server_that_refuses_writes_fails_its_check() {
    let server = OwnRedis::start("refuses writes", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    let redis = GateRedis::connect(&server.url).await.unwrap();
    redis.check().await.unwrap();
    for (setting, wrong, right) in [("min-replicas-to-write", "1", "0"), ("maxmemory", "1", "0")] {
        gate.send(&["CONFIG", "SET", setting, wrong]).await;
        assert!(redis.check().await.is_err(), "{setting}");
        gate.send(&["CONFIG", "SET", setting, right]).await;
        redis.check().await.unwrap();
    }
}

#[tokio::test]
async fn a_redis_that_evicts_is_no_gate() {
    let view = TestServers::shared().endpoints().view_redis_url.clone();
    let error = GateRedis::connect(&view).await.err().unwrap();
    assert!(error.to_string().contains("config set maxmemory-policy noeviction"), "{error}");
}

#[tokio::test]
async fn a_replica_is_no_gate() {
    let replica = OwnRedis::start("replica", &["--replicaof", "127.0.0.1 1"]).await;
    let error = GateRedis::connect(&replica.url).await.err().unwrap();
    assert!(error.to_string().contains("point GATE_REDIS_URL at the master"), "{error}");
}

#[tokio::test]
async fn nobody_there_and_no_address_are_different_errors() {
    let nobody = GateRedis::connect("redis://127.0.0.1:1").await.err().unwrap();
    assert!(matches!(nobody, GateError::Unreachable { source: Some(_) }), "{nobody}");
    let nowhere = GateRedis::connect("mysql://127.0.0.1").await.err().unwrap();
    assert!(matches!(nowhere, GateError::Unfit(_)), "{nowhere}");
}

#[tokio::test]
async fn a_server_that_started_again_is_not_loaded_even_with_all_its_data() {
    let mut server = OwnRedis::start("restart", KEPT).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, facts()).await;
    let claim = claim(USER, "a", 1);
    gate.admit(&claim).await;
    server.crash_and_start(KEPT).await;
    // The caller has not noticed that the old connection ended; it repeats the call on a new one.
    let verdict = tokio::time::timeout(AT_ONCE, async {
        loop {
            if let Ok(verdict) = gate.gate.claim(&claim, EPOCH, now(), QueueOptions::direct()).await
            {
                return verdict;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(verdict.await.unwrap(), Verdict::NotLoaded);
    assert_eq!(gate.settle(&claim).await, None);
    assert_eq!(gate.release(&claim).await, None);
    let meta = gate.gate.meta(TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.of_this_run, meta.stock), (false, 9), "the data is there, and not believed");
}

#[tokio::test]
async fn a_full_gate_refuses_claims_and_still_drains() {
    let server = OwnRedis::start("full", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, facts()).await;
    let landed = claim(USER, "a", 1);
    let released = claim(USER, "b", 1);
    gate.admit(&landed).await;
    gate.admit(&released).await;
    gate.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = gate.gate.claim(&claim(USER, "c", 1), EPOCH, now(), QueueOptions::direct()).await;
    assert!(matches!(refused, Err(GateError::Refused { call: "claim", .. })), "{refused:?}");
    assert_eq!(gate.settle(&landed).await, Some(1));
    assert_eq!(gate.release(&released).await, Some(true));
    assert_eq!(gate.in_flight().await, 0);
}

#[tokio::test]
async fn two_processes_share_one_gate() {
    let gate = TestGate::open("two processes", facts()).await;
    let other = gate.another().await;
    let first = claim(USER, "a", 1);
    gate.admit(&first).await;
    let verdict = other.claim(&again(&first), EPOCH, now(), QueueOptions::direct()).await.unwrap();
    assert_eq!(verdict, gate.replay_of(&first, RequestState::Pending).await);
}
