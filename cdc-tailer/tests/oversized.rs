//! A row too large for a message becomes a dead letter, and later rows are published.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::{Duration, Instant};

use testkit::until_true;
use topic::{Event, Message, StockMovementRow, verify};

use crate::harness::Harness;

/// A limit between a movement with a short reason, about 500 bytes, and one with the longest, 600 bytes more.
const BETWEEN_SHORT_AND_LONG: usize = 800;

/// Longer than a few attempts take.
const TRIED_FOR: Duration = Duration::from_secs(3);

fn movement(seq: i64, reason: &str) -> String {
    format!(
        "insert into stock_movement (template_id, seq, delta, reason, actor, created_at) \
         values (7, {seq}, 1, '{reason}', 'operator', '2026-01-02')"
    )
}

/// Returns the movement numbers in the topic, once `last` is there.
async fn movements_until(test: &Harness, last: i64) -> Vec<i64> {
    let seq = |message: &Message| {
        let payload = message.payload.as_ref().unwrap();
        topic::decode::<Event<StockMovementRow>>(payload).unwrap().after.unwrap().seq
    };
    let is_there =
        |messages: &[Message]| messages.last().is_some_and(|message| seq(message) == last);
    let messages = test.messages_until(&test.names.stock_movement(), is_there).await;
    messages.iter().map(seq).collect()
}

async fn letters(test: &Harness) -> usize {
    test.messages_until(&test.names.dead_letter(), |all| !all.is_empty()).await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_for_a_message_is_in_nobodys_way_and_reported_once() {
    let test = Harness::new("oversized").await;
    test.start().await.stop().await.unwrap();
    let mut config = test.config.clone();
    config.message_bytes_max = BETWEEN_SHORT_AND_LONG;
    let tailer = test.start_with(config.clone());
    let long = "券".repeat(200);
    test.sql(&format!("{}; {}; {}", movement(1, "a"), movement(2, &long), movement(3, "b")));
    assert_eq!(movements_until(&test, 3).await, [1, 3]);
    assert_eq!(letters(&test).await, 1);

    // The checkpoint covers the dead letter like any message, and the next checkpoint is after it.
    let topic = test.names.dead_letter();
    let counts_on_it = |all: &[Message]| {
        let last = all.last().and_then(|message| message.payload.as_deref());
        String::from_utf8_lossy(last.unwrap_or_default()).contains(&topic)
    };
    test.messages_until(&test.names.checkpoint(), counts_on_it).await;
    let saved = test.checkpoint().await;
    test.sql(&movement(4, "c"));
    assert_eq!(movements_until(&test, 4).await, [1, 3, 4]);
    test.checkpoint_other_than(&saved).await;

    // The dead letter is not published again, neither after a kill nor after a regular stop.
    tailer.abort();
    let tailer = test.start_with(config.clone());
    test.sql(&movement(5, "d"));
    let published = movements_until(&test, 5).await;
    assert!(published.starts_with(&[1, 3, 4]) && published.ends_with(&[5]), "{published:?}");
    assert!(!published.contains(&2), "{published:?}");
    assert_eq!(letters(&test).await, 1);
    tailer.stop().await.unwrap();
    let tailer = test.start_with(config);
    test.sql(&movement(6, "e"));
    assert_eq!(movements_until(&test, 6).await, [published, vec![6]].concat());
    assert_eq!(letters(&test).await, 1);
    tailer.stop().await.unwrap();
}

/// Another one than `MESSAGE_BYTES_MAX`, with which the tailer itself decides what is too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_takes_no_message_of_that_size_is_waited_for_until_its_setting_is_raised() {
    let test = Harness::new("small topic").await;
    let tailer = test.start().await;
    let topic = test.names.stock_movement();
    let limit = async |bytes: usize| {
        let brokers = test.brokers();
        let bytes = bytes.to_string();
        verify::set(brokers, &topic, "max.message.bytes", &bytes).await.unwrap();
    };
    limit(BETWEEN_SHORT_AND_LONG).await;
    // Random, so that the batch does not become short by its compression.
    let long: String = std::iter::repeat_with(|| fastrand::char('一'..'龥')).take(200).collect();
    test.sql(&format!("{}; {}; {}", movement(1, "a"), movement(2, &long), movement(3, "b")));
    let why = tailer.until_unready("binlog", "max.message.bytes").await;
    assert!(why.contains(&topic) && why.contains("message.max.bytes"), "{why}");
    // It is not ready in between, when it tries again.
    let began = Instant::now();
    until_true(async || {
        assert!(!tailer.is_ready());
        began.elapsed() > TRIED_FOR
    })
    .await;
    limit(1_048_588).await;
    let mut movements = movements_until(&test, 3).await;
    movements.dedup();
    assert_eq!(movements, [1, 2, 3], "in order");
    tailer.until_ready().await;
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_gone_is_noticed_at_once_made_again_and_filled() {
    let test = Harness::new("topic gone").await;
    let tailer = test.start().await;
    test.sql(&movement(1, "a"));
    assert_eq!(movements_until(&test, 1).await, [1]);
    verify::remove(test.brokers(), &test.names.stock_movement()).await.unwrap();
    // Nothing is to be sent to it.
    let why = tailer.until_unready("binlog", "does not exist").await;
    assert!(why.contains("stock_movement"), "{why}");
    test.sql(&movement(2, "b"));
    let mut movements = movements_until(&test, 2).await;
    movements.dedup();
    assert_eq!(movements, [1, 2]);
    tailer.until_ready().await;
    tailer.stop().await.unwrap();
}
