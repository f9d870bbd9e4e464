//! What a client may take of this process: connections and time.

use std::time::Duration;

use mysql_store::connect;

/// Connections at a time; the next wait in the system's queue. Each costs a file, 8 KiB here while its client says nothing,
/// and what `listener.rs` lets the system keep for it.
pub(crate) const CONNECTIONS: usize = 16_384;

/// Connections of one client's address, or requests of one that are under way by a proxy: a browser has six, and some
/// dozens of people share an address. All of a process are then not to be had by fewer than 64 addresses.
pub(crate) const PER_ADDRESS: usize = 256;

/// Bytes that requests may hold which are not answered yet, beyond the first 8 KiB of each connection: a thousand of the
/// largest. In memory it is up to three times as much.
const HELD_MAX: usize = 64 * 1024 * 1024;

/// How long a connection may take for a request's head, the wait for it included: longer than the minute
/// for which balancers keep an idle one, so that they close it and not we, under their next request.
const HEAD_MAX: Duration = Duration::from_secs(75);

/// How long any request may take, its body's way included; every route has shorter waits of its own.
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// How long one that only reads may take: a server that says nothing is not waited for any longer.
const READ_MAX: Duration = connect::ANSWER_MAX;

/// How long a client may take to take an answer, from its first byte to its last: the largest has some hundred
/// kilobytes, which the slowest of lines brings over in that time. Who sends requests ahead of the answers has as much
/// again for those that follow.
const TAKE_MAX: Duration = Duration::from_secs(30);

/// The limits of a process; tests have shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Of one client's address; 0: any number.
    pub(crate) per_address: usize,
    /// Bytes held by requests that are not answered yet, beyond what any connection may hold.
    pub(crate) held: usize,
    /// For a request's head, the wait for it included.
    pub(crate) head: Duration,
    /// For a request, from its head to its answer's.
    pub(crate) request: Duration,
    /// The same for one that only reads.
    pub(crate) read: Duration,
    /// For an answer to be taken.
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
