//! A member of a consumer group.
//!
//! Only stored offsets are committed, and callers store an offset only after its effect. Stored offsets are committed
//! every second, when partitions are revoked, and in [`Consumer::close`]. Uncommitted messages are delivered again, so
//! effects must be idempotent.
//!
//! A batch that cannot be read holds up its partition alone (`held_up.rs`): the client tries it again for ever, and reads
//! the other partitions on.
//!
//! A client that lost its partitions and receives no new assignment is replaced by a fresh one: on an overloaded
//! machine a client was seen waiting for ever although its broker was back and all other clients worked.

use std::{
    mem,
    sync::{Arc, PoisonError, RwLock},
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
    ConsumerOptions, HeldUp, Message, TopicError, client,
    consume::{
        held_up::HeldUpWatch,
        made_anew::{self, MadeAnew},
        member::{Assignment, Member, Membership, commit_stored},
        wait_out,
    },
    error::is_of_batch,
};

/// A member of a consumer group.
pub struct Consumer {
    client: Arc<RwLock<Arc<Client>>>,
    config: ClientConfig,
    topics: Vec<String>,
    rejoin_within: Duration,
    membership: watch::Sender<Membership>,
    rebalances: watch::Receiver<Assignment>,
    held_up: HeldUpWatch,
    made_anew: MadeAnew,
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
        let config = options.config(brokers, group);
        let membership = watch::Sender::default();
        let held_up = HeldUpWatch::default();
        let member = Member::new(assignments, membership.clone(), held_up.reasons());
        let lost = member.lost.clone();
        let inner = lost.client(&config, member, Client::client).await?;
        let address = brokers.to_owned();
        let topics = topics.to_vec();
        let names = topics.clone();
        let (inner, known) = client::blocking(move || {
            match client::await_topics(inner.client(), &address, &names) {
                // The other partitions are consumed now, this one once it has a leader.
                Err(error @ TopicError::NoLeader { .. }) => {
                    warn!(error = %error, "consuming the rest");
                }
                led => led?,
            }
            let known = match options.notices_new_topics {
                true => made_anew::ids(&inner, &names),
                false => made_anew::Ids::new(),
            };
            subscribe(&inner, &names)?;
            Ok((inner, known))
        })
        .await?;
        let client = Arc::new(RwLock::new(inner));
        let rejoin_within = options.rejoin_within;
        let watched = if options.notices_new_topics { topics.clone() } else { Vec::new() };
        let made_anew = MadeAnew::watch(&client, watched, known, rebalances.clone());
        Ok(Self {
            client,
            config,
            topics,
            rejoin_within,
            membership,
            rebalances,
            held_up,
            made_anew,
        })
    }

    /// Waits for at least one message, then takes those that have arrived, up to `max`. Never waits for a batch to
    /// fill. Waits out broker outages. A partition with a batch that cannot be read is held up there, and the others go on
    /// ([`Consumer::held_up`]). Cancel-safe.
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
            // First of all: there may always be a message, and none of them can be stored.
            if let Some(error) = self.made_anew.error() {
                return Err(error);
            }
            let client = self.client();
            let mut stream = client.stream();
            let mut next = tokio::select! {
                // First: the looks rely on everything that has arrived being taken.
                biased;
                next = stream.next() => next,
                () = self.held_up.watch(&client) => continue,
                error = self.made_anew.found() => return Err(error),
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
                        if !is_of_batch(&error) {
                            wait_out(error, &self.topics.join(", "))?;
                        }
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
        if self.made_anew.is_found() {
            return;
        }
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
        self.held_up.set_fetching(topic, partitions, is_on);
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

    /// Returns a channel with the partitions that are held up by something that cannot be read.
    pub fn held_up(&self) -> watch::Receiver<Vec<HeldUp>> {
        self.held_up.shown()
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
            let Self { client, made_anew, .. } = self;
            made_anew.end();
            client::closing::close(client);
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
        client::closing::close_aside(stuck);
        Ok(())
    }
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
