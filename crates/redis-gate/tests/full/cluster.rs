//! Gates on a Redis Cluster: three masters, each with a replica.

use std::time::Duration;

use coupon::{Claim, Epoch, TemplateId, UserId};
use devstack::{OwnCluster, at_last};
use redis_address::slot_of;
use redis_gate::{
    CheckedGate, Gate, GateError, GateRedis, OpenFacts, OutboxFrom, QueueOptions, QuietGate,
    SoldOutLook, Verdict,
};
use testkit::{until, until_true};
use tokio::{task::JoinSet, time::timeout};

use crate::harness::{EPOCH, USER, again, claim, facts, now, queued_facts, raw, send};

const NEXT: Epoch = Epoch(EPOCH.0 + 1);

/// How long a round of replicas may take that does not wait for an absent one, on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(400);

struct Gates {
    cluster: OwnCluster,
    gate: Gate,
}

fn slot(template: TemplateId) -> u16 {
    slot_of(&format!("gate:1:{{{template}:0}}:meta"))
}

/// A claim of a user on this template.
fn on(template: TemplateId, user: UserId) -> Claim {
    Claim { template_id: template, ..claim(user, "a", 1) }
}

fn like(first: &Claim) -> Claim {
    Claim { template_id: first.template_id, ..again(first) }
}

impl Gates {
    async fn start(name: &str) -> Self {
        let cluster = OwnCluster::start_gate(name).await.unwrap();
        let gate = Gate::new(GateRedis::connect(&cluster.url()).await.unwrap(), "");
        Self { cluster, gate }
    }

    /// Templates whose gates are on this master, of those with ids from 1 on.
    fn templates_of(&self, master: usize) -> impl Iterator<Item = TemplateId> {
        let all = (1..).map(TemplateId);
        all.filter(move |template| self.cluster.first_master_of(slot(*template)) == master)
    }

    /// One template of each master.
    fn three(&self) -> [TemplateId; 3] {
        [0, 1, 2].map(|master| self.templates_of(master).next().unwrap())
    }

    async fn open(&self, template: TemplateId, epoch: Epoch, facts: &OpenFacts) {
        assert!(at_last(async || self.gate.begin(template, epoch).await).await);
        assert!(at_last(async || self.gate.open(template, epoch, facts).await).await);
    }

    async fn ask(&self, claim: &Claim, epoch: Epoch) -> Result<Verdict, GateError> {
        self.gate.claim(claim, epoch, now(), QueueOptions::direct()).await
    }

    /// Asks until there is a verdict.
    async fn verdict(&self, claim: &Claim, epoch: Epoch) -> Verdict {
        at_last(async || self.ask(claim, epoch).await).await
    }
}

fn is_admitted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Admitted { .. })
}

#[tokio::test]
async fn a_gate_at_the_plain_address_of_a_cluster_node_is_refused_and_says_how() {
    let cluster = OwnCluster::start_gate("gate-cluster-plain").await.unwrap();
    for node in &cluster.nodes {
        let error = GateRedis::connect(&node.url()).await.err().unwrap();
        assert!(matches!(error, GateError::Unfit(_)), "{error:?}");
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
    }
    GateRedis::connect(&cluster.url()).await.unwrap();
}

#[tokio::test]
async fn a_cluster_whose_masters_stop_together_is_no_gate() {
    let settings = ["--maxmemory-policy", "noeviction"];
    let cluster = OwnCluster::start("gate-cluster-whole", &settings).await.unwrap();
    let error = GateRedis::connect(&cluster.url()).await.err().unwrap().to_string();
    assert!(error.contains("config set cluster-require-full-coverage no"), "{error}");
}

#[tokio::test]
async fn a_master_that_dies_closes_its_own_gates_and_they_open_on_its_replica() {
    let mut gates = Gates::start("gate-cluster-dies").await;
    let templates = gates.three();
    for template in templates {
        gates.open(template, EPOCH, &facts()).await;
    }
    let [dying, kept @ ..] = templates;
    let first = on(dying, USER);
    assert!(is_admitted(&gates.verdict(&first, EPOCH).await));
    gates.cluster.nodes[0].server.kill().unwrap();
    let mut user = 100;
    let gone = async || {
        // Not one call to the others fails while the replica takes over.
        for template in kept {
            let verdict = gates.ask(&on(template, UserId(user)), EPOCH).await.unwrap();
            assert_ne!(verdict, Verdict::NotLoaded);
        }
        user += 1;
        gates.gate.redis().check().await.unwrap();
        gates.ask(&like(&first), EPOCH).await
    };
    let verdict = until(gone, Result::is_ok).await.unwrap();
    assert_eq!(verdict, Verdict::NotLoaded, "the replica has the gate, and is of another run");
    gates.open(dying, NEXT, &facts()).await;
    assert!(is_admitted(&gates.verdict(&like(&first), NEXT).await));
    let reach = gates.gate.reach().await.unwrap();
    assert!(templates.into_iter().all(|template| reach.has(template)));
}

