//! Bulk changes: LOAD DATA, partitioned tables, exchanged partitions.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{env, fs, path::PathBuf};

use topic::{Op, StockMovementRow};

use crate::harness::{Harness, coupon};

/// Lets clients load their own files.
const LOCAL: &str = "--local-infile=ON";

/// Rows in a file.
const ROWS: i64 = 1_000;

/// Writes a file of coupons, with `mark` in each.
fn file_of(test: &Harness, ids: impl Iterator<Item = i64>, version: i64, mark: &str) -> PathBuf {
    let row = |id: i64| {
        format!(
            "{id}\t7\t{id}\t{id}\t9\t1\t0\t{version}\t200\t2026-01-02\t2026-01-02\t2026-01-01\t2026-02-01\t\\N\t\
             {mark}\t\\N\t\\N\n"
        )
    };
    let path = env::temp_dir().join(format!("{}.{mark}.rows", test.names.prefix()));
    fs::write(&path, ids.map(row).collect::<String>()).unwrap();
    path
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_are_loaded_from_files_of_server_and_client_are_published_and_those_that_they_replace()
     {
        for test in Harness::on_own_of_each("loaded", &[LOCAL]).await {
            let running = test.start().await;
            let first = file_of(&test, 1..=ROWS, 1, "first");
            let second = file_of(&test, (1..=ROWS).filter(|id| id % 100 == 0), 2, "second");
            let load = |path: &PathBuf, how: &str| {
                format!("load data local infile '{}' {how} into table user_coupon;", path.display())
            };
            test.sql(&format!("begin; {} rollback;", load(&first, "")));
            test.sql(&format!("load data infile '{}' into table user_coupon", first.display()));
            // Existing rows stay unchanged, so no event follows.
            test.sql(&load(&first, "ignore"));
            test.sql(&load(&second, "replace"));
            test.sql(&coupon(ROWS + 1, 1));
            let replaced = ROWS / 100;
            let events = test.coupons(usize::try_from(ROWS + 2 * replaced + 1).unwrap()).await;
            let published = |op: Op, mark: Option<&str>| {
                let of = |event: &&topic::Event<topic::UserCouponRow>| {
                    let row = event.after.as_ref().or(event.before.as_ref()).unwrap();
                    event.op == op && row.order_ref.as_deref() == mark
                };
                i64::try_from(events.iter().filter(of).count()).unwrap()
            };
            assert_eq!(published(Op::Create, Some("first")), ROWS);
            assert_eq!(published(Op::Delete, Some("first")), replaced);
            assert_eq!(published(Op::Create, Some("second")), replaced);
            assert_eq!(published(Op::Create, None), 1);
            running.stop().await.unwrap();
            for path in [first, second] {
                fs::remove_file(path).unwrap();
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_is_loaded_in_statement_format_stops_the_tailer_and_the_way_out_leads_out()
    {
        for test in Harness::on_own_of_each("loaded as a statement", &[LOCAL]).await {
            for (place, first) in [("", 1), ("local", ROWS + 1)] {
                let running = test.start().await;
                let file = file_of(&test, first..first + ROWS, 1, "statement");
                let done = format!(
                    "set binlog_format = 'STATEMENT'; load data {place} infile '{}' into table user_coupon",
                    file.display()
                );
                test.sql(&done);
                let said = format!("{:#}", running.ended_by(&done).await.unwrap_err());
                assert!(said.contains("set binlog_format = 'ROW'"), "{said}");
                let again = test.start_with(test.config.clone()).failed().await;
                assert!(again.contains("set binlog_format = 'ROW'"), "{again}");
                let mut config = test.config.clone();
                config.resnapshot = Some("all".to_owned());
                test.start_following(config).await.stop().await.unwrap();
                test.coupon_ids_containing(first + ROWS - 1).await;
                fs::remove_file(file).unwrap();
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_of_a_partitioned_table_are_published_also_those_that_move_to_another_partition() {
        for test in Harness::on_own_of_each("partitioned", &[]).await {
            test.sql("alter table stock_movement partition by hash (template_id) partitions 3");
            let running = test.start().await;
            test.sql(
                "insert into stock_movement (template_id, seq, delta, reason, actor, created_at) values
                     (1, 1, 5, 'r', 'a', '2026-01-01'), (2, 1, 6, 'r', 'a', '2026-01-01');
                 update stock_movement set delta = 7;
                 update stock_movement set template_id = 4 where template_id = 2;
                 alter table stock_movement coalesce partition 1;
                 delete from stock_movement where template_id = 1",
            );
            let events = test.events::<StockMovementRow>(&test.names.stock_movement(), 6).await;
            let published: Vec<_> = events
                .iter()
                .map(|event| {
                    let of = |row: &StockMovementRow| (row.template_id, row.delta);
                    (event.op, event.before.as_ref().map(of), event.after.as_ref().map(of))
                })
                .collect();
            let expected = [
                (Op::Create, None, Some((1, 5))),
                (Op::Create, None, Some((2, 6))),
                (Op::Update, Some((1, 5)), Some((1, 7))),
                (Op::Update, Some((2, 6)), Some((2, 7))),
                (Op::Update, Some((2, 7)), Some((4, 7))),
                (Op::Delete, Some((1, 7)), None),
            ];
            for one in &expected {
                assert!(published.contains(one), "{one:?} is not published: {published:?}");
            }
            running.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn partitions_that_other_tables_exchange_are_nothing_to_the_tailer() {
        for test in Harness::on_own_of_each("exchanged elsewhere", &[]).await {
            let running = test.start().await;
            test.sql(&format!(
                "create table parts (id int primary key, user_coupon int) partition by range (id)
                     (partition p0 values less than (10), partition p1 values less than (20));
                 create table plain (id int primary key, user_coupon int);
                 insert into parts values (1, 1), (11, 1); insert into plain values (2, 2);
                 alter table parts exchange partition p0 with table plain;
                 {}",
                coupon(1, 1)
            ));
            assert_eq!(test.coupon_ids_until(1).await, [1]);
            running.stop().await.unwrap();
        }
    }
}
