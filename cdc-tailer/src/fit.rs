//! Whether a checkpoint still fits the server and the topics. What does not fit leads to a snapshot,
//! never to a hole.
//!
//! A server that took another one's place has another identity. MySQL's GTIDs name the server that
//! wrote a transaction, so there the server itself refuses a position that is not its own. MariaDB's
//! numbers mean something only among servers that replicate from each other. So a server counts as a
//! successor if it has the coupons that were published last, in those versions or later ones; where
//! none was published, it does not count as one.
//!
//! A server that was restored from an older backup has the same identity, and once it has written as much
//! as the backup lacks, it takes our position for one of its own: what it wrote up to there would never be
//! told. It is known by the same coupons: some are there in an earlier version, or many are not there at
//! all. A backup that lacks none of the last ones passes unnoticed, so operators still ask for a snapshot
//! after a restore.

use std::time::Duration;

use anyhow::Context as _;
use mysql_store::{MySqlConnection, settings::BinlogSettings, snapshot};
use tokio::time::{Instant, sleep};
use topic::{Event, Found, Message, TopicNames, UserCouponRow};
use tracing::info;

use crate::{checkpoint::Checkpoint, position::Flavor, preflight};

/// How long the server that was followed may take to show what was published: a commit is in the binlog
/// before it is in the tables, with semi-synchronous replication by that one's timeout, ten seconds.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// Pause between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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
    let published = coupons(&published);
    let (was, is) = (&checkpoint.server, &settings.server_identity);
    if was == is {
        let reason = set_back(connection, &published).await?;
        return Ok(reason
            .map(|lack| format!("server {is} holds an earlier state than was published: {lack}")));
    }
    if flavor == Flavor::MariaDb
        && let Some(reason) = held(connection, &published).await?.no_successor()
    {
        return Ok(Some(format!("it is of server {was}, this one is {is}, and {reason}")));
    }
    info!(from = was, to = is, "the server has taken another one's place");
    Ok(None)
}

/// The coupons that messages tell of. A dead letter's place tells nothing, nor does a deletion.
fn coupons(published: &[Box<Message>]) -> Vec<UserCouponRow> {
    let coupon = |message: &Message| {
        let payload = message.payload.as_deref().unwrap_or_default();
        topic::decode::<Event<UserCouponRow>>(payload).ok()?.after
    };
    published.iter().filter_map(|message| coupon(message)).collect()
}

/// Why the server that was followed is not where it was, or further on.
async fn set_back(
    connection: &mut MySqlConnection,
    published: &[UserCouponRow],
) -> anyhow::Result<Option<String>> {
    let deadline = Instant::now() + SHOWN_WITHIN;
    loop {
        let reason = held(connection, published).await?.set_back();
        if reason.is_none() || Instant::now() >= deadline {
            return Ok(reason);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Looks for what was published.
async fn held(
    connection: &mut MySqlConnection,
    published: &[UserCouponRow],
) -> anyhow::Result<Held> {
    let mut all = Held::default();
    for row in published {
        all.add(row, snapshot::user_coupon_version(connection, row.id).await?);
    }
    Ok(all)
}

/// What a server holds of the coupons that were published last.
#[derive(Debug, Default)]
struct Held {
    compared: usize,
    /// Of them those that are not there.
    missing: usize,
    /// Of them those that are there in an earlier version.
    earlier: usize,
    /// The first of either, in words.
    lack: Option<String>,
}

impl Held {
    fn add(&mut self, row: &UserCouponRow, version: Option<i64>) {
        self.compared += 1;
        match version {
            Some(version) if version >= row.version => return,
            Some(_) => self.earlier += 1,
            None => self.missing += 1,
        }
        let (id, version) = (row.id, row.version);
        self.lack.get_or_insert_with(|| format!("it lacks version {version} of coupon {id}"));
    }

    /// Why the server does not take the place of the one that was followed.
    fn no_successor(self) -> Option<String> {
        match self.compared {
            0 => Some("nothing published tells that it replaces that one".to_owned()),
            _ => self.lack,
        }
    }

    /// Why the server is not the one that was followed, further on. Versions only rise. The platform deletes
    /// nothing; where somebody else does, the one or other may be missing, but hardly half of them.
    fn set_back(self) -> Option<String> {
        let Self { compared, missing, earlier, lack } = self;
        let many = missing > 0 && 2 * missing >= compared;
        let lack = lack.filter(|_| earlier > 0 || many)?;
        Some(format!(
            "{lack}; of the {compared} published last {missing} are gone, {earlier} older"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coupon(id: i64, version: i64) -> UserCouponRow {
        UserCouponRow {
            id,
            template_id: 7,
            user_id: 70,
            claim_no: 1,
            claim_id: 9,
            merchant_id: 1,
            status: 0,
            version,
            expiry_shard: 6,
            claimed_at: 0,
            changed_at: 0,
            valid_from: 0,
            valid_until: 0,
            used_at: None,
            order_ref: None,
            trace_parent: None,
        }
    }

    /// What a server holds of coupons published in version 3.
    fn held(versions: &[Option<i64>]) -> Held {
        let mut all = Held::default();
        for (id, version) in (1..).zip(versions) {
            all.add(&coupon(id, 3), *version);
        }
        all
    }

    #[test]
    fn a_successor_has_all_that_was_published_last_and_something_was() {
        assert_eq!(held(&[Some(3), Some(4)]).no_successor(), None);
        let lacks = |versions: &[Option<i64>]| held(versions).no_successor().unwrap();
        assert!(lacks(&[]).contains("nothing published"));
        assert!(lacks(&[Some(3), Some(2)]).contains("version 3 of coupon 2"));
        assert!(lacks(&[None, Some(3), Some(3)]).contains("version 3 of coupon 1"));
    }

    #[test]
    fn the_same_server_is_set_back_if_a_version_is_lower_or_many_coupons_are_gone() {
        assert_eq!(held(&[]).set_back(), None, "nothing was published yet");
        assert_eq!(held(&[Some(3), Some(9)]).set_back(), None);
        assert_eq!(held(&[None, Some(3), Some(3)]).set_back(), None, "deleted by somebody");
        let lacks = |versions: &[Option<i64>]| held(versions).set_back().unwrap();
        assert!(lacks(&[Some(3), Some(3), Some(2)]).contains("version 3 of coupon 3"));
        assert!(lacks(&[Some(3), None]).contains("version 3 of coupon 2"));
        assert!(lacks(&[None]).contains("version 3 of coupon 1"));
    }
}
