//! A gate whose address names sentinels.

use coupon::Epoch;
use devstack::{OwnPair, TestServers, at_last};
use redis_gate::{Gate, GateError, GateRedis, QueueOptions, Verdict};

use crate::harness::{EPOCH, TEMPLATE, USER, again, claim, facts, now, raw, send};

/// Server settings that a gate requires.
const FIT: &[&str] = &["--maxmemory-policy", "noeviction"];

async fn pair(name: &str) -> (OwnPair, Gate) {
    let pair = OwnPair::start(&TestServers::shared().scope(name).database, FIT).await.unwrap();
    let gate = Gate::new(GateRedis::connect(&pair.url()).await.unwrap(), "");
    assert!(gate.begin(TEMPLATE, EPOCH).await.unwrap());
    assert!(gate.open(TEMPLATE, EPOCH, &facts()).await.unwrap());
    (pair, gate)
}

/// Repeats the claim until there is a verdict.
async fn verdict(gate: &Gate, claim: &coupon::Claim, epoch: Epoch) -> Verdict {
    at_last(async || gate.claim(claim, epoch, now(), QueueOptions::direct()).await).await
}

#[tokio::test]
async fn a_gate_whose_master_died_is_not_loaded_on_the_new_one_and_opens_under_the_next_epoch() {
    let (mut pair, gate) = pair("gate sentinel").await;
    let first = claim(USER, "a", 1);
    assert!(matches!(verdict(&gate, &first, EPOCH).await, Verdict::Admitted { left: 9, .. }));
    pair.master.server.kill().unwrap();
    assert_eq!(verdict(&gate, &again(&first), EPOCH).await, Verdict::NotLoaded);

    let next = Epoch(EPOCH.0 + 1);
    assert!(gate.begin(TEMPLATE, next).await.unwrap());
    assert!(gate.open(TEMPLATE, next, &facts()).await.unwrap());
    assert!(matches!(verdict(&gate, &first, next).await, Verdict::Admitted { left: 9, .. }));
    let mut replica = raw(&pair.replica.url()).await;
    let written = send(&mut replica, &["KEYS", "*meta"]).await;
    assert!(matches!(written, redis::Value::Array(keys) if keys.len() == 1), "by the replica");
}

#[tokio::test]
async fn a_master_that_was_made_a_replica_loses_its_connection_and_the_new_one_is_found() {
    let (pair, gate) = pair("gate demoted").await;
    let first = claim(USER, "a", 1);
    verdict(&gate, &first, EPOCH).await;
    // By hand, because sentinels would also close the clients' connections.
    let new = pair.replica.server.address();
    send(&mut raw(&pair.replica.url()).await, &["REPLICAOF", "NO", "ONE"]).await;
    let host = new.ip().to_string();
    let port = new.port().to_string();
    send(&mut raw(&pair.master.url()).await, &["REPLICAOF", &host, &port]).await;
    let refused = gate.claim(&claim(USER, "b", 1), EPOCH, now(), QueueOptions::direct()).await;
    assert!(matches!(refused, Err(GateError::Refused { .. })), "{refused:?}");
    // The sentinel still names the old master. That one is a replica now, so it is not fit for a gate.
    let refused = gate.claim(&claim(USER, "b", 1), EPOCH, now(), QueueOptions::direct()).await;
    assert!(matches!(refused, Err(GateError::Unreachable { .. })), "{refused:?}");
}
