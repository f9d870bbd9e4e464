//! Creates the topics.

use std::time::Duration;

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    config::FromClientConfigAndContext,
    error::KafkaError,
    types::RDKafkaErrorCode,
};
use tracing::{info, warn};

use crate::{
    TopicError, TopicNames,
    client::{self, LogOnly},
};

/// Default number of partitions of the keyed topics: room for 32 consumers, and the 64 expiry shards divide evenly.
pub const DEFAULT_PARTITIONS: i32 = 32;

/// Retention of events. A view must expire sooner, so that it cannot lack a deleted event for ever.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Retention of statistics, so that a campaign can be reported a month later. The platform itself does not need them.
pub const STATS_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Time after which a segment closes. A broker deletes whole segments, each once its newest message is past the retention:
/// with its default of a week, messages of a quiet topic would stay for two. A view's tombstones cover ten days.
const SEGMENT: Duration = Duration::from_secs(24 * 60 * 60);

/// Time after which a compacted topic's segment closes. Only closed segments are compacted, and readers read the whole
/// topic at start.
const COMPACTED_SEGMENT: Duration = Duration::from_secs(60 * 60);

/// Timeout of a create request.
const CREATE_WAIT: Duration = Duration::from_secs(15);

/// Replication factor from which a write must reach two copies. With fewer copies `min.insync.replicas` is not set.
pub(crate) const REPLICATION_FOR_TWO_COPIES: i32 = 3;

/// The setting that says how many copies must have a write before it is acknowledged.
pub(crate) const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Its value: of three copies one may be away, and what was acknowledged outlives the loss of any one.
pub(crate) const MIN_IN_SYNC_COPIES: i32 = 2;

/// Layout of newly created topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicLayout {
    /// Partitions of the keyed topics. Cannot be changed later: keys would move to other partitions.
    pub partitions: i32,
    /// Copies of each partition.
    pub replication: i32,
}

impl Default for TopicLayout {
    fn default() -> Self {
        Self { partitions: DEFAULT_PARTITIONS, replication: 1 }
    }
}

/// Creates the missing topics and waits until all are usable. Existing topics are not changed:
/// [`read_durability`](crate::read_durability) tells what they lack.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s, or a topic cannot be created or gets no leaders.
pub async fn ensure_topics(
    brokers: &str,
    names: &TopicNames,
    layout: &TopicLayout,
) -> Result<(), TopicError> {
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let address = brokers.to_owned();
    let admin = client::blocking(move || {
        client::await_broker(admin.inner(), &address)?;
        Ok(admin)
    })
    .await?;
    let wanted = wanted(names, layout);
    let settings: Vec<_> = wanted.iter().map(|topic| topic.settings(layout)).collect();
    let new = wanted.iter().zip(&settings).map(|(topic, settings)| {
        let replication = TopicReplication::Fixed(layout.replication);
        let new = NewTopic::new(&topic.name, topic.partitions, replication);
        settings.iter().fold(new, |new, (key, value)| new.set(key, value))
    });
    let new: Vec<_> = new.collect();
    let options =
        AdminOptions::new().operation_timeout(Some(CREATE_WAIT)).request_timeout(Some(CREATE_WAIT));
    let unsent = |source| TopicError::Create { topic: names.prefix().to_owned(), source };
    for created in admin.create_topics(&new, &options).await.map_err(unsent)? {
        match created {
            Ok(topic) => info!(topic, "topic created"),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                let source = KafkaError::Global(code);
                return Err(TopicError::Create { topic, source });
            }
        }
    }
    let address = brokers.to_owned();
    client::blocking(move || await_leaders(&admin, &address, &wanted)).await
}

