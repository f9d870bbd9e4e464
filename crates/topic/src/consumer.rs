//! A member of a consumer group.
//!
//! Nothing is committed that was not stored, and callers store only after the effect. Stored
//! offsets are committed every second, and in the same breath when partitions are taken away and at
//! [`Consumer::close`]. Whatever was not committed comes again: effects must bear repetition.
//!
//! A client that lost its partitions and hears of no new assignment is replaced by a fresh one: on an
//! overloaded machine one was seen to wait for ever, with its broker back and all others at work.

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
};
use tokio::{sync::watch, time::sleep_until};
use tracing::{debug, warn};

use crate::{
    Message, TopicError, client,
    error::is_passing,
    member::{Assignment, Member, Standing, commit_stored},
};

/// How often stored offsets are committed: what a killed consumer repeats at most.
const COMMIT_INTERVAL_MS: &str = "1000";

/// The longest the broker holds a fetch that finds nothing. A message that arrives ends the wait at
/// once, so this costs no latency; it bounds how long a stopping broker waits for us.
const FETCH_WAIT_MS: &str = "100";

/// Bytes of messages fetched ahead: enough to never starve, small enough for a lean process.
const FETCH_AHEAD_KBYTES: &str = "16384";

/// How soon it fetches again once that many lie ready. The client's default of a second is long enough
/// to consume them all and then stand still: 4 MiB a second at most, whatever the broker gives.
pub(crate) const FETCH_AGAIN_MS: &str = "10";

/// How a consumer behaves in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// After how long without a heartbeat the group gives a dead member's partitions to others.
    /// 6 s is the least that brokers allow by default.
    pub session_timeout: Duration,
    /// How often it shows that it is alive, and hears of a rebalance: members of a group that changes
    /// hear of it this late.
    pub heartbeat: Duration,
    /// How long after it lost its partitions a client may hear of no new assignment, an empty one
    /// included, before it is replaced. While no broker answers it is replaced once, which costs nothing.
    pub rejoin_within: Duration,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(6),
            heartbeat: Duration::from_millis(1_500),
            // Ten sessions: what holds a group up for one is over by then.
            rejoin_within: Duration::from_secs(60),
        }
    }
}

/// A member of a consumer group.
pub struct Consumer {
    client: RwLock<Arc<Client>>,
    config: ClientConfig,
    topics: Vec<String>,
    rejoin_within: Duration,
    standing: watch::Sender<Standing>,
    rebalances: watch::Receiver<Assignment>,
}

type Client = StreamConsumer<Member>;

impl Consumer {
    /// Joins `group` for `topics`, from the earliest message where the group has no offset yet.
    /// Fails when no broker answers within 15 s or a topic is missing. Partitions arrive later, see
    /// [`Consumer::rebalances`].
    pub async fn join(
        brokers: &str,
        group: &str,
        topics: &[String],
        options: ConsumerOptions,
    ) -> Result<Self, TopicError> {
        let (assignments, rebalances) = watch::channel(Assignment::default());
        let config = config(brokers, group, options);
        let standing = watch::Sender::default();
        let member = Member::new(assignments, standing.clone());
        let inner = client_of(member, &config)?;
        let (address, topics) = (brokers.to_owned(), topics.to_vec());
        let names = topics.clone();
        let inner = client::blocking(move || {
            client::await_topics(inner.client(), &address, &names)?;
            subscribe(&inner, &names)?;
            Ok(inner)
        })
        .await?;
        let client = RwLock::new(inner);
        let rejoin_within = options.rejoin_within;
        Ok(Self { client, config, topics, rejoin_within, standing, rebalances })
    }

    /// Waits for at least one message, then takes what has arrived by then, up to `max`. Never
    /// waits for a batch to fill. Broker outages are waited out. Cancel-safe. An error is final:
    /// drop the consumer and join again, and what was not stored comes again.
    ///
    /// Rebalances happen inside this call, so a caller that stores a batch before it asks for the
    /// next one loses no partition in the middle of a batch.
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

    /// Remembers that the effect of `message`, and of all before it in its partition, is done. A
    /// partition that was taken away meanwhile is passed over: its new owner repeats the message.
    pub fn store(&self, message: &Message) {
        let next = self.client().store_offset(&message.topic, message.partition, message.offset);
        if let Err(error) = next {
            debug!(
                topic = message.topic,
                topic.partition = message.partition,
                topic.offset = message.offset,
                error = %error,
                "offset not stored: the partition has moved on"
            );
        }
    }

    /// The partitions owned, as they change.
    pub fn rebalances(&self) -> watch::Receiver<Assignment> {
        self.rebalances.clone()
    }

    /// How often its client was replaced, because it had lost its partitions and heard no more.
    pub fn replaced(&self) -> u32 {
        self.standing.borrow().replaced
    }

    /// Commits what was stored, now.
    pub async fn commit(&self) -> Result<(), TopicError> {
        let client = self.client();
        client::blocking(move || commit_stored(client.as_ref()).map_err(TopicError::Commit)).await
    }

    /// Commits what was stored and leaves the group, so that others take over at once.
    pub async fn close(self) -> Result<(), TopicError> {
        client::blocking(move || {
            let committed = commit_stored(self.client().as_ref()).map_err(TopicError::Commit);
            drop(self);
            committed
        })
        .await
    }

    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when the client has been without an assignment for too long.
    async fn is_stuck(&self) {
        let mut standing = self.standing.subscribe();
        loop {
            let lost_since = standing.borrow_and_update().lost_since;
            let over = async {
                match lost_since {
                    Some(since) => sleep_until(since + self.rejoin_within).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The other end lives as long as this consumer.
                _ = standing.changed() => {}
            }
        }
    }

    /// Puts a fresh client in the place of the one that is stuck, which is heard no more.
    fn replace(&self) -> Result<(), TopicError> {
        warn!(
            lost_for_ms = self.rejoin_within.as_millis(),
            "partitions were lost and no assignment came: joining the group anew"
        );
        let member = self.client().context().retire();
        let fresh = client_of(member, &self.config)?;
        subscribe(&fresh, &self.topics)?;
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        let stuck = mem::replace(&mut *client, fresh);
        drop(client);
        // Its end may wait for what it is stuck on.
        thread::spawn(move || drop(stuck));
        Ok(())
    }
}

fn client_of(member: Member, config: &ClientConfig) -> Result<Arc<Client>, TopicError> {
    let lost = member.lost.clone();
    lost.client(config, member, Client::client)
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
        .set("fetch.min.bytes", "1")
        .set("fetch.wait.max.ms", FETCH_WAIT_MS)
        .set("queued.max.messages.kbytes", FETCH_AHEAD_KBYTES)
        .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS);
    config
}

fn subscribe(client: &Client, topics: &[String]) -> Result<(), TopicError> {
    let names: Vec<_> = topics.iter().map(String::as_str).collect();
    client.subscribe(&names).map_err(TopicError::Consume)
}

/// Logs a failure that passes, returns one that does not.
pub(crate) fn wait_out(error: KafkaError) -> Result<(), TopicError> {
    if client::is_told(&error) {
        debug!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    if is_passing(&error) {
        warn!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    Err(TopicError::Consume(error))
}
