//! Checks before the first event: the server's settings, and this user's privileges.

use anyhow::{Context as _, bail};
use mysql_store::{
    MySqlConnection, connect,
    settings::{self, BinlogGaps, BinlogSettings, TableFacts},
};

use crate::{binlog::gtid::Flavor, leader::is_unavailable, publish::messages::TABLES};

/// The statements that enable GTIDs. A running server changes its GTID mode one step at a time.
const SWITCH_GTIDS_ON: &str = "set global enforce_gtid_consistency = ON; \
    set global gtid_mode = OFF_PERMISSIVE; set global gtid_mode = ON_PERMISSIVE; \
    set global gtid_mode = ON";

/// Connects for queries, within a time limit.
pub(crate) async fn connect(url: &str) -> anyhow::Result<MySqlConnection> {
    let connected = connect::within(connect::single(url)).await;
    connected.context("mysql cannot be used (DATABASE_URL)")
}

/// Reads the settings and rejects those under which changes would be lost.
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
    logs_everything(connection, settings.flavor).await?;
    Ok(settings)
}

/// Rejects a server that leaves changes of the connection's database out of its binlog.
pub(crate) async fn logs_everything(
    connection: &mut MySqlConnection,
    flavor: settings::Flavor,
) -> anyhow::Result<()> {
    let gaps = settings::binlog_gaps(connection, flavor).await.context(
        "what the server leaves out of its binlog is not known: run `grant replication client on *.* to` \
         the user of DATABASE_URL as an administrator",
    )?;
    let database = settings::database(connection).await.context("database")?;
    unlogged(&gaps, flavor, &database).map_or(Ok(()), |sentence| bail!(sentence))
}

/// Checks at each connection that the server still logs everything: it may have been restarted with other settings, or
/// be another server. If it does not answer, the stream breaks as well, and the next connection checks again.
pub(crate) async fn still_logs_everything(
    url: &str,
    flavor: settings::Flavor,
) -> anyhow::Result<()> {
    let checked = async { logs_everything(&mut connect(url).await?, flavor).await };
    checked.await.or_else(|error| if is_unavailable(&error) { Ok(()) } else { Err(error) })
}

/// Returns the followed tables that do not exist. Rejects tables whose changes are not all logged.
pub(crate) async fn missing_tables(
    connection: &mut MySqlConnection,
) -> anyhow::Result<Vec<&'static str>> {
    let tables = settings::tables(connection).await.context("tables")?;
    let of = |name: &str| tables.iter().find(|table| table.name.eq_ignore_ascii_case(name));
    for table in TABLES.iter().filter_map(|name| of(name)) {
        if let Some(sentence) = hides_changes(table) {
            bail!(sentence);
        }
    }
    Ok(TABLES.iter().copied().filter(|name| of(name).is_none()).collect())
}

/// Returns why some changes of a table's rows are not logged, and the statement that fixes it.
fn hides_changes(table: &TableFacts) -> Option<String> {
    let name = &table.name;
    if let Some(key) = &table.cascading {
        return Some(format!(
            "the foreign key {key} of {name} changes its rows when those of another table change, and a \
             server may leave that out of its binlog: run `alter table {name} drop foreign key {key}` and \
             add it again without ON DELETE and ON UPDATE"
        ));
    }
    table.is_versioned.then(|| {
        format!(
            "{name} has system versioning, and its binlog holds old rows beside new ones: run \
             `alter table {name} drop system versioning`"
        )
    })
}

