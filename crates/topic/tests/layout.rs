//! Tests with brokers of their own: the topics that a new broker gets, compared with docs/events.md, a slow broker
//! (`held`) and a broken one (`batches`). Run with `./dev test`.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod batches;
mod held;
mod pipelined;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use devstack::{OwnBroker, OwnBrokers, at_last, project_root};
use rdkafka::{
    ClientConfig,
    admin::{
        AdminClient, AdminOptions, ConfigResource, ConfigSource, NewTopic, OwnedResourceSpecifier,
        ResourceSpecifier, TopicReplication,
    },
    client::DefaultClientContext,
    types::RDKafkaErrorCode,
};
use topic::{
    TopicError, TopicLayout, TopicNames, committed_offsets, ensure_topics, read_durability, verify,
};

/// Timeout of one answer of the broker.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The topic with the offsets that groups have committed, and the setting of a topic for the copies of a write.
const OFFSETS: &str = "__consumer_offsets";
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Milliseconds in a day, the unit of retention in docs/events.md.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Layout of one topic.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    partitions: usize,
    /// Number of copies of each partition: a single number if the layout is right.
    copies: BTreeSet<usize>,
    /// Settings of the topic itself, not the broker's defaults.
    settings: BTreeMap<String, String>,
}

/// Returns the cells of every row of every table.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(str::trim).collect()).collect()
}

/// Returns the default of a cdc-tailer setting, from its line in the list of settings.
fn default_of(page: &str, setting: &str) -> usize {
    let begin = format!("- `{setting}` (");
    let default = |line: &str| line.strip_prefix(&begin)?.split_once(')')?.0.parse().ok();
    page.lines().find_map(default).unwrap_or_else(|| panic!("what is {setting} if nobody says?"))
}

/// Returns the settings of topics with this retention.
fn settings(rows: &[Vec<&str>], kept: &str) -> BTreeMap<String, String> {
    let row = rows.iter().find(|row| row.len() == 2 && row[0] == kept);
    let row = row.unwrap_or_else(|| panic!("how is set what is kept `{kept}`?"));
    let pairs = row[1].split('`').filter_map(|code| code.split_once('='));
    let settings: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Some(days) = kept.strip_suffix(" days") {
        let ms = (days.parse::<i64>().unwrap() * DAY_MS).to_string();
        assert_eq!(settings.get("retention.ms"), Some(&ms), "{kept}");
    }
    settings
}

/// Returns every topic of docs/events.md, laid out by the defaults of the settings it names.
fn documented() -> BTreeMap<String, Layout> {
    let page = fs::read_to_string(project_root().join("docs/events.md")).unwrap();
    let rows = rows(&page);
    let mut topics = BTreeMap::new();
    for row in &rows {
        let [topic, _, _, partitions, kept] = row[..] else { continue };
        let Some(topic) = topic.strip_prefix('`').and_then(|topic| topic.strip_suffix('`')) else {
            continue;
        };
        let partitions = match partitions.trim_matches('`') {
            number if number == partitions => number.parse().unwrap(),
            setting => default_of(&page, setting),
        };
        let copies = BTreeSet::from([default_of(&page, "TOPIC_REPLICATION")]);
        let layout = Layout { partitions, copies, settings: settings(&rows, kept) };
        assert_eq!(topics.insert(topic.to_owned(), layout), None, "{topic} is there twice");
    }
    topics
}

