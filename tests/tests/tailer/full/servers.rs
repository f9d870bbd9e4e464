//! The server changes under the tailer: it is killed, replaced by its replica, restored from a backup, or purges
//! its binlog.

use std::ops::RangeInclusive;

use devstack::{Flavor, OwnDatabase, Replication, Role, TestServers, if_installed};
use pipeline_tests::{
    history_faults::Backup,
    mixed_load::{DIARY, Load},
    server_binlog::{ServerBinlog, Table},
    tail::{Tail, log, published},
    topic_contents::TopicContents,
    until,
};
use testkit::sql;
use tokio::task::JoinHandle;
use topic::Op;

/// A server's first binlog file.
const FIRST_FILE: &str = "binlog.000001";

/// Changes of a load that are published before an event in the middle of it.
pub(crate) const SOME: usize = 500;

testkit::on_each_flavor! {
    restarted:
    a_server_that_is_killed_and_restarted_under_load_costs_nothing,
    a_mysql_that_is_killed_and_restarted_under_load_costs_nothing,
}

async fn restarted(flavor: Flavor) {
    let Some(mut own) = start("restarted-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.make_topics().await;
    let mut heard = TopicContents::open(&tail).await;
    tail.lead().await;
    for number in 1..=2 {
        let load = load(&tail, number);
        heard.until_more(SOME).await;
        match number {
            1 => own.server.kill().unwrap(),
            _ => drop(own.server.stop().await.unwrap()),
        }
        load.await.unwrap();
        own.server.start().await.unwrap();
    }
    load(&tail, 3).await.unwrap();
    assert_published(&tail, &mut heard).await;
    assert!(tail.tailer().is_running());
    tail.end();
}

testkit::on_each_flavor! {
    failover:
    a_replica_that_takes_its_primarys_place_is_followed_from_the_checkpoint,
    a_replica_of_mysql_that_takes_its_primarys_place_is_followed_from_the_checkpoint,
}

async fn failover(flavor: Flavor) {
    let Some(mut primary) = start("primary", flavor, &[]).await else { return };
    let replica = start_replica("replica", flavor).await;
    let mut tail = tail_on(&primary).await;
    replica.follow(primary.server.address()).unwrap();
    tail.make_topics().await;
    let mut heard = TopicContents::open(&tail).await;
    tail.lead().await;
    let running = load(&tail, 1);
    until_saved_under_load(&tail, &mut heard).await;
    // Later changes are published from the replica's binlog.
    tail.tailer().kill().unwrap();
    running.await.unwrap();
    replica.until_has_all_of(primary.server.address()).unwrap();
    replica.promote().unwrap();
    primary.server.kill().unwrap();

    tail.scope.endpoints.database_url = replica.url();
    tail.tailer().set_env("DATABASE_URL", &replica.url());
    tail.tailer().start().await.unwrap();
    load(&tail, 2).await.unwrap();
    assert_published(&tail, &mut heard).await;
    let log = log(tail.tailer());
    assert!(log.contains("the server has taken another one's place"), "{log}");
    tail.end();
}

testkit::on_each_flavor! {
    of_a_replica:
    a_tailer_of_a_replica_publishes_what_its_primary_commits,
    a_tailer_of_a_replica_of_mysql_publishes_what_its_primary_commits,
}

async fn of_a_replica(flavor: Flavor) {
    let Some(primary) = start("source-primary", flavor, &[]).await else { return };
    let replica = start_replica("source-replica", flavor).await;
    let mut tail = tail_on(&primary).await;
    replica.follow(primary.server.address()).unwrap();
    // A tailer that finds half a schema ends with a sentence.
    replica.until_has_all_of(primary.server.address()).unwrap();
    tail.tailer().set_env("DATABASE_URL", &replica.url());
    tail.lead().await;
    insert_one_by_one(&tail, 1..=50);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    insert_one_by_one(&tail, 51..=100);
    tail.lead().await;
    insert_one_by_one(&tail, 101..=150);
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0, "{}", log(tail.tailer()));
    assert_eq!(tail.count().await, 150, "each change is published once");
    tail.assert_complete().await;
    tail.end();
}

