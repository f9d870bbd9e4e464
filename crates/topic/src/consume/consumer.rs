//! A member of a consumer group.
//!
//! Only stored offsets are committed, and callers store an offset only after its effect. Stored offsets are committed
//! every second, when partitions are revoked, and in [`Consumer::close`]. Uncommitted messages are delivered again, so
//! effects must be idempotent.
//!
//! A client that lost its partitions and receives no new assignment is replaced by a fresh one: on an overloaded
//! machine a client was seen waiting for ever although its broker was back and all other clients worked.

use std::{
    mem,
    sync::{Arc, PoisonError, RwLock},
    thread,
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use rdkafka::{
    ClientConfig,
    consumer::{Consumer as _, StreamConsumer},
    error::KafkaError,
    topic_partition_list::TopicPartitionList,
    types::RDKafkaErrorCode,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use crate::{
    Message, TopicError, client,
    consume::member::{Assignment, Member, Membership, commit_stored},
    error::is_passing,
};

/// Interval between commits of stored offsets. A killed consumer repeats at most this much.
const COMMIT_INTERVAL_MS: &str = "1000";

/// Maximum time the broker delays the response to a fetch that finds less than [`FetchAhead::least_bytes`]. It bounds
/// how long a stopping broker waits for us. A message is sent at once; but a fetch that finds none costs the broker as
/// much as one with messages, and each idle consumer sends one in this time.
const FETCH_WAIT_MS: &str = "500";

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
    /// Minimum bytes of a response, over all partitions; the broker waits for them at most a tenth of a second. With 1
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
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(6),
            heartbeat: Duration::from_millis(1_500),
            // Ten sessions: whatever delays a group for one session is over by then.
            rejoin_within: Duration::from_secs(60),
            fetch_ahead: FetchAhead::default(),
        }
    }
}

/// A member of a consumer group.
pub struct Consumer {
    client: RwLock<Arc<Client>>,
    config: ClientConfig,
    topics: Vec<String>,
    rejoin_within: Duration,
    membership: watch::Sender<Membership>,
    rebalances: watch::Receiver<Assignment>,
}

type Client = StreamConsumer<Member>;

impl Consumer {
    /// Joins `group` for `topics`. A partition without a committed offset is read from its earliest message. Partitions
    /// arrive later, see [`Consumer::rebalances`].
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s, a topic is missing or the client cannot be created.
    pub async fn join(
        brokers: &str,
        group: &str,
        topics: &[String],
        options: ConsumerOptions,
    ) -> Result<Self, TopicError> {
        let (assignments, rebalances) = watch::channel(Assignment::default());
        let config = config(brokers, group, options);
        let membership = watch::Sender::default();
        let member = Member::new(assignments, membership.clone());
        let lost = member.lost.clone();
        let inner = lost.client(&config, member, Client::client).await?;
        let (address, topics) = (brokers.to_owned(), topics.to_vec());
        let names = topics.clone();
        let inner = client::blocking(move || {
            match client::await_topics(inner.client(), &address, &names) {
                // The other partitions are consumed now, this one once it has a leader.
                Err(error @ TopicError::NoLeader { .. }) => {
                    warn!(error = %error, "consuming the rest");
                }
                led => led?,
            }
            subscribe(&inner, &names)?;
            Ok(inner)
        })
        .await?;
        let client = RwLock::new(inner);
        let rejoin_within = options.rejoin_within;
        Ok(Self { client, config, topics, rejoin_within, membership, rebalances })
    }

    /// Waits for at least one message, then takes those that have arrived, up to `max`. Never waits for a batch to
    /// fill. Waits out broker outages. Cancel-safe.
    ///
    /// Rebalances happen inside this call: a caller that stores a batch before it requests the next one loses no
    /// partition in the middle of a batch.
    ///
    /// # Errors
    ///
    /// Returns errors that are not transient. They are final: drop the consumer and join again; messages that were not
    /// stored are delivered again.
    pub async fn next_batch(&self, max: usize) -> Result<Vec<Message>, TopicError> {
        let mut batch = Vec::new();
        while batch.is_empty() {
            let client = self.client();
            let mut stream = client.stream();
            let mut next = tokio::select! {
                next = stream.next() => next,
                () = self.is_stuck() => {
                    drop(stream);
                    drop(client);
                    self.replace()?;
                    continue;
                }
            };
            while let Some(received) = next {
                match received {
                    Ok(message) => batch.push(Message::detach(&message)),
                    Err(error) => {
                        client.context().lost.hear(&error);
                        wait_out(error)?;
                    }
                }
                if batch.len() >= max {
                    break;
                }
                next = stream.next().now_or_never().flatten();
            }
        }
        Ok(batch)
    }

    /// Marks `message`, and all before it in its partition, as processed. Does nothing for a partition that was revoked
    /// meanwhile: its new owner repeats the message.
    pub fn store(&self, message: &Message) {
        self.store_before(&message.topic, message.partition, message.offset + 1);
    }

    /// Like [`Consumer::store`], for all messages before `next_offset`.
    pub(crate) fn store_before(&self, topic: &str, partition: i32, next_offset: i64) {
        // The client adds 1 to the offset.
        if let Err(error) = self.client().store_offset(topic, partition, next_offset - 1) {
            debug!(
                topic,
                topic.partition = partition,
                topic.offset = next_offset,
                error = %error,
                "offset not stored: the partition has moved on"
            );
        }
    }

