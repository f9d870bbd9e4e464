//! Settings and data that a tailer cannot work with: it exits with code 1 and a message that says what to do.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use devstack::{Flavor, OwnDatabase, Process};
use pipeline_tests::{
    tail::{Tail, log},
    until,
};
use topic::Op;

use crate::tailer::full::servers::{start, tail_on};

/// Longest time for a refusal on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// How often an unreadable event is tried, as in cdc-tailer/src/source/reader.rs.
const STRIKES_MAX: usize = 3;

/// Text in the row that is damaged.
const MARKED: &str = "marked for damage";

#[tokio::test]
async fn an_address_that_cannot_work_ends_with_a_sentence() {
    let tail = Tail::on_shared_servers("address").await;
    let url = &tail.scope.endpoints.database_url;
    let without_password = url.replacen(":coupon@", "@", 1);
    let cases = [
        (format!("{url}?ssl-mode=required"), "server does not support TLS"),
        (without_password, "Access denied"),
        (url.replacen(":coupon@", ":wrong@", 1), "Access denied"),
        (tail.scope.endpoints.url_of_database(""), "names no database"),
    ];
    for (number, (url, sentence)) in (1..).zip(cases) {
        let mut tailer = tail.platform.another_tailer(&format!("refused-{number}")).unwrap();
        tailer.set_env("DATABASE_URL", &url);
        assert_refused(&mut tailer, sentence).await;
    }
    tail.end();
}

testkit::on_each_flavor! {
    wrong_until_mended:
    wrong_settings_and_grants_are_refused_with_the_statement_that_mends_them,
    wrong_settings_and_grants_of_mysql_are_refused_with_the_statement_that_mends_them,
}

