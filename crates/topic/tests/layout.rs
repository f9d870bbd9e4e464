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

use devstack::{OwnBroker, OwnBrokers, project_root};
use rdkafka::{
    ClientConfig,
    admin::{
        AdminClient, AdminOptions, ConfigResource, ConfigSource, OwnedResourceSpecifier,
        ResourceSpecifier,
    },
    client::DefaultClientContext,
    types::RDKafkaErrorCode,
};
use topic::{TopicError, TopicLayout, TopicNames, ensure_topics};

/// Timeout of one answer of the broker.
const ANSWER_MAX: Duration = Duration::from_secs(15);

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
            layout.settings.insert("min.insync.replicas".to_owned(), "2".to_owned());
        }
        assert_eq!(held(&brokers.brokers()).await, expected);
    }
}
