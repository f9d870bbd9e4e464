//! Limits of what clients may use of this process: connections, memory and time.

use std::time::Duration;

use mysql_store::connect;

/// Default limit of concurrent connections; further ones wait in the system's queue. Each costs a file, 8 KiB here
/// while its client is idle, and the buffers that `listener.rs` sets.
pub(crate) const CONNECTIONS: usize = 16_384;

/// Default limit of connections per client address, or of a client's concurrent requests through a proxy. A browser
/// opens six, and some dozens of people share an address. At least 64 addresses are needed to take all connections of a
/// process.
pub(crate) const PER_ADDRESS: usize = 256;

/// Maximum bytes that unanswered requests may hold, beyond the first 8 KiB of each connection: a thousand of the
/// largest. They use up to three times as much memory.
const HELD_MAX: usize = 64 * 1024 * 1024;

/// Time limit for a request's head, including the wait for it. Longer than the minute for which load balancers keep an
/// idle connection, so that the balancer closes it, and not we while its next request is under way.
const HEAD_MAX: Duration = Duration::from_secs(75);

/// Time limit for any request, including its body. Every route has shorter limits of its own.
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// Time limit for a request that only reads: a server that does not respond is not waited for any longer.
const READ_MAX: Duration = connect::ANSWER_MAX;

/// Time limit for a client to take an answer, from its first byte to its last. The largest has some hundred kilobytes,
/// which the slowest lines transfer in that time. A client that sends requests ahead of the answers has as much again
/// for the following ones.
const TAKE_MAX: Duration = Duration::from_secs(30);

/// The limits of a process. Tests have shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Concurrent connections of one client's address. 0: no limit.
    pub(crate) per_address: usize,
    /// Bytes held by unanswered requests, beyond what any connection may hold.
    pub(crate) held: usize,
    /// For a request's head, including the wait for it.
    pub(crate) head: Duration,
    /// For a request, from its head to the head of its answer.
    pub(crate) request: Duration,
    /// For a request that only reads.
    pub(crate) read: Duration,
    /// For a client to take an answer.
    pub(crate) take: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            per_address: PER_ADDRESS,
            held: HELD_MAX,
            head: HEAD_MAX,
            request: REQUEST_MAX,
            read: READ_MAX,
            take: TAKE_MAX,
        }
    }
}
