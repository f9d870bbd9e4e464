//! Whether a checkpoint still fits the server and the topics. What does not fit leads to a snapshot,
//! never to a hole.
//!
//! A server that took another one's place has another identity. MySQL's GTIDs name the server that
//! wrote a transaction, so there the server itself refuses a position that is not its own. MariaDB's
//! numbers mean something only among servers that replicate from each other. So a server counts as a
//! successor if it has the coupons that were published last, in those versions or later ones; where
//! none was published, it does not count as one.

use anyhow::Context as _;
use mysql_store::{MySqlConnection, settings::BinlogSettings, snapshot};
use topic::{Event, Found, Message, TopicNames, UserCouponRow};
use tracing::info;

use crate::{checkpoint::Checkpoint, position::Flavor, preflight};

/// Why the checkpoint cannot be used, if so.
pub(crate) async fn mismatch(
    checkpoint: &Checkpoint,
    settings: &BinlogSettings,
    connection: &mut MySqlConnection,
    brokers: &str,
    names: &TopicNames,
) -> anyhow::Result<Option<String>> {
    let flavor = preflight::flavor(settings);
    if checkpoint.flavor != flavor {
        let was = checkpoint.flavor;
        return Ok(Some(format!("it is of {was:?}, the server is {flavor:?}")));
    }
    let mut published = Vec::new();
    for (topic, places) in &checkpoint.acknowledged {
        let found = topic::messages_at(brokers, topic, places).await.context("topics")?;
        for (partition, found) in found {
            let offset = places.get(&partition).map_or(0, |place| place.offset);
            match found {
                Found::Same(message) if *topic == names.user_coupon() => published.push(message),
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
    let (was, is) = (&checkpoint.server, &settings.server_identity);
    if was == is {
        return Ok(None);
    }
    if flavor == Flavor::MariaDb
        && let Some(reason) = no_successor(connection, &published).await?
    {
        return Ok(Some(format!("it is of server {was}, this one is {is}, and {reason}")));
    }
    info!(from = was, to = is, "the server has taken another one's place");
    Ok(None)
}

/// Why the server does not hold what was published, if so.
async fn no_successor(
    connection: &mut MySqlConnection,
    published: &[Box<Message>],
) -> anyhow::Result<Option<String>> {
    let mut compared = 0;
    for message in published {
        let payload = message.payload.as_deref().unwrap_or_default();
        // A dead letter's place tells nothing, nor does a deletion.
        let event = topic::decode::<Event<UserCouponRow>>(payload).ok();
        let Some(row) = event.and_then(|event| event.after) else { continue };
        let held = snapshot::user_coupon_version(connection, row.id).await?;
        if held.is_none_or(|held| held < row.version) {
            let (id, version) = (row.id, row.version);
            return Ok(Some(format!("it lacks version {version} of coupon {id}")));
        }
        compared += 1;
    }
    Ok((compared == 0).then(|| "nothing published tells that it replaces that one".to_owned()))
}
