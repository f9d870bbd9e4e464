//! What is known of the platform at one moment: the only argument of the first sentence.
//!
//! What is not known is `None`, never 0, empty or well.

use chrono::{DateTime, Utc};

use super::kind::Kind;

/// Everything that is known.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) now: DateTime<Utc>,
    /// Each process that was asked, and the api that asked.
    pub(crate) processes: Vec<Process>,
    /// When a tailer was last seen to lead. `None`: not since this api began.
    pub(crate) led_at: Option<DateTime<Utc>>,
    /// Age of the oldest change that is not on the topics for certain, in seconds.
    pub(crate) publish_lag: Option<f64>,
    /// Age of the oldest change that is not in the users' lists, in seconds.
    pub(crate) list_lag: Option<f64>,
    pub(crate) gates_not_loaded: Option<Vec<ClosedGate>>,
}

/// A gate that should be loaded and is not.
#[derive(Debug, Clone)]
pub(crate) struct ClosedGate {
    pub(crate) template: String,
    /// When its claim window opens, or has opened.
    pub(crate) opens_at: DateTime<Utc>,
}

/// A process, as it answered or did not.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// `None`: it has never answered, and no setting names it.
    pub(crate) kind: Option<Kind>,
    /// Its admin address. `None`: the api that asked.
    pub(crate) address: Option<String>,
    /// Why there is no answer. `None`: it answered.
    pub(crate) silence: Option<Silence>,
    pub(crate) parts: Vec<Part>,
    /// Whether it is the tailer that publishes.
    pub(crate) leads: bool,
    /// Whether MySQL takes no changes, as an api sees it.
    pub(crate) is_read_only: Option<bool>,
    /// How far its clock is ahead of MySQL's, in seconds.
    pub(crate) clock_ahead: Option<f64>,
    /// Whether an expiry-worker ends coupons, which it does not by a wrong clock.
    pub(crate) flips: Option<bool>,
}

/// A process that does not answer.
#[derive(Debug, Clone)]
pub(crate) struct Silence {
    pub(crate) why: String,
    pub(crate) since: Option<DateTime<Utc>>,
}

/// A part of a process, or a server that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) is_up: bool,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) why: Option<String>,
    /// The address of a server.
    pub(crate) server: Option<String>,
}

/// Reason of a part that has not reported yet, as `runtime::Health` words it.
const STARTING: &str = "starting";

impl Facts {
    /// All processes of a kind, whether they answer or not.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.kind == Some(kind))
    }

    /// The processes that answered.
    pub(super) fn answered(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.answers())
    }

    /// Whether a process of this kind was asked at all.
    pub(super) fn knows(&self, kind: Kind) -> bool {
        self.of(kind).next().is_some()
    }

    /// Whether processes were asked that run queued claims. Without them a platform has none.
    pub(super) fn has_queue(&self) -> bool {
        self.knows(Kind::OutboxRelay) || self.knows(Kind::ClaimLander)
    }

    pub(super) fn leader(&self) -> Option<&Process> {
        self.answered().find(|process| process.leads)
    }

    /// Whether an api found MySQL read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.of(Kind::Api).any(|api| api.is_read_only == Some(true))
    }

    /// How late lists are, if they are late: since nobody publishes, or by the larger lag.
    pub(super) fn lists_late_by(&self) -> Option<f64> {
        if self.leader().is_none() {
            let since = self.led_at?;
            return Some((self.now - since).as_seconds_f64().max(0.0));
        }
        let lags = [self.publish_lag, self.list_lag].into_iter().flatten();
        lags.reduce(f64::max).filter(|lag| *lag > LATE_FROM)
    }
}

/// Lag from which lists are late, in seconds: checkpoints, batches and a rebalance take less.
pub(super) const LATE_FROM: f64 = 10.0;

/// Clock difference from which something depends on it, in seconds: uses that are in time are refused, and a worker is not
/// ready.
const CLOCK_AHEAD_MAX: f64 = 0.25;

impl Process {
    pub(super) fn answers(&self) -> bool {
        self.silence.is_none()
    }

    /// Whether it can use this server. One that it does not speak of cannot be counted on.
    pub(super) fn has(&self, server: &str) -> bool {
        self.answers() && self.part(server).is_some_and(|part| part.is_up)
    }

    /// Whether it says that this part does not work. An older version may not have the part.
    pub(super) fn lacks(&self, part: &str) -> bool {
        self.part(part).is_some_and(|part| !part.is_up)
    }

    pub(super) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Whether a server that it needs cannot be used, which explains what else is wrong with it.
    pub(super) fn lacks_a_server(&self) -> bool {
        self.parts.iter().any(|part| part.server.is_some() && !part.is_up)
    }

    /// Whether its clock differs from MySQL's by so much that something depends on it.
    pub(super) fn has_wrong_clock(&self) -> bool {
        let is_apart = self.clock_ahead.is_some_and(|ahead| ahead.abs() > CLOCK_AHEAD_MAX);
        self.flips == Some(false) || is_apart
    }

    /// Its name and address.
    pub(super) fn shown(&self) -> String {
        let name = self.kind.map_or("a process", Kind::word);
        match &self.address {
            Some(address) => format!("{name} at {address}"),
            None => format!("this {name}"),
        }
    }
}

impl Part {
    pub(super) fn is_starting(&self) -> bool {
        !self.is_up && self.why.as_deref() == Some(STARTING)
    }
}
