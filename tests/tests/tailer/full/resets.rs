//! A server's binlog is reset, and another server takes its place, before the tailer looks again.

use std::{collections::BTreeSet, ops::RangeInclusive};

use devstack::{Flavor, OwnDatabase};
use pipeline_tests::{
    tail::{Tail, log, row},
    until,
};
use testkit::{Proxy, insert_coupons, sql};

use crate::tailer::full::servers::{read_by_snapshots, start, start_replica, tail_on};

const PUBLISHED: RangeInclusive<i64> = 1..=89;

/// The next history has more transactions than the published one, migrations included, so each published name is in it.
const WRITTEN_ANEW: RangeInclusive<i64> = 1001..=1600;

/// Inserted once the tailer follows the replica.
const BEHIND: RangeInclusive<i64> = 2001..=2010;

testkit::on_each_flavor! {
    reset_before:
    a_replica_of_a_history_that_was_begun_anew_is_not_taken_for_one_of_the_old_history,
    a_replica_of_a_mysqls_history_that_was_begun_anew_is_not_taken_for_one_of_the_old_history,
}

/// Primary and replica are reset together, as when numbering is begun anew everywhere. Then the replica takes over.
async fn reset_before(flavor: Flavor) {
    let Some((mut primary, replica)) = pair("reset-before", flavor).await else { return };
    let mut tail = published_by(&primary, &replica).await;
    begin_anew(&primary, &replica, flavor);
    until_next_second(&primary).await;
    insert(&primary, WRITTEN_ANEW);
    replica.until_has_all_of(primary.server.address()).unwrap();
    replica.promote().unwrap();
    primary.server.kill().unwrap();
    follow(&mut tail, &replica).await;
    assert_read_anew(&mut tail).await;
    tail.end();
}

testkit::on_each_flavor! {
    reset_behind:
    a_replica_that_is_reset_when_it_takes_over_is_read_anew,
    a_replica_of_mysql_that_is_reset_when_it_takes_over_is_read_anew,
}

/// The replica takes over, and only then numbers anew.
async fn reset_behind(flavor: Flavor) {
    let Some((mut primary, replica)) = pair("reset-behind", flavor).await else { return };
    let mut tail = published_by(&primary, &replica).await;
    replica.until_has_all_of(primary.server.address()).unwrap();
    replica.promote().unwrap();
    primary.server.kill().unwrap();
    sql(&replica.url(), flavor.words().begin_anew);
    until_next_second(&replica).await;
    insert(&replica, WRITTEN_ANEW);
    follow(&mut tail, &replica).await;
    assert_read_anew(&mut tail).await;
    tail.end();
}

testkit::on_each_flavor! {
    multi_thread reset_under_it:
    a_tailer_whose_servers_address_leads_to_a_replica_of_a_new_history_reads_it_anew,
    a_tailer_whose_servers_address_leads_to_a_replica_of_a_mysqls_new_history_reads_it_anew,
}

/// The tailer runs on: it is only out of reach during reset and failover.
async fn reset_under_it(flavor: Flavor) {
    let Some((mut primary, replica)) = pair("reset-under", flavor).await else { return };
    let mut tail = published_by(&primary, &replica).await;
    let proxy = Proxy::before(&primary.url()).await;
    tail.tailer().set_env("DATABASE_URL", &proxy.instead_of(&primary.url()));
    tail.lead().await;
    tail.tailer().pause().unwrap();
    begin_anew(&primary, &replica, flavor);
    until_next_second(&primary).await;
    insert(&primary, WRITTEN_ANEW);
    replica.until_has_all_of(primary.server.address()).unwrap();
    replica.promote().unwrap();
    primary.server.kill().unwrap();
    proxy.lead_to(replica.server.address());
    proxy.cut();
    tail.scope.endpoints.database_url = replica.url();
    tail.tailer().resume().unwrap();
    assert_read_anew(&mut tail).await;
    assert!(tail.tailer().is_running(), "it went on");
    tail.end();
}

testkit::on_each_flavor! {
    multi_thread left_running:
    a_tailer_whose_servers_address_leads_elsewhere_leaves_the_old_primary_that_is_still_running,
    a_tailer_whose_servers_address_leads_elsewhere_leaves_the_old_primary_of_mysql_that_is_still_running,
}

