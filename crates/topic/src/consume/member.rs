//! Callbacks of a group member: its partitions, and whether it lost them.

use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, ConsumerContext, Rebalance},
    error::{KafkaError, KafkaResult},
    topic_partition_list::TopicPartitionList,
    types::RDKafkaErrorCode,
};
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use crate::{
    client::{self, lost_brokers::LostBrokers},
    consume::held_up::Reasons,
    error::is_of_batch,
};

/// The partitions a consumer owns now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    partitions: Vec<(String, i32)>,
    standing: Standing,
}

/// Whether the group has assigned partitions to a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// The first assignment has not come.
    #[default]
    Awaited,
    Stands,
    Lost,
}

impl Assignment {
    /// Returns whether the group has made an assignment, and it was not lost since. With more members than partitions,
    /// some assignments are empty: they stand too.
    pub fn stands(&self) -> bool {
        self.standing == Standing::Stands
    }

    /// Returns whether the partitions were revoked and no assignment has come since. Possibly no broker has answered
    /// for longer than a session, and then no other member owns them either.
    pub fn is_lost(&self) -> bool {
        self.standing == Standing::Lost
    }

    /// Returns its partitions of one topic, ascending.
    pub fn of(&self, topic: &str) -> Vec<i32> {
        let own = self.partitions.iter().filter(|(name, _)| name == topic);
        own.map(|(_, partition)| *partition).collect()
    }

    /// Returns all partitions as (topic, partition), ascending.
    pub fn all(&self) -> &[(String, i32)] {
        &self.partitions
    }

    /// Adds or removes the partitions of an event. An event of the cooperative protocol names only those that change.
    fn follow(&mut self, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(new) => {
                self.partitions.extend(listed(new));
                self.partitions.sort();
                self.partitions.dedup();
            }
            Rebalance::Revoke(given_up) => {
                let given_up = listed(given_up);
                self.partitions.retain(|partition| !given_up.contains(partition));
            }
            Rebalance::Error(_) => {}
        }
    }
}

/// The member's status in its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    /// When the partitions were lost, if no assignment has come since.
    pub(crate) lost_since: Option<Instant>,
    /// Number of clients replaced so far.
    pub(crate) replaced: u32,
    /// Whether it left the group on purpose, and expects no assignment.
    pub(crate) is_away: bool,
}

/// Receives rebalance callbacks, inside [`crate::Consumer::next_batch`].
pub(crate) struct Member {
    assignments: watch::Sender<Assignment>,
    membership: watch::Sender<Membership>,
    /// Set once another client is the member: later callbacks of this one are ignored.
    retired: AtomicBool,
    pub(crate) lost: LostBrokers,
    reasons: Reasons,
}

impl Member {
    pub(crate) fn new(
        assignments: watch::Sender<Assignment>,
        membership: watch::Sender<Membership>,
        reasons: Reasons,
    ) -> Self {
        let retired = AtomicBool::new(false);
        let lost = LostBrokers::default();
        Self { assignments, membership, retired, lost, reasons }
    }

    /// Retires this member and returns its successor, which owns nothing yet.
    pub(crate) fn retire(&self) -> Self {
        self.assignments.send_modify(|assignment| {
            self.retired.store(true, Ordering::Release);
            *assignment = Assignment { partitions: Vec::new(), standing: Standing::Lost };
        });
        self.membership.send_modify(|membership| {
            membership.lost_since = None;
            membership.replaced += 1;
        });
        Self::new(self.assignments.clone(), self.membership.clone(), self.reasons.clone())
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        client::log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
        self.lost.hear(&error);
        if is_of_batch(&error) {
            self.reasons.hear(reason);
        }
    }
}

impl ConsumerContext for Member {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if matches!(rebalance, Rebalance::Revoke(_))
            && !self.is_retired()
            && let Err(error) = commit_stored(consumer)
        {
            warn!(error = %error, "commit before giving partitions up failed; they will repeat");
        }
    }

    /// Tracks the assignment by its events. Querying a client that is closing would block for ever: the thread that
    /// answers ends once the last partition is given up.
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let is_new = matches!(rebalance, Rebalance::Assign(_));
        let mut owned = 0;
        let mut is_lost = false;
        // Under the same lock as `retire`.
        let counts = self.assignments.send_if_modified(|assignment| {
            let counts = !self.is_retired();
            if counts {
                assignment.follow(rebalance);
                owned = assignment.partitions.len();
                is_lost = owned == 0 && !is_new;
                assignment.standing = if is_lost { Standing::Lost } else { Standing::Stands };
            }
            counts
        });
        if counts {
            info!(partitions = owned, "partitions assigned");
            let lost_since = is_lost.then(Instant::now);
            self.membership.send_modify(|membership| membership.lost_since = lost_since);
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        match result {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => warn!(error = %error, "offsets not committed; they will be later"),
        }
    }
}

/// Commits the stored offsets and waits for the result.
pub(crate) fn commit_stored<C: ConsumerContext + 'static>(
    consumer: &impl rdkafka::consumer::Consumer<C>,
) -> KafkaResult<()> {
    match consumer.commit_consumer_state(CommitMode::Sync) {
        Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
        outcome => outcome,
    }
}

fn listed(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|one| (one.topic().to_owned(), one.partition())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(partitions: &[i32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition("t", *partition);
        }
        list
    }

    #[test]
    fn an_assignment_follows_what_each_event_adds_and_removes() {
        let mut assignment = Assignment::default();
        assignment.follow(&Rebalance::Assign(&list(&[3, 1])));
        assignment.follow(&Rebalance::Assign(&list(&[2, 3])));
        assert_eq!(assignment.of("t"), [1, 2, 3]);
        assignment.follow(&Rebalance::Revoke(&list(&[3, 1, 9])));
        assert_eq!(assignment.of("t"), [2]);
        assignment.follow(&Rebalance::Revoke(&list(&[2])));
        assert_eq!(assignment, Assignment::default());
    }
}
