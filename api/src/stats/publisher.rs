//! Sends the counts of each second to their topic. A claim never waits for it: what cannot be sent waits in
//! [`Counter`], within its bounds.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use runtime::{Backoff, Outage};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use topic::{Producer, ProducerOptions};
use tracing::warn;

use super::counter::Counter;

/// Interval between sends: a second's counts are on the topic a second after its end.
const EVERY: Duration = Duration::from_secs(1);

/// Most messages under way at a time. More wait their turn, which takes milliseconds.
const BATCH: usize = 512;

/// How long a process that ends waits for the broker. It loses what is left.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// First and longest pause between two attempts to find the brokers.
const CONNECT_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Publishes until `stop` is cancelled, then sends what is left.
pub(super) async fn publish(
    counter: Arc<Counter>,
    brokers: String,
    topic: String,
    stop: CancellationToken,
) {
    if let Some(producer) = stop.run_until_cancelled(connected(&brokers)).await {
        send_each_second(&counter, &producer, &topic, &stop).await;
    }
    counter.close(true);
    let lost = counter.lose_rest();
    if lost > 0 {
        warn!(answers = lost, "statistics of claims are lost: Kafka did not take them");
    }
}

async fn connected(brokers: &str) -> Producer {
    let outage = Outage::new("statistics of claims wait: Kafka cannot be reached");
    let mut backoff = Backoff::new(CONNECT_AGAIN.0, CONNECT_AGAIN.1);
    loop {
        match Producer::connect(brokers, ProducerOptions::default()).await {
            Ok(producer) => {
                outage.over();
                return producer;
            }
            Err(error) => outage.failed(&runtime::report(&error)),
        }
        backoff.wait().await;
    }
}

async fn send_each_second(
    counter: &Counter,
    producer: &Producer,
    topic: &str,
    stop: &CancellationToken,
) {
    let outage = Outage::new("statistics of claims wait: Kafka does not take them");
    loop {
        let stopping = stop.run_until_cancelled(sleep(EVERY)).await.is_none();
        counter.close(stopping);
        let sending = send_waiting(counter, producer, topic);
        let sent = if stopping {
            timeout(FLUSH_MAX, sending).await.ok()
        } else {
            stop.run_until_cancelled(sending).await
        };
        match sent {
            Some(Ok(())) => outage.over(),
            Some(Err(error)) => outage.failed(&runtime::report(error.as_ref())),
            None => {}
        }
        if stopping {
            return;
        }
    }
}

/// Sends everything that waits. A message whose acknowledgement is lost is sent again under its number, and readers
/// count it once.
async fn send_waiting(counter: &Counter, producer: &Producer, topic: &str) -> anyhow::Result<()> {
    loop {
        let batch = counter.batch(BATCH);
        if batch.is_empty() {
            return Ok(());
        }
        let mut sends = JoinSet::new();
        for message in batch {
            let producer = producer.clone();
            let topic = topic.to_owned();
            sends.spawn(async move {
                let key = message.template_id.to_string();
                let payload = serde_json::to_vec(&message).context("encode")?;
                producer.send(&topic, None, key.as_bytes(), &payload, &[]).await?;
                anyhow::Ok(message.sequence)
            });
        }
        let mut failed = None;
        while let Some(sent) = sends.join_next().await {
            match sent.map_err(anyhow::Error::from).flatten() {
                Ok(sequence) => counter.acknowledge(sequence),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
}
