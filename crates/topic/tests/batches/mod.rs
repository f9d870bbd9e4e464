//! Batches that cannot be read, because the broker's disk has damaged them.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use devstack::{OwnBroker, at_last};
use rdkafka::{
    ClientConfig,
    producer::{FutureProducer, FutureRecord},
};
use topic::{
    Consumer, ConsumerOptions, HeldUp, HistorySpan, MessagePosition, PositionCheck, TableReader,
    TopicError, TopicLayout, TopicNames, ensure_topics, messages_at, read_history,
};

/// Time after which the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One for each partition; the last partition stays whole.
const CODECS: [&str; 5] = ["gzip", "snappy", "lz4", "zstd", "lz4"];

/// The partition that stays whole.
const WHOLE: i32 = 4;

/// Offset of the damaged batch in the others.
const DAMAGED: i64 = 1;

async fn send(brokers: &str, topic: &str, partition: i32) -> (i64, i64) {
    let codec = CODECS[usize::try_from(partition).unwrap()];
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("compression.type", codec);
    let producer: FutureProducer = config.create().unwrap();
    let payload = codec.repeat(500);
    let record = FutureRecord::to(topic).key("k").payload(&payload).partition(partition);
    let sent = producer.send(record, PATIENCE).await.unwrap();
    (sent.offset, sent.timestamp.to_millis().unwrap())
}

/// Takes messages until `count` have come, and returns their offsets by partition.
async fn take(consumer: &Consumer, count: usize) -> BTreeMap<i32, Vec<i64>> {
    let taking = async {
        let mut taken = BTreeMap::<i32, Vec<i64>>::new();
        let mut left = count;
        while left > 0 {
            for message in consumer.next_batch(left).await.unwrap() {
                taken.entry(message.partition).or_default().push(message.offset);
                left -= 1;
            }
        }
        taken
    };
    tokio::time::timeout(PATIENCE, taking).await.expect("the messages arrive")
}

/// Reads on until `expected` partitions are held up. No message comes meanwhile.
async fn held_up(consumer: &Consumer, expected: usize) -> Vec<HeldUp> {
    let mut held_up = consumer.held_up();
    let seen = tokio::select! {
        seen = held_up.wait_for(|all| all.len() == expected) => seen.unwrap().clone(),
        batch = consumer.next_batch(1) => panic!("{batch:?}"),
        () = tokio::time::sleep(PATIENCE) => panic!("{:?}", consumer.held_up().borrow()),
    };
    seen
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_cannot_be_read_holds_up_its_partition_alone_and_is_named() {
        let broker = OwnBroker::start("damaged-batches").await.unwrap();
        let brokers = broker.brokers();
        let names = TopicNames::new("damaged");
        let layout = TopicLayout { partitions: 5, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let topic = names.user_coupon();
        let mut times = BTreeMap::new();
        for partition in 0..=WHOLE {
            for offset in 0..3 {
                let (at, time_ms) = send(&brokers, &topic, partition).await;
                assert_eq!(at, offset);
                times.insert((partition, offset), time_ms);
            }
        }
        (0..WHOLE).for_each(|partition| broker.spoil(&topic, partition, DAMAGED).unwrap());

        let topics = [topic.clone()];
        let consumer = Consumer::join(&brokers, "damaged", &topics, ConsumerOptions::default());
        let consumer = consumer.await.unwrap();
        let mut expected: BTreeMap<i32, Vec<i64>> = (0..WHOLE).map(|one| (one, vec![0])).collect();
        expected.insert(WHOLE, vec![0, 1, 2]);
        assert_eq!(take(&consumer, 7).await, expected);
        for (partition, one) in (0..).zip(held_up(&consumer, 4).await) {
            assert_eq!((one.topic.as_str(), one.partition), (topic.as_str(), partition));
            assert_eq!(one.offset, DAMAGED);
            assert!(one.why.contains("failed"), "{one}");
        }
        send(&brokers, &topic, WHOLE).await;
        assert_eq!(take(&consumer, 1).await, BTreeMap::from([(WHOLE, vec![3])]));

        let table = TableReader::open_to_end(&brokers, &topic).await.unwrap().read_to_end().await;
        assert!(matches!(table, Err(TopicError::Unreadable { .. })), "{table:?}");
        let span =
            HistorySpan { from_ms: 0, until_ms: i64::MAX, within: PATIENCE, messages_max: 100 };
        let read = |(): &mut (), _: &[u8], _: &[u8]| ControlFlow::Continue(());
        let history = read_history(&brokers, &topic, |_| 0, span, (), read).await;
        assert!(matches!(history, Err(TopicError::Unreadable { .. })), "{history:?}");
        let at = |partition, offset| {
            (partition, MessagePosition { offset, time_ms: times[&(partition, offset)] })
        };
        let positions = BTreeMap::from([at(0, DAMAGED), at(WHOLE, 1)]);
        let found = messages_at(&brokers, &topic, &positions).await.unwrap();
        assert_eq!(found[&0], PositionCheck::Unreadable);
        assert!(matches!(found[&WHOLE], PositionCheck::Same(_)), "{found:?}");

        // As when a broker with an undamaged copy leads.
        (0..WHOLE).for_each(|partition| broker.spoil(&topic, partition, DAMAGED).unwrap());
        expected = (0..WHOLE).map(|one| (one, vec![1, 2])).collect();
        assert_eq!(take(&consumer, 8).await, expected);
        let watched = consumer.held_up();
        let over = at_last(async || match watched.borrow().len() {
            0 => Ok(()),
            count => Err(count),
        });
        tokio::select! {
            () = over => {}
            batch = consumer.next_batch(1) => panic!("{batch:?}"),
        }
        consumer.close().await.unwrap();
    }
}