/// Waits until every topic has leaders, and logs a warning for a topic whose partition count differs from the layout.
fn await_leaders(
    admin: &AdminClient<LogOnly>,
    brokers: &str,
    wanted: &[Wanted],
) -> Result<(), TopicError> {
    let names: Vec<_> = wanted.iter().map(|topic| topic.name.clone()).collect();
    client::await_topics(admin.inner(), brokers, &names)?;
    for topic in wanted {
        let partitions = client::partitions_of(admin.inner(), &topic.name)?;
        if partitions != topic.partitions {
            warn!(
                topic = topic.name,
                partitions, "topic keeps its number of partitions, the layout asks for another"
            );
        }
    }
    Ok(())
}

struct Wanted {
    name: String,
    partitions: i32,
    kept: Kept,
}

/// How long a topic's messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    For(Duration),
    /// The last message of each key is kept for ever.
    Compacted,
}

/// Lists the topics. The template, progress, checkpoint and dead letter topics are small and read whole: one partition.
fn wanted(names: &TopicNames, layout: &TopicLayout) -> Vec<Wanted> {
    let topic = |name, partitions, kept| Wanted { name, partitions, kept };
    let week = Kept::For(RETENTION);
    vec![
        topic(names.user_coupon(), layout.partitions, week),
        topic(names.stock_movement(), layout.partitions, week),
        topic(names.expiry(), layout.partitions, week),
        topic(names.expiring(), layout.partitions, week),
        topic(names.claim_stats(), layout.partitions, Kept::For(STATS_RETENTION)),
        topic(names.claims(), layout.partitions, week),
        topic(names.payments(), layout.partitions, week),
        topic(names.claim_progress(), 1, Kept::Compacted),
        topic(names.template(), 1, Kept::Compacted),
        topic(names.checkpoint(), 1, Kept::Compacted),
        topic(names.dead_letter(), 1, week),
    ]
}

impl Wanted {
    fn settings(&self, layout: &TopicLayout) -> Vec<(&'static str, String)> {
        let mut settings = match self.kept {
            Kept::Compacted => vec![
                ("cleanup.policy", "compact".to_owned()),
                ("segment.ms", COMPACTED_SEGMENT.as_millis().to_string()),
                ("min.cleanable.dirty.ratio", "0.1".to_owned()),
            ],
            // Set explicitly: every reader relies on it, and a broker's default may differ.
            Kept::For(retention) => vec![
                ("cleanup.policy", "delete".to_owned()),
                ("retention.ms", retention.as_millis().to_string()),
                ("segment.ms", SEGMENT.as_millis().to_string()),
            ],
        };
        if layout.replication >= REPLICATION_FOR_TWO_COPIES {
            settings.push((MIN_IN_SYNC, MIN_IN_SYNC_COPIES.to_string()));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const TWO_COPIES: &str = "min.insync.replicas";

    /// Returns from docs/events.md the replication factor from which `min.insync.replicas` is set, and its value.
    fn documented() -> (i32, String) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
        let page = fs::read_to_string(page).unwrap();
        let mut rows = page.lines().filter(|line| line.starts_with('|'));
        let row = rows.find(|row| row.contains(TWO_COPIES)).unwrap();
        let setting = row.split('`').find_map(|code| code.strip_prefix(TWO_COPIES)).unwrap();
        let from = row.split_once("from ").unwrap().1.split(' ').next().unwrap();
        (from.parse().unwrap(), setting.trim_start_matches('=').to_owned())
    }

    /// tests/layout.rs checks such topics on three brokers.
    #[test]
    fn a_write_needs_as_many_copies_as_documented_from_the_documented_number_on() {
        let (from, copies) = documented();
        for replication in 1..=from + 2 {
            let layout = TopicLayout { replication, ..TopicLayout::default() };
            for topic in wanted(&TopicNames::new("p"), &layout) {
                let settings = topic.settings(&layout);
                let said = settings.iter().find(|(name, _)| *name == TWO_COPIES);
                let expected = (replication >= from).then_some(&copies);
                assert_eq!(said.map(|(_, value)| value), expected, "{} {replication}", topic.name);
            }
        }
    }
}
