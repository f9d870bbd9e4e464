//! What a client may take of this process: connections and time.

use std::time::Duration;

use mysql_store::connect;

/// Connections at a time; the next wait in the system's queue. Each costs some kilobytes and a file.
const CONNECTIONS_MAX: usize = 16_384;

/// How long a connection may take for a request's head, the wait for it included: longer than the minute
/// for which balancers keep an idle one, so that they close it and not we, under their next request.
const HEAD_MAX: Duration = Duration::from_secs(75);

/// How long any request may take, its body's way included; every route has shorter waits of its own.
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// How long one that only reads may take: a server that says nothing is not waited for any longer.
const READ_MAX: Duration = connect::ANSWER_MAX;

/// How long a client may take to take an answer, once the system keeps no more of it: the largest has some
/// hundred kilobytes, which the slowest of lines brings over in that time.
const TAKE_MAX: Duration = Duration::from_secs(30);

/// The limits of a process; tests have shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// For a request's head, the wait for it included.
    pub(crate) head: Duration,
    /// For a request, from its head to its answer's.
    pub(crate) request: Duration,
    /// The same for one that only reads.
    pub(crate) read: Duration,
    /// For an answer to be taken, once the system keeps no more of it.
    pub(crate) take: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            head: HEAD_MAX,
            request: REQUEST_MAX,
            read: READ_MAX,
            take: TAKE_MAX,
        }
    }
}
