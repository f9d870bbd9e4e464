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
    meaning: "of clients: `waiting` for a request's head; `working`; `answering`, until the client \
              has the answer; `free` to be taken",
    worry: Some("`free` is a tenth"),
};

pub(crate) const LARGEST_ADDRESS: Metric = Metric {
    name: "api_connections_largest_address",
    kind: Kind::Gauge,
    unit: "connections",
    labels: &[],
    meaning: "of the address with the most; through a proxy, its requests in progress",
    worry: Some("[ApiAddressAtItsLimit](operate/runbook.md#apiaddressatitslimit)"),
};

pub(crate) const CONNECTIONS_ENDED: Metric = Metric {
    name: "api_connections_ended_total",
    kind: Kind::Counter,
    unit: "connections",
    labels: &[Label {
        name: "reason",
        values: &[Ended::Address.word(), Ended::Memory.word(), Ended::Answer.word()],
    }],
    meaning: "closed by the api: an `address` has too many; unfinished requests hold too much \
              `memory`; a client takes its `answer` too slowly",
    worry: Some("any `address`: it may be your proxy"),
};

pub(crate) const REQUESTS_HELD: Metric = Metric {
    name: "api_requests_held_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "of unanswered requests, beyond 8 KiB of each connection; at 64 MiB longer ones are \
              refused",
    worry: Some("above 32 MiB"),
};

/// The `state` of connections that can still be taken.
pub(crate) const FREE: &str = "free";