async fn wrong_until_mended(flavor: Flavor) {
    let Some(own) = start("settings", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    // Each server's default of column metadata in the binlog.
    let metadata = match flavor {
        Flavor::Mariadb => "NO_LOG",
        Flavor::Mysql => "MINIMAL",
    };
    let settings = [
        ("binlog_format", "STATEMENT", "ROW"),
        ("binlog_format", "MIXED", "ROW"),
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_image", "NOBLOB", "FULL"),
        ("binlog_row_metadata", metadata, "FULL"),
    ];
    for (variable, wrong, right) in settings {
        tail.sql(&format!("set global {variable} = '{wrong}'"));
        let mut tailer = tail.platform.another_tailer(&format!("{variable}-{wrong}")).unwrap();
        assert_refused(&mut tailer, &format!("set global {variable} = '{right}'")).await;
        tail.sql(&format!("set global {variable} = '{right}'"));
    }
    let url = own.url().replacen("coupon:coupon@", "coupon:wrong@", 1);
    let mut stranger = tail.platform.another_tailer("stranger").unwrap();
    stranger.set_env("DATABASE_URL", &url);
    assert_refused(&mut stranger, "Access denied").await;
    tail.sql("create user reader@'%' identified by 'secret'; grant select on *.* to reader@'%'");
    let url = own.url().replacen("coupon:coupon@", "reader:secret@", 1);
    tail.tailer().set_env("DATABASE_URL", &url);
    let grant = "grant select, replication slave, replication client on *.*";
    assert_refused(tail.tailer(), grant).await;
    tail.sql(&format!("{grant} to reader@'%'"));
    tail.lead().await;
    tail.insert(1..=1);
    let bytes = async || tail.platform.cdc_tailer.metric("cdc_tailer_lag_bytes").await;
    until(bytes, |bytes| *bytes == Some(0.0)).await;
    tail.end();
}

testkit::on_each_flavor! {
    without_binlog:
    a_server_without_a_binlog_is_refused_with_the_settings_that_mend_it,
    a_mysql_without_a_binlog_is_refused_with_the_settings_that_mend_it,
}

async fn without_binlog(flavor: Flavor) {
    let Some(mut own) = start("no-binlog", flavor, &["--skip-log-bin"]).await else { return };
    let mut tail = tail_on(&own).await;
    let mend = ["--log-bin", "--server-id=1"];
    assert_refused(tail.tailer(), &format!("start it with {}", mend.join(" "))).await;
    tail.insert(1..=10);
    own.server.stop().await.unwrap();
    for argument in mend {
        own.server.add_argument(argument);
    }
    own.server.start().await.unwrap();
    tail.lead().await;
    tail.insert(11..=20);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

testkit::on_each_flavor! {
    filtered:
    a_server_that_does_not_log_our_database_is_refused_with_the_setting_that_mends_it,
    a_mysql_that_does_not_log_our_database_is_refused_with_the_setting_that_mends_it,
}

/// A filter appears when the server is started again: the tailer that runs ends, and none starts.
async fn filtered(flavor: Flavor) {
    let Some(mut own) = start("filtered", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=10);
    tail.until_complete().await;
    let mend = "take `binlog_ignore_db = coupon` out of its configuration";
    restart_with(&mut own, "--binlog-ignore-db=coupon").await;
    assert_ended(tail.tailer(), mend).await;
    tail.insert(11..=20);
    assert_refused(tail.tailer(), mend).await;
    // The other filter takes precedence.
    restart_with(&mut own, "--binlog-do-db=coupon").await;
    tail.tailer().set_arguments(["--resnapshot"]);
    tail.lead().await;
    tail.insert(21..=30);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

testkit::on_each_flavor! {
    silent_replica:
    a_replica_that_does_not_log_what_it_replicates_is_refused_with_the_setting_that_mends_it,
    a_replica_of_mysql_that_does_not_log_what_it_replicates_is_refused_with_the_setting_that_mends_it,
}

async fn silent_replica(flavor: Flavor) {
    let Some(primary) = start("logging-primary", flavor, &[]).await else { return };
    let (off, on, mend) = match flavor {
        Flavor::Mariadb => {
            ("--log-slave-updates=OFF", "--log-slave-updates=ON", "`log_slave_updates = ON`")
        }
        Flavor::Mysql => {
            ("--log-replica-updates=OFF", "--log-replica-updates=ON", "`log_replica_updates = ON`")
        }
    };
    // What a MariaDB logs of its own at a start must not take the numbers of its primary.
    let settings: &[&str] = match flavor {
        Flavor::Mariadb => &["--server-id=2", off, "--gtid-domain-id=7"],
        Flavor::Mysql => &["--server-id=2", off],
    };
    let mut replica = start("silent-replica", flavor, settings).await.unwrap();
    let mut tail = tail_on(&primary).await;
    replica.follow(primary.server.address()).unwrap();
    tail.tailer().set_env("DATABASE_URL", &replica.url());
    tail.insert(1..=10);
    assert_refused(tail.tailer(), mend).await;
    restart_with(&mut replica, on).await;
    tail.insert(11..=20);
    // This includes the tables, which the primary has created.
    replica.until_has_all_of(primary.server.address()).unwrap();
    tail.tailer().set_arguments(["--resnapshot"]);
    tail.lead().await;
    tail.insert(21..=30);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

async fn restart_with(own: &mut OwnDatabase, argument: &str) {
    own.server.stop().await.unwrap();
    own.server.add_argument(argument);
    own.server.start().await.unwrap();
}

#[tokio::test]
async fn a_mysql_without_gtids_is_refused_with_the_statements_that_mend_it() {
    let own = start("no-gtids", Flavor::Mysql, &["--gtid-mode=OFF"]).await;
    let Some(own) = own else { return };
    let mut tail = tail_on(&own).await;
    let mend = "set global enforce_gtid_consistency = ON; set global gtid_mode = OFF_PERMISSIVE; \
                set global gtid_mode = ON_PERMISSIVE; set global gtid_mode = ON";
    assert_refused(tail.tailer(), mend).await;
    tail.insert(1..=10);
    tail.sql(mend);
    tail.lead().await;
    tail.insert(11..=20);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

testkit::on_each_flavor! {
    damaged:
    an_event_that_cannot_be_read_stops_it_after_some_tries_and_is_never_skipped,
    an_event_of_mysql_that_cannot_be_read_stops_it_after_some_tries_and_is_never_skipped,
}

/// Damages the server's binlog file. By default servers send its bytes unchecked, and the reader has to notice the
/// damage.
async fn damaged(flavor: Flavor) {
    let Some(own) = start("damaged", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=10);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());

    let marked = Marked::write(&tail, 11);
    marked.damage();
    let broken = |log: &str| log.matches("binlog stream broke").count();
    let before = broken(&log(tail.tailer()));
    assert_refused(tail.tailer(), "has a wrong checksum").await;
    let text = log(tail.tailer());
    assert_eq!(broken(&text) - before, STRIKES_MAX - 1, "the last one ends it: {text}");
    let published = tail.published().await;
    assert!(
        published.iter().all(|(_, id, version)| *id <= 20 && *version == 1),
        "published what is behind"
    );

    // The checkpoint stayed before the event: once that is readable, nothing is missing.
    marked.mend();
    tail.tailer().start().await.unwrap();
    tail.until_complete().await;
    tail.assert_complete().await;
    let published = tail.published().await;
    assert!(published.iter().all(|(op, ..)| *op != Op::Read), "tables were read anew");

    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    left_behind(&mut tail).await;
    tail.end();
}

/// A file that stays damaged: the solution that the message names leads behind it.
async fn left_behind(tail: &mut Tail) {
    Marked::write(tail, 31).damage();
    assert_refused(tail.tailer(), "if the server's file is damaged, start with --resnapshot").await;
    tail.tailer().set_arguments(["--resnapshot"]);
    tail.lead().await;
    let left = async || tail.platform.cdc_tailer.metric("cdc_tailer_snapshot_tables_left").await;
    until(left, |left| *left == Some(0.0)).await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    tail.tailer().set_arguments([]);
    tail.lead().await;
    tail.insert(51..=60);
    tail.until_complete().await;
    let published = tail.published().await;
    assert!(
        published.contains(&(Op::Read, 35, 2)),
        "the row that could not be read: {published:?}"
    );
}

/// A text in a row in a binlog file that is not the newest.
struct Marked {
    file: PathBuf,
    at: u64,
    byte: u8,
}

impl Marked {
    /// Writes it into the fifth of twenty coupons from `first` on.
    fn write(tail: &Tail, first: i64) -> Self {
        let file = tail.next_binlog_file();
        tail.insert(first..=first + 9);
        // The text must be in the row, not in a statement that may be logged with it.
        let mark = MARKED.replace(' ', "', ' ', '");
        tail.sql(&format!(
            "update user_coupon set version = 2, order_ref = concat('{mark}') where id = {}",
            first + 4
        ));
        tail.insert(first + 10..=first + 19);
        tail.next_binlog_file();
        let file = Path::new(tail.sql("select @@datadir").trim()).join(file);
        let bytes = fs::read(&file).unwrap();
        let marked = MARKED.as_bytes();
        let at = bytes.windows(marked.len()).position(|found| found == marked).unwrap();
        Self { file, at: u64::try_from(at).unwrap(), byte: bytes[at] }
    }

    fn damage(&self) {
        self.put(self.byte ^ 1);
    }

    fn mend(&self) {
        self.put(self.byte);
    }

    fn put(&self, byte: u8) {
        let file = File::options().write(true).open(&self.file).unwrap();
        file.write_all_at(&[byte], self.at).unwrap();
    }
}

#[tokio::test]
async fn two_tailers_with_one_server_id_do_not_throw_each_other_off_for_ever() {
    let mut tails =
        [Tail::on_shared_servers("oneid").await, Tail::on_shared_servers("sameid").await];
    let server_id = fastrand::u32(1_000..=2_000_000_000);
    for tail in &mut tails {
        tail.tailer().set_env("SERVER_ID", &server_id.to_string());
        tail.tailer().spawn().unwrap();
    }
    let [one, other] = &mut tails;
    let ended = async || (!one.tailer().is_running(), !other.tailer().is_running());
    let (one_ended, _) = until(ended, |(one, other)| *one || *other).await;
    let (ended, survivor) = if one_ended { (one, other) } else { (other, one) };
    assert_ended(ended.tailer(), "give one of the two another SERVER_ID").await;
    survivor.insert(1..=10);
    survivor.until_complete().await;
    // With another server id, both tailers go on.
    ended.tailer().set_env("SERVER_ID", &(server_id + 1).to_string());
    ended.lead().await;
    for tail in [ended, survivor] {
        tail.insert(11..=20);
        tail.until_complete().await;
        assert!(tail.tailer().is_running(), "{}", log(tail.tailer()));
    }
    for tail in tails {
        tail.end();
    }
}

/// Starts the tailer; it must end by itself.
async fn assert_refused(tailer: &mut Process, sentence: &str) {
    tailer.spawn().unwrap();
    assert_ended(tailer, sentence).await;
}

/// Asserts that the tailer ends by itself with exit code 1, and logs the sentence.
async fn assert_ended(tailer: &mut Process, sentence: &str) {
    let status = tailer.wait_exit(ENDS_WITHIN).await.unwrap();
    let log = log(tailer);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(sentence), "not in the log: {sentence}\n{log}");
}
