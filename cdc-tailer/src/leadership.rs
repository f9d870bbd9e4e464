//! Who may publish: one tailer of each database, whatever their number.
//!
//! The tailers of a database are a consumer group on the checkpoint topic, which has one partition: who
//! holds it leads. Holding it is when a tailer *begins*. When it *ends* the broker says otherwise: a
//! successor takes the checkpoint's transactional id over, and its predecessor's next checkpoint is
//! refused. So a leader that has lost the partition (it was stopped, or the broker was away) goes on
//! until its checkpoint is refused, and writes one at once to find out. A broker that stalls for all
//! costs no leader its place.

use std::time::Duration;

use anyhow::Context as _;
use runtime::Part;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use topic::{Assignment, Consumer, ConsumerOptions, TopicError, TopicNames};

/// Heartbeats within one session: a member that is lost is noticed as late as a session, one that
/// leaves or joins as late as a heartbeat.
const HEARTBEATS_IN_SESSION: u32 = 10;

/// Messages taken at a time. They are checkpoints of whoever leads, and of no use here.
const BATCH: usize = 1_000;

/// Membership in the group of a database's tailers; ends when dropped.
pub(crate) struct Leadership {
    topic: String,
    rebalances: watch::Receiver<Assignment>,
    member: JoinHandle<Result<(), TopicError>>,
    leave: DropGuard,
}

impl Leadership {
    /// Joins. A member that says nothing for `timeout` loses its place.
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
            ConsumerOptions { session_timeout: timeout, heartbeat, ..ConsumerOptions::default() };
        let consumer =
            Consumer::join(brokers, &group, std::slice::from_ref(&topic), options).await?;
        let rebalances = consumer.rebalances();
        let leave = CancellationToken::new();
        let member = tokio::spawn(stay(consumer, leave.clone()));
        Ok(Self { topic, rebalances, member, leave: leave.drop_guard() })
    }

    /// Waits until this one leads; meanwhile `part` says that it stands by.
    pub(crate) async fn elected(&mut self, part: &Part) -> anyhow::Result<()> {
        part.not_ready("joining the group of tailers");
        while !self.holds() {
            self.rebalances.changed().await.context("the group of tailers was left")?;
            if !self.holds() {
                part.ready_as("standby");
            }
        }
        Ok(())
    }

    /// Whether this one leads, as far as it has heard.
    pub(crate) fn holds(&self) -> bool {
        !self.rebalances.borrow().of(&self.topic).is_empty() && !self.member.is_finished()
    }

    /// Leaves, so that another can lead at once.
    pub(crate) async fn leave(self) {
        drop(self.leave);
        // Whatever went wrong in the group is of no interest any more.
        drop(self.member.await);
    }
}

/// Polls, which keeps the membership alive, until it shall leave.
async fn stay(consumer: Consumer, leave: CancellationToken) -> Result<(), TopicError> {
    loop {
        tokio::select! {
            biased;
            () = leave.cancelled() => return consumer.close().await,
            batch = consumer.next_batch(BATCH) => drop(batch?),
        }
    }
}
