//! Queued claims on a real Kafka.

use chrono::DateTime;
use coupon::{
    AcceptAfter, Admission, Claim, ClaimId, Epoch, PayloadHash, QueuedClaim, RequestId, TemplateId,
    UserId,
};
use devstack::at_last;
use futures::future::join_all;
use tokio::time::timeout;
use topic::{
    ClaimsBatch, ClaimsProducer, ClaimsReader, ConsumerOptions, ProducerOptions, QueueOffsets,
    QueuePosition,
};

use crate::{PATIENCE, Test};

/// Longer than any message may be.
const TOO_LONG: usize = 2_000_000;

fn claim(id: i64, template: i64) -> QueuedClaim {
    let admitted_at = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
    let claim = Claim {
        id: ClaimId(id),
        template_id: TemplateId(template),
        user_id: UserId(id),
        request_id: RequestId::absent(),
        payload_hash: PayloadHash::of_quantity(1),
        quantity: 1,
        claimed_at: admitted_at,
        trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    };
    let admission = Admission { claim, epoch: Epoch(7), numbers: vec![1] };
    let accept_after = AcceptAfter::Topic;
    let left_after = Some(9);
    QueuedClaim { admission, accept_after, admitted_at, left_after }
}

impl Test {
    fn publisher(&self) -> ClaimsProducer {
        ClaimsProducer::new(&self.brokers, &self.names, ProducerOptions::default())
    }

    async fn lander(&self) -> ClaimsReader {
        let options = ConsumerOptions::default();
        ClaimsReader::join(&self.brokers, &self.names, options).await.unwrap()
    }

    /// Two templates whose claims are in the two partitions, in their order.
    async fn one_template_each(&self, publisher: &ClaimsProducer) -> [i64; 2] {
        let mut found = [None; 2];
        for template in 1..100 {
            let partition = publisher.partition_of(TemplateId(template)).await.unwrap();
            found[usize::try_from(partition).unwrap()].get_or_insert(template);
        }
        found.map(Option::unwrap)
    }
}

async fn batch(lander: &ClaimsReader, max: usize) -> ClaimsBatch {
    timeout(PATIENCE, lander.next_batch(max)).await.expect("a batch arrives").unwrap()
}

fn offsets(batch: &ClaimsBatch) -> (i32, Vec<i64>) {
    (batch.partition, batch.messages.iter().map(|message| message.offset).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reaches_its_lander_as_it_was_published_and_its_offset_tells_that_it_ended() {
    let test = Test::new("queued claim").await;
    let publisher = test.publisher();
    let lander = test.lander().await;
    let offsets = QueueOffsets::new(&test.brokers, &test.names);
    let partition = offsets.partition_of(TemplateId(3)).await.unwrap();
    assert_eq!(publisher.partition_of(TemplateId(3)).await.unwrap(), partition);
    let known = async || {
        // A topic's leaders may be known a moment after the topic.
        let committed = at_last(async || offsets.committed(partition).await).await;
        (committed, at_last(async || offsets.end(partition).await).await)
    };
    assert_eq!(known().await, (0, 0), "a partition that never had a claim has landed all");

    for number in 0..2 {
        let position = publisher.publish(&claim(number, 3)).await.unwrap();
        assert_eq!(position, QueuePosition { partition, offset: number });
    }
    assert_eq!(known().await, (0, 2));
    let taken = batch(&lander, 1).await;
    assert_eq!((taken.partition, taken.messages.len()), (partition, 1));
    assert_eq!(taken.messages[0].body, Ok(claim(0, 3)));
    assert_eq!(taken.messages[0].key, b"3#0");
    assert!(taken.messages[0].at > DateTime::UNIX_EPOCH);
    lander.commit_now().await.unwrap();
    assert_eq!(known().await, (0, 2), "taken, and not done");
    lander.done(partition, 1);
    lander.commit_now().await.unwrap();
    assert_eq!(known().await, (1, 2));
    lander.close().await.unwrap();

    let lander = test.lander().await;
    let again = batch(&lander, 10).await;
    assert_eq!(again.messages[0].body, Ok(claim(1, 3)), "what was not done comes again");
    lander.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_claim_is_given_as_it_is() {
    let test = Test::new("no queued claim").await;
    let producer = test.producer().await;
    let topic = test.names.claims();
    producer.send(&topic, Some(1), b"key", b"no claim", &[]).await.unwrap();
    let lander = test.lander().await;
    let taken = batch(&lander, 10).await;
    assert_eq!(offsets(&taken), (1, vec![0]));
    assert_eq!(taken.messages[0].body, Err(b"no claim".to_vec()));
    assert_eq!(taken.messages[0].key, b"key");
    lander.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_gives_its_next_batch_once_the_last_one_is_done_and_holds_up_no_other() {
    let test = Test::new("queued batches").await;
    let publisher = test.publisher();
    let lander = test.lander().await;
    let [first, second] = test.one_template_each(&publisher).await;
    for number in 0..3 {
        publisher.publish(&claim(number, first)).await.unwrap();
    }
    let taken = batch(&lander, 2).await;
    assert_eq!(taken.partition, 0);
    publisher.publish(&claim(9, second)).await.unwrap();
    assert_eq!(offsets(&batch(&lander, 2).await), (1, vec![0]));

    let next = taken.messages.last().unwrap().offset + 1;
    let (rest, ()) = tokio::join!(batch(&lander, 2), async { lander.done(0, next) });
    assert_eq!((rest.partition, rest.messages[0].offset), (0, next));
    lander.close().await.unwrap();
}

/// What waits in a partition stays where it is: neither here nor in the client does it stand before others.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_one_partition_holds_up_no_claim_of_another() {
    const BACKLOG: i64 = 20_000;
    let test = Test::new("queued backlog").await;
    let publisher = test.publisher();
    let lander = test.lander().await;
    let [hot, other] = test.one_template_each(&publisher).await;
    let claims: Vec<_> = (0..BACKLOG).map(|number| claim(number, hot)).collect();
    for published in join_all(claims.iter().map(|claim| publisher.publish(claim))).await {
        published.unwrap();
    }

    let first = batch(&lander, 100).await;
    assert_eq!((first.partition, first.messages[0].offset), (0, 0));
    publisher.publish(&claim(BACKLOG, other)).await.unwrap();
    assert_eq!(offsets(&batch(&lander, 100).await), (1, vec![0]), "while none of the backlog ends");

    lander.done(1, 1);
    lander.done(0, first.messages.last().unwrap().offset + 1);
    publisher.publish(&claim(BACKLOG + 1, other)).await.unwrap();
    let mut before = 0;
    let mut next = i64::try_from(first.messages.len()).unwrap();
    loop {
        let taken = batch(&lander, 100).await;
        let end = taken.messages.last().unwrap().offset + 1;
        lander.done(taken.partition, end);
        if taken.partition == 1 {
            assert_eq!(offsets(&taken), (1, vec![1]));
            break;
        }
        assert_eq!(taken.messages[0].offset, next, "none is left out, and none comes twice");
        (before, next) = (before + taken.messages.len(), end);
    }
    assert!(before < 5_000, "{before} of the backlog came first");
    lander.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_no_broker_takes_is_refused_for_good() {
    let test = Test::new("refused queued claim").await;
    let publisher = test.publisher();
    let mut long = claim(1, 3);
    long.admission.claim.trace_parent = Some("x".repeat(TOO_LONG));
    let refused = publisher.publish(&long).await.unwrap_err();
    assert!(refused.is_refused_for_good(), "{refused:?}");
    publisher.publish(&claim(2, 3)).await.unwrap();
}