/// Returns the first wrong setting and the statement that fixes it.
fn wrong(settings: &BinlogSettings) -> Option<String> {
    let global = |variable: &str, found: &str, needed: &str| {
        format!(
            "{variable} is {found:?}, the tailer needs {needed}: run `set global {variable} = \
             '{needed}'`, put it into the server's configuration, and have clients reconnect"
        )
    };
    if !settings.log_bin {
        return Some(
            "the server writes no binlog, and what it commits meanwhile is in none: start it with --log-bin \
             --server-id=1, then start with --resnapshot"
                .into(),
        );
    }
    if settings.flavor == settings::Flavor::MySql && settings.gtid_mode != "ON" {
        return Some(format!(
            "gtid_mode is {:?}, the tailer needs ON, since it goes on by GTID alone: put `gtid_mode = ON` \
             and `enforce_gtid_consistency = ON` into the server's configuration, and start it again or \
             run `{SWITCH_GTIDS_ON}`",
            settings.gtid_mode
        ));
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

/// Returns why changes of a database are not logged, and what fixes it.
fn unlogged(gaps: &BinlogGaps, flavor: settings::Flavor, database: &str) -> Option<String> {
    // The names are compared letter by letter, as the server does.
    let has = |names: &[String]| names.iter().any(|name| name == database);
    let filtered = |variable: &str, names: &[String], mend: &str| {
        format!(
            "the server leaves the changes of {database} out of its binlog, since {variable} is {:?}: {mend}, \
             start the server again, then start with --resnapshot",
            names.join(",")
        )
    };
    if !gaps.only.is_empty() && !has(&gaps.only) {
        let mend =
            format!("put `binlog_do_db = {database}` into its configuration, or no binlog_do_db");
        return Some(filtered("binlog_do_db", &gaps.only, &mend));
    }
    if gaps.only.is_empty() && has(&gaps.without) {
        let mend = format!("take `binlog_ignore_db = {database}` out of its configuration");
        return Some(filtered("binlog_ignore_db", &gaps.without, &mend));
    }
    let variable = match flavor {
        settings::Flavor::MariaDb => "log_slave_updates",
        settings::Flavor::MySql => "log_replica_updates",
    };
    gaps.is_silent_replica.then(|| {
        format!(
            "the server is a replica and leaves the changes of its primary out of its binlog: put \
             `{variable} = ON` into its configuration, start the server again, then start with \
             --resnapshot; or follow the primary"
        )
    })
}

/// Converts the server's flavor.
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
            gtid_mode: String::new(),
            compressed: false,
        }
    }

    #[test]
    fn each_wrong_setting_is_refused_with_the_statement_that_mends_it() {
        assert_eq!(wrong(&good()), None);
        assert_eq!(wrong(&BinlogSettings { compressed: true, ..good() }), None);
        let cases = [
            (BinlogSettings { log_bin: false, ..good() }, "then start with --resnapshot"),
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

    #[test]
    fn a_server_that_leaves_our_changes_out_of_its_binlog_is_refused_with_what_mends_it() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let filters = |only: &[&str], without: &[&str]| BinlogGaps {
            only: names(only),
            without: names(without),
            is_silent_replica: false,
        };
        let silent = BinlogGaps { is_silent_replica: true, ..BinlogGaps::default() };
        let mariadb = settings::Flavor::MariaDb;
        let mysql = settings::Flavor::MySql;
        let refused = |gaps: &BinlogGaps, flavor| unlogged(gaps, flavor, "shop");
        for logged in
            [filters(&[], &[]), filters(&["a", "shop"], &["shop"]), filters(&[], &["a", "b"])]
        {
            assert_eq!(refused(&logged, mariadb), None, "{logged:?}");
        }
        for (gaps, flavor, mend) in [
            (filters(&["a", "b"], &[]), mysql, "`binlog_do_db = shop`"),
            (filters(&["Shop"], &[]), mysql, "`binlog_do_db = shop`"),
            (filters(&[], &["a", "shop"]), mariadb, "`binlog_ignore_db = shop`"),
            (silent.clone(), mariadb, "`log_slave_updates = ON`"),
            (silent, mysql, "`log_replica_updates = ON`"),
        ] {
            let said = refused(&gaps, flavor).unwrap();
            assert!(said.contains(mend) && said.contains("--resnapshot"), "{said}");
        }
    }

    #[test]
    fn a_table_whose_changes_are_not_all_logged_is_refused_with_the_statement_that_mends_it() {
        let facts = |is_versioned, cascading: Option<&str>| TableFacts {
            name: "user_coupon".into(),
            is_versioned,
            cascading: cascading.map(str::to_owned),
        };
        assert_eq!(hides_changes(&facts(false, None)), None);
        let said = hides_changes(&facts(false, Some("fk"))).unwrap();
        assert!(said.contains("alter table user_coupon drop foreign key fk"), "{said}");
        let said = hides_changes(&facts(true, None)).unwrap();
        assert!(said.contains("alter table user_coupon drop system versioning"), "{said}");
    }

    #[test]
    fn a_mysql_without_gtids_is_refused_and_a_mariadb_always_has_them() {
        let mysql = |mode: &str| BinlogSettings {
            flavor: settings::Flavor::MySql,
            gtid_mode: mode.into(),
            ..good()
        };
        assert_eq!(wrong(&mysql("ON")), None);
        // In the intermediate modes a transaction may lack a GTID.
        for mode in ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE"] {
            let sentence = wrong(&mysql(mode)).unwrap();
            for part in ["gtid_mode is", mode, "set global gtid_mode = ON", "configuration"] {
                assert!(sentence.contains(part), "{part} is not in: {sentence}");
            }
        }
        assert_eq!(wrong(&BinlogSettings { gtid_mode: "OFF".into(), ..good() }), None);
    }
}
