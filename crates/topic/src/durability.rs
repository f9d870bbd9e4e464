//! Tells which settings of brokers and topics let the loss of one broker lose what was acknowledged.
//!
//! [`ensure_topics`](crate::ensure_topics) makes our topics with the right ones. But topics that exist keep what they
//! have, an operator may change them, and Kafka makes its own topics with the brokers' settings.

use std::{collections::BTreeMap, str::FromStr, sync::Arc, time::Duration};

use rdkafka::{
    ClientContext,
    admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier},
    client::Client,
    config::FromClientConfigAndContext as _,
    metadata::Metadata,
};

use crate::{
    TopicError, TopicNames,
    admin::{MIN_IN_SYNC, MIN_IN_SYNC_COPIES, REPLICATION_FOR_TWO_COPIES},
    client::{self, OFFSETS, probe::Silent},
};

/// The brokers' setting for its copies.
const OFFSETS_COPIES: &str = "offsets.topic.replication.factor";

/// The setting that lets a copy lead that lacks acknowledged messages.
const UNCLEAN: &str = "unclean.leader.election.enable";

/// Timeout of one broker's answer: it reads its memory.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// What the settings of brokers and topics keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// Whether there is one broker, and one copy of everything: no setting would help.
    pub is_alone: bool,
    /// What may be lost with a broker: sentences with the remedy.
    pub gaps: Vec<String>,
}

/// Reads the settings of our topics and of the topic of committed offsets from every broker.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s, one of our topics is missing, or no broker tells its settings.
pub async fn read_durability(brokers: &str, names: &TopicNames) -> Result<Durability, TopicError> {
    let config = client::base_config(brokers);
    // A new client waits for its threads, which must not keep the caller's other tasks waiting.
    let admin = client::blocking(move || {
        AdminClient::from_config_and_context(&config, Silent).map_err(TopicError::Client)
    });
    let admin = Arc::new(admin.await?);
    let read = read(&admin, brokers, names).await;
    client::closing::close_aside(admin);
    read
}

async fn read(
    admin: &Arc<AdminClient<Silent>>,
    brokers: &str,
    names: &TopicNames,
) -> Result<Durability, TopicError> {
    let asked = Arc::clone(admin);
    let address = brokers.to_owned();
    let ours = names.all();
    let cluster = client::blocking(move || Cluster::read(asked.inner(), &address, &ours)).await?;
    if cluster.is_alone() {
        return Ok(Durability { is_alone: true, gaps: Vec::new() });
    }
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut failure = None;
    for broker in &cluster.brokers {
        match told_by(admin, broker.id, &cluster).await {
            Ok(told) => told.into_iter().for_each(|told| add(&mut found, told)),
            Err(error) => failure = Some(error),
        }
    }
    // A broker that is going away does not answer; the others have told.
    if let Some(failure) = failure.filter(|_| found.is_empty()) {
        return Err(failure);
    }
    let claims = names.claims();
    let server = cluster.brokers.first().map_or("", |broker| broker.address.as_str());
    let remedy = Remedy { server, claims: &claims };
    let gaps = found.values().flat_map(|found| remedy.gaps(found)).collect();
    Ok(Durability { is_alone: false, gaps })
}

/// The brokers that run, and the topics that concern us.
struct Cluster {
    brokers: Vec<Broker>,
    topics: BTreeMap<String, i32>,
}

struct Broker {
    id: i32,
    address: String,
}

impl Cluster {
    fn read<C: ClientContext>(
        kafka: &Client<C>,
        brokers: &str,
        ours: &[String],
    ) -> Result<Self, TopicError> {
        client::await_broker(kafka, brokers)?;
        let ask = |topic: &str| {
            let asked = kafka.fetch_metadata(Some(topic), client::METADATA_WAIT);
            asked.map_err(|source| TopicError::Settings { of: "the topics".to_owned(), source })
        };
        let mut topics = BTreeMap::new();
        for topic in ours {
            let copies = copies_of(&ask(topic)?, topic);
            let missing = || TopicError::MissingTopic { topic: topic.clone() };
            topics.insert(topic.clone(), copies.ok_or_else(missing)?);
        }
        let metadata = ask(OFFSETS)?;
        topics.extend(copies_of(&metadata, OFFSETS).map(|copies| (OFFSETS.to_owned(), copies)));
        let brokers = metadata.brokers().iter().map(|broker| Broker {
            id: broker.id(),
            address: format!("{}:{}", broker.host(), broker.port()),
        });
        Ok(Self { brokers: brokers.collect(), topics })
    }

    fn is_alone(&self) -> bool {
        // Brokers that are away now have left copies behind.
        self.brokers.len() <= 1 && self.topics.values().all(|copies| *copies <= 1)
    }
}

/// Returns the fewest copies of a partition of a topic; `None` if it does not exist.
fn copies_of(metadata: &Metadata, topic: &str) -> Option<i32> {
    let topic = metadata.topics().iter().find(|found| found.name() == topic)?;
    let fewest = topic.partitions().iter().map(|partition| partition.replicas().len()).min()?;
    Some(i32::try_from(fewest).unwrap_or(i32::MAX))
}

