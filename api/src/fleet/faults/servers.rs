//! Servers that cannot be used, gates that are not loaded, and clocks that differ.

use super::{Fault, Rank, clipped};
use crate::fleet::{
    facts::{Facts, Part, Process},
    first_sentence::joined,
    kind::Kind,
};

/// A server, as the processes call it.
struct Server {
    part: &'static str,
    shown: &'static str,
    rank: Rank,
    action: &'static str,
}

const SERVERS: [Server; 4] = [
    Server {
        part: "mysql",
        shown: "MySQL",
        rank: Rank::Mysql,
        action: "Start MySQL or repair the way to it; all goes on by itself then (runbook: ServerAway).",
    },
    Server {
        part: "gate",
        shown: "the gate's Redis",
        rank: Rank::Gate,
        action: "Start the gate's Redis or repair the way to it; the gates are loaded by themselves then (runbook: \
                 ServerAway).",
    },
    Server {
        part: "kafka",
        shown: "Kafka",
        rank: Rank::Kafka,
        action: "Start the brokers or repair the way to them; what waits is published then (runbook: ServerAway).",
    },
    Server {
        part: "view",
        shown: "the view's Redis",
        rank: Rank::View,
        action: "Start the view's Redis or repair the way to it; lists come from MySQL until then (runbook: ServerAway).",
    },
];

/// A process that speaks of a server.
struct Report<'a> {
    process: &'a Process,
    part: &'a Part,
}

pub(super) fn of(facts: &Facts) -> Vec<Fault> {
    let mut faults: Vec<Fault> =
        SERVERS.iter().filter_map(|server| cannot_be_used(facts, server)).collect();
    faults.extend(read_only(facts));
    faults.extend(gates(facts));
    faults.extend(clocks(facts));
    faults
}

fn cannot_be_used(facts: &Facts, server: &Server) -> Option<Fault> {
    let mut reports: Vec<Report<'_>> = facts
        .answered()
        .filter_map(|process| Some(Report { process, part: process.part(server.part)? }))
        // A process that starts says nothing of the server.
        .filter(|report| report.part.server.is_some() && !report.part.is_starting())
        .collect();
    let all = reports.len();
    reports.retain(|report| !report.part.is_up);
    let first = reports.iter().min_by_key(|report| report.part.since)?.part;
    let address = first.server.as_deref().unwrap_or_default();
    let by = if reports.len() < all { by_whom(&reports) } else { String::new() };
    let why = first.why.as_deref().map(clipped).unwrap_or_default();
    let cause = format!("{} at {address} cannot be used{by}: {why}", server.shown);
    Some(Fault::new(server.rank, cause, server.action).since(first.since))
}

/// Names the processes that cannot use a server.
fn by_whom(reports: &[Report<'_>]) -> String {
    let mut names: Vec<&str> =
        reports.iter().filter_map(|report| Some(report.process.kind?.word())).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { String::new() } else { format!(" by {}", joined(&names)) }
}

fn read_only(facts: &Facts) -> Option<Fault> {
    let cause = "MySQL is read-only".to_owned();
    let action = "Let the primary take changes, or lead DATABASE_URL to the new one (runbook: LandingRefused).";
    facts.is_read_only().then(|| Fault::new(Rank::ReadOnly, cause, action))
}

fn gates(facts: &Facts) -> Option<Fault> {
    let Some(gates) = &facts.gates_not_loaded else {
        // Nobody can look at them without these two.
        let can_look = |api: &Process| api.has("mysql") && api.has("gate");
        let cause = "it is not known which gates are loaded".to_owned();
        let action = "An api's log says what its keeper met (runbook: GateNotLoaded).";
        let is_unexplained = facts.of(Kind::Api).any(can_look);
        return is_unexplained.then(|| Fault::new(Rank::Unknown, cause, action));
    };
    let first = gates.iter().min_by_key(|gate| gate.opens_at)?;
    let seconds = (first.opens_at - facts.now).num_seconds();
    let opens = if seconds > 0 { format!("opens in {seconds} s") } else { "is open".to_owned() };
    let template = &first.template;
    let cause = match gates.len() {
        1 => format!("the gate of template {template} is not loaded, and its window {opens}"),
        count => {
            format!("{count} gates are not loaded, and the window of template {template} {opens}")
        }
    };
    let action = format!(
        "`coupon template rebuild-gate {template}` tries at once; if time is short, pause it (runbook: GateNotLoaded)."
    );
    Some(Fault::new(Rank::GateNotLoaded, cause, action))
}

fn clocks(facts: &Facts) -> Vec<Fault> {
    let differs = |process: &&Process| process.has_wrong_clock();
    let of = |process: &Process| {
        let stops = process.flips == Some(false);
        let by = process.clock_ahead.map_or_else(String::new, |ahead| {
            let direction = if ahead < 0.0 { "behind" } else { "ahead of" };
            format!(" by {:.1} s {direction} MySQL's", ahead.abs())
        });
        let effect = if stops { ", so it ends no coupons" } else { "" };
        let cause = format!("the clock of {} is wrong{by}{effect}", process.shown());
        let rank = if stops { Rank::ClockStops } else { Rank::ClocksApart };
        let since = process.part("clock").filter(|part| !part.is_up).and_then(|part| part.since);
        let action = "Set its clock and MySQL's by NTP (runbook: ClocksApart).";
        Fault::new(rank, cause, action).since(since)
    };
    facts.answered().filter(differs).map(of).collect()
}
