//! Processes that do not answer, are not ready, lag behind, or are not known.

use chrono::{DateTime, Utc};

use super::{Fault, Rank, clipped};
use crate::fleet::{
    facts::{Facts, LATE_FROM, Part, Process, Silence},
    first_sentence::joined,
    kind::Kind,
};

pub(super) fn of(facts: &Facts) -> Vec<Fault> {
    let mut faults: Vec<Fault> =
        Kind::ALL.into_iter().flat_map(|kind| silent(facts, kind)).collect();
    faults.extend(unnamed(facts));
    faults.extend(no_leader(facts));
    faults.extend(facts.answered().filter_map(|process| not_ready(facts, process)));
    faults.extend(lag(facts));
    faults.extend(not_asked(facts));
    let unknown = lag_unknown(facts, &faults);
    faults.extend(unknown);
    faults
}

/// A silent process, and why.
struct Silent<'a> {
    process: &'a Process,
    silence: &'a Silence,
}

impl<'a> Silent<'a> {
    fn of(process: &'a Process) -> Option<Self> {
        Some(Self { process, silence: process.silence.as_ref()? })
    }

    fn cause(&self) -> String {
        format!("{} does not answer: {}", self.process.shown(), clipped(&self.silence.why))
    }
}

/// Returns what is to be said of processes of a kind that do not answer: one sentence if none of them does.
fn silent(facts: &Facts, kind: Kind) -> Vec<Fault> {
    let silent: Vec<Silent<'_>> = facts.of(kind).filter_map(Silent::of).collect();
    let others_answer = silent.len() < facts.of(kind).count();
    let of_one = if kind == Kind::Api { Rank::Api } else { Rank::OneOfSeveral };
    let rank = if others_answer { of_one } else { of_all(kind) };
    let action = format!(
        "Start {}; the end of its log says why it ended (runbook: ProcessDown).",
        kind.word()
    );
    if others_answer || silent.len() < 2 {
        let fault = |one: &Silent<'_>| {
            Fault::new(rank, one.cause(), action.clone()).since(one.silence.since)
        };
        return silent.iter().map(fault).collect();
    }
    let addresses: Vec<&str> =
        silent.iter().filter_map(|one| one.process.address.as_deref()).collect();
    let cause = format!("no {} answers, at {}", kind.word(), joined(&addresses));
    // Until the last one fell silent there was one.
    let since: Option<Vec<DateTime<Utc>>> = silent.iter().map(|one| one.silence.since).collect();
    let since = since.and_then(|all| all.into_iter().max());
    vec![Fault::new(rank, cause, action).since(since)]
}

/// The rank of a kind of which no process answers.
fn of_all(kind: Kind) -> Rank {
    match kind {
        Kind::Api => Rank::Api,
        Kind::OutboxRelay | Kind::ClaimLander => Rank::Queue,
        Kind::CdcTailer => Rank::Tailer,
        Kind::SyncConsumer => Rank::Consumer,
        Kind::ExpiryWorker => Rank::Worker,
    }
}

/// Processes that do not answer, and of which nobody knows what they are.
fn unnamed(facts: &Facts) -> Vec<Fault> {
    let nameless = facts.processes.iter().filter(|process| process.kind.is_none());
    let fault = |one: Silent<'_>| {
        let action =
            "Start it (runbook: ProcessDown), and name it in ADMIN_PEERS, as process=host:port.";
        Fault::new(Rank::OneOfSeveral, one.cause(), action).since(one.silence.since)
    };
    nameless.filter_map(Silent::of).map(fault).collect()
}

/// Says that nobody publishes, unless a silent tailer or a server explains it.
fn no_leader(facts: &Facts) -> Option<Fault> {
    let could = |tailer: &&Process| tailer.has("mysql") && tailer.has("kafka");
    if facts.leader().is_some() {
        return None;
    }
    let tailer = facts.of(Kind::CdcTailer).find(could)?;
    let why = tailer.part("binlog").and_then(|part| part.why.as_deref());
    let why = why.map(|why| format!(": {}", clipped(why))).unwrap_or_default();
    let cause = format!("no tailer leads{why}");
    let action = "Start a cdc-tailer, or correct what the log of the running one names (runbook: TailerNoLeader).";
    Some(Fault::new(Rank::NoLeader, cause, action).since(facts.led_at))
}

