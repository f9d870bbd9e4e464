//! Settings of a group's member.

use std::time::Duration;

use rdkafka::ClientConfig;

use crate::client;

/// Interval between commits of stored offsets. A killed consumer repeats at most this much.
const COMMIT_INTERVAL_MS: &str = "1000";

/// Maximum time the broker delays the response to a fetch that finds nothing. It bounds how long a stopping broker waits
/// for us. A message is sent at once; but a fetch that finds none costs the broker as much as one with messages, and each
/// idle consumer sends one in this time.
const FETCH_WAIT_MS: &str = "1000";

/// The same where [`FetchAhead::least_bytes`] asks for more than one message: it then delays messages too.
const GATHER_WAIT_MS: &str = "500";

/// Pause before the next fetch once [`FetchAhead::kbytes`] are buffered. With the client's default of one second a
/// consumer drains the buffer and then idles: it reads one buffer per second, however fast the broker is.
pub(crate) const FETCH_AGAIN_MS: &str = "10";

/// How much a client fetches ahead. All partitions share one queue, first in, first out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchAhead {
    /// Kilobytes in the queue at which fetching pauses.
    pub kbytes: u32,
    /// Maximum bytes of one partition in one response. A larger message comes alone.
    pub partition_bytes: u32,
    /// Minimum bytes of a response, over all partitions; the broker waits for them at most half a second. With 1
    /// a new message comes at once, and costs the broker a response of its own.
    pub least_bytes: u32,
}

impl Default for FetchAhead {
    /// Large enough never to starve a consumer, small enough for a lean process.
    fn default() -> Self {
        Self { kbytes: 16 * 1024, partition_bytes: 1024 * 1024, least_bytes: 1 }
    }
}

/// Timeouts of a consumer in its group, and what it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Time without a heartbeat after which the group gives a dead member's partitions to others. Brokers allow no less
    /// than 6 s by default.
    pub session_timeout: Duration,
    /// Interval between heartbeats. Members learn of a rebalance with this delay.
    pub heartbeat: Duration,
    /// Maximum time without a new assignment (even an empty one) after the client lost its partitions. Then the client
    /// is replaced. While no broker answers this happens only once, which costs nothing.
    pub rejoin_within: Duration,
    pub fetch_ahead: FetchAhead,
    /// Whether the member ends if a topic is made anew, to read it from its beginning.
    pub notices_new_topics: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(6),
            heartbeat: Duration::from_millis(1_500),
            // Ten sessions: whatever delays a group for one session is over by then.
            rejoin_within: Duration::from_secs(60),
            fetch_ahead: FetchAhead::default(),
            notices_new_topics: true,
        }
    }
}

impl ConsumerOptions {
    /// Returns the configuration of a member of `group`.
    pub(crate) fn config(&self, brokers: &str, group: &str) -> ClientConfig {
        let gathers = self.fetch_ahead.least_bytes > 1;
        let mut config = client::base_config(brokers);
        config
            .set("group.id", group)
            .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", self.heartbeat.as_millis().to_string())
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.offset.store", "false")
            .set("enable.auto.commit", "true")
            .set("auto.commit.interval.ms", COMMIT_INTERVAL_MS)
            .set("fetch.min.bytes", self.fetch_ahead.least_bytes.to_string())
            .set("fetch.wait.max.ms", if gathers { GATHER_WAIT_MS } else { FETCH_WAIT_MS })
            .set("queued.max.messages.kbytes", self.fetch_ahead.kbytes.to_string())
            .set("max.partition.fetch.bytes", self.fetch_ahead.partition_bytes.to_string())
            .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS);
        config
    }
}
