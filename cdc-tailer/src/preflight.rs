//! What must be right before the first event: the server's settings, and that the checkpoint still
//! fits the server and the topics.

use std::time::Duration;

use anyhow::{Context as _, bail};
use mysql_store::{
    MySqlConnection, connect,
    settings::{self, BinlogSettings},
};

use crate::{checkpoint::Checkpoint, position::Flavor};

/// How long the server may take to answer at the start.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Connects for queries; bounded.
pub(crate) async fn connect(url: &str) -> anyhow::Result<MySqlConnection> {
    tokio::time::timeout(CONNECT_WAIT, connect::single(url))
        .await
        .map_err(|_| {
            anyhow::anyhow!("mysql did not answer within {CONNECT_WAIT:?} (DATABASE_URL)")
        })?
        .context("mysql cannot be used (DATABASE_URL)")
}

/// Reads the settings and refuses those under which changes would be lost.
pub(crate) async fn settings(connection: &mut MySqlConnection) -> anyhow::Result<BinlogSettings> {
    let settings = settings::binlog(connection).await.context("binlog settings")?;
    match wrong(&settings) {
        Some(sentence) => bail!(sentence),
        None => Ok(settings),
    }
}

/// The first setting that is wrong, and the statement that mends it.
fn wrong(settings: &BinlogSettings) -> Option<String> {
    let global = |variable: &str, found: &str, needed: &str| {
        format!(
            "{variable} is {found:?}, the tailer needs {needed}: run `set global {variable} = \
             '{needed}'`, put it into the server's configuration, and have clients reconnect"
        )
    };
    if !settings.log_bin {
        return Some("the server writes no binlog: start it with --log-bin --server-id=1".into());
    }
    if settings.format != "ROW" {
        return Some(global("binlog_format", &settings.format, "ROW"));
    }
    if settings.row_image != "FULL" {
        return Some(global("binlog_row_image", &settings.row_image, "FULL"));
    }
    if settings.row_metadata != "FULL" {
        return Some(global("binlog_row_metadata", &settings.row_metadata, "FULL"));
    }
    if settings.compressed {
        let variable = match flavor(settings) {
            Flavor::MariaDb => "log_bin_compress",
            Flavor::MySql => "binlog_transaction_compression",
        };
        return Some(global(variable, "ON", "OFF"));
    }
    None
}

/// The server's family, in our words.
pub(crate) fn flavor(settings: &BinlogSettings) -> Flavor {
    match settings.flavor {
        settings::Flavor::MariaDb => Flavor::MariaDb,
        settings::Flavor::MySql => Flavor::MySql,
    }
}

/// Why the checkpoint cannot be used, if so.
pub(crate) async fn mismatch(
    checkpoint: &Checkpoint,
    settings: &BinlogSettings,
    brokers: &str,
) -> anyhow::Result<Option<String>> {
    if checkpoint.flavor != flavor(settings) || checkpoint.server != settings.server_identity {
        let (was, is) = (&checkpoint.server, &settings.server_identity);
        return Ok(Some(format!("it is of server {was}, this one is {is}")));
    }
    for (topic, partitions) in &checkpoint.acknowledged {
        let held = topic::topic_offsets(brokers, topic).await?;
        for (partition, offset) in partitions {
            let end = held.iter().find(|held| held.partition == *partition).map(|held| held.end);
            if end.is_none_or(|end| end <= *offset) {
                return Ok(Some(format!(
                    "{topic} partition {partition} held offset {offset} and does not any more"
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> BinlogSettings {
        BinlogSettings {
            flavor: settings::Flavor::MariaDb,
            version: "10.11".into(),
            server_id: 1,
            server_identity: "1/uid".into(),
            log_bin: true,
            format: "ROW".into(),
            row_image: "FULL".into(),
            row_metadata: "FULL".into(),
            compressed: false,
        }
    }

    #[test]
    fn each_wrong_setting_is_refused_with_the_statement_that_mends_it() {
        assert_eq!(wrong(&good()), None);
        let cases = [
            (BinlogSettings { log_bin: false, ..good() }, "--log-bin"),
            (
                BinlogSettings { format: "MIXED".into(), ..good() },
                "set global binlog_format = 'ROW'",
            ),
            (BinlogSettings { row_image: "MINIMAL".into(), ..good() }, "binlog_row_image = 'FULL'"),
            (BinlogSettings { row_metadata: "NO_LOG".into(), ..good() }, "row_metadata = 'FULL'"),
            (BinlogSettings { compressed: true, ..good() }, "log_bin_compress = 'OFF'"),
        ];
        for (settings, statement) in cases {
            let sentence = wrong(&settings).unwrap();
            assert!(sentence.contains(statement), "{sentence}");
        }
    }
}
