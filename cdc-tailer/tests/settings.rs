//! The server's settings and tables change while a tailer runs, or differ from the start.

use devstack::Flavor;
use serde_json::Value;
use testkit::{CouponRow, insert_coupons};
use topic::Op;

use crate::harness::{Harness, coupon, coupon_row};

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn checksums_that_are_switched_off_and_on_are_followed_by_who_runs_and_by_who_starts() {
        for test in Harness::on_own_of_each("checksums", &[]).await {
            let mut running = test.start().await;
            for id in 1..=8 {
                let method = if id % 2 == 1 { "NONE" } else { "CRC32" };
                test.sql(&format!("set global binlog_checksum = {method}; {}", coupon(id, id)));
                assert_eq!(test.coupon_ids_until(id).await, (1..=id).collect::<Vec<_>>());
                if id > 4 {
                    running.stop().await.unwrap();
                    running = test.start().await;
                }
            }
            let events = test.coupons(8).await;
            assert!(events.iter().all(|event| event.op == Op::Create), "no table was read anew");
            running.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_whose_name_the_server_writes_otherwise_is_followed() {
        let settings = ["--lower-case-table-names=1"];
        for mut test in Harness::on_own_of_each("small letters", &settings).await {
            let url = test.config.database_url.expose().to_owned();
            let (server, database) = url.rsplit_once('/').unwrap();
            let url = format!("{server}/{}", database.to_uppercase());
            test.config.database_url = url.parse().unwrap();
            let running = test.start().await;
            test.sql(&coupon(1, 1));
            assert_eq!(test.coupon_ids_until(1).await, [1]);
            running.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_there_before_its_tables_waits_and_says_for_which() {
        for test in Harness::on_all("no tables").await {
            test.sql("rename table stock_movement to not_yet");
            let running = test.start_with(test.config.clone());
            let why = running.until_unready("binlog", "has no stock_movement").await;
            assert!(why.contains("database"), "{why}");
            test.sql("rename table not_yet to stock_movement");
            running.until_ready().await;
            test.sql(&coupon(1, 1));
            assert_eq!(test.coupon_ids_until(1).await, [1]);
            running.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tables_whose_changes_are_not_all_logged_are_refused_with_the_statement_that_mends_it()
    {
        for test in Harness::on_all("hidden changes").await {
            test.sql(
                "create table parent (id bigint primary key);
                 alter table user_coupon add constraint cascades foreign key (template_id)
                     references parent (id) on delete cascade",
            );
            let ended = test.start_with(test.config.clone()).ended().await.unwrap_err();
            let mend = "alter table user_coupon drop foreign key cascades";
            assert!(format!("{ended:#}").contains(mend), "{ended:#}");
            test.sql(mend);
            if test.is_mariadb() {
                test.sql("alter table user_coupon add system versioning");
                let ended = test.start_with(test.config.clone()).ended().await.unwrap_err();
                let mend = "alter table user_coupon drop system versioning";
                assert!(format!("{ended:#}").contains(mend), "{ended:#}");
                test.sql(mend);
            }
            test.start().await.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn differences_of_json_are_borne_where_no_followed_table_has_a_document() {
        let settings = ["--binlog-row-value-options=PARTIAL_JSON"];
        let Some(test) = Harness::on_own("partial json", Flavor::Mysql, &settings).await else {
            return;
        };
        let running = test.start().await;
        test.sql("create table foreign_one (id int primary key, document json)");
        test.sql(
            "insert into foreign_one values (1, '{\"a\": 1, \"b\": \"xxxxxxxxxxxxxxxxxxxx\"}')",
        );
        test.sql(&format!(
            "{}; update user_coupon set version = 2, status = 1; \
             update foreign_one set document = json_set(document, '$.a', 2); \
             update user_coupon set version = 3, order_ref = 'o'",
            coupon(1, 1)
        ));
        let events = test.coupons(3).await;
        let last = events[2].after.as_ref().unwrap();
        assert_eq!((last.version, last.status, last.order_ref.as_deref()), (3, 1, Some("o")));
        running.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_update_that_leaves_the_version_is_published_and_counted() {
        for test in Harness::on_all("unversioned").await {
            let before = testkit::counted("cdc_tailer_unversioned_updates_total", "");
            let running = test.start().await;
            test.sql(&format!("{}; {}", coupon(1, 1), coupon(2, 2)));
            test.sql("update user_coupon set status = 1, version = version + 1 where id = 2");
            test.sql(
                "drop trigger user_coupon_version; update user_coupon set status = 1 where id = 1",
            );
            test.sql("update user_coupon set order_ref = 'o'");
            let mut events = test.coupons(6).await;
            events.remove(2);
            let versions = |event: &topic::Event<topic::UserCouponRow>| {
                let before = event.before.as_ref().unwrap();
                (before.version, event.after.as_ref().unwrap().version)
            };
            let published: Vec<_> = events[2..].iter().map(versions).collect();
            assert_eq!(published, [(1, 1), (1, 1), (2, 2)]);
            running.stop().await.unwrap();
            assert_eq!(testkit::counted("cdc_tailer_unversioned_updates_total", ""), before + 3);
        }
    }

    /// Added columns of types with special encodings, and a status of a later version.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_publishes_the_same_columns_in_the_same_words_as_changes_do() {
        for test in Harness::on_all("same columns").await {
            let json = if test.is_mariadb() { "text" } else { "json" };
            test.sql(&format!(
                "alter table user_coupon add column a enum('x', 'é') not null default 'é',
                 add column b set('p', 'q') default 'p,q', add column c decimal(10, 3) default -1.5,
                 add column d float default 0.1, add column e double default 1e-7,
                 add column f varbinary(9) default x'00ff', add column g binary(3) default x'01',
                 add column h timestamp(6) default '2026-01-02 03:04:05.678901',
                 add column i datetime(6) default '2026-01-02 03:04:05.678901',
                 add column j date default '1969-12-31', add column k time(2) default '-01:02:03.45',
                 add column l bit(9) default b'100000001', add column m bigint unsigned
                 default 18446744073709551615, add column n year default 2026,
                 add column o {json} null, add column p tinyint(1) default -1, add column q point null"
            ));
            let status = insert_coupons([CouponRow { status: 77, ..coupon_row(1, 1) }]);
            let status = status.replace("null, null, null)", "null, 'ü', null, default, default, default, \
                 default, default, default, default, default, default, default, default, default, default, \
                 default, '{\"k\": [1, null]}', default, point(1, 2))");
            test.sql(&status);
            let running = test.start().await;
            test.sql("update user_coupon set version = version + 1");
            let messages =
                test.messages_until(&test.names.user_coupon(), |all| all.len() >= 2).await;
            let event = |index: usize| -> Value {
                serde_json::from_slice(messages[index].payload.as_ref().unwrap()).unwrap()
            };
            assert_eq!((event(0)["op"].as_str(), event(1)["op"].as_str()), (Some("r"), Some("u")));
            assert_eq!(event(0)["after"], event(1)["before"]);
            let names =
                |image: &Value| image.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&event(0)["after"]), names(&event(1)["before"]));
            assert_eq!(event(0)["after"]["status"], 77);
            running.stop().await.unwrap();
        }
    }
}
