//! Batches of the topics that cannot be read.

use devstack::OwnBroker;
use testkit::until;
use topic::QueueOffsets;

use crate::harness::{Harness, claim};

/// Long enough to be compressed: its damage shows.
const JUNK: [u8; 2_000] = [b'x'; 2_000];

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_cannot_be_read_holds_up_its_partition_alone_and_the_lander_says_which() {
        let broker = OwnBroker::start("damaged-lander").await.unwrap();
        let brokers = broker.brokers();
        let test = Harness::on_broker("damaged lander", &brokers).await;
        let claims = test.names.claims();
        let payments = test.names.payments();
        let templates = test.templates_on_all_partitions(10).await;
        let offsets = QueueOffsets::new(&brokers, &test.names);
        let damaged = offsets.partition_of(templates[0]).await.unwrap();
        test.send_raw(damaged, &JUNK).await;
        let waiting: Vec<_> = templates.iter().map(|template| claim(*template, 1)).collect();
        test.queue(&waiting).await;
        for partition in 0..4 {
            let sent = test.producer.send(&payments, Some(partition), b"k", &JUNK, &[]);
            assert_eq!(sent.await.unwrap().offset, 0);
        }
        broker.spoil(&claims, damaged, 0).unwrap();
        broker.spoil(&payments, 3, 0).unwrap();

        let lander = test.start();
        until(async || test.counts().await, |counts| *counts == (3, 0, 3)).await;
        until(async || test.dead_letters().await.len(), |letters| *letters == 3).await;
        let named = format!("partition {damaged} of topic {claims} is held up at offset 0");
        lander.until_unready("partitions", &named).await;
        let named = format!("partition 3 of topic {payments} is held up at offset 0");
        lander.until_unready("payments", &named).await;
        test.queue(&[claim(templates[1], 2)]).await;
        until(async || test.counts().await, |counts| *counts == (4, 0, 4)).await;

        // As when a broker with an undamaged copy leads.
        broker.spoil(&claims, damaged, 0).unwrap();
        broker.spoil(&payments, 3, 0).unwrap();
        test.caught_up().await;
        test.paid_up().await;
        assert_eq!((test.counts().await, test.dead_letters().await.len()), ((5, 0, 5), 5));
        lander.until_part_ready("partitions").await;
        lander.until_part_ready("payments").await;
        lander.stop().await.unwrap();
    }
}
