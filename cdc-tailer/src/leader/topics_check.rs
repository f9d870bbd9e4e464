//! Checks whether the topics are there, and still hold the messages that a checkpoint relies on. A mismatch leads to a
//! snapshot, never to a gap. `source/same_history.rs` checks whether the server's history still fits.

use std::{convert::Infallible, time::Duration};

use anyhow::Context as _;
use topic::{BrokerProbe, PositionCheck, TopicError, TopicNames};

use crate::{binlog::gtid::Flavor, leader::checkpoint::Checkpoint};

/// Interval between looks at the topics.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Looks in a row that must not find a topic. A broker that has just been started may not know its topics yet.
const MISSING_LOOKS: u32 = 2;

/// Returns the topics that the tailer writes.
pub(crate) fn written(names: &TopicNames) -> [String; 5] {
    [
        names.user_coupon(),
        names.template(),
        names.stock_movement(),
        names.checkpoint(),
        names.dead_letter(),
    ]
}

/// Watches the topics. A message to one that was deleted would wait in the client, and without any message nothing
/// would show it.
///
/// # Errors
/// [`TopicError::MissingTopic`]. Brokers that do not answer are waited for.
pub(crate) async fn watch(brokers: &str, names: &TopicNames) -> Result<Infallible, TopicError> {
    let probe = BrokerProbe::new(brokers, written(names));
    let mut missed = 0;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        missed = match probe.check().await {
            Err(error @ TopicError::MissingTopic { .. }) if missed + 1 == MISSING_LOOKS => {
                return Err(error);
            }
            Err(TopicError::MissingTopic { .. }) => missed + 1,
            Ok(()) | Err(_) => 0,
        };
    }
}

/// Returns why the checkpoint cannot be used; `None` if it can.
pub(crate) async fn mismatch(
    checkpoint: &Checkpoint,
    flavor: Flavor,
    brokers: &str,
) -> anyhow::Result<Option<String>> {
    if checkpoint.flavor != flavor {
        let was = checkpoint.flavor;
        return Ok(Some(format!("it is of {was:?}, the server is {flavor:?}")));
    }
    for (topic, positions) in &checkpoint.acknowledged {
        let found = topic::messages_at(brokers, topic, positions).await.context("topics")?;
        for (partition, found) in found {
            let offset = positions.get(&partition).map_or(0, |position| position.offset);
            match found {
                PositionCheck::Same(_) | PositionCheck::Passed => {}
                PositionCheck::Other => {
                    return Ok(Some(format!(
                        "{topic} partition {partition} holds another message at offset {offset}: \
                         the topic is another one"
                    )));
                }
                PositionCheck::Unreadable => {
                    return Ok(Some(format!(
                        "{topic} partition {partition} cannot be read at offset {offset}"
                    )));
                }
                PositionCheck::Nothing => {
                    return Ok(Some(format!(
                        "{topic} partition {partition} held offset {offset} and does not any more"
                    )));
                }
            }
        }
    }
    Ok(None)
}
