//! Outages of the broker under the tailer: it is killed, stalls, or loses its data.

use std::time::Duration;

use devstack::{Flavor, OwnBroker, OwnDatabase, TestServers};
use pipeline_tests::{
    tail::{Tail, log, published},
    until,
};
use tokio::time::{Instant, sleep};
use topic::{Op, topic_offsets};

use super::{servers::start, snapshot::until_none_is_saved};

/// Rows of a wave.
const ROWS: i64 = 200;

/// Longest wait until a tailer notices that its topics are gone: the Kafka client searches for half a minute first.
const NOTICED_WITHIN: Duration = Duration::from_secs(90);

/// Poll interval.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Rows that wait while the broker stalls, in the short and the long form: more than the buffers of the tailer's
/// queue, the client and the connection hold together.
const WAITING: i64 = 300_000;
const WAITING_LONG: i64 = 1_000_000;

/// Transactions of another database while the broker stalls: more than may wait in the tailer, its queue and the
/// connection together.
const FOREIGN: u32 = 200_000;

/// Length of the stall. The short one is a little longer than the 10 s timeout of a checkpoint's write, after which
/// it is written again.
const STALL: Duration = Duration::from_secs(12);
const STALL_LONG: Duration = Duration::from_secs(600);

/// Longest time to publish the waiting rows.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(90);

/// Limit of a tailer's memory in MiB: 64, plus the limits of its queues before and after publishing.
const PEAK_MIB: f64 = 64.0 + 8.0 + 8.0;

#[tokio::test]
async fn a_broker_that_is_killed_and_comes_back_costs_nothing() {
    let mut broker = OwnBroker::start("killed-broker").await.unwrap();
    let mut tail = tail_on(&broker, None).await;
    tail.lead().await;
    // A broker that dies before would be right to cost a snapshot.
    until_none_is_saved(&tail).await;
    for wave in 0..3 {
        let first = wave * 2 * ROWS;
        tail.insert(first + 1..=first + ROWS);
        broker.server.kill().unwrap();
        tail.insert(first + ROWS + 1..=first + 2 * ROWS);
        broker.server.start().await.unwrap();
    }
    tail.until_complete().await;
    tail.assert_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0);
    tail.end();
}

