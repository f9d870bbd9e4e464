//! Creating the topics.

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

/// Partitions of the keyed topics, unless the layout says otherwise: room for 32 consumers, and
/// the 64 expiry shards divide evenly.
pub const DEFAULT_PARTITIONS: i32 = 32;

/// How long events are kept: also the longest life of a view that was built from them (DESIGN §6).
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How soon a compacted topic's segment closes: only closed segments are compacted, and readers
/// read the topic whole at start.
const COMPACTED_SEGMENT: Duration = Duration::from_secs(60 * 60);

/// How long a create request may take.
const CREATE_WAIT: Duration = Duration::from_secs(15);

/// From this replication factor on a write needs two copies; below it there is nothing to demand.
const REPLICATION_FOR_TWO_COPIES: i32 = 3;

/// How topics are laid out when they are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicLayout {
    /// Partitions of the keyed topics. Cannot be changed later: keys would move.
    pub partitions: i32,
    /// Copies of each partition.
    pub replication: i32,
}

impl Default for TopicLayout {
    fn default() -> Self {
        Self { partitions: DEFAULT_PARTITIONS, replication: 1 }
    }
}

/// Creates the topics that are missing and waits until all can be used; existing ones stay as they
/// are. Fails when no broker answers within 15 s.
pub async fn ensure_topics(
    brokers: &str,
    names: &TopicNames,
    layout: &TopicLayout,
) -> Result<(), TopicError> {
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let address = brokers.to_owned();
    let admin = client::blocking(move || {
        client::await_topics(admin.inner(), &address, &[])?;
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
    client::blocking(move || settle(&admin, &address, &wanted)).await
}

/// Waits until every topic has leaders, and says so where an old one differs from the layout.
fn settle(
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
    compacted: bool,
}

/// The template, checkpoint and dead letter topics are small and read whole: one partition.
fn wanted(names: &TopicNames, layout: &TopicLayout) -> Vec<Wanted> {
    let topic = |name, partitions, compacted| Wanted { name, partitions, compacted };
    vec![
        topic(names.user_coupon(), layout.partitions, false),
        topic(names.stock_movement(), layout.partitions, false),
        topic(names.expiry(), layout.partitions, false),
        topic(names.expiring(), layout.partitions, false),
        topic(names.template(), 1, true),
        topic(names.checkpoint(), 1, true),
        topic(names.dead_letter(), 1, false),
    ]
}

impl Wanted {
    fn settings(&self, layout: &TopicLayout) -> Vec<(&'static str, String)> {
        let mut settings = if self.compacted {
            vec![
                ("cleanup.policy", "compact".to_owned()),
                ("segment.ms", COMPACTED_SEGMENT.as_millis().to_string()),
                ("min.cleanable.dirty.ratio", "0.1".to_owned()),
            ]
        } else {
            // Said, because all of a topic's readers rest on it: a broker's own default may be another.
            vec![
                ("cleanup.policy", "delete".to_owned()),
                ("retention.ms", RETENTION.as_millis().to_string()),
            ]
        };
        if layout.replication >= REPLICATION_FOR_TWO_COPIES {
            settings.push(("min.insync.replicas", "2".to_owned()));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const TWO_COPIES: &str = "min.insync.replicas";

    /// What docs/events.md says of topics with several copies: from how many on, and how many a write needs.
    fn documented() -> (i32, String) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
        let page = fs::read_to_string(page).unwrap();
        let mut rows = page.lines().filter(|line| line.starts_with('|'));
        let row = rows.find(|row| row.contains(TWO_COPIES)).unwrap();
        let setting = row.split('`').find_map(|code| code.strip_prefix(TWO_COPIES)).unwrap();
        let from = row.split_once("from ").unwrap().1.split(' ').next().unwrap();
        (from.parse().unwrap(), setting.trim_start_matches('=').to_owned())
    }

    /// How such topics come out of three brokers is in tests/layout.rs.
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
