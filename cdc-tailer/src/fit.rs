//! Whether the topics still hold what a checkpoint counts on. What does not fit leads to a snapshot, never to
//! a hole. Whether the server does is said by `history.rs`.

use anyhow::Context as _;
use topic::Found;

use crate::{checkpoint::Checkpoint, position::Flavor};

/// Why the checkpoint cannot be used, if so.
pub(crate) async fn mismatch(
    checkpoint: &Checkpoint,
    flavor: Flavor,
    brokers: &str,
) -> anyhow::Result<Option<String>> {
    if checkpoint.flavor != flavor {
        let was = checkpoint.flavor;
        return Ok(Some(format!("it is of {was:?}, the server is {flavor:?}")));
    }
    for (topic, places) in &checkpoint.acknowledged {
        let found = topic::messages_at(brokers, topic, places).await.context("topics")?;
        for (partition, found) in found {
            let offset = places.get(&partition).map_or(0, |place| place.offset);
            match found {
                Found::Same(_) | Found::Passed => {}
                Found::Other => {
                    return Ok(Some(format!(
                        "{topic} partition {partition} holds another message at offset {offset}: \
                         the topic is another one"
                    )));
                }
                Found::Nothing => {
                    return Ok(Some(format!(
                        "{topic} partition {partition} held offset {offset} and does not any more"
                    )));
                }
            }
        }
    }
    Ok(None)
}