#[tokio::test]
async fn a_master_that_hangs_keeps_nobody_waiting_for_the_others() {
    let mut gates = Gates::start("gate-cluster-hangs").await;
    let [hanging, kept @ ..] = gates.three();
    for template in gates.three() {
        gates.open(template, EPOCH, &facts()).await;
    }
    gates.cluster.nodes[0].server.pause().unwrap();
    let mut asking = JoinSet::new();
    for user in 0..16 {
        let gate = gates.gate.clone();
        let claim = on(hanging, UserId(user));
        asking.spawn(async move {
            gate.claim(&claim, EPOCH, now(), QueueOptions::direct()).await.unwrap_err()
        });
    }
    for user in 0..16 {
        for template in kept {
            let asked = on(template, UserId(user));
            timeout(AT_ONCE, gates.ask(&asked, EPOCH)).await.unwrap().unwrap();
        }
    }
    asking.join_all().await;
    assert_eq!(gates.verdict(&on(hanging, USER), EPOCH).await, Verdict::NotLoaded);
}

#[tokio::test]
async fn a_slot_on_its_way_is_closed_and_its_gate_is_not_loaded_when_it_arrives() {
    let gates = Gates::start("gate-cluster-moves").await;
    let [moving, other, _] = gates.three();
    gates.open(moving, EPOCH, &queued_facts()).await;
    gates.open(other, EPOCH, &facts()).await;
    let first = on(moving, USER);
    assert!(matches!(gates.verdict(&first, EPOCH).await, Verdict::Queued { .. }));
    let way = gates.cluster.begin_move(slot(moving), 0, 1).await.unwrap();
    for part in ["", "meta", "users", "outbox"] {
        if !part.is_empty() {
            assert_eq!(way.keys(part).await.unwrap(), 1, "{part}");
        }
        let refused = gates.ask(&on(moving, UserId(2)), EPOCH).await.unwrap_err();
        assert!(refused.is_of_slot(), "{part}: {refused:?}");
        assert!(gates.gate.begin(moving, NEXT).await.unwrap_err().is_of_slot(), "{part}");
    }
    assert!(is_admitted(&gates.ask(&on(other, USER), EPOCH).await.unwrap()));
    way.finish().await.unwrap();
    assert_eq!(gates.verdict(&like(&first), EPOCH).await, Verdict::NotLoaded);
    gates.open(moving, NEXT, &queued_facts()).await;
    // The outbox came along with what was accepted.
    let given = gates.gate.read_outbox(moving, "one", OutboxFrom::New, 10).await.unwrap();
    assert_eq!(given.entries.len(), 1);
    let ids = [given.entries[0].id.clone()];
    assert!(gates.gate.trim_outbox(moving, &given.run, &ids).await.unwrap());
    assert_eq!(gates.gate.outboxes().await.unwrap(), [moving]);
}

#[tokio::test]
async fn a_gate_that_a_cancelled_move_took_apart_or_brought_back_is_not_the_open_one() {
    let gates = Gates::start("gate-cluster-cancelled").await;
    let [template, ..] = gates.three();
    gates.open(template, EPOCH, &facts()).await;
    let first = on(template, USER);
    assert!(is_admitted(&gates.verdict(&first, EPOCH).await));
    let way = gates.cluster.begin_move(slot(template), 0, 1).await.unwrap();
    assert_eq!(way.keys("users").await.unwrap(), 1);
    way.cancel().await.unwrap();
    assert_eq!(gates.verdict(&like(&first), EPOCH).await, Verdict::NotLoaded);
    let way = gates.cluster.begin_move(slot(template), 0, 1).await.unwrap();
    assert!(way.keys("meta").await.unwrap() > 0);
    way.cancel().await.unwrap();
    gates.open(template, NEXT, &facts()).await;
    assert!(is_admitted(&gates.verdict(&first, NEXT).await));
    // Now the old gate takes the place of the open one.
    assert!(way.bring_back().await.unwrap() >= 2);
    let verdict = gates.verdict(&on(template, UserId(2)), NEXT).await;
    assert_eq!(verdict, Verdict::OtherEpoch(EPOCH));
}

