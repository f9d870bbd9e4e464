//! Checks whether the topics still hold the messages that a checkpoint relies on. A mismatch leads to a snapshot, never
//! to a gap. `source/same_history.rs` checks whether the server's history still fits.

use anyhow::Context as _;
use topic::PositionCheck;

use crate::{binlog::gtid::Flavor, leader::checkpoint::Checkpoint};

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
