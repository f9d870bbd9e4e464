//! XA transactions that are prepared while a tailer starts: those of a working client, and one that was abandoned.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use cdc_tailer::Config;
use devstack::Flavor;
use topic::Op;

use crate::harness::{Harness, coupon};

/// Transactions that a client has prepared at any moment.
const OVERLAPPING: u32 = 2;

/// A client that prepares the next transactions of a table of its own before it commits the last one.
struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Client {
    fn start(test: &Harness) -> Self {
        test.sql("create table other (id bigint)");
        let url = test.config.database_url.expose().to_owned();
        let prepare = |url: &str, number: u32| {
            // Another session may commit it once this one has ended.
            let one = format!(
                "xa start 'n{number}'; insert into other values ({number}); xa end 'n{number}'; \
                 xa prepare 'n{number}'"
            );
            testkit::sql(url, &one);
        };
        for number in 0..OVERLAPPING {
            prepare(&url, number);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            for number in OVERLAPPING.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                prepare(&url, number);
                testkit::sql(&url, &format!("xa commit 'n{}'", number - OVERLAPPING));
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

async fn always_prepared(flavor: Flavor) {
    let Some(test) = Harness::on_own("always prepared", flavor, &[]).await else { return };
    let client = Client::start(&test);
    test.sql(&coupon(1, 1));
    for id in 2..=4 {
        let running = test.start().await;
        test.sql(&coupon(id, id));
        test.coupon_ids_until(id).await;
        running.stop().await.unwrap();
    }
    client.stop();
    let ops: Vec<Op> = test.coupons(4).await.into_iter().map(|event| event.op).collect();
    assert_eq!(ops, [Op::Read, Op::Create, Op::Create, Op::Create]);
}

async fn left_prepared(flavor: Flavor) {
    let Some(test) = Harness::on_own("left prepared", flavor, &[]).await else { return };
    test.sql(&format!(
        "{}; xa start 'left'; {}; xa end 'left'; xa prepare 'left'",
        coupon(1, 1),
        coupon(2, 2)
    ));
    let named = r#""unread":["X'6c656674',X'',1"]"#;
    let running = test.start_with(test.config.clone());
    running.until_unready("binlog", "1 XA transactions are prepared").await;
    running.until_ready().await;
    test.sql(&coupon(3, 3));
    assert_eq!(test.coupon_ids_until(3).await, [1, 3]);
    running.stop().await.unwrap();
    let checkpoint = test.checkpoint().await;
    assert!(checkpoint.contains(named), "{checkpoint}");

    // The next tailer also knows of the prepared transaction.
    let running = test.start().await;
    test.sql("xa commit 'left'");
    test.coupon_ids_containing(2).await;
    running.stop().await.unwrap();
    let mut read: Vec<i64> = test.coupon_ids(5).await[2..].to_vec();
    read.sort_unstable();
    assert_eq!(read, [1, 2, 3], "one more snapshot");
    assert!(!test.checkpoint().await.contains(named));
}

/// One more than a tailer waits for at a time: so many are an operator's mistake.
const LEFT: u32 = 10_001;

/// Longest text of a checkpoint, in bytes: at most 1,000 names of each kind.
const CHECKPOINT_MAX: usize = 300_000;

/// Only the last of them inserts a coupon, and a checkpoint has no room for its name.
async fn many_left_prepared(flavor: Flavor) {
    // Without these settings each is flushed to disk, which takes a minute and does not matter to the tailer.
    let settings = ["--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0"];
    let Some(test) = Harness::on_own("many left", flavor, &settings).await else { return };
    let running = test.start().await;
    test.sql(&format!("create table other (id bigint); {}", coupon(1, 1)));
    leave_prepared(&test, &coupon(2, 2));
    let ended = format!("{:#}", running.ended_by("10,001 prepared").await.unwrap_err());
    let says =
        "over 10000 XA transactions are prepared and not ended: end those that `xa recover` shows";
    assert!(ended.contains(says) && ended.contains("--resnapshot"), "{ended}");

    let config = Config { resnapshot: Some("all".to_owned()), ..test.config.clone() };
    let running = test.start_with(config);
    running.until_unready("binlog", &format!("{LEFT} XA transactions are prepared")).await;
    running.until_ready().await;
    test.sql(&coupon(3, 3));
    test.coupon_ids_until(3).await;
    running.stop().await.unwrap();
    let checkpoint = test.checkpoint().await;
    assert!(checkpoint.len() <= CHECKPOINT_MAX, "{} bytes", checkpoint.len());
    assert_eq!(checkpoint.matches("X'").count(), 2 * 1_000, "names of two parts");

    let running = test.start().await;
    test.sql(&format!("xa commit 'n{LEFT:05}'"));
    test.coupon_ids_containing(2).await;
    test.sql(&coupon(4, 4));
    test.coupon_ids_until(4).await;
    running.stop().await.unwrap();
    let mut read: Vec<i64> = test.coupon_ids(7).await;
    read.sort_unstable();
    assert_eq!(read, [1, 1, 1, 2, 3, 3, 4], "two snapshots, and each change");
}

/// Prepares [`LEFT`] transactions. All change another table, except the last one, which runs `last`.
fn leave_prepared(test: &Harness, last: &str) {
    let is_mariadb = test.is_mariadb();
    let one = |number: u32| {
        let insert = format!("insert into other values ({number})");
        let insert = if number == LEFT { last } else { &insert };
        // Another session may end it; on MariaDB only after this one has disconnected.
        let leave = if is_mariadb { "connect\n" } else { "" };
        format!(
            "xa start 'n{number:05}'; {insert}; xa end 'n{number:05}'; xa prepare 'n{number:05}';\n{leave}"
        )
    };
    test.sql(&(1..=LEFT).map(one).collect::<String>());
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        multi_thread always_prepared:
        where_foreign_transactions_are_always_prepared_a_start_reads_the_tables_once_and_another_not_at_all,
        where_foreign_transactions_of_mysql_are_always_prepared_a_start_reads_the_tables_once_and_another_not_at_all,
    }

    testkit::on_each_flavor! {
        multi_thread left_prepared:
        a_transaction_that_is_left_prepared_is_waited_for_then_told_of_and_its_commit_leads_to_its_rows,
        a_transaction_that_is_left_prepared_in_mysql_is_waited_for_then_told_of_and_its_commit_leads_to_its_rows,
    }

    testkit::on_each_flavor! {
        multi_thread many_left_prepared:
        over_ten_thousand_transactions_that_are_left_prepared_stop_it_and_are_borne_by_the_next_snapshot,
        over_ten_thousand_transactions_that_are_left_prepared_in_mysql_stop_it_and_are_borne_by_the_next_snapshot,
    }
}