#[tokio::test]
async fn idle_gates_of_three_masters_are_asked_for_together() {
    /// Gates of each master: more than one round trip asks for.
    const GATES: usize = 300;
    let mut gates = Gates::start("gate-cluster-idle").await;
    let mut checked = Vec::new();
    let mut quiet = Vec::new();
    for master in 0..3 {
        let templates: Vec<TemplateId> = gates.templates_of(master).take(GATES).collect();
        for template in templates {
            gates.open(template, EPOCH, &facts()).await;
            let run = gates.gate.run_of(template).await.unwrap();
            checked.push(CheckedGate { template, epoch: EPOCH, run, has_users: false });
            quiet.push(QuietGate { template, epoch: Some(EPOCH) });
        }
    }
    let before = reads(&gates.cluster).await;
    assert_eq!(gates.gate.lost(&checked).await, []);
    assert_eq!(gates.gate.stirred(&quiet).await, []);
    let more: Vec<u64> =
        reads(&gates.cluster).await.iter().zip(before).map(|(now, before)| now - before).collect();
    // Replicas and the other nodes are heard too.
    assert!(more.iter().all(|reads| *reads < GATES as u64 / 2), "{more:?}");

    // One of each master has changed, and they are named in order.
    let some = [7, GATES + 8, 2 * GATES + 9].map(|place| checked[place].template);
    for template in some {
        assert!(is_admitted(&gates.ask(&on(template, USER), EPOCH).await.unwrap()));
    }
    assert_eq!(gates.gate.stirred(&quiet).await, some);
    let looks = some.map(|template| SoldOutLook { template, epoch: EPOCH, users: None });
    assert!(gates.gate.sold_out(&looks).await.into_iter().all(|found| found.unwrap().is_none()));
    assert_eq!(gates.gate.templates().await.unwrap().len(), 3 * GATES);

    // Without a master its gates cannot be asked, and all others can.
    gates.cluster.nodes[1].server.kill().unwrap();
    let lost = gates.gate.lost(&checked).await;
    let of_dead: Vec<TemplateId> =
        checked[GATES..2 * GATES].iter().map(|gate| gate.template).collect();
    assert_eq!(lost, of_dead);
    let lengths = gates.gate.outbox_lens(&some).await;
    assert_eq!(lengths.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    // The replica is another run.
    let comes = async || gates.gate.reach().await.is_ok_and(|reach| reach.has(some[1]));
    until_true(comes).await;
    assert_eq!(gates.gate.lost(&checked).await, of_dead);
}

/// How often each initial master has read from its connections.
async fn reads(cluster: &OwnCluster) -> Vec<u64> {
    let mut counts = Vec::new();
    for node in &cluster.nodes[..3] {
        let info: redis::InfoDict =
            redis::cmd("INFO").query_async(&mut raw(&node.url()).await).await.unwrap();
        counts.push(info.get("total_reads_processed").unwrap());
    }
    counts
}

#[tokio::test]
async fn claims_that_wait_for_replicas_wait_for_those_of_their_own_master() {
    let mut gates = Gates::start("gate-cluster-replicas").await;
    let [alone, other, _] = gates.three();
    for template in [alone, other] {
        gates.open(template, EPOCH, &queued_facts()).await;
    }
    let ask = async |claim: &Claim| {
        let asked = gates.gate.claim_replicated(claim, EPOCH, now(), QueueOptions::direct(), 1);
        asked.await.map(|answer| answer.confirmed)
    };
    let confirmed = async || ask(&on(alone, USER)).await;
    until(confirmed, |confirmed| matches!(confirmed, Ok(true))).await.unwrap();
    let master = gates.cluster.nodes[0].server.address().port().to_string();
    let mut replica = None;
    for place in 3..6 {
        let mut node = raw(&gates.cluster.nodes[place].url()).await;
        let said = send(&mut node, &["INFO", "replication"]).await;
        let said: String = redis::from_redis_value(said).unwrap();
        if said.contains(&format!("master_port:{master}\r")) {
            replica = Some(place);
        }
    }
    let mut replica = gates.cluster.nodes.remove(replica.unwrap());
    replica.server.kill().unwrap();
    let lonely = on(alone, UserId(2));
    let waits = ask(&lonely);
    let goes_on = async {
        let accompanied = on(other, USER);
        assert!(timeout(AT_ONCE, ask(&accompanied)).await.unwrap().unwrap());
    };
    let (confirmed, ()) = tokio::join!(waits, goes_on);
    assert!(!confirmed.unwrap());
}
