//! Every codec that a producer or a topic can choose, on every topic, for every reader.

use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
    producer::{FutureProducer, FutureRecord},
};
use topic::{
    ClaimsReader, Consumer, ConsumerOptions, HistorySpan, LaneReader, PaymentsReader, Reached,
    TableReader, read_history,
};

use crate::{PATIENCE, Test, take};

/// As in `compression.type` of Kafka's producers.
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// A payload that each codec makes shorter; otherwise a producer sends it as it is.
fn payload(codec: &str) -> Vec<u8> {
    codec.repeat(500).into_bytes()
}

fn payloads() -> BTreeSet<Vec<u8>> {
    CODECS.map(payload).into()
}

impl Test {
    fn topics(&self) -> [String; 10] {
        let names = &self.names;
        [
            names.user_coupon(),
            names.template(),
            names.stock_movement(),
            names.expiry(),
            names.expiring(),
            names.claim_stats(),
            names.claims(),
            names.claim_progress(),
            names.payments(),
            names.dead_letter(),
        ]
    }

    /// Sends a message by a producer like those of others, compressed with `codec`.
    async fn send_by_another(&self, topic: &str, codec: &str) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("compression.type", codec);
        let producer: FutureProducer = config.create().unwrap();
        let message = payload(codec);
        let record = FutureRecord::to(topic).key(codec).payload(&message).partition(0);
        producer.send(record, PATIENCE).await.unwrap();
    }

    /// Sends a message of each codec to a topic.
    async fn send_each(&self, topic: &str) {
        for codec in CODECS {
            self.send_by_another(topic, codec).await;
        }
    }
}

/// Returns the payloads that a lander's reader gives as unreadable: they are no claims and no payments.
async fn read_by<T>(reader: LaneReader<T>) -> BTreeSet<Vec<u8>> {
    let mut read = BTreeSet::new();
    while read.len() < CODECS.len() {
        let batch = tokio::time::timeout(PATIENCE, reader.next_batch(10)).await.unwrap().unwrap();
        read.extend(batch.messages.into_iter().filter_map(|message| message.body.err()));
        reader.pass(batch.partition);
    }
    reader.close().await.unwrap();
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reader_reads_the_messages_of_every_codec_on_every_topic() {
    let test = Test::new("codecs").await;
    let topics = test.topics();
    for topic in &topics {
        test.send_each(topic).await;
    }
    let group = test.names.prefix();
    let consumer = Consumer::join(&test.brokers, group, &topics, ConsumerOptions::default());
    let consumer = consumer.await.unwrap();
    let read = take(&consumer, topics.len() * CODECS.len()).await;
    consumer.close().await.unwrap();
    for topic in &topics {
        let of_topic = read.iter().filter(|message| message.topic == *topic);
        let by_group: BTreeSet<_> = of_topic.filter_map(|one| one.payload.clone()).collect();
        assert_eq!(by_group, payloads(), "{topic}");
        let table = TableReader::open_to_end(&test.brokers, topic).await.unwrap();
        let table = table.read_to_end().await.unwrap();
        let by_table: BTreeSet<_> = table.into_iter().filter_map(|one| one.payload).collect();
        assert_eq!(by_table, payloads(), "{topic}");
        let span =
            HistorySpan { from_ms: 0, until_ms: i64::MAX, within: PATIENCE, messages_max: 100 };
        let note = |all: &mut BTreeSet<_>, _: &[u8], payload: &[u8]| {
            all.insert(payload.to_vec());
            ControlFlow::Continue(())
        };
        let history = read_history(&test.brokers, topic, |_| 0, span, BTreeSet::new(), note).await;
        assert_eq!(history.unwrap(), (payloads(), Reached::End), "{topic}");
    }
    let options = ConsumerOptions::default();
    let claims = ClaimsReader::join(&test.brokers, &test.names, options).await.unwrap();
    assert_eq!(read_by(claims).await, payloads());
    let paid = PaymentsReader::join(&test.brokers, &test.names, options).await.unwrap();
    assert_eq!(read_by(paid).await, payloads());
}

/// The broker compresses what comes otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_an_operator_set_to_a_codec_is_read() {
    let test = Test::new("codec of a topic").await;
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &test.brokers).create().unwrap();
    let topics = [test.names.payments(), test.names.user_coupon()];
    for topic in &topics {
        let zstd =
            AlterConfig::new(ResourceSpecifier::Topic(topic)).set("compression.type", "zstd");
        let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(15)));
        admin.alter_configs(&[zstd], &options).await.unwrap().remove(0).unwrap();
        test.producer().await.send(topic, Some(0), b"k", &payload("ours"), &[]).await.unwrap();
    }
    let consumer =
        Consumer::join(&test.brokers, test.names.prefix(), &topics, ConsumerOptions::default());
    let consumer = consumer.await.unwrap();
    for message in take(&consumer, topics.len()).await {
        assert_eq!(message.payload, Some(payload("ours")));
    }
    consumer.close().await.unwrap();
}
