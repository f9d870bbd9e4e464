//! Leader election: one tailer per database publishes.
//!
//! The tailers of a database form a consumer group on the checkpoint topic, which has one partition: its owner leads.
//! Owning the partition decides when a tailer *begins*. The broker's fence decides when it *ends*: a successor takes
//! over the checkpoint's transactional id, and its predecessor's next checkpoint is rejected. So a leader that loses
//! the partition (it was suspended, or the broker was unreachable) writes a checkpoint at once, and continues until one
//! is rejected. A broker that stalls for all tailers therefore ends no leadership.

use std::time::Duration;

use runtime::Part;
use thiserror::Error;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use topic::{Assignment, Consumer, ConsumerOptions, TopicError, TopicNames};
use tracing::warn;

/// Heartbeats per session. The group notices a member's death after a session, and a join or leave after a heartbeat.
const HEARTBEATS_IN_SESSION: u32 = 10;

/// Messages per poll. They are the leader's checkpoints and are not used here.
const BATCH: usize = 1_000;

/// This tailer is no member of the group any more, so it would not learn that another one leads.
#[derive(Debug, Error)]
#[error("the group of tailers was left")]
pub(crate) struct GroupLeft;

/// Membership in the group of a database's tailers; ends when dropped.
pub(crate) struct Leadership {
    topic: String,
    rebalances: watch::Receiver<Assignment>,
    member: JoinHandle<Result<(), TopicError>>,
    leave: DropGuard,
}

impl Leadership {
    /// Joins the group. A member without heartbeats for `timeout` loses its partition.
    pub(crate) async fn join(
        brokers: &str,
        names: &TopicNames,
        database: &str,
        timeout: Duration,
    ) -> Result<Self, TopicError> {
        let topic = names.checkpoint();
        let group = format!("{}.cdc-tailer.{database}", names.prefix());
        let heartbeat = timeout / HEARTBEATS_IN_SESSION;
        let options =
            // It reads nothing, so the messages of a topic that is made anew are all the same to it.
            ConsumerOptions {
                session_timeout: timeout,
                heartbeat,
                notices_new_topics: false,
                ..ConsumerOptions::default()
            };
        let consumer =
            Consumer::join(brokers, &group, std::slice::from_ref(&topic), options).await?;
        let rebalances = consumer.rebalances();
        let leave = CancellationToken::new();
        let member = tokio::spawn(stay(consumer, leave.clone()));
        Ok(Self { topic, rebalances, member, leave: leave.drop_guard() })
    }

    /// Waits until this tailer leads; meanwhile `part` reports it as standby.
    pub(crate) async fn elected(&mut self, part: &Part) -> anyhow::Result<()> {
        part.not_ready("joining the group of tailers");
        while !self.holds() {
            if self.rebalances.changed().await.is_err() {
                return Err(GroupLeft.into());
            }
            if !self.holds() {
                part.ready_as("standby");
            }
        }
        Ok(())
    }

    /// Checks that this tailer is still a member of the group. One that is not would never learn that another leads.
    ///
    /// # Errors
    /// [`GroupLeft`].
    pub(crate) fn stands(&self) -> Result<(), GroupLeft> {
        if self.member.is_finished() { Err(GroupLeft) } else { Ok(()) }
    }

    /// Returns whether this tailer leads, as far as it knows.
    pub(crate) fn holds(&self) -> bool {
        !self.rebalances.borrow().of(&self.topic).is_empty() && !self.member.is_finished()
    }

    /// Leaves the group, so that another tailer can lead at once.
    pub(crate) async fn leave(self) {
        drop(self.leave);
        // Errors of the group no longer matter.
        drop(self.member.await);
    }
}

/// Polls, which keeps the membership alive, until `leave`.
async fn stay(consumer: Consumer, leave: CancellationToken) -> Result<(), TopicError> {
    loop {
        tokio::select! {
            biased;
            () = leave.cancelled() => return consumer.close().await,
            batch = consumer.next_batch(BATCH) => if let Err(error) = batch {
                warn!(error = runtime::report(&error), "the group of tailers is left");
                return Err(error);
            },
        }
    }
}