/// Says which parts of a process do not work, unless a server that it needs explains it.
fn not_ready(facts: &Facts, process: &Process) -> Option<Fault> {
    let down: Vec<&Part> =
        process.parts.iter().filter(|part| !part.is_up && !is_said(facts, process, part)).collect();
    let starting: Vec<&str> =
        down.iter().filter(|part| part.is_starting()).map(|part| part.name.as_str()).collect();
    let shown = process.shown();
    let since = down.iter().filter_map(|part| part.since).min();
    if !starting.is_empty() {
        let cause = format!("{shown} is starting: it has no {} yet", joined(&starting));
        let action = "Wait; if it stays so, its log says why (runbook: ReadinessLost).";
        return Some(Fault::new(Rank::Part, cause, action).since(since));
    }
    if process.lacks_a_server() {
        return None;
    }
    let why = down.first()?.why.as_deref().map(clipped).unwrap_or_default();
    if process.kind == Some(Kind::ExpiryWorker) && process.lacks("partitions") {
        let cause = format!("{shown} does not have its shards: {why}");
        let action = "Start an expiry-worker (runbook: ExpiryShardsUnowned).";
        return Some(Fault::new(Rank::ShardsUnowned, cause, action).since(since));
    }
    let names: Vec<&str> = down.iter().map(|part| part.name.as_str()).collect();
    let cause = format!("{shown} is not ready, by its {}: {why}", joined(&names));
    let action = "Its log and /readyz have the reason (runbook: ReadinessLost).";
    Some(Fault::new(Rank::Part, cause, action).since(since))
}

/// Whether a part that is down has a cause of its own.
fn is_said(facts: &Facts, process: &Process, part: &Part) -> bool {
    match process.kind {
        Some(Kind::CdcTailer) => part.name == "binlog" && facts.leader().is_none(),
        _ => part.name == "clock" && process.clock_ahead.is_some(),
    }
}

/// Says who is behind.
fn lag(facts: &Facts) -> Option<Fault> {
    let publish = facts.publish_lag.unwrap_or_default();
    let list = facts.list_lag.unwrap_or_default();
    if publish.max(list) <= LATE_FROM {
        return None;
    }
    if publish >= list {
        let cause = format!("cdc-tailer is {publish:.0} s behind");
        let action = "Its /status says what holds it up (runbook: TailerBehind).";
        return Some(Fault::new(Rank::Lag, cause, action));
    }
    let cause = format!("sync-consumer is {list:.0} s behind");
    let action = "If it is ready, start more of them (runbook: ConsumerBehind).";
    Some(Fault::new(Rank::Lag, cause, action))
}

/// Says which processes nobody asks, though each platform has them.
fn not_asked(facts: &Facts) -> Option<Fault> {
    if facts.processes.is_empty() {
        let cause = "nothing is known of any process".to_owned();
        return Some(Fault::new(Rank::Unknown, cause, "Ask an api."));
    }
    // One of those that did not answer may be it.
    if facts.processes.iter().any(|process| process.kind.is_none() && !process.answers()) {
        return None;
    }
    let needed = |kind: Kind| match kind {
        Kind::OutboxRelay | Kind::ClaimLander => facts.has_queue(),
        _ => true,
    };
    let missing: Vec<&str> = Kind::ALL
        .into_iter()
        .filter(|kind| needed(*kind) && !facts.knows(*kind))
        .map(Kind::word)
        .collect();
    let cause = format!("ADMIN_PEERS does not name {}", joined(&missing));
    let action =
        "Add the admin addresses of those that run to ADMIN_PEERS of the apis, and restart these.";
    (!missing.is_empty()).then(|| Fault::new(Rank::Unknown, cause, action))
}

/// Says that the lag of lists is not known, unless something else explains it.
fn lag_unknown(facts: &Facts, others: &[Fault]) -> Option<Fault> {
    let is_unknown = facts.list_lag.is_none() || facts.publish_lag.is_none();
    let cause = "how late lists are is not known".to_owned();
    let action = "Wait a moment; if it stays so, see cdc-tailer's and sync-consumer's /readyz (runbook: LagUnknown).";
    let is_explained = !others.is_empty() || facts.answered().any(Process::lacks_a_server);
    (is_unknown && !is_explained).then(|| Fault::new(Rank::Unknown, cause, action))
}