    /// Pauses or resumes fetching partitions. Messages of a paused partition that were fetched and not received yet are
    /// fetched again. A partition may still be paused when a rebalance assigns it again.
    pub(crate) fn set_fetching(&self, topic: &str, partitions: &[i32], is_on: bool) {
        if partitions.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(topic, *partition);
        }
        let client = self.client();
        // Waits for the client's thread, which never blocks.
        let set = if is_on { client.resume(&list) } else { client.pause(&list) };
        if let Err(error) = set {
            debug!(topic, error = %error, "fetching is not changed: the partitions have moved on");
        }
    }

    /// Returns a channel with the partitions owned.
    pub fn rebalances(&self) -> watch::Receiver<Assignment> {
        self.rebalances.clone()
    }

    /// Returns how often the client was replaced because it had lost its partitions and received no new assignment.
    pub fn replaced(&self) -> u32 {
        self.membership.borrow().replaced
    }

    /// Commits the stored offsets now.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not accept the commit.
    pub async fn commit(&self) -> Result<(), TopicError> {
        let client = self.client();
        client::blocking(move || commit_stored(client.as_ref()).map_err(TopicError::Commit)).await
    }

    /// Commits the stored offsets and leaves the group, so that other members take over at once. During a rebalance the
    /// group rejects the offsets: the new owners repeat those messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not accept the commit; the consumer leaves the group anyway.
    pub async fn close(self) -> Result<(), TopicError> {
        client::blocking(move || {
            let committed = commit_stored(self.client().as_ref());
            drop(self);
            match committed {
                Err(error) if is_of_old_generation(&error) => {
                    warn!(error = %error, "left the group while it shared out its partitions");
                    Ok(())
                }
                committed => committed.map_err(TopicError::Commit),
            }
        })
        .await
    }

    /// Gives up all partitions and leaves the group until [`Consumer::rejoin`]. Uncommitted messages are delivered to
    /// others.
    ///
    /// # Errors
    ///
    /// See [`Consumer::next_batch`].
    pub(crate) async fn leave(&self) -> Result<(), TopicError> {
        self.membership.send_modify(|membership| membership.is_away = true);
        self.client().unsubscribe();
        let mut owned = self.rebalances();
        while !owned.borrow_and_update().all().is_empty() {
            // The partitions are given up during a read. Their next owner reads these messages again.
            tokio::select! {
                _ = owned.changed() => {}
                read = self.next_batch(1) => drop(read?),
            }
        }
        Ok(())
    }

    /// Joins the group again after [`Consumer::leave`]. Partitions arrive later.
    ///
    /// # Errors
    ///
    /// The client rejects the subscription; the consumer has not joined.
    pub(crate) fn rejoin(&self) -> Result<(), TopicError> {
        subscribe(&self.client(), &self.topics)?;
        self.membership.send_modify(|membership| {
            membership.is_away = false;
            membership.lost_since.get_or_insert_with(Instant::now);
        });
        Ok(())
    }

    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves once the client has been without an assignment for `rejoin_within`.
    async fn is_stuck(&self) {
        let mut membership = self.membership.subscribe();
        loop {
            let now = *membership.borrow_and_update();
            let lost_since = now.lost_since.filter(|_| !now.is_away);
            let over = async {
                match lost_since {
                    Some(since) => sleep_until(since + self.rejoin_within).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender lives as long as this consumer.
                _ = membership.changed() => {}
            }
        }
    }

    /// Replaces the stuck client with a fresh one and ignores later callbacks of the stuck one.
    fn replace(&self) -> Result<(), TopicError> {
        warn!(
            lost_for_ms = self.rejoin_within.as_millis(),
            "partitions were lost and no assignment came: joining the group anew"
        );
        let member = self.client().context().retire();
        let lost = member.lost.clone();
        // Not on a blocking thread: `next_batch` may be cancelled at any wait, and this member has retired.
        let fresh = lost.client_now(&self.config, member, Client::client)?;
        subscribe(&fresh, &self.topics)?;
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        let stuck = mem::replace(&mut *client, fresh);
        drop(client);
        // Dropping a stuck client may block too.
        thread::spawn(move || drop(stuck));
        Ok(())
    }
}

fn config(brokers: &str, group: &str, options: ConsumerOptions) -> ClientConfig {
    let mut config = client::base_config(brokers);
    config
        .set("group.id", group)
        .set("session.timeout.ms", options.session_timeout.as_millis().to_string())
        .set("heartbeat.interval.ms", options.heartbeat.as_millis().to_string())
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.offset.store", "false")
        .set("enable.auto.commit", "true")
        .set("auto.commit.interval.ms", COMMIT_INTERVAL_MS)
        .set("fetch.min.bytes", options.fetch_ahead.least_bytes.to_string())
        .set("fetch.wait.max.ms", FETCH_WAIT_MS)
        .set("queued.max.messages.kbytes", options.fetch_ahead.kbytes.to_string())
        .set("max.partition.fetch.bytes", options.fetch_ahead.partition_bytes.to_string())
        .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS);
    config
}

fn subscribe(client: &Client, topics: &[String]) -> Result<(), TopicError> {
    let names: Vec<_> = topics.iter().map(String::as_str).collect();
    client.subscribe(&names).map_err(TopicError::Consume)
}

/// Returns whether a commit came from a member of an older generation of its group.
fn is_of_old_generation(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::IllegalGeneration
                | RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::UnknownMemberId
        )
    )
}

/// Logs a transient error and returns any other.
pub(crate) fn wait_out(error: KafkaError) -> Result<(), TopicError> {
    if client::is_in_client_log(&error) {
        debug!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    if is_passing(&error) {
        warn!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    Err(TopicError::Consume(error))
}