#[tokio::test]
async fn a_broker_that_was_emptied_gets_everything_by_a_snapshot() {
    let mut broker = OwnBroker::start("emptied-broker").await.unwrap();
    let mut tail = tail_on(&broker, None).await;
    published_and_stopped(&mut tail).await;
    broker.empty().await.unwrap();
    tail.insert(ROWS + 1..=2 * ROWS);
    tail.tailer().start().await.unwrap();
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 2 * ROWS);
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn a_topic_that_lost_its_messages_under_a_checkpoint_gets_everything_by_a_snapshot() {
    let mut broker = OwnBroker::start("lossy-broker").await.unwrap();
    let mut tail = tail_on(&broker, None).await;
    published_and_stopped(&mut tail).await;
    broker.lose(&tail.names.user_coupon()).await.unwrap();
    tail.insert(ROWS + 1..=2 * ROWS);
    tail.tailer().start().await.unwrap();
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 2 * ROWS);
    let log = log(tail.tailer());
    assert!(log.contains("the checkpoint does not fit"), "{log}");
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn a_topic_that_lost_its_messages_under_a_running_tailer_gets_everything_by_a_snapshot() {
    let mut broker = OwnBroker::start("rewound-broker").await.unwrap();
    let mut tail = tail_on(&broker, None).await;
    tail.lead().await;
    tail.insert(1..=ROWS);
    tail.until_complete().await;
    until_none_is_saved(&tail).await;
    // As after `kafka-topics --delete` and `--create`.
    broker.lose(&tail.names.user_coupon()).await.unwrap();
    tail.insert(ROWS + 1..=2 * ROWS);
    tail.until_complete().await;
    let log = log(tail.tailer());
    assert!(log.contains("goes on at offset"), "{log}");
    assert_eq!(read_by_snapshots(&tail).await, 2 * ROWS);
    assert!(tail.tailer().is_running(), "{log}");
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn a_broker_that_is_emptied_under_a_running_tailer_gets_everything_by_a_snapshot() {
    let mut broker = OwnBroker::start("forgetful-broker").await.unwrap();
    let mut tail = tail_on(&broker, None).await;
    tail.tailer().start().await.unwrap();
    tail.insert(1..=ROWS);
    tail.until_complete().await;
    broker.empty().await.unwrap();
    tail.insert(ROWS + 1..=2 * ROWS);
    // The tailer may end because of this; a supervisor would restart it.
    let deadline = Instant::now() + NOTICED_WITHIN;
    while held(&tail).await < 2 * ROWS {
        assert!(Instant::now() < deadline, "{}", log(tail.tailer()));
        tail.tailer().spawn().unwrap();
        sleep(LOOK_EVERY).await;
    }
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn a_broker_that_stalls_costs_little_memory_and_at_most_one_reconnect() {
    stalled("stalled", Flavor::Mariadb, WAITING, STALL).await;
}

#[tokio::test]
#[ignore = "three minutes, and the broker is the same; ./dev soak a_broker_that_stalls_before_a_mysql"]
async fn a_broker_that_stalls_before_a_mysql_costs_little_memory_and_at_most_one_reconnect() {
    stalled("stalled", Flavor::Mysql, WAITING, STALL).await;
}

#[tokio::test]
#[ignore = "ten minutes of silence; ./dev soak a_broker_that_stalls_for_ten_minutes"]
async fn a_broker_that_stalls_for_ten_minutes_costs_little_memory_and_at_most_one_reconnect() {
    stalled("stalled-long", Flavor::Mariadb, WAITING_LONG, STALL_LONG).await;
}

testkit::on_each_flavor! {
    foreign_behind_a_stall:
    what_other_databases_commit_behind_a_coupon_that_waits_for_a_stalled_broker_costs_little_memory,
    #[ignore = "the broker is the same; ./dev soak mysql"]
    what_other_databases_of_mysql_commit_behind_a_coupon_that_waits_for_a_stalled_broker_costs_little_memory,
}

/// Transactions without followed rows need no room at the broker: only their number can hold the tailer back.
async fn foreign_behind_a_stall(flavor: Flavor) {
    let settings = ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"];
    let Some(database) = start("foreign-stall-database", flavor, &settings).await else { return };
    let mut broker = OwnBroker::start(&format!("foreign-stall-{}", flavor.name())).await.unwrap();
    let mut tail = tail_on(&broker, Some(&database)).await;
    tail.lead().await;
    tail.insert(1..=ROWS);
    tail.until_complete().await;
    // A tailer without a checkpoint that steps down in the stall would be right to begin with a snapshot.
    until_none_is_saved(&tail).await;
    tail.sql(
        "create table other (a int);
         delimiter //
         create procedure commits(number int) begin
             while number > 0 do insert into other values (number); set number = number - 1; end while;
         end //
         delimiter ;",
    );
    broker.server.pause().unwrap();
    tail.insert(ROWS + 1..=ROWS + 1);
    tail.sql(&format!("call commits({FOREIGN})"));
    sleep(STALL).await;
    until(async || is_held_back(&tail), |held_back| *held_back).await;
    broker.server.resume().unwrap();
    tail.insert(ROWS + 2..=ROWS + 2);
    tail.until_complete().await;
    let peak = tail.platform.cdc_tailer.peak_mib().unwrap();
    assert!(peak <= PEAK_MIB, "{peak} MiB");
    tail.assert_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0);
    tail.end();
}

#[expect(clippy::print_stdout, reason = "figures for the one who runs it alone")]
async fn stalled(name: &str, flavor: Flavor, rows: i64, silence: Duration) {
    let database = start(&format!("{name}-database"), flavor, &[]).await;
    let Some(database) = database else { return };
    let broker = OwnBroker::start(&format!("{name}-broker-{}", flavor.name())).await;
    let mut broker = broker.unwrap();
    let mut tail = tail_on(&broker, Some(&database)).await;
    tail.lead().await;
    tail.insert(1..=ROWS);
    tail.until_complete().await;
    // As in `foreign_behind_a_stall`.
    until_none_is_saved(&tail).await;
    broker.server.pause().unwrap();
    tail.insert(ROWS + 1..=ROWS + rows);
    sleep(silence).await;
    assert!(tail.tailer().is_running(), "{}", log(tail.tailer()));
    until(async || is_held_back(&tail), |held_back| *held_back).await;
    broker.server.resume().unwrap();
    let deadline = Instant::now() + CAUGHT_UP_WITHIN;
    while held(&tail).await < ROWS + rows {
        assert!(Instant::now() < deadline, "{}", log(tail.tailer()));
        sleep(LOOK_EVERY).await;
    }
    let tailer = &tail.platform.cdc_tailer;
    let peak = tailer.peak_mib().unwrap();
    let reconnects = tailer.metric("cdc_tailer_reconnects_total").await.unwrap();
    println!("{rows} rows waited {silence:?}: peak {peak:.1} MiB, {reconnects} reconnects");
    assert!(peak <= PEAK_MIB, "{peak} MiB");
    assert!(reconnects <= 1.0, "{reconnects} reconnects");
    tail.assert_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, 0);
    tail.end();
}

/// Prepares a tailer on that broker, and on the given server or else the shared one.
async fn tail_on(broker: &OwnBroker, database: Option<&OwnDatabase>) -> Tail {
    let mut scope = TestServers::shared().scope("outages");
    scope.endpoints.kafka_brokers = broker.brokers();
    if let Some(database) = database {
        scope.endpoints.database_url = database.url();
    }
    Tail::prepare(scope, |options| options).await
}

/// Publishes rows until they are complete, without a snapshot, and stops the tailer in order.
async fn published_and_stopped(tail: &mut Tail) {
    tail.lead().await;
    tail.insert(1..=ROWS);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    assert_eq!(read_by_snapshots(tail).await, 0);
}

/// Returns how many messages the coupons' topic holds; 0 while it does not exist.
async fn held(tail: &Tail) -> i64 {
    let held = topic_offsets(tail.brokers(), &tail.names.user_coupon()).await.unwrap_or_default();
    held.iter().map(|partition| partition.end - partition.start).sum()
}

/// Returns how many rows in the topic come from snapshots.
async fn read_by_snapshots(tail: &Tail) -> i64 {
    let messages = tail.coupon_messages().await;
    let read = messages.iter().filter(|message| published(message).0 == Op::Read);
    i64::try_from(read.count()).unwrap()
}

/// Whether the server has binlog events that the tailer does not take.
fn is_held_back(tail: &Tail) -> bool {
    // MySQL's command is `Binlog Dump GTID`.
    let states =
        "select state from information_schema.processlist where command like 'Binlog Dump%'";
    let states = tail.sql(states);
    !states.is_empty() && !states.contains("waiting for")
}
