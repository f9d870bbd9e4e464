//! The first sentence about the platform: what works for users, why the rest does not, and what to do.
//!
//! One pure function makes it, [`FirstSentence::of`], for everything that shows it. Its table of cases is in `tests.rs`.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    abilities::{Abilities, Ability},
    facts::Facts,
    faults::{self, Fault},
};

/// From this age on a time is shown with its day.
const DAY: TimeDelta = TimeDelta::hours(20);

/// How the platform is as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Well,
    /// It sells; something else is late or stopped, or will be.
    Degraded,
    /// It does not sell.
    Down,
    /// Nothing is known to be wrong, but not everything is known.
    Unknown,
}

/// What is to be said of the platform first.
#[derive(Debug, Clone)]
pub(crate) struct FirstSentence {
    pub(crate) condition: Condition,
    pub(crate) sentence: String,
    /// Its beginning: what works and what does not, without cause and remedy.
    pub(crate) effect: String,
    pub(crate) abilities: Abilities,
    /// What explains most of it. `None`: all is well.
    pub(crate) cause: Option<String>,
    /// What to do about the cause.
    pub(crate) action: Option<String>,
    /// Since when the cause lasts. `None`: it is not known.
    pub(crate) since: Option<DateTime<Utc>>,
    /// The other causes, those that explain more first.
    pub(crate) also: Vec<String>,
}

impl Condition {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Unknown => "unknown",
        }
    }
}

impl FirstSentence {
    pub(crate) fn of(facts: &Facts) -> Self {
        let abilities = Abilities::of(facts);
        let mut faults = faults::of(facts);
        let condition = condition(facts, &abilities, &faults);
        if faults.is_empty() && condition != Condition::Well {
            faults.push(faults::unexplained());
        }
        let mut faults = faults.into_iter();
        let first = faults.next();
        let sentence = match &first {
            None => all_is_well(&abilities),
            Some(fault) => sentence(facts, &abilities, fault),
        };
        let effect = match &first {
            None => sentence.clone(),
            Some(fault) => effect(facts, &abilities, fault),
        };
        Self {
            condition,
            sentence,
            effect,
            abilities,
            since: first.as_ref().and_then(|fault| fault.since),
            also: faults.map(|fault| fault.cause).collect(),
            action: first.as_ref().map(|fault| fault.action.clone()),
            cause: first.map(|fault| fault.cause),
        }
    }
}

fn condition(facts: &Facts, abilities: &Abilities, faults: &[Fault]) -> Condition {
    let claims_are = |state: Ability| abilities.claims == state;
    let are_any = |state: Ability| !listed(facts, abilities, state).is_empty();
    let is_wrong = claims_are(Ability::Late) || are_any(Ability::Late) || are_any(Ability::Stopped);
    let is_unknown = claims_are(Ability::Unknown) || are_any(Ability::Unknown);
    if claims_are(Ability::Stopped) {
        Condition::Down
    } else if is_wrong || faults.iter().any(|fault| !fault.is_of_knowledge()) {
        Condition::Degraded
    } else if is_unknown || !faults.is_empty() {
        Condition::Unknown
    } else {
        Condition::Well
    }
}

fn all_is_well(abilities: &Abilities) -> String {
    let queued = if abilities.queued_claims == Ability::Works { "queued claims, " } else { "" };
    format!("All is well: claims, {queued}payments, lists and expiry work.")
}

fn sentence(facts: &Facts, abilities: &Abilities, fault: &Fault) -> String {
    let sells = sells(abilities);
    let said = rest(facts, abilities);
    let rest = if said.is_empty() { "all else works, but" } else { said.as_str() };
    let since = since(facts, fault);
    format!("{sells}; {rest}{since}: {}. {}", fault.cause, fault.action)
}

/// Says what works and what does not, and nothing of why.
fn effect(facts: &Facts, abilities: &Abilities, fault: &Fault) -> String {
    let sells = sells(abilities);
    let said = rest(facts, abilities);
    let since = since(facts, fault);
    match (said.is_empty(), abilities.claims) {
        (true, Ability::Works) => format!("{sells}."),
        (true, _) => format!("{sells}{since}."),
        (false, _) => format!("{sells}; {said}{since}."),
    }
}

fn sells(abilities: &Abilities) -> &'static str {
    match abilities.claims {
        Ability::Works => "Selling",
        Ability::Late => "Selling in part",
        Ability::Stopped => "Not selling",
        Ability::Unknown => "Not known whether it sells",
    }
}

fn since(facts: &Facts, fault: &Fault) -> String {
    let since = fault.since.map(|since| format!(" since {}", time(since, facts.now)));
    since.unwrap_or_default()
}

/// Says how everything but claims is. Empty: it works.
fn rest(facts: &Facts, abilities: &Abilities) -> String {
    let mut said = Vec::new();
    let stopped = listed(facts, abilities, Ability::Stopped);
    if !stopped.is_empty() {
        said.push(format!("{} stopped", joined(&stopped)));
    }
    let mut late = listed(facts, abilities, Ability::Late);
    let lists_late = facts.lists_late_by().filter(|_| abilities.lists == Ability::Late);
    if lists_late.is_some() {
        late.retain(|name| *name != "lists");
    }
    if !late.is_empty() {
        said.push(format!("{} late", joined(&late)));
    }
    said.extend(lists_late.map(|seconds| format!("lists {seconds:.0} s late")));
    let unknown = listed(facts, abilities, Ability::Unknown);
    if !unknown.is_empty() {
        said.push(format!("{} not known", joined(&unknown)));
    }
    said.join(", ")
}

/// Returns what else is in this state, by name.
fn listed(facts: &Facts, abilities: &Abilities, state: Ability) -> Vec<&'static str> {
    let mut names = Vec::new();
    // A platform without a queue lacks nothing.
    if abilities.queued_claims == state && (state != Ability::Unknown || facts.has_queue()) {
        names.push("queued claims");
    }
    if abilities.payments == state {
        names.push("payments");
    }
    if abilities.lists == state {
        names.push("lists");
    }
    if abilities.expiry == state {
        names.push("expiry");
    }
    names
}

/// Joins names as a sentence does.
pub(super) fn joined(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn time(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let format = if (now - at).abs() < DAY { "%H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S UTC" };
    at.format(format).to_string()
}
