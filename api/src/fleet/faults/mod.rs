//! What is wrong with the platform: each cause once, the one that explains most first. What another cause explains is no
//! cause: a tailer without MySQL leads nothing.

mod processes;
mod servers;

use chrono::{DateTime, Utc};

use super::facts::Facts;

/// Characters of a reason that are shown. Some hold a whole request.
const WHY_CHARS_MAX: usize = 160;

/// What explains more comes first: a server before a process that needs it, what stops claims before what delays lists,
/// and what is only not known at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Mysql,
    Gate,
    ReadOnly,
    Kafka,
    Queue,
    GateNotLoaded,
    Tailer,
    NoLeader,
    Consumer,
    Worker,
    ClockStops,
    View,
    ShardsUnowned,
    Lag,
    Api,
    OneOfSeveral,
    ClocksApart,
    Part,
    /// From here on nothing is known to be wrong.
    Unknown,
}

/// Something that is wrong, or not known.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    rank: Rank,
    /// A clause, to stand behind a colon.
    pub(super) cause: String,
    /// One or more sentences.
    pub(super) action: String,
    pub(super) since: Option<DateTime<Utc>>,
}

impl Fault {
    fn new(rank: Rank, cause: String, action: impl Into<String>) -> Self {
        Self { rank, cause, action: action.into(), since: None }
    }

    fn since(self, since: Option<DateTime<Utc>>) -> Self {
        Self { since, ..self }
    }

    /// Whether nothing is known to be wrong, but something is not known.
    pub(super) fn is_of_knowledge(&self) -> bool {
        self.rank == Rank::Unknown
    }
}

/// What is said of a platform that is not well although nothing above is wrong, as for a moment while states change.
pub(super) fn unexplained() -> Fault {
    let action = "Ask again; then see /readyz of each process (runbook: ReadinessLost).";
    Fault::new(Rank::Unknown, "the cause is not known".to_owned(), action)
}

/// Returns everything that is wrong or not known.
pub(super) fn of(facts: &Facts) -> Vec<Fault> {
    let mut faults = servers::of(facts);
    faults.extend(processes::of(facts));
    // Those of one rank stay in the order of the processes.
    faults.sort_by_key(|fault| fault.rank);
    faults
}

/// Shortens a reason, and lets it stand inside a sentence.
fn clipped(why: &str) -> String {
    let short: String = why.chars().take(WHY_CHARS_MAX).collect();
    let dots = if short.len() < why.len() { "…" } else { "" };
    format!("{}{dots}", short.trim_end_matches(['.', ' ']))
}
