//! Claims that wait for replicas.

use std::time::Duration;

use coupon::{Claim, UserId};
use devstack::{OwnPair, TestServers, at_last};
use redis_gate::{
    Gate, GateError, GateRedis, OpenFacts, QueueOptions, Replicated, RequestState, Verdict,
};
use tokio::{task::JoinSet, time::timeout};

use crate::harness::{
    EPOCH, OwnRedis, TEMPLATE, TestGate, USER, again, claim, facts, now, queued_facts, raw, send,
};

/// Server settings that a gate requires.
const FIT: &[&str] = &["--maxmemory-policy", "noeviction"];

/// Claims in one go: more than a round holds.
const CLAIMS: i64 = 600;

/// Claims in one go: more than may wait.
const TOO_MANY: i64 = 6_000;

/// Longest wait for a replica that is there.
const CONFIRMED_MAX: Duration = Duration::from_mins(1);

/// Asks until there is an answer.
async fn ask(gate: &Gate, claim: &Claim, copies: u32) -> (Verdict, bool) {
    let ask =
        async || gate.claim_replicated(claim, EPOCH, now(), QueueOptions::direct(), copies).await;
    let Replicated { verdict, confirmed, .. } = at_last(ask).await;
    (verdict, confirmed)
}

/// Asks until a replica has confirmed the claim; a busy machine may take longer than one round.
async fn confirmed(gate: &Gate, claim: &Claim) -> Verdict {
    loop {
        let asked = gate.claim_replicated(claim, EPOCH, now(), QueueOptions::direct(), 1).await;
        if let Ok(Replicated { verdict, confirmed: true, .. }) = asked {
            return verdict;
        }
        tokio::task::yield_now().await;
    }
}

fn is_queued(verdict: &Verdict, claim: &Claim) -> bool {
    match verdict {
        Verdict::Queued { .. } => true,
        Verdict::Replay { id, state, .. } => *id == claim.id && *state == RequestState::Queued,
        _ => false,
    }
}

/// How often the server ran a command.
async fn calls(url: &str, command: &str) -> u64 {
    let said = send(&mut raw(url).await, &["INFO", "commandstats"]).await;
    let said: String = redis::from_redis_value(said).unwrap();
    let start = format!("cmdstat_{command}:calls=");
    let line = said.lines().find_map(|line| line.strip_prefix(&*start));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// WAIT covers only what its connection wrote.
#[tokio::test]
async fn a_replay_of_a_queued_claim_writes_before_it_waits_and_no_other_answer_does() {
    let server = OwnRedis::start("touch", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, queued_facts()).await;
    let queued = claim(USER, "a", 1);
    let landed = claim(UserId(71), "a", 1);
    gate.queue(&queued).await;
    gate.queue(&landed).await;
    gate.settle(&landed).await;
    let before = gate.memory().await;
    let writes = calls(&gate.url, "hset").await;
    gate.claim(&again(&queued)).await;
    ask(&gate.gate, &again(&landed), 0).await;
    assert_eq!(calls(&gate.url, "hset").await, writes);
    let (verdict, confirmed) = ask(&gate.gate, &again(&queued), 0).await;
    assert!(matches!(verdict, Verdict::Replay { .. }) && confirmed, "{verdict:?}");
    assert_eq!(calls(&gate.url, "hset").await, writes + 1);
    assert_eq!(gate.memory().await, before);
}

/// Without a replica each round takes its whole time.
#[tokio::test]
async fn a_claim_with_too_many_others_before_it_is_refused_at_once() {
    let server = OwnRedis::start("no replica", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, OpenFacts { stock: TOO_MANY, ..queued_facts() }).await;
    let mut asking = JoinSet::new();
    for user in 0..TOO_MANY {
        let gate = gate.gate.clone();
        let claim = claim(UserId(user), "a", 1);
        asking.spawn(async move {
            gate.claim_replicated(&claim, EPOCH, now(), QueueOptions::direct(), 1).await
        });
    }
    let mut is_refused = false;
    while let (false, Some(asked)) = (is_refused, asking.join_next().await) {
        is_refused = matches!(asked.unwrap(), Err(GateError::Unreachable { source: None }));
    }
    assert!(is_refused);
}

#[tokio::test]
async fn any_verdict_comes_also_by_this_way_and_forgotten_scripts_are_sent_again() {
    let server = OwnRedis::start("replicated verdicts", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    let first = claim(USER, "a", 1);
    assert_eq!(ask(&gate.gate, &first, 0).await.0, Verdict::NotLoaded);
    gate.rebuild(EPOCH, facts()).await;
    gate.send(&["SCRIPT", "FLUSH"]).await;
    let (verdict, confirmed) = ask(&gate.gate, &first, 0).await;
    assert_eq!((verdict, confirmed), (Verdict::Admitted { numbers: vec![1], left: 9 }, true));
    gate.send(&["SET", &gate.users(EPOCH), "x"]).await;
    let error = gate.gate.claim_replicated(&first, EPOCH, now(), QueueOptions::direct(), 0).await;
    assert!(error.unwrap_err().is_of_keys());
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_and_one_that_is_back_answers_again() {
    let mut server = OwnRedis::start("replicated restart", &[]).await;
    let gate = TestGate::on(server.url.clone(), String::new()).await;
    gate.rebuild(EPOCH, queued_facts()).await;
    let first = claim(USER, "a", 1);
    ask(&gate.gate, &first, 0).await;
    server.crash_and_start(&[]).await;
    assert_eq!(ask(&gate.gate, &first, 0).await, (Verdict::NotLoaded, true));
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_confirmed_claim_is_on_its_replica_and_without_one_nothing_is_confirmed() {
        let name = TestServers::shared().scope("gate replicas").database;
        let mut pair = OwnPair::start(&name, FIT).await.unwrap();
        let gate = Gate::new(GateRedis::connect(&pair.url()).await.unwrap(), "");
        assert!(gate.begin(TEMPLATE, EPOCH).await.unwrap());
        let stock = CLAIMS + 2;
        assert!(gate.open(TEMPLATE, EPOCH, &OpenFacts { stock, ..queued_facts() }).await.unwrap());
        let mut asking = JoinSet::new();
        for user in 0..CLAIMS {
            let gate = gate.clone();
            let claim = claim(UserId(user), "a", 1);
            asking.spawn(async move {
                let verdict = confirmed(&gate, &claim).await;
                assert!(is_queued(&verdict, &claim), "{verdict:?}");
            });
        }
        timeout(CONFIRMED_MAX, asking.join_all()).await.unwrap();
        let key = format!("gate:1:{{{TEMPLATE}:0}}:outbox");
        let copied = send(&mut raw(&pair.replica.url()).await, &["XLEN", &key]).await;
        assert_eq!(copied, redis::Value::Int(CLAIMS));

        pair.replica.server.kill().unwrap();
        let late = claim(UserId(CLAIMS), "a", 1);
        let (verdict, confirmed) = ask(&gate, &late, 1).await;
        assert!(is_queued(&verdict, &late) && !confirmed, "{verdict:?}");
        let (verdict, confirmed) = ask(&gate, &again(&late), 1).await;
        assert!(matches!(verdict, Verdict::Replay { .. }) && !confirmed, "{verdict:?}");
    }
}