testkit::on_each_flavor! {
    moved:
    a_tailer_that_is_moved_from_a_replica_to_its_primary_and_back_goes_on_under_load,
    a_tailer_that_is_moved_from_a_replica_of_mysql_to_its_primary_and_back_goes_on_under_load,
}

async fn moved(flavor: Flavor) {
    let Some(primary) = start("moved-primary", flavor, &[]).await else { return };
    let replica = start_replica("moved-replica", flavor).await;
    let mut tail = tail_on(&primary).await;
    replica.follow(primary.server.address()).unwrap();
    replica.until_has_all_of(primary.server.address()).unwrap();
    let urls = [&replica, &primary, &replica].map(OwnDatabase::url);
    tail.make_topics().await;
    let mut heard = TopicContents::open(&tail).await;
    for (number, url) in (1..).zip(urls) {
        tail.tailer().set_env("DATABASE_URL", &url);
        // The next server must have the last transaction that was published: without it, it would have another
        // history.
        replica.until_has_all_of(primary.server.address()).unwrap();
        tail.lead().await;
        let running = load(&tail, number);
        until_saved_under_load(&tail, &mut heard).await;
        // Killed, so it resumes from its last checkpoint.
        tail.tailer().kill().unwrap();
        running.await.unwrap();
    }
    tail.lead().await;
    replica.until_has_all_of(primary.server.address()).unwrap();
    assert_published(&tail, &mut heard).await;
    heard.assert_table(&tail);
    let log = log(tail.tailer());
    assert_eq!(log.matches("the server has taken another one's place").count(), 2, "{log}");
    tail.end();
}

testkit::on_each_flavor! {
    purged:
    a_binlog_that_was_purged_while_no_tailer_ran_is_made_good_by_a_snapshot,
    a_binlog_of_mysql_that_was_purged_while_no_tailer_ran_is_made_good_by_a_snapshot,
}

async fn purged(flavor: Flavor) {
    let Some(own) = start("purged-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=100);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    tail.insert(101..=200);
    purge_all_files_but_the_last(&tail).await;
    tail.insert(201..=300);
    tail.lead().await;
    tail.insert(301..=400);
    tail.until_complete().await;
    tail.assert_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 300, "all that was there came through the topic");
    tail.end();
}

testkit::on_each_flavor! {
    gone_on_by_gtid:
    a_position_whose_file_is_gone_is_found_by_its_gtid,
    a_position_of_mysql_whose_file_is_gone_is_found_by_its_gtid,
}

/// Everything that was purged had been published; only file and offset in the checkpoint are invalid.
async fn gone_on_by_gtid(flavor: Flavor) {
    let Some(own) = start("published-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    for round in 0..3 {
        tail.lead().await;
        insert_one_by_one(&tail, round * 20 + 1..=round * 20 + 10);
        tail.until_complete().await;
        assert!(tail.tailer().stop().await.unwrap().unwrap().success());
        purge_all_files_but_the_last(&tail).await;
        insert_one_by_one(&tail, round * 20 + 11..=round * 20 + 20);
    }
    tail.tailer().start().await.unwrap();
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0, "tables were read anew");
    assert_eq!(tail.count().await, 60, "each change is published once");
    tail.assert_complete().await;
    tail.end();
}

/// Makes the server begin a new file and remove all others.
async fn purge_all_files_but_the_last(tail: &Tail) {
    let last = tail.next_binlog_file();
    // A file that the server still reads for the ended tailer stays for a moment.
    let purge = format!("purge binary logs to '{last}'; show binary logs");
    until(async || tail.sql(&purge), |files| files.starts_with(&last)).await;
}

/// Returns how many rows in the coupons' topic come from snapshots.
pub(crate) async fn read_by_snapshots(tail: &Tail) -> usize {
    let messages = tail.coupon_messages().await;
    messages.iter().filter(|message| published(message).0 == Op::Read).count()
}

testkit::on_each_flavor! {
    restored:
    a_server_restored_from_an_older_backup_is_not_taken_for_what_it_was,
    a_mysql_restored_from_an_older_backup_is_not_taken_for_what_it_was,
}

