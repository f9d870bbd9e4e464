//! GTIDs that are not consecutive: MySQL's with tags, and MariaDB's after a gap.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use devstack::Flavor;
use topic::Op;

use crate::harness::{Harness, coupon};

/// Tags that MySQL clients add to consecutive transactions; empty for none.
const TAGS: [&str; 5] = ["", "blue", "", "red_2", "blue"];

/// Size of each gap in MariaDB's sequence numbers.
const HOLE: u64 = 1_000_000;

/// Returns the tag of a coupon's transaction.
fn tag(id: i64) -> &'static str {
    TAGS[usize::try_from(id).unwrap() % TAGS.len()]
}

/// Inserts coupons after `last`, one transaction for each tag, and updates `last`.
fn insert_with_tags(test: &Harness, last: &mut i64) {
    let mut statements = String::new();
    for _ in TAGS {
        *last += 1;
        let automatic = match tag(*last) {
            "" => "AUTOMATIC".to_owned(),
            tag => format!("AUTOMATIC:{tag}"),
        };
        statements += &format!("set session gtid_next = '{automatic}'; {};", coupon(*last, *last));
    }
    test.sql(&statements);
}

async fn holes(strict: &str) {
    let setting = format!("--gtid-strict-mode={strict}");
    let test = Harness::on_own(&format!("holes {strict}"), Flavor::Mariadb, &[&setting]).await;
    let test = test.unwrap();
    let number = |id: i64| id.unsigned_abs() * HOLE;
    let insert_behind_hole = |id: i64| {
        test.sql(&format!("set session gtid_seq_no = {}; {}", number(id), coupon(id, 1)));
    };
    for id in [1, 3, 5] {
        let tailer = test.start().await;
        // The tailer follows across one gap, and stops right after it and right before the next.
        insert_behind_hole(id);
        assert_eq!(test.coupon_ids_until(id).await, (1..=id).collect::<Vec<_>>());
        tailer.stop().await.unwrap();
        if id == 3 {
            // This gap is between two files.
            test.sql("flush binary logs");
        }
        insert_behind_hole(id + 1);
    }
    let tailer = test.start().await;
    assert_eq!(test.coupon_ids_until(6).await, [1, 2, 3, 4, 5, 6], "each once, in order");
    for event in test.coupons(6).await {
        assert_eq!(event.op, Op::Create, "no table was read anew");
        let id = event.after.unwrap().id;
        assert_eq!(event.source.gtid, Some(format!("0-1-{}", number(id))));
    }
    tailer.stop().await.unwrap();

    // A position inside the gap never existed here: such a checkpoint is from another server's binlog.
    let inside = format!("-{}\",\"file\"", number(6) - 1);
    test.overwrite_checkpoint(&format!("-{}\",\"file\"", number(6)), &inside).await;
    let tailer = test.start().await;
    let events = test.coupons(12).await;
    let read: Vec<_> = events[6..].iter().map(|e| (e.op, e.after.as_ref().unwrap().id)).collect();
    assert_eq!(read, (1..=6).map(|id| (Op::Read, id)).collect::<Vec<_>>());
    tailer.stop().await.unwrap();
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn transactions_with_tags_among_others_are_published_once_each_and_resumed_behind() {
        let Some(test) = Harness::on_own("tags", Flavor::Mysql, &[]).await else { return };
        let mut last = 0;
        // The snapshot's position already has tags.
        insert_with_tags(&test, &mut last);
        for _ in 0..3 {
            let tailer = test.start().await;
            // While the tailer runs, and while it does not.
            insert_with_tags(&test, &mut last);
            test.coupon_ids_until(last).await;
            tailer.stop().await.unwrap();
            insert_with_tags(&test, &mut last);
        }
        let tailer = test.start().await;
        let ids = test.coupon_ids_until(last).await;
        assert_eq!(ids, (1..=last).collect::<Vec<_>>(), "each once, in order");
        let events = test.coupons(ids.len()).await;
        let (read, streamed) = events.split_at(TAGS.len());
        assert!(read.iter().all(|event| event.op == Op::Read));
        for event in streamed {
            assert_eq!(event.op, Op::Create, "no table was read anew");
            let gtid = event.source.gtid.as_deref().unwrap();
            let (server, _number) = gtid.rsplit_once(':').unwrap();
            let published = server.split_once(':').map_or("", |(_, tag)| tag);
            assert_eq!(published, tag(event.after.as_ref().unwrap().id), "{gtid}");
        }

        // After a kill some events repeat, and none is missing.
        insert_with_tags(&test, &mut last);
        tailer.abort();
        insert_with_tags(&test, &mut last);
        let tailer = test.start().await;
        let mut ids = test.coupon_ids_until(last).await;
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids, (1..=last).collect::<Vec<_>>());
        tailer.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hole_in_the_numbers_of_a_strict_mariadb_is_followed_and_resumed_behind() {
        holes("ON").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hole_in_the_numbers_of_a_lenient_mariadb_is_followed_and_resumed_behind() {
        holes("OFF").await;
    }
}
