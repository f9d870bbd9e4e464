//! What must be right before the first event: the server's settings, and what this user may do there.

use anyhow::{Context as _, bail};
use mysql_store::{
    MySqlConnection, connect,
    settings::{self, BinlogSettings},
};

use crate::position::Flavor;

/// Connects for queries; bounded.
pub(crate) async fn connect(url: &str) -> anyhow::Result<MySqlConnection> {
    let connected = connect::within(connect::single(url)).await;
    connected.context("mysql cannot be used (DATABASE_URL)")
}

/// Reads the settings and refuses those under which changes would be lost.
pub(crate) async fn settings(connection: &mut MySqlConnection) -> anyhow::Result<BinlogSettings> {
    let settings = settings::binlog(connection).await.context("binlog settings")?;
    if let Some(sentence) = wrong(&settings) {
        bail!(sentence);
    }
    if !settings::may_replicate(connection).await.context("grants")? {
        bail!(
            "the user of DATABASE_URL may not read the binlog: run `grant select, replication slave, \
             replication client on *.* to` it as an administrator"
        );
    }
    Ok(settings)
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
    None
}

/// The server's family, in our words.
pub(crate) fn flavor(settings: &BinlogSettings) -> Flavor {
    match settings.flavor {
        settings::Flavor::MariaDb => Flavor::MariaDb,
        settings::Flavor::MySql => Flavor::MySql,
    }
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
        assert_eq!(wrong(&BinlogSettings { compressed: true, ..good() }), None);
        let cases = [
            (BinlogSettings { log_bin: false, ..good() }, "--log-bin"),
            (
                BinlogSettings { format: "MIXED".into(), ..good() },
                "set global binlog_format = 'ROW'",
            ),
            (BinlogSettings { row_image: "MINIMAL".into(), ..good() }, "binlog_row_image = 'FULL'"),
            (BinlogSettings { row_metadata: "NO_LOG".into(), ..good() }, "row_metadata = 'FULL'"),
        ];
        for (settings, statement) in cases {
            let sentence = wrong(&settings).unwrap();
            assert!(sentence.contains(statement), "{sentence}");
        }
    }
}
