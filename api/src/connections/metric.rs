//! The metrics of clients' connections.

use runtime::metric::{Kind, Label, Metric};

use super::{Ended, State};

pub(crate) const CONNECTIONS: Metric = Metric {
    name: "api_connections",
    kind: Kind::Gauge,
    unit: "connections",
    labels: &[Label {
        name: "state",
        values: &[State::Waiting.word(), State::Working.word(), State::Answering.word(), FREE],
    }],
    meaning: "of clients: `waiting` for a request or the rest of its head, `working` on one, \
              `answering` (the client has not received all of the answer), and `free`, which can \
              still be taken",
    worry: Some("`free` is a tenth of all"),
};

pub(crate) const LARGEST_ADDRESS: Metric = Metric {
    name: "api_connections_largest_address",
    kind: Kind::Gauge,
    unit: "connections",
    labels: &[],
    meaning: "connections of the address that has the most; through a proxy, its requests in \
              progress",
    worry: Some(
        "[ApiAddressAtItsLimit](operate/runbook.md#apiaddressatitslimit) tells; this says how near an address is",
    ),
};

pub(crate) const CONNECTIONS_ENDED: Metric = Metric {
    name: "api_connections_ended_total",
    kind: Kind::Counter,
    unit: "connections",
    labels: &[Label {
        name: "reason",
        values: &[Ended::Address.word(), Ended::Memory.word(), Ended::Answer.word()],
    }],
    meaning: "connections that the api closed: their `address` has too many; unfinished requests \
              hold too much `memory`; a client did not take an `answer` in time",
    worry: Some("any of `address`: it may be your proxy"),
};

pub(crate) const REQUESTS_HELD: Metric = Metric {
    name: "api_requests_held_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "held by unanswered requests, beyond the first 8 KiB of each connection; at 64 MiB \
              the api refuses longer ones",
    worry: Some("above 32 MiB"),
};

/// The `state` of connections that can still be taken.
pub(crate) const FREE: &str = "free";
