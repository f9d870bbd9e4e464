//! The metrics of clients' connections.

use super::Ended;

/// Gauge by `state`: client connections that are `waiting` for a request, `working` on one or `answering`, and those
/// that are still available (`free`).
pub(crate) const CONNECTIONS: &str = "api_connections";
/// Gauge: connections of the address that has the most; through a proxy, its concurrent requests.
pub(crate) const LARGEST_ADDRESS: &str = "api_connections_largest_address";
/// Gauge: bytes of unanswered requests, beyond the first 8 KiB of each connection.
pub(crate) const REQUESTS_HELD: &str = "api_requests_held_bytes";
/// Counter by `reason`: connections that we ended.
pub(crate) const CONNECTIONS_ENDED: &str = "api_connections_ended_total";

/// Describes them once, for `/metrics`.
pub(crate) fn describe() {
    metrics::describe_gauge!(CONNECTIONS, "connections of clients");
    metrics::describe_gauge!(LARGEST_ADDRESS, "connections of the address that has the most");
    metrics::describe_gauge!(REQUESTS_HELD, "bytes of requests that are not answered yet");
    metrics::describe_counter!(CONNECTIONS_ENDED, "connections of clients that we ended");
    for reason in Ended::ALL {
        metrics::counter!(CONNECTIONS_ENDED, "reason" => reason.word()).absolute(0);
    }
}
