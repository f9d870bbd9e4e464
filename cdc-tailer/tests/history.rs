//! The server's history is replaced by another one with the same GTIDs. Every tailer detects it and no committed change
//! is lost. An unchanged history is not read again.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{collections::BTreeSet, ops::RangeInclusive};

use cdc_tailer::Config;
use devstack::Flavor;
use topic::Op;

use crate::harness::{Harness, coupon};

/// Both histories begin in the same file with transactions of equal length, so the transaction with the checkpoint's
/// GTID is at exactly the same offset.
async fn reset_while_nobody_looks(flavor: Flavor) {
    let Some(test) = Harness::on_own("reset", flavor, &[]).await else { return };
    reset(&test, flavor);
    let tailer = test.start().await;
    insert(&test, 1001..=1089);
    test.coupon_ids_until(1089).await;
    tailer.stop().await.unwrap();
    assert_eq!(read(&test).await, 0);

    reset(&test, flavor);
    insert(&test, 2001..=2109);
    let tailer = test.start().await;
    insert(&test, 3001..=3010);
    let published: BTreeSet<i64> = test.coupon_ids_until(3010).await.into_iter().collect();
    assert_eq!(published, (1001..=1089).chain(2001..=2109).chain(3001..=3010).collect());
    assert_eq!(read(&test).await, 89 + 109, "all that was there came by a snapshot");
    tailer.stop().await.unwrap();

    // A changed server id alone does not make it another server.
    reset(&test, flavor);
    test.sql("set global server_id = 77");
    insert(&test, 4001..=4300);
    let tailer = test.start().await;
    let published: BTreeSet<i64> = test.coupon_ids_containing(4300).await.into_iter().collect();
    assert_eq!(published.range(4001..).count(), 300, "nothing is skipped");
    tailer.stop().await.unwrap();
}

/// After each reset, more or fewer rows are written than before it. The server itself detects only one of the two
/// cases.
async fn reset_under_it(flavor: Flavor) {
    let Some(test) = Harness::on_own("reset under it", flavor, &[]).await else { return };
    let tailer = test.start().await;
    let mut all = BTreeSet::new();
    for (round, written, rewritten) in [(1, 50, 300), (2, 100, 3), (3, 5, 60)] {
        let first = round * 1000;
        let second = round * 1000 + 500;
        insert(&test, first..=first + written);
        test.coupon_ids_containing(first + written).await;
        reset(&test, flavor);
        test.sql(&format!("set global server_id = {}", 100 + round));
        insert(&test, second..=second + rewritten);
        test.coupon_ids_containing(second + rewritten).await;
        all.extend((first..=first + written).chain(second..=second + rewritten));
    }
    let published: BTreeSet<i64> = test.coupon_ids_containing(3560).await.into_iter().collect();
    assert_eq!(published, all);
    tailer.stop().await.unwrap();
}

/// Restarts tailers after a transaction, at the start of a file, and after all earlier files were purged.
async fn quiet(flavor: Flavor) {
    let Some(test) = Harness::on_own("quiet", flavor, &[]).await else { return };
    insert(&test, 1..=10);
    for _ in 0..2 {
        test.start().await.stop().await.unwrap();
    }
    assert_eq!(read(&test).await, 10);
    next_file(&test);
    let config = Config { resnapshot: Some("all".to_owned()), ..test.config.clone() };
    test.start_following(config).await.stop().await.unwrap();
    for _ in 0..3 {
        test.start().await.stop().await.unwrap();
        let last = next_file(&test);
        test.sql(&format!("purge binary logs to '{last}'"));
    }
    test.start().await.stop().await.unwrap();
    assert_eq!(read(&test).await, 20);
}

/// Returns the number of rows read by snapshots.
async fn read(test: &Harness) -> usize {
    let events = test.coupons(0).await;
    events.iter().filter(|event| event.op == Op::Read).count()
}

fn next_file(test: &Harness) -> String {
    let files = test.sql("flush binary logs; show binary logs");
    files.lines().last().unwrap().split('\t').next().unwrap().to_owned()
}

/// Makes the server discard its binlog and restart its numbering.
fn reset(test: &Harness, flavor: Flavor) {
    test.sql(flavor.words().begin_anew);
}

/// Inserts coupons in one session, each in its own transaction.
fn insert(test: &Harness, ids: RangeInclusive<i64>) {
    let inserts: Vec<String> = ids.map(|id| coupon(id, id)).collect();
    test.sql(&inserts.join(";\n"));
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        multi_thread reset_while_nobody_looks:
        a_server_whose_binlog_was_reset_is_read_anew_whatever_has_the_old_names,
        a_mysql_whose_binlog_was_reset_is_read_anew_whatever_has_the_old_names,
    }

    testkit::on_each_flavor! {
        multi_thread reset_under_it:
        a_server_whose_binlog_is_reset_under_a_running_tailer_is_read_anew,
        a_mysql_whose_binlog_is_reset_under_a_running_tailer_is_read_anew,
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_deletion_behind_a_checkpoint_that_knows_few_coupons_is_published_and_nothing_is_read_anew()
     {
        for test in Harness::on_all("deletion").await {
            let tailer = test.start().await;
            insert(&test, 1..=3);
            test.coupon_ids_until(3).await;
            tailer.stop().await.unwrap();
            test.sql("delete from user_coupon");
            let tailer = test.start().await;
            let ops: Vec<Op> = test.coupons(6).await.into_iter().map(|event| event.op).collect();
            assert_eq!(ops[..3], [Op::Create; 3]);
            assert_eq!(ops[3..], [Op::Delete; 3]);
            tailer.stop().await.unwrap();
        }
    }

    testkit::on_each_flavor! {
        multi_thread quiet:
        a_tailer_that_starts_again_on_a_quiet_server_reads_nothing_anew,
        a_tailer_that_starts_again_on_a_quiet_mysql_reads_nothing_anew,
    }
}