/// A failover that only makes the old primary read-only: its binlog stream stays open, and nothing comes.
async fn left_running(flavor: Flavor) {
    let Some((primary, replica)) = pair("left-running", flavor).await else { return };
    let mut tail = published_by(&primary, &replica).await;
    let proxy = Proxy::before(&primary.url()).await;
    tail.tailer().set_env("DATABASE_URL", &proxy.instead_of(&primary.url()));
    tail.lead().await;
    insert(&primary, BEHIND);
    tail.until_complete().await;
    sql(&primary.url(), "set global read_only = 1");
    replica.until_has_all_of(primary.server.address()).unwrap();
    replica.promote().unwrap();
    proxy.lead_to(replica.server.address());
    tail.scope.endpoints.database_url = replica.url();
    insert(&replica, WRITTEN_ANEW);
    tail.until_complete().await;
    tail.assert_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0, "the history is the same");
    let log = log(tail.tailer());
    assert!(log.contains("its address leads to another server now"), "{log}");
    assert!(tail.tailer().is_running(), "it went on");
    tail.end();
}

/// A primary and its replica, which is another server by each of its names.
async fn pair(name: &str, flavor: Flavor) -> Option<(OwnDatabase, OwnDatabase)> {
    let primary = start(&format!("{name}-primary"), flavor, &[]).await?;
    let replica = start_replica(&format!("{name}-replica"), flavor).await;
    Some((primary, replica))
}

/// Publishes the first coupons of the primary and stops the tailer. The replica has them too.
async fn published_by(primary: &OwnDatabase, replica: &OwnDatabase) -> Tail {
    let mut tail = tail_on(primary).await;
    replica.follow(primary.server.address()).unwrap();
    tail.lead().await;
    insert(primary, PUBLISHED);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    replica.until_has_all_of(primary.server.address()).unwrap();
    tail
}

/// Starts the tailer on the replica.
async fn follow(tail: &mut Tail, replica: &OwnDatabase) {
    tail.scope.endpoints.database_url = replica.url();
    tail.tailer().set_env("DATABASE_URL", &replica.url());
    tail.lead().await;
}

/// Asserts that everything was read by a snapshot, nothing is missing, and later changes follow.
async fn assert_read_anew(tail: &mut Tail) {
    tail.until_complete().await;
    for id in BEHIND {
        tail.insert(id..=id);
    }
    tail.until_complete().await;
    tail.assert_complete().await;
    let log = log(tail.tailer());
    assert!(log.contains("its history is another one"), "{log}");
    let rows = PUBLISHED.count() + WRITTEN_ANEW.count();
    assert_eq!(read_by_snapshots(tail).await, rows, "each row of the tables, once");
    let published: BTreeSet<i64> =
        tail.published().await.into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(published, PUBLISHED.chain(WRITTEN_ANEW).chain(BEHIND).collect());
}

/// Empties both binlogs; the replica goes on from the beginning of the new one.
fn begin_anew(primary: &OwnDatabase, replica: &OwnDatabase, flavor: Flavor) {
    let words = flavor.words();
    let transactions = last_transaction(&primary.url(), flavor);
    assert!(transactions < WRITTEN_ANEW.count(), "{transactions} transactions were published");
    sql(&replica.url(), words.stop);
    sql(&primary.url(), words.begin_anew);
    // Otherwise what it has of the old history counts as present.
    let anew = [words.begin_anew, words.forget_received, words.start];
    sql(&replica.url(), &anew.join("; "));
}

/// Returns the number that the newest transaction of a server's history has in its name.
fn last_transaction(url: &str, flavor: Flavor) -> usize {
    let newest = sql(url, flavor.words().executed);
    let number = newest.trim().rsplit(|c: char| !c.is_ascii_digit()).next().unwrap();
    number.parse().unwrap()
}

/// Waits until no row is written in the second of one that was published: what a replica keeps of a row's time.
async fn until_next_second(server: &OwnDatabase) {
    let now = async || sql(&server.url(), "select unix_timestamp()");
    let before = now().await;
    until(now, |second| *second != before).await;
}

/// Inserts coupons in one session, each in its own transaction.
fn insert(server: &OwnDatabase, ids: RangeInclusive<i64>) {
    let inserts: Vec<String> = ids.map(|id| insert_coupons([row(id)])).collect();
    sql(&server.url(), &inserts.join(";\n"));
}