/// The server has the same identity, and its GTIDs have passed the checkpoint's again, with other transactions.
async fn restored(flavor: Flavor) {
    let Some(mut own) = start("restored-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=100);
    tail.until_complete().await;
    let url = own.url();
    let backup = Backup::of(&mut own.server, &url).await;
    insert_one_by_one(&tail, 101..=150);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    let published = last_number(&own, flavor);

    backup.restore(&mut own.server).await;
    // More transactions than the backup lacks, so that another one has the checkpoint's number.
    insert_one_by_one(&tail, 201..=300);
    let written = last_number(&own, flavor);
    assert!(written > published, "{written} is not behind {published}");
    tail.lead().await;
    tail.insert(301..=310);
    tail.until_complete().await;
    let log = log(tail.tailer());
    assert!(log.contains("its history is another one"), "{log}");
    assert_eq!(read_by_snapshots(&tail).await, 200, "all that was there came through the topic");
    tail.end();
}

/// Inserts coupons, each in its own transaction.
fn insert_one_by_one(tail: &Tail, ids: RangeInclusive<i64>) {
    for id in ids {
        tail.insert(id..=id);
    }
}

/// Returns the number of the last transaction that a server has written.
fn last_number(own: &OwnDatabase, flavor: Flavor) -> u64 {
    let position = sql(&own.url(), flavor.words().executed);
    let number = position.trim().rsplit(|c: char| !c.is_ascii_digit()).next();
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{position:?}"))
}

/// Starts a server; returns `None`, after reporting it, if MySQL is not installed.
pub(crate) async fn start(name: &str, flavor: Flavor, settings: &[&str]) -> Option<OwnDatabase> {
    let name = format!("{name}-{}", flavor.name());
    if_installed(OwnDatabase::start(&name, flavor, settings).await, &name)
}

/// Starts a server that may become another one's replica: it is another server by each of its names.
pub(crate) async fn start_replica(name: &str, flavor: Flavor) -> OwnDatabase {
    let settings = Replication::Asynchronous.settings(flavor, Role::Replica);
    start(name, flavor, &settings).await.unwrap()
}

/// Prepares a tailer of that server, and creates the load's table.
pub(crate) async fn tail_on(own: &OwnDatabase) -> Tail {
    let mut scope = TestServers::shared().scope("servers");
    scope.endpoints.database_url = own.url();
    let tail = Tail::prepare(scope, |options| options).await;
    tail.sql(DIARY);
    tail
}

/// Waits until part of a load is published and in the checkpoint, whose last transaction lets the tailer recognise
/// another server.
async fn until_saved_under_load(tail: &Tail, heard: &mut TopicContents) {
    heard.until_more(SOME).await;
    // A position that does not move is not saved again, and a fast server is through its load in two seconds.
    tail.sql("create table if not exists unfollowed (n int)");
    let look = async || {
        tail.sql("insert into unfollowed values (1)");
        saved_at(tail).await
    };
    // The first new checkpoint may have been started before the load, by a snapshot in progress.
    for _ in 0..2 {
        let saved = saved_at(tail).await;
        until(&look, |at| *at > saved).await;
    }
}

/// Returns when the tailer last wrote a checkpoint, in seconds since 1970.
async fn saved_at(tail: &Tail) -> f64 {
    let tailer = &tail.platform.cdc_tailer;
    tailer.metric("cdc_tailer_checkpoint_timestamp_seconds").await.unwrap_or(0.0)
}

/// Starts a load; it ends by itself, or when its server dies.
pub(crate) fn load(tail: &Tail, number: i64) -> JoinHandle<()> {
    let database_url = tail.scope.endpoints.database_url.clone();
    let load = Load { database_url, seed: 1, number, deletes: false, large: number == 1 };
    tokio::task::spawn_blocking(move || load.run())
}

/// Asserts that the topics match the server's binlog, and that no snapshot ran.
pub(crate) async fn assert_published(tail: &Tail, heard: &mut TopicContents) {
    let mut binlog = ServerBinlog::of(tail);
    binlog.read_from(FIRST_FILE);
    let differences = heard.until_published(&binlog).await;
    assert!(differences.is_empty(), "topics and binlog differ:\n{differences}");
    assert_eq!(heard.read, 0, "tables were read anew");
    assert!(binlog.count > SOME && binlog.count_of(Table::Movements) > 0);
}
