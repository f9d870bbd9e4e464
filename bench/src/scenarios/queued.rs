//! `./dev bench queued`: queued claims beside direct ones, on the same platform in the same run. Exit code 1: something failed, or an
//! invariant is broken afterwards.

use std::{path::Path, time::Duration};

use crate::{
    claims::hot,
    queued::{accept, backlog, relay, waiting},
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
};
use anyhow::Result;
use devstack::OwnRedis;
use serde::Serialize;
use shopper::Latency;

/// How long claims are sent at half load.
const AT_HALF: Duration = Duration::from_secs(5);

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    direct_landed_per_s: f64,
    accepted_per_s: f64,
    accepted_over_landed: f64,
    landed_per_s: f64,
    landed_over_direct: f64,
    half_load_per_s: f64,
    accept_gate_p99_ms: f64,
    accept_replica_p99_ms: f64,
    accept_topic_p99_ms: f64,
    /// The worst of the three.
    accept_p99_ms: f64,
    backlog: i64,
    drained_per_s: f64,
    estimate_error_p90: f64,
    relay: Vec<RelayFigures>,
    waiting_clients: usize,
    api_before_waiting_mib: f64,
    api_waiting_mib: f64,
    api_peak_mib: f64,
}

/// The figures of a relay with that many workers.
#[derive(Serialize)]
struct RelayFigures {
    workers: u32,
    relayed_per_s: f64,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let direct = hot::measure(&stage).await?.landed_per_s;
    row("direct claims landed", &format!("{direct:.0}/s over HTTP, one template"));
    stage.at_rest().await?;
    let accepted = accept::measure(&stage).await?;
    let over = accepted.per_s / direct;
    let behind = accepted.landed_per_s / direct;
    row("queued claims accepted", &format!("{:.0}/s, {over:.2} × direct", accepted.per_s));
    row("  answered", &quantiles(&accepted.answered));
    row("  landed meanwhile", &format!("{:.0}/s, {behind:.2} × direct", accepted.landed_per_s));

    let half = accepted.per_s / 2.0;
    let [gate, topic, replica] = answered(&servers, &stage, half).await?;
    stage.at_rest().await?;
    let drained = backlog::measure(&mut stage).await?;
    let per_s = drained.per_s;
    row("a backlog drains", &format!("{} claims at {per_s:.0}/s", drained.claims));
    let error = drained.estimate_error_p90 * 100.0;
    row("  error of the estimate", &format!("p90 {error:.0} % ({} clients)", drained.estimates));
    let mut relays = Vec::new();
    for workers in relay::WORKERS {
        let relayed_per_s = relay::per_second(&mut stage, workers).await?;
        row("relayed", &format!("{relayed_per_s:.0}/s by {workers} workers"));
        relays.push(RelayFigures { workers, relayed_per_s });
    }
    let waiting = waiting::measure(&mut stage).await?;
    let before = waiting.before_mib;
    let while_waiting = waiting.waiting_mib;
    let peak = waiting.peak_mib;
    row(
        "waiting clients",
        &format!(
            "{}: the api has {before:.0} MiB before, {while_waiting:.0} MiB while they wait, {peak:.0} MiB at most",
            waiting.clients
        ),
    );
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;

    let [gate, topic, replica] = [gate, topic, replica].map(|latency| latency.ms(0.99));
    let figures = Figures {
        machine,
        direct_landed_per_s: direct,
        accepted_per_s: accepted.per_s,
        accepted_over_landed: over,
        landed_per_s: accepted.landed_per_s,
        landed_over_direct: behind,
        half_load_per_s: half,
        accept_gate_p99_ms: gate,
        accept_replica_p99_ms: replica,
        accept_topic_p99_ms: topic,
        accept_p99_ms: gate.max(topic).max(replica),
        backlog: drained.claims,
        drained_per_s: per_s,
        estimate_error_p90: drained.estimate_error_p90,
        relay: relays,
        waiting_clients: waiting.clients,
        api_before_waiting_mib: before,
        api_waiting_mib: while_waiting,
        api_peak_mib: peak,
    };
    conclude(json, &figures, &invariants)
}

/// The times of a 202 at a steady rate: after the gate, the topic, and a replica that runs for that part only.
async fn answered(servers: &BareServers, stage: &Stage, per_s: f64) -> Result<[Latency; 3]> {
    let gate = accept_at(stage, "gate", per_s).await?;
    let topic = accept_at(stage, "topic", per_s).await?;
    let master = servers.stack.gate.address();
    let master = format!("{} {}", master.ip(), master.port());
    let settings =
        ["--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0", "--replicaof"];
    let settings = [&settings[..], &[master.as_str()]].concat();
    let _replica = OwnRedis::view("bench-replica", &settings).await?;
    let replica = accept_at(stage, "replica", per_s).await?;
    Ok([gate, topic, replica])
}

async fn accept_at(stage: &Stage, after: &'static str, per_s: f64) -> Result<Latency> {
    stage.at_rest().await?;
    let answered = accept::at_rate(stage, after, per_s, AT_HALF).await?;
    row(&format!("202 after the {after}, half load"), &quantiles(&answered));
    Ok(answered)
}