/// Returns every topic of the broker except Kafka's own.
async fn held(brokers: &str) -> BTreeMap<String, Layout> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    let metadata = admin.inner().fetch_metadata(None, ANSWER_MAX).unwrap();
    let mut topics = BTreeMap::new();
    for topic in metadata.topics().iter().filter(|topic| !topic.name().starts_with("__")) {
        let partitions = topic.partitions();
        let copies = partitions.iter().map(|partition| partition.replicas().len()).collect();
        let layout = Layout { partitions: partitions.len(), copies, ..Layout::default() };
        topics.insert(topic.name().to_owned(), layout);
    }
    let names: Vec<String> = topics.keys().cloned().collect();
    let asked: Vec<ResourceSpecifier<'_>> =
        names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(ANSWER_MAX));
    for described in admin.describe_configs(&asked, &options).await.unwrap() {
        let ConfigResource { specifier, entries } = described.unwrap();
        let OwnedResourceSpecifier::Topic(name) = specifier else { continue };
        let own = entries.into_iter().filter(|entry| entry.source == ConfigSource::DynamicTopic);
        topics.get_mut(&name).unwrap().settings =
            own.map(|entry| (entry.name, entry.value.unwrap_or_default())).collect();
    }
    topics
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_broker_gets_the_topics_that_are_documented_laid_out_as_documented() {
        let broker = OwnBroker::start("topic-layout").await.unwrap();
        let brokers = broker.brokers();
        let documented = documented();
        assert_eq!(documented.len(), 11, "{documented:#?}");
        // The names on the page have the default prefix.
        let names = TopicNames::new("coupon");
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        assert_eq!(held(&brokers).await, documented);

        // A topic gets all requested copies or is not created: one broker has room for one.
        let three = TopicLayout { replication: 3, ..TopicLayout::default() };
        let refused = ensure_topics(&brokers, &TopicNames::new("three"), &three).await.unwrap_err();
        let TopicError::Create { source, .. } = &refused else { panic!("{refused:?}") };
        let wanted = RDKafkaErrorCode::InvalidReplicationFactor;
        assert_eq!(source.rdkafka_error_code(), Some(wanted), "{refused:?}");
        assert_eq!(held(&brokers).await, documented, "and what was there is as it was");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn three_brokers_get_three_copies_of_which_two_must_be_written() {
        let brokers = OwnBrokers::start("topic-copies").await.unwrap();
        let layout = TopicLayout { replication: 3, ..TopicLayout::default() };
        ensure_topics(&brokers.brokers(), &TopicNames::new("coupon"), &layout).await.unwrap();
        let mut expected = documented();
        for layout in expected.values_mut() {
            layout.copies = BTreeSet::from([3]);
            layout.settings.insert(MIN_IN_SYNC.to_owned(), "2".to_owned());
        }
        assert_eq!(held(&brokers.brokers()).await, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn settings_that_may_lose_acknowledged_messages_are_found_until_they_are_mended() {
        let cluster = OwnBrokers::start("topic-durability").await.unwrap();
        let brokers = cluster.brokers();
        let names = TopicNames::new("coupon");
        // Somebody else made this topic, which `ensure_topics` leaves as it is.
        let claims = names.claims();
        let lax = NewTopic::new(&claims, 2, TopicReplication::Fixed(3))
            .set(MIN_IN_SYNC, "1")
            .set("unclean.leader.election.enable", "true");
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_MAX));
        admin.create_topics([&lax], &options).await.unwrap().remove(0).unwrap();
        let layout = TopicLayout { partitions: 2, replication: 3 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();

        let gaps = until_gaps(&brokers, &names, 2).await;
        let found = [
            "min.insync.replicas of coupon.claims is 1",
            "unclean.leader.election.enable of coupon.claims is true",
        ];
        assert!(gaps.iter().zip(found).all(|(gap, found)| gap.starts_with(found)), "{gaps:?}");
        // It gets only this setting; all others are the brokers' from then on.
        verify::set(&brokers, &claims, MIN_IN_SYNC, "2").await.unwrap();
        until_gaps(&brokers, &names, 0).await;

        // A group makes the brokers make the topic of offsets, by their own settings.
        at_last(async || committed_offsets(&brokers, "a-group", &claims).await).await;
        until_gaps(&brokers, &names, 0).await;
        verify::set(&brokers, OFFSETS, MIN_IN_SYNC, "1").await.unwrap();
        let gaps = until_gaps(&brokers, &names, 1).await;
        assert!(gaps[0].starts_with("min.insync.replicas of __consumer_offsets is 1"), "{gaps:?}");
        verify::set(&brokers, OFFSETS, MIN_IN_SYNC, "2").await.unwrap();
        until_gaps(&brokers, &names, 0).await;
    }

    /// Waits until each broker knows the settings so that this many gaps are found, and returns them.
    async fn until_gaps(brokers: &str, names: &TopicNames, count: usize) -> Vec<String> {
        at_last(async || match read_durability(brokers, names).await {
            Ok(durability) if durability.gaps.len() == count => Ok(durability.gaps),
            other => Err(other),
        })
        .await
    }
}
