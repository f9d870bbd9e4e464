//! Topics on a real Kafka: `./dev test`, or `./dev servers up` first.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod claims;
mod codecs;

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use coupon::{EXPIRY_SHARDS, UserId, expiry_shard};
use devstack::{Certificates, OwnBroker, OwnBrokers, TestServers, at_last};
use topic::{
    BrokerProbe, Consumer, ConsumerOptions, Enqueued, FencedWriter, HEADER_TRACE_PARENT,
    HistorySpan, Message, MessagePosition, OffsetReader, OrderedProducer, PartitionOffsets,
    PositionCheck, Producer, ProducerOptions, Reached, Record, Search, TableReader, TopicError,
    TopicLayout, TopicNames, committed_offsets, ensure_topics, find_message, led_offsets,
    messages_at, partitions, read_history, topic_offsets, verify,
};

/// Time after which a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time without a heartbeat after which a test's broker is out of its cluster.
const BROKER_SESSION: Duration = Duration::from_secs(2);

struct Test {
    brokers: String,
    names: TopicNames,
}

impl Test {
    /// Creates topics with two partitions that no other test uses.
    async fn new(name: &str) -> Self {
        Self::of(name, 2).await
    }

    async fn of(name: &str, partitions: i32) -> Self {
        let scope = TestServers::shared().scope(name);
        let brokers = scope.endpoints.kafka_brokers.clone();
        let names = TopicNames::new(&scope.topic_prefix);
        let layout = TopicLayout { partitions, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        Self { brokers, names }
    }

    async fn producer(&self) -> Producer {
        Producer::connect(&self.brokers, ProducerOptions::default()).await.unwrap()
    }

    async fn join(&self, topic: &str) -> Consumer {
        let topics = [topic.to_owned()];
        let options = ConsumerOptions::default();
        Consumer::join(&self.brokers, self.names.prefix(), &topics, options).await.unwrap()
    }
}

async fn take(consumer: &Consumer, count: usize) -> Vec<Message> {
    let taking = async {
        let mut all = Vec::new();
        while all.len() < count {
            all.append(&mut consumer.next_batch(count - all.len()).await.unwrap());
        }
        all
    };
    tokio::time::timeout(PATIENCE, taking).await.expect("the messages arrive")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_as_it_was_sent_and_topics_can_be_ensured_twice() {
    let test = Test::new("as sent").await;
    let other = TopicLayout { partitions: 5, replication: 1 };
    ensure_topics(&test.brokers, &test.names, &other).await.unwrap();
    let producer = test.producer().await;
    let topic = test.names.expiry();
    assert_eq!(producer.partitions(&topic).await.unwrap(), 2, "existing topics stay as they are");
    let headers: [(&str, &[u8]); 1] = [(HEADER_TRACE_PARENT, b"00-1")];
    let sent = producer.send(&topic, Some(1), b"k", b"payload", &headers).await.unwrap();
    assert_eq!((sent.partition, sent.offset), (1, 0));
    let consumer = test.join(&topic).await;
    let message = take(&consumer, 1).await.remove(0);
    assert_eq!((message.partition, message.offset), (1, 0));
    assert_eq!(
        (message.key.as_slice(), message.payload.as_deref()),
        (&b"k"[..], Some(&b"payload"[..]))
    );
    assert_eq!(message.header(HEADER_TRACE_PARENT), Some(&b"00-1"[..]));
    assert_eq!(consumer.rebalances().borrow().of(&topic), [0, 1]);
    consumer.close().await.unwrap();
}

/// One partition per shard lets coupons that end together be published in few large batches (docs/decisions/0015).
#[tokio::test(flavor = "multi_thread")]
async fn all_users_of_a_shard_of_expiry_are_in_one_partition() {
    for partitions in [8, 32] {
        let test = Test::of("shards in partitions", partitions).await;
        let producer = test.producer().await;
        let topic = test.names.user_coupon();
        for user in (0..EXPIRY_SHARDS).flat_map(|n| [n, n << 40, i64::MAX - n]) {
            let shard = i32::from(expiry_shard(UserId(user)));
            let key = user.to_string();
            let sent = producer.send(&topic, None, key.as_bytes(), b"{}", &[]).await.unwrap();
            assert_eq!(sent.partition, shard % partitions, "user {user} of shard {shard}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_stored_comes_again_and_counts_as_lag() {
    let test = Test::new("stored").await;
    let producer = test.producer().await;
    let topic = test.names.user_coupon();
    for number in 0..10u8 {
        producer.send(&topic, Some(0), b"k", &[number], &[]).await.unwrap();
    }
    let consumer = test.join(&topic).await;
    let messages = take(&consumer, 10).await;
    consumer.store(&messages[5]);
    consumer.close().await.unwrap();
    let group = test.names.prefix();
    let offsets = OffsetReader::new(&test.brokers);
    assert_eq!(offsets.committed_lag(group, &topic).await.unwrap(), 4);
    let ends: Vec<_> = offsets.topic_offsets(&topic).await.unwrap();
    assert_eq!(ends.iter().map(|held| held.end - held.start).sum::<i64>(), 10);
    let before = async |ends| offsets.committed_lag_before(group, &topic, ends).await;
    assert_eq!(before(&ends).await.unwrap(), 4);
    let stored: Vec<_> =
        ends.iter().map(|held| PartitionOffsets { end: held.end.min(3), ..*held }).collect();
    assert_eq!(before(&stored).await.unwrap(), 0, "more was consumed since");

    let consumer = test.join(&topic).await;
    let again: Vec<_> = take(&consumer, 4).await.iter().map(|message| message.offset).collect();
    assert_eq!(again, [6, 7, 8, 9]);
    consumer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_more_members_than_partitions_the_assignment_of_none_stands_too() {
    let test = Test::new("more members").await;
    let topic = test.names.expiry();
    let members = [test.join(&topic).await, test.join(&topic).await, test.join(&topic).await];
    let seen = || members.each_ref().map(|member| member.rebalances().borrow().clone());
    assert!(seen().iter().all(|own| !own.stands() && !own.is_lost()), "none has come yet");
    at_last(async || {
        for member in &members {
            let asked = member.next_batch(1);
            drop(tokio::time::timeout(Duration::from_millis(50), asked).await);
        }
        let all = seen();
        let mut counts = all.each_ref().map(|own| own.all().len());
        counts.sort_unstable();
        let stand = all.iter().all(|own| own.stands() && !own.is_lost());
        if counts == [0, 1, 1] && stand { Ok(()) } else { Err(all) }
    })
    .await;
    for member in members {
        member.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_shared_with_a_second_member_and_come_back_when_it_leaves() {
    let test = Test::new("shared").await;
    let topic = test.names.expiry();
    let first = test.join(&topic).await;
    let second = test.join(&topic).await;
    let mut of_first = first.rebalances();
    let mut of_second = second.rebalances();
    let polling = async {
        tokio::select! {
            batch = first.next_batch(1) => drop(batch),
            batch = second.next_batch(1) => drop(batch),
        }
    };
    let shared = async {
        of_first.wait_for(|own| own.of(&topic).len() == 1).await.unwrap();
        of_second.wait_for(|own| own.of(&topic).len() == 1).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            () = polling => panic!("nothing was sent"),
            () = shared => {}
        }
    })
    .await
    .unwrap();
    second.close().await.unwrap();
    let alone = of_first.wait_for(|own| own.of(&topic) == [0, 1]);
    tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            batch = first.next_batch(1) => panic!("nothing was sent: {batch:?}"),
            own = alone => drop(own.unwrap()),
        }
    })
    .await
    .unwrap();
    first.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_reader_knows_when_it_has_read_everything_and_goes_on() {
    let test = Test::new("table").await;
    let producer = test.producer().await;
    let topic = test.names.template();
    let empty = TableReader::open(&test.brokers, &topic).await.unwrap();
    assert_eq!(empty.read_to_end().await.unwrap(), []);
    producer.send(&topic, None, b"1", b"a", &[]).await.unwrap();
    let mut reader = TableReader::open(&test.brokers, &topic).await.unwrap();
    assert!(!reader.caught_up());
    let mut seen = reader.next_batch(10).await.unwrap();
    while !reader.caught_up() {
        seen.append(&mut reader.next_batch(10).await.unwrap());
    }
    assert_eq!(seen.len(), 1);
    producer.send(&topic, None, b"1", b"b", &[]).await.unwrap();
    let next = tokio::time::timeout(PATIENCE, reader.next_batch(10)).await.unwrap().unwrap();
    assert_eq!(next[0].payload.as_deref(), Some(&b"b"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_writer_is_fenced_and_its_message_does_not_come() {
    let test = Test::new("fence").await;
    let id = format!("{}.writer", test.names.prefix());
    let topic = test.names.checkpoint();
    let first = at_last(async || FencedWriter::take_over(&test.brokers, &id).await).await;
    first.write(&topic, b"k", b"1").await.unwrap();
    let second = FencedWriter::take_over(&test.brokers, &id).await.unwrap();
    let error = first.write(&topic, b"k", b"late").await.unwrap_err();
    assert!(matches!(error, TopicError::Fenced { .. }), "{error:?}");
    assert!(!error.is_retriable());
    second.write(&topic, b"k", b"2").await.unwrap();
    let reader = TableReader::open(&test.brokers, &topic).await.unwrap();
    let all = reader.read_to_end().await.unwrap();
    let payloads: Vec<_> = all.iter().filter_map(|message| message.payload.as_deref()).collect();
    assert_eq!(payloads, [b"1", b"2"]);
}

/// A broker that lost what it had acknowledged causes this. Otherwise only a restart of the process would help.
#[cfg(feature = "verify")]
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_whose_client_failed_for_good_goes_on_by_a_new_one() {
    let test = Test::new("failed for good").await;
    let producer = test.producer().await;
    let topic = test.names.dead_letter();
    let other = producer.clone();
    for producer in [&producer, &other] {
        producer.send(&topic, None, b"k", b"before", &[]).await.unwrap();
        producer.fail_for_good();
        let failed = producer.send(&topic, None, b"k", b"lost", &[]).await.unwrap_err();
        assert!(!failed.is_refused_for_good(), "{failed:?}");
        other.send(&topic, None, b"k", b"after", &[]).await.unwrap();
    }
    assert!(producer.partitions(&topic).await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_messages_is_acknowledged_in_order_through_a_small_queue() {
    const COUNT: u64 = 20_000;
    let test = Test::new("ordered").await;
    let topic = test.names.user_coupon();
    let options = ProducerOptions { queue_bytes: 64 * 1024, ..ProducerOptions::default() };
    let mut producer =
        OrderedProducer::connect(&test.brokers, std::slice::from_ref(&topic), options)
            .await
            .unwrap();
    for number in 0..COUNT {
        let key = (number % 50).to_string();
        let payload = number.to_string();
        let record = Record {
            topic: &topic,
            key: key.as_bytes(),
            payload: payload.as_bytes(),
            headers: &[],
        };
        assert_eq!(producer.enqueue(&record).await.unwrap(), number);
    }
    tokio::time::timeout(PATIENCE, producer.drained()).await.unwrap().unwrap();
    assert_eq!(producer.acknowledged().unwrap(), COUNT);
    let held = topic_offsets(&test.brokers, &topic).await.unwrap();
    let places = producer.positions().remove(&topic).unwrap();
    for (partition, place) in &places {
        let held = held.iter().find(|held| held.partition == *partition).unwrap();
        assert_eq!(held.end, place.offset + 1);
    }
    assert_eq!(held.iter().map(|held| held.end).sum::<i64>(), COUNT.cast_signed());

    let found = messages_at(&test.brokers, &topic, &places).await.unwrap();
    assert!(found.values().all(|found| matches!(found, PositionCheck::Same(_))), "{found:?}");
    let moved = |by: i64, later: i64| {
        let place = |place: &MessagePosition| MessagePosition {
            offset: place.offset + by,
            time_ms: place.time_ms + later,
        };
        places.iter().map(|(partition, known)| (*partition, place(known))).collect()
    };
    let found = messages_at(&test.brokers, &topic, &moved(0, 1)).await.unwrap();
    assert!(found.values().all(|found| *found == PositionCheck::Other), "{found:?}");
    let found = messages_at(&test.brokers, &topic, &moved(1, 0)).await.unwrap();
    assert!(found.values().all(|found| *found == PositionCheck::Nothing), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn places_are_found_at_once_however_large_the_batches_behind_them_are() {
    const ROUNDS: u64 = 20_000;
    /// The limit of the read itself is 15 s.
    const AT_ONCE: Duration = Duration::from_secs(5);
    let test = Test::new("places").await;
    let names = TopicNames::new(format!("{}.wide", test.names.prefix()));
    let layout = TopicLayout { partitions: 16, replication: 1 };
    ensure_topics(&test.brokers, &names, &layout).await.unwrap();
    let topic = names.user_coupon();
    let mut producer = OrderedProducer::connect(
        &test.brokers,
        std::slice::from_ref(&topic),
        ProducerOptions::default(),
    )
    .await
    .unwrap();
    let mut places = None;
    for number in 0..ROUNDS {
        let key = (number % 50).to_string();
        let payload = [b'x'; 1_000];
        let record = Record { topic: &topic, key: key.as_bytes(), payload: &payload, headers: &[] };
        producer.enqueue(&record).await.unwrap();
        if number == ROUNDS / 10 {
            producer.drained().await.unwrap();
            places = producer.positions().remove(&topic);
        }
    }
    tokio::time::timeout(PATIENCE, producer.drained()).await.unwrap().unwrap();
    let begun = Instant::now();
    let found = messages_at(&test.brokers, &topic, &places.unwrap()).await.unwrap();
    assert!(found.values().all(|found| matches!(found, PositionCheck::Same(_))), "{found:?}");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_between_idle_ends_takes_milliseconds() {
    const ROUNDS: usize = 200;
    let test = Test::new("latency").await;
    let producer = test.producer().await;
    let topic = test.names.user_coupon();
    let consumer = test.join(&topic).await;
    let mut taken = Vec::new();
    for _ in 0..ROUNDS {
        let sent = Instant::now();
        producer.send(&topic, None, b"k", b"p", &[]).await.unwrap();
        take(&consumer, 1).await;
        taken.push(sent.elapsed());
    }
    taken.sort();
    println!("produce to consume: p50 {:?}, p99 {:?}", taken[ROUNDS / 2], taken[ROUNDS * 99 / 100]);
    // A lingering client or a fetch that is not woken would delay each message by 100 ms.
    assert!(taken[ROUNDS / 10] < Duration::from_millis(50), "{:?}", taken[ROUNDS / 10]);
    consumer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_begins_at_a_time_and_ends_at_the_end_or_at_a_limit() {
    let test = Test::new("history").await;
    let producer = test.producer().await;
    let topic = test.names.claim_stats();
    for number in 0..10 {
        let key = number.to_string();
        producer.send(&topic, Some(1), key.as_bytes(), b"p", &[]).await.unwrap();
    }
    producer.send(&topic, Some(0), b"elsewhere", b"p", &[]).await.unwrap();
    let all = HistorySpan { from_ms: 0, until_ms: i64::MAX, within: PATIENCE, messages_max: 100 };
    let read = async |span: HistorySpan, most: usize| {
        let take = move |keys: &mut Vec<Vec<u8>>, key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let (keys, reached) =
            read_history(&test.brokers, &topic, |_| 1, span, Vec::new(), take).await.unwrap();
        (keys.len(), matches!(reached, Reached::Limit(Some(_))))
    };
    assert_eq!(read(all, 100).await, (10, false));
    assert_eq!(read(all, 4).await, (4, true), "the caller has enough");
    assert_eq!(read(HistorySpan { messages_max: 3, ..all }, 100).await, (3, true));
    assert_eq!(read(HistorySpan { from_ms: 4_000_000_000_000, ..all }, 100).await, (0, false));
    assert_eq!(read(HistorySpan { until_ms: 1, ..all }, 100).await, (0, false));
    let soon = HistorySpan { within: Duration::from_millis(200), ..all };
    let nobody =
        read_history("127.0.0.1:1", &topic, |_| 1, soon, (), |(), _, _| ControlFlow::Continue(()));
    let nobody = nobody.await.unwrap_err();
    assert!(matches!(nobody, TopicError::Unreachable { .. }), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_by_its_time_and_content_or_said_not_to_be_there() {
    let test = Test::new("search").await;
    let producer = test.producer().await;
    let topic = test.names.user_coupon();
    for number in 0..10 {
        let payload = number.to_string();
        producer.send(&topic, Some(1), b"42", payload.as_bytes(), &[]).await.unwrap();
    }
    let all = HistorySpan { from_ms: 0, until_ms: i64::MAX, within: PATIENCE, messages_max: 100 };
    let find = async |span: HistorySpan, wanted: &'static [u8]| {
        let fits = move |key: &[u8], payload: &[u8]| key == b"42" && payload == wanted;
        find_message(&test.brokers, &topic, |_| 1, span, fits).await.unwrap()
    };
    match find(all, b"7").await {
        Search::Found(message) => {
            let found = (message.partition, message.offset, message.payload.as_deref());
            assert_eq!(found, (1, 7, Some(&b"7"[..])));
            assert!(message.timestamp_ms.is_some());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(find(all, b"10").await, Search::Nothing);
    assert_eq!(find(HistorySpan { messages_max: 3, ..all }, b"7").await, Search::Limit);
    assert_eq!(find(HistorySpan { until_ms: 1, ..all }, b"7").await, Search::Nothing);
    let later = HistorySpan { from_ms: 4_000_000_000_000, ..all };
    assert_eq!(find(later, b"7").await, Search::Nothing);
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_broker_and_no_topic_are_errors_after_a_bounded_wait() {
        let test = Test::new("missing").await;
        let options = ProducerOptions::default();
        let (nobody, missing) = tokio::join!(
            Producer::connect("127.0.0.1:1", options),
            TableReader::open(&test.brokers, "no.such.topic"),
        );
        let nobody = nobody.err().unwrap();
        assert!(matches!(nobody, TopicError::Unreachable { .. }), "{nobody:?}");
        assert!(nobody.to_string().contains("KAFKA_BROKERS"));
        let missing = missing.err().unwrap();
        assert!(matches!(missing, TopicError::MissingTopic { .. }), "{missing:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_lost_its_partitions_and_hears_no_more_is_replaced_and_goes_on_where_it_was()
     {
        let mut broker = OwnBroker::start("rejoin").await.unwrap();
        let brokers = broker.brokers();
        let names = TopicNames::new("rejoin");
        let layout = TopicLayout { partitions: 2, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let topic = names.expiry();
        let options =
            ConsumerOptions { rejoin_within: Duration::from_secs(1), ..ConsumerOptions::default() };
        let consumer = Consumer::join(&brokers, "rejoin", std::slice::from_ref(&topic), options)
            .await
            .unwrap();
        let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
        producer.send(&topic, None, b"k", b"before", &[]).await.unwrap();
        let before = take(&consumer, 1).await.remove(0);
        consumer.store(&before);
        consumer.commit().await.unwrap();
        broker.server.pause().unwrap();
        let replaced = async {
            while consumer.replaced() == 0 {
                // `next_batch` detects the silence and replaces the client.
                let asked = consumer.next_batch(1);
                let asked = tokio::time::timeout(Duration::from_millis(100), asked).await;
                assert!(asked.is_err(), "nobody is there to send anything");
            }
        };
        tokio::time::timeout(PATIENCE, replaced).await.expect("its client is replaced");
        assert_eq!(consumer.rebalances().borrow().all(), [], "and owns nothing yet");
        broker.server.resume().unwrap();
        producer.send(&topic, None, b"k", b"after", &[]).await.unwrap();
        let after = take(&consumer, 1).await.remove(0);
        assert_eq!(
            after.payload.as_deref(),
            Some(b"after".as_slice()),
            "what was committed is done"
        );
        assert_eq!((consumer.rebalances().borrow().all().len(), consumer.replaced()), (2, 1));
        consumer.close().await.unwrap();
    }

    /// Without the recovery one client of some hundreds stays without brokers for ever after each freeze (decision 0016);
    /// `lost_brokers.rs` has the deterministic test.
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "a minute and a half for something rare; ./dev soak clients_that_lost_all_brokers"]
    async fn clients_that_lost_all_brokers_find_them_again_each_time() {
        const CLIENTS: usize = 48;
        const FREEZES: u32 = 20;
        const KEYS: usize = 50;
        let mut broker = OwnBroker::start("frozen").await.unwrap();
        let brokers = broker.brokers();
        let names = TopicNames::new("frozen");
        let layout = TopicLayout { partitions: 8, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let topics = [names.user_coupon()];
        let options = ProducerOptions::default();
        let producers = (0..CLIENTS).map(|_| OrderedProducer::connect(&brokers, &topics, options));
        let mut producers = futures::future::try_join_all(producers).await.unwrap();
        for freeze in 1..=FREEZES {
            for producer in &mut producers {
                for key in 0..KEYS {
                    let key = key.to_string().into_bytes();
                    let record =
                        Record { topic: &topics[0], key: &key, payload: b"p", headers: &[] };
                    producer.enqueue(&record).await.unwrap();
                }
            }
            broker.server.pause().unwrap();
            // Its session expires, and it must rejoin the cluster.
            let more = Duration::from_millis(300) + freeze % 10 * Duration::from_millis(100);
            tokio::time::sleep(BROKER_SESSION + more).await;
            broker.server.resume().unwrap();
            let drained = futures::future::join_all(producers.iter().map(OrderedProducer::drained));
            let drained = tokio::time::timeout(PATIENCE, drained).await;
            let stuck = producers.iter().filter(|producer| producer.in_flight() > 0).count();
            assert!(drained.is_ok(), "{stuck} producers got nowhere after freeze {freeze}");
        }
    }

    /// One broker of three is away, and with it the only copy of a partition. A process that starts now serves the others.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_partition_without_a_leader_keeps_nobody_from_the_others() {
        let mut cluster = OwnBrokers::start("topic-leaderless").await.unwrap();
        let brokers = cluster.brokers();
        let names = TopicNames::new("leaderless");
        let layout = TopicLayout { partitions: 6, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let test = Test { brokers, names };
        let topic = test.names.claims();
        let probe = BrokerProbe::new(&test.brokers, [topic.clone()]);
        probe.check().await.unwrap();
        cluster.servers[0].kill().unwrap();
        let error = at_last(async || match probe.check().await {
            Err(error @ TopicError::NoLeader { .. }) => Ok(error),
            other => Err(other),
        })
        .await;
        assert!(error.is_retriable() && error.to_string().contains("has no leader"), "{error}");

        let producer = test.producer().await;
        assert_eq!(producer.partitions(&topic).await.unwrap(), 6);
        let mut sent = 0;
        for partition in 0..6 {
            let options =
                ProducerOptions { give_up: Some(Duration::from_secs(3)), ..Default::default() };
            let producer = Producer::connect(&test.brokers, options).await.unwrap();
            sent +=
                usize::from(producer.send(&topic, Some(partition), b"k", b"m", &[]).await.is_ok());
        }
        assert!((1..6).contains(&sent), "{sent}");
        let consumer = test.join(&topic).await;
        assert_eq!(take(&consumer, sent).await.len(), sent);
        consumer.close().await.unwrap();
        // Nor do readers of offsets wait for it.
        assert_eq!(partitions(&test.brokers, &topic).await.unwrap(), 6);
        let group = test.names.prefix();
        committed_offsets(&test.brokers, group, &topic).await.unwrap();
        let led = led_offsets(&test.brokers, &topic).await.unwrap();
        assert!((1..6).contains(&led.len()), "{led:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn by_tls_messages_go_to_a_broker_of_the_named_ca_and_to_no_other() {
        let certificates = Certificates::make("topic-tls-ca").unwrap();
        let other = Certificates::make("topic-tls-other-ca").unwrap();
        let (broker, port) = OwnBroker::with_tls("topic-tls", &certificates).await.unwrap();
        let at = |host: &str, by: &Certificates| format!("ssl://{host}:{port}?ssl-ca={}", by.ca());
        let brokers = at("127.0.0.1", &certificates);
        let names = TopicNames::new("tls");
        let layout = TopicLayout { partitions: 2, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let test = Test { brokers, names };
        let producer = test.producer().await;
        let topic = test.names.expiry();
        producer.send(&topic, Some(1), b"k", b"by tls", &[]).await.unwrap();
        let consumer = test.join(&topic).await;
        assert_eq!(take(&consumer, 1).await[0].payload.as_deref(), Some(&b"by tls"[..]));
        consumer.close().await.unwrap();

        let refused = [
            at("127.0.0.1", &other),
            format!("ssl://127.0.0.1:{port}"),
            // An address without TLS.
            format!("ssl://{}?ssl-ca={}", broker.brokers(), certificates.ca()),
        ];
        let refused = refused.map(|brokers| {
            let names = test.names.clone();
            tokio::spawn(async move { ensure_topics(&brokers, &names, &layout).await.unwrap_err() })
        });
        for error in refused {
            let error = error.await.unwrap();
            assert!(matches!(error, TopicError::Unreachable { .. }), "{error:?}");
            assert!(error.to_string().contains("ssl-ca must be the CA of the broker's"), "{error}");
        }
    }
}

/// Its position, and its committed offset, are those of the old one, and the new one has more messages by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_reads_a_topic_that_was_made_anew_from_its_beginning() {
    for runs_meanwhile in [true, false] {
        let test = Test::new("made anew").await;
        let producer = test.producer().await;
        let topic = test.names.user_coupon();
        let consumer = test.join(&topic).await;
        for _ in 0..20 {
            producer.send(&topic, Some(0), b"k", b"old", &[]).await.unwrap();
        }
        let old = take(&consumer, 20).await;
        consumer.store(old.last().unwrap());
        consumer.commit().await.unwrap();
        let running = if runs_meanwhile {
            Some(consumer)
        } else {
            consumer.close().await.unwrap();
            None
        };
        verify::remove(&test.brokers, &topic).await.unwrap();
        let layout = TopicLayout { partitions: 2, replication: 1 };
        ensure_topics(&test.brokers, &test.names, &layout).await.unwrap();
        let producer = test.producer().await;
        for _ in 0..60 {
            producer.send(&topic, Some(0), b"k", b"new", &[]).await.unwrap();
        }
        if let Some(running) = running {
            let error = loop {
                match running.next_batch(100).await {
                    Ok(batch) => running.store(batch.last().unwrap()),
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(&error, TopicError::MadeAnew { topic: anew } if *anew == topic),
                "{error}"
            );
            assert!(!error.is_retriable());
            // Nothing that is stored now moves its offsets.
            running.store(&Message { offset: 59, ..old[0].clone() });
            running.close().await.unwrap();
        }
        let consumer = test.join(&topic).await;
        let offsets: Vec<i64> =
            take(&consumer, 60).await.iter().map(|message| message.offset).collect();
        assert_eq!(offsets, (0..60).collect::<Vec<_>>(), "{runs_meanwhile}");
        consumer.close().await.unwrap();
    }
}

/// It is idle at an offset that the new topic does not reach, and would skip what has come below it by then.
#[tokio::test(flavor = "multi_thread")]
async fn who_follows_a_whole_topic_notices_that_it_was_made_anew_and_another_reads_it_from_its_beginning()
 {
    let test = Test::new("followed anew").await;
    let topic = test.names.template();
    let producer = test.producer().await;
    for _ in 0..20 {
        producer.send(&topic, Some(0), b"k", b"old", &[]).await.unwrap();
    }
    let mut reader = TableReader::open(&test.brokers, &topic).await.unwrap();
    while !reader.caught_up() {
        reader.next_batch(100).await.unwrap();
    }
    verify::remove(&test.brokers, &topic).await.unwrap();
    let layout = TopicLayout { partitions: 2, replication: 1 };
    ensure_topics(&test.brokers, &test.names, &layout).await.unwrap();
    let producer = test.producer().await;
    for number in 0..3 {
        producer.send(&topic, Some(0), format!("{number}").as_bytes(), b"new", &[]).await.unwrap();
    }
    let error = loop {
        if let Err(error) = reader.next_batch(100).await {
            break error;
        }
    };
    assert!(matches!(&error, TopicError::MadeAnew { topic: anew } if *anew == topic), "{error}");
    drop(reader);
    let reader = TableReader::open_to_end(&test.brokers, &topic).await.unwrap();
    assert_eq!(reader.read_to_end().await.unwrap().len(), 3);
}

/// The client has built the batch behind a refused one already, and sends it. A broker that does not know the producer in
/// the partition would take it.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_behind_a_refused_message_is_not_in_the_topic_before_it() {
    const ATTEMPTS: u64 = 40;
    let test = Test::new("behind a refused one").await;
    let topic = test.names.user_coupon();
    verify::set(&test.brokers, &topic, "max.message.bytes", "300").await.unwrap();
    // By xorshift, so that compression does not make it short.
    let next = |seed: &u32| {
        let seed = seed ^ (seed << 13);
        let seed = seed ^ (seed >> 17);
        Some(seed ^ (seed << 5))
    };
    let long: Vec<u8> = std::iter::successors(Some(7), next)
        .take(1_000)
        .map(|seed| seed.to_le_bytes()[0])
        .collect();
    // A broker reports the setting a moment before its partitions apply it.
    let producer = test.producer().await;
    while producer.send(&topic, Some(0), b"key", &long, &[]).await.is_ok() {}
    let end = async || -> i64 {
        topic_offsets(&test.brokers, &topic).await.unwrap().iter().map(|held| held.end).sum()
    };
    let end_before = end().await;
    for attempt in 0..ATTEMPTS {
        let options = ProducerOptions::default();
        let topics = std::slice::from_ref(&topic);
        let mut producer = OrderedProducer::connect(&test.brokers, topics, options).await.unwrap();
        let record = |payload| Record { topic: &topic, key: b"key", payload, headers: &[] };
        producer.enqueue(&record(&long)).await.unwrap();
        // While the first one is on its way. At once, both would share a batch.
        let behind = Instant::now() + Duration::from_micros(100 * attempt);
        while Instant::now() < behind {
            std::hint::spin_loop();
        }
        let is_refused =
            producer.enqueue(&record(b"short")).await.is_err() || producer.drained().await.is_err();
        assert!(is_refused, "attempt {attempt}");
        producer.abandon(Duration::from_millis(50));
        let attempt = format!("attempt {attempt}: the message behind it is in the topic");
        assert_eq!(end().await, end_before, "{attempt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_messages_of_partitions_are_enqueued_while_the_queue_is_full() {
    const PARTITIONS: i32 = 64;
    let test = Test::new("first and full").await;
    let names = TopicNames::new(format!("{}.wide", test.names.prefix()));
    let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
    ensure_topics(&test.brokers, &names, &layout).await.unwrap();
    let topic = names.user_coupon();
    let options = ProducerOptions { queue_bytes: 64 * 1024, ..ProducerOptions::default() };
    let topics = std::slice::from_ref(&topic);
    let mut producer = OrderedProducer::connect(&test.brokers, topics, options).await.unwrap();
    let payload = [b'x'; 1_000];
    let known = Record { topic: &topic, key: b"0", payload: &payload, headers: &[] };
    let mut enqueued = 0;
    for key in 0..4 * PARTITIONS {
        // Enough to fill the queue, of a partition that is known.
        while producer.try_enqueue(&known).unwrap() != Enqueued::QueueFull {
            enqueued += 1;
        }
        let key = key.to_string();
        let other = Record { key: key.as_bytes(), ..known };
        let enqueuing = producer.enqueue(&other);
        tokio::time::timeout(PATIENCE, enqueuing).await.expect("it is enqueued").unwrap();
        enqueued += 1;
    }
    tokio::time::timeout(PATIENCE, producer.drained()).await.unwrap().unwrap();
    assert_eq!(producer.acknowledged().unwrap(), enqueued);
}