/// Asks one broker. Each has its own file of settings, so another may tell otherwise.
async fn told_by(
    admin: &AdminClient<Silent>,
    broker: i32,
    cluster: &Cluster,
) -> Result<Vec<Found>, TopicError> {
    let topics = cluster.topics.keys().map(|topic| ResourceSpecifier::Topic(topic));
    let asked: Vec<_> = topics.chain([ResourceSpecifier::Broker(broker)]).collect();
    let options = AdminOptions::new().request_timeout(Some(ANSWER_WAIT));
    let failed = |source| TopicError::Settings { of: format!("broker {broker}"), source };
    let told = admin.describe_configs(&asked, &options).await.map_err(failed)?;
    let mut found = Vec::new();
    for resource in told.iter().flatten() {
        let of = match &resource.specifier {
            OwnedResourceSpecifier::Topic(topic) => Found::of_topic(topic, resource, cluster),
            // It concerns us as long as that topic has no settings of its own.
            OwnedResourceSpecifier::Broker(_) if !cluster.topics.contains_key(OFFSETS) => {
                Found::of_offsets_to_be_made(resource)
            }
            OwnedResourceSpecifier::Broker(_) | OwnedResourceSpecifier::Group(_) => continue,
        };
        let untold = || TopicError::Untold { of: named(&resource.specifier) };
        found.push(of.ok_or_else(untold)?);
    }
    Ok(found)
}

fn named(specifier: &OwnedResourceSpecifier) -> String {
    match specifier {
        OwnedResourceSpecifier::Topic(name) | OwnedResourceSpecifier::Group(name) => name.clone(),
        OwnedResourceSpecifier::Broker(id) => format!("broker {id}"),
    }
}

fn value<T: FromStr>(resource: &ConfigResource, setting: &str) -> Option<T> {
    resource.get(setting)?.value.as_deref()?.parse().ok()
}

/// What is in force for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    topic: String,
    /// Whether the topic exists. Otherwise these are the brokers' settings, which it will get.
    exists: bool,
    /// Copies of each partition; the fewest, if they differ.
    copies: i32,
    /// Copies that must have a message before it is acknowledged.
    min_in_sync: i32,
    /// Whether a copy may lead that lacks acknowledged messages.
    is_unclean: bool,
}

impl Found {
    fn of_topic(topic: &str, resource: &ConfigResource, cluster: &Cluster) -> Option<Self> {
        Some(Self {
            topic: topic.to_owned(),
            exists: true,
            copies: *cluster.topics.get(topic)?,
            min_in_sync: value(resource, MIN_IN_SYNC)?,
            is_unclean: value(resource, UNCLEAN)?,
        })
    }

    fn of_offsets_to_be_made(broker: &ConfigResource) -> Option<Self> {
        Some(Self {
            topic: OFFSETS.to_owned(),
            exists: false,
            copies: value(broker, OFFSETS_COPIES)?,
            min_in_sync: value(broker, MIN_IN_SYNC)?,
            is_unclean: value(broker, UNCLEAN)?,
        })
    }
}

/// Adds what one broker tells of a topic. The worse counts, since any of them may lead.
fn add(all: &mut BTreeMap<String, Found>, told: Found) {
    match all.get_mut(&told.topic) {
        Some(known) => {
            known.copies = known.copies.min(told.copies);
            known.min_in_sync = known.min_in_sync.min(told.min_in_sync);
            known.is_unclean |= told.is_unclean;
        }
        None => {
            all.insert(told.topic.clone(), told);
        }
    }
}

/// What the sentences name besides a topic and its settings.
struct Remedy<'a> {
    /// A broker that the commands can ask.
    server: &'a str,
    /// The topic of queued claims.
    claims: &'a str,
}

