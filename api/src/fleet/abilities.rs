//! What the platform can do for users, by what its processes say of their own servers: a server that one process does
//! not reach may serve all others.

use super::{
    facts::{Facts, LATE_FROM, Process},
    kind::Kind,
};

/// How far one thing works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ability {
    Works,
    /// Later than usual, or not for everybody.
    Late,
    Stopped,
    Unknown,
}

/// How far everything works that users notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Claims that are answered once they have landed.
    pub(crate) claims: Ability,
    /// Claims of templates that queue. `Late`: they are taken, and land later.
    pub(crate) queued_claims: Ability,
    /// Confirmations of holds. `Late`: those by HTTP work, those sent as messages wait.
    pub(crate) payments: Ability,
    /// Users' lists. `Late`: they lack what is new, or some are not served.
    pub(crate) lists: Ability,
    /// Marking coupons as expired and returning lapsed holds. No coupon can be used late, whatever this is.
    pub(crate) expiry: Ability,
}

impl Ability {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Late => "late",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

impl Abilities {
    pub(super) fn of(facts: &Facts) -> Self {
        Self {
            claims: claims(facts),
            queued_claims: queued_claims(facts),
            payments: payments(facts),
            lists: lists(facts),
            expiry: expiry(facts),
        }
    }
}

fn claims(facts: &Facts) -> Ability {
    if !facts.knows(Kind::Api) {
        return Ability::Unknown;
    }
    let takes = |api: &Process| api.has("mysql") && api.has("gate");
    if facts.is_read_only() || !facts.of(Kind::Api).any(takes) {
        return Ability::Stopped;
    }
    if lacks_an_open_gate(facts) { Ability::Late } else { Ability::Works }
}

/// Whether a template that is on sale has no gate. Its claims are told to come again.
fn lacks_an_open_gate(facts: &Facts) -> bool {
    facts.gates_not_loaded.iter().flatten().any(|gate| gate.opens_at <= facts.now)
}

fn queued_claims(facts: &Facts) -> Ability {
    if !facts.knows(Kind::Api) || !facts.has_queue() {
        return Ability::Unknown;
    }
    if !facts.of(Kind::Api).any(|api| api.has("gate")) {
        return Ability::Stopped;
    }
    let relays = |relay: &Process| relay.has("gate") && relay.has("kafka");
    let is_relayed = facts.of(Kind::OutboxRelay).any(relays);
    let is_landed = facts.of(Kind::ClaimLander).any(lands) && !facts.is_read_only();
    if is_relayed && is_landed {
        return if lacks_an_open_gate(facts) { Ability::Late } else { Ability::Works };
    }
    let is_complete = facts.knows(Kind::OutboxRelay) && facts.knows(Kind::ClaimLander);
    if is_complete { Ability::Late } else { Ability::Unknown }
}

fn lands(lander: &Process) -> bool {
    lander.has("kafka") && lander.has("mysql") && !lander.lacks("partitions")
}

fn payments(facts: &Facts) -> Ability {
    if !facts.knows(Kind::Api) {
        return Ability::Unknown;
    }
    if facts.is_read_only() || !facts.of(Kind::Api).any(|api| api.has("mysql")) {
        return Ability::Stopped;
    }
    // Without a lander a platform takes no payments as messages.
    let takes = |lander: &Process| lands(lander) && !lander.lacks("payments");
    let waits = facts.knows(Kind::ClaimLander) && !facts.of(Kind::ClaimLander).any(takes);
    if waits { Ability::Late } else { Ability::Works }
}

fn lists(facts: &Facts) -> Ability {
    if !facts.knows(Kind::Api) {
        return Ability::Unknown;
    }
    let has = |server: &str| facts.of(Kind::Api).any(|api| api.has(server));
    match (has("view"), has("mysql")) {
        (false, false) => return Ability::Stopped,
        // They come from MySQL, complete.
        (false, true) => return Ability::Works,
        // Those that are not in the view cannot be made.
        (true, false) => return Ability::Late,
        (true, true) => {}
    }
    if !facts.knows(Kind::CdcTailer) || !facts.knows(Kind::SyncConsumer) {
        return Ability::Unknown;
    }
    let follows = |tailer: &Process| {
        tailer.leads && tailer.has("mysql") && tailer.has("kafka") && !tailer.lacks("binlog")
    };
    let applies = |consumer: &Process| {
        let lacks = ["partitions", "stores"].into_iter().any(|part| consumer.lacks(part));
        consumer.has("kafka") && consumer.has("view") && !lacks
    };
    if !facts.answered().any(follows) || !facts.of(Kind::SyncConsumer).any(applies) {
        return Ability::Late;
    }
    match facts.list_lag.zip(facts.publish_lag) {
        None => Ability::Unknown,
        Some((list, publish)) if list.max(publish) > LATE_FROM => Ability::Late,
        Some(_) => Ability::Works,
    }
}

fn expiry(facts: &Facts) -> Ability {
    if !facts.knows(Kind::ExpiryWorker) {
        return Ability::Unknown;
    }
    let flips = |worker: &&Process| worker.has("mysql") && worker.flips != Some(false);
    let mut flipping = facts.of(Kind::ExpiryWorker).filter(flips).peekable();
    if facts.is_read_only() || flipping.peek().is_none() {
        return Ability::Stopped;
    }
    // Without Kafka each worker looks at its shards every second.
    let neglects = |worker: &Process| worker.has("kafka") && worker.lacks("partitions");
    if flipping.any(neglects) { Ability::Late } else { Ability::Works }
}