impl Remedy<'_> {
    /// Returns what may be lost with a broker: a sentence for each setting, with its remedy.
    fn gaps(&self, found: &Found) -> Vec<String> {
        let lost = self.what_is_lost(&found.topic);
        let topic = if found.exists {
            found.topic.clone()
        } else {
            format!("{}, which the brokers are yet to make,", found.topic)
        };
        let mut gaps = Vec::new();
        if found.copies < REPLICATION_FOR_TWO_COPIES {
            gaps.push(format!(
                "the replication factor of {topic} is {}: with one broker {lost} may be lost; {}",
                found.copies,
                self.more_copies(found)
            ));
        }
        // A topic with fewer copies first needs more of them.
        if found.copies >= REPLICATION_FOR_TWO_COPIES && found.min_in_sync < MIN_IN_SYNC_COPIES {
            gaps.push(format!(
                "{MIN_IN_SYNC} of {topic} is {}: what one broker alone has is acknowledged, and with it {lost} may be \
                 lost; run `{}`",
                found.min_in_sync,
                self.setting(found, &format!("{MIN_IN_SYNC}={MIN_IN_SYNC_COPIES}"))
            ));
        }
        if found.copies > 1 && found.is_unclean {
            gaps.push(format!(
                "{UNCLEAN} of {topic} is true: a copy may lead that lacks the newest messages, and {lost} may be lost; \
                 run `{}`",
                self.setting(found, &format!("{UNCLEAN}=false"))
            ));
        }
        gaps
    }

    fn what_is_lost(&self, topic: &str) -> &'static str {
        if topic == OFFSETS {
            "how far consumers have read"
        } else if topic == self.claims {
            "claims that were answered 202"
        } else {
            "acknowledged messages"
        }
    }

    fn setting(&self, found: &Found, setting: &str) -> String {
        let entity = if found.exists {
            format!("--entity-type topics --entity-name {}", found.topic)
        } else {
            "--entity-type brokers --entity-default".to_owned()
        };
        let server = self.server;
        format!(
            "kafka-configs.sh --bootstrap-server {server} --alter {entity} --add-config {setting}"
        )
    }

    fn more_copies(&self, found: &Found) -> String {
        let wanted = REPLICATION_FOR_TWO_COPIES;
        if !found.exists {
            return format!("set {OFFSETS_COPIES}={wanted} in each broker's file of settings");
        }
        let server = self.server;
        format!(
            "run `kafka-reassign-partitions.sh --bootstrap-server {server} --execute --reassignment-json-file FILE` \
             with a file that names {wanted} brokers for each of its partitions"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMEDY: Remedy<'static> = Remedy { server: "k:9092", claims: "coupon.claims" };

    fn right(topic: &str) -> Found {
        Found {
            topic: topic.to_owned(),
            exists: true,
            copies: 3,
            min_in_sync: 2,
            is_unclean: false,
        }
    }

    #[test]
    fn each_setting_that_may_lose_something_is_named_with_its_value_and_its_remedy() {
        assert!(REMEDY.gaps(&right("coupon.expiry")).is_empty());
        assert!(REMEDY.gaps(&Found { min_in_sync: 3, ..right(OFFSETS) }).is_empty());

        let found = Found { min_in_sync: 1, is_unclean: true, ..right("coupon.claims") };
        let gaps = REMEDY.gaps(&found);
        assert_eq!(gaps.len(), 2, "{gaps:?}");
        let of = "--alter --entity-type topics --entity-name coupon.claims --add-config";
        for (gap, words) in gaps.iter().zip([
            ["min.insync.replicas of coupon.claims is 1", "min.insync.replicas=2"],
            [
                "unclean.leader.election.enable of coupon.claims is true",
                "unclean.leader.election.enable=false",
            ],
        ]) {
            let [finding, remedy] = words;
            assert!(gap.starts_with(finding), "{gap}");
            let command = format!("`kafka-configs.sh --bootstrap-server k:9092 {of} {remedy}`");
            assert!(gap.ends_with(&command), "{gap}");
            assert!(gap.contains("claims that were answered 202 may be lost"), "{gap}");
        }
    }

    #[test]
    fn a_topic_with_too_few_copies_first_needs_more_of_them() {
        for copies in [1, 2] {
            let gaps = REMEDY.gaps(&Found { copies, min_in_sync: 1, ..right("coupon.expiry") });
            let [gap] = &gaps[..] else { panic!("{gaps:?}") };
            let finding = format!("the replication factor of coupon.expiry is {copies}: ");
            assert!(gap.starts_with(&finding), "{gap}");
            assert!(gap.contains("kafka-reassign-partitions.sh"), "{gap}");
        }
    }

    #[test]
    fn the_offsets_topic_gets_the_brokers_settings_until_it_exists() {
        let found = Found { exists: false, copies: 1, is_unclean: true, ..right(OFFSETS) };
        let gaps = REMEDY.gaps(&found);
        let [gap] = &gaps[..] else { panic!("{gaps:?}") };
        assert!(gap.contains("which the brokers are yet to make, is 1"), "{gap}");
        assert!(
            gap.ends_with(
                "set offsets.topic.replication.factor=3 in each broker's file of settings"
            )
        );

        let found = Found { exists: false, min_in_sync: 1, ..right(OFFSETS) };
        let gap = REMEDY.gaps(&found).remove(0);
        let command = "--entity-type brokers --entity-default --add-config min.insync.replicas=2`";
        assert!(gap.ends_with(command) && gap.contains("how far consumers have read"), "{gap}");
    }

    #[test]
    fn of_what_brokers_tell_of_a_topic_the_worse_counts() {
        let mut all = BTreeMap::new();
        add(&mut all, right("t"));
        add(&mut all, Found { min_in_sync: 1, ..right("t") });
        add(&mut all, Found { is_unclean: true, ..right("t") });
        let worst = Found { min_in_sync: 1, is_unclean: true, ..right("t") };
        assert_eq!(all.into_values().collect::<Vec<_>>(), [worst]);
    }

    #[test]
    fn one_broker_is_alone_unless_its_topics_have_copies_elsewhere() {
        let cluster = |brokers: i32, copies| Cluster {
            brokers: (1..=brokers)
                .map(|id| Broker { id, address: format!("k{id}:9092") })
                .collect(),
            topics: BTreeMap::from([("t".to_owned(), copies)]),
        };
        assert!(cluster(1, 1).is_alone());
        assert!(!cluster(1, 3).is_alone());
        assert!(!cluster(3, 1).is_alone());
    }
}
