//! Errors that stop a tailer, and the remedies that their messages name: nothing is skipped before the remedy, and
//! nothing is missing after it.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use cdc_tailer::Config;
use devstack::Flavor;

use testkit::insert_coupons;
use topic::Op;

use crate::harness::{Harness, coupon, coupon_row};

/// Something that a tailer cannot follow.
struct Stop {
    /// Statements that stop it, among other changes.
    done: &'static str,
    /// Part of the error message.
    says: &'static str,
    /// Statements that the message requires before `--resnapshot`; may do nothing.
    mend: &'static str,
}

const fn stop(done: &'static str, says: &'static str, mend: &'static str) -> Stop {
    Stop { done, says, mend }
}

const STATEMENT: &str = "set binlog_format = 'ROW'";
const DEFINED: &str = "emptied, exchanged or defined anew";

const ON_BOTH: &[Stop] = &[
    stop("truncate stock_movement", DEFINED, "do 0"),
    stop("rename table stock_movement to away, away to stock_movement", DEFINED, "do 0"),
    stop("rename table stock_movement to away", DEFINED, "rename table away to stock_movement"),
    stop(
        "create table kept like stock_movement; drop table stock_movement",
        DEFINED,
        "rename table kept to stock_movement",
    ),
    stop(
        "alter table stock_movement partition by hash (template_id) partitions 2; \
         alter table stock_movement truncate partition p0",
        DEFINED,
        "alter table stock_movement remove partitioning",
    ),
    stop(
        "alter table stock_movement partition by range (template_id) \
         (partition p0 values less than (1000000), partition p1 values less than maxvalue); \
         alter table stock_movement drop partition p0",
        DEFINED,
        "alter table stock_movement remove partitioning",
    ),
    stop(
        "set binlog_format = 'STATEMENT'; update user_coupon set version = version + 1",
        STATEMENT,
        "do 0",
    ),
    stop(
        "set binlog_format = 'STATEMENT'; update seen set order_ref = 'v', version = version + 1",
        STATEMENT,
        "do 0",
    ),
    stop("set binlog_format = 'STATEMENT'; insert into setting_off values (1)", STATEMENT, "do 0"),
    stop("set binlog_format = 'STATEMENT'; select touching()", STATEMENT, "do 0"),
    stop("set binlog_format = 'STATEMENT'; do touching()", STATEMENT, "do 0"),
    stop(
        "set session binlog_row_image = 'MINIMAL'; update user_coupon set version = version + 1",
        "was logged without all columns",
        "do 0",
    ),
    stop(
        "alter table stock_movement partition by hash (template_id) partitions 2; \
         create table other like stock_movement; alter table other remove partitioning; \
         alter table stock_movement exchange partition p0 with table other",
        DEFINED,
        "alter table stock_movement remove partitioning; drop table other",
    ),
    stop(
        "create table parts like stock_movement; \
         alter table parts partition by hash (template_id) partitions 2; \
         alter table parts exchange partition p0 with table stock_movement",
        DEFINED,
        "drop table parts",
    ),
    stop(
        "alter table user_coupon drop index uq_number; \
         alter table user_coupon partition by hash (id) partitions 2; \
         create table other like user_coupon; alter table other remove partitioning; \
         alter table user_coupon exchange partition p1 with table other",
        DEFINED,
        "alter table user_coupon remove partitioning; drop table other; \
         alter table user_coupon add unique key uq_number (template_id, user_id, claim_no)",
    ),
    stop(
        "alter table stock_movement rename column delta to difference; \
         insert into stock_movement (template_id, seq, difference, reason, actor, created_at) \
         values (1, 1, 1, 'r', 'a', '2026-01-01')",
        "stock_movement.delta is gone",
        "alter table stock_movement rename column difference to delta",
    ),
    stop(
        "alter table user_coupon add column old varchar(9) character set latin1 default 'é'; \
         update user_coupon set version = version + 1",
        "user_coupon.old is text of another character set",
        "alter table user_coupon drop column old",
    ),
    stop(
        "alter table user_coupon add column old enum('é') character set latin1 default 'é'; \
         update user_coupon set version = version + 1",
        "user_coupon.old",
        "alter table user_coupon drop column old",
    ),
    stop(
        "alter table user_coupon add constraint cascades foreign key (template_id) \
         references parent (id) on delete cascade; delete from parent",
        DEFINED,
        "alter table user_coupon drop foreign key cascades",
    ),
];

const ON_MARIADB: &[Stop] = &[
    stop(
        "set binlog_format = 'STATEMENT'; create table made_of select touching()",
        STATEMENT,
        "drop table made_of",
    ),
    stop(
        "set statement binlog_format = 'STATEMENT' for update user_coupon set version = version + 1",
        STATEMENT,
        "do 0",
    ),
    stop(
        "set binlog_format = 'STATEMENT'; analyze update user_coupon set version = version + 1",
        STATEMENT,
        "do 0",
    ),
    stop(
        "insert into stock_movement (template_id, seq, delta, reason, actor, created_at) values \
         (4, 1, 1, 'r', 'a', '2026-01-01'), (4, 2, 1, 'r', 'a', '2026-01-01'); \
         alter ignore table stock_movement add unique key only_one (template_id)",
        DEFINED,
        "alter table stock_movement drop key only_one",
    ),
    stop(
        "alter table stock_movement add system versioning",
        DEFINED,
        "alter table stock_movement drop system versioning",
    ),
    stop(
        "set global binlog_row_metadata = 'NO_LOG'; insert into stock_movement \
         (template_id, seq, delta, reason, actor, created_at) values (2, 1, 1, 'r', 'a', '2026-01-01')",
        "comes without column names",
        "set global binlog_row_metadata = 'FULL'",
    ),
    // The table without transactions leaves the ROLLBACK TO in the binlog.
    stop(
        "create table diary (a int) engine = aria; begin; insert into stock_movement \
         (template_id, seq, delta, reason, actor, created_at) values (3, 1, 1, 'r', 'a', '2026-01-01'); \
         savepoint `é`; savepoint two; insert into stock_movement \
         (template_id, seq, delta, reason, actor, created_at) values (3, 2, 1, 'r', 'a', '2026-01-01'); \
         insert into diary values (1); rollback to `é`; commit",
        "rolls back to one of several savepoints",
        "drop table diary",
    ),
];

const ON_MYSQL: &[Stop] = &[
    stop(
        "set global binlog_row_metadata = 'MINIMAL'; insert into stock_movement \
         (template_id, seq, delta, reason, actor, created_at) values (2, 1, 1, 'r', 'a', '2026-01-01')",
        "comes without column names",
        "set global binlog_row_metadata = 'FULL'",
    ),
    stop(
        "alter table stock_movement add column document json null; insert into stock_movement \
         (template_id, seq, delta, reason, actor, created_at, document) values (3, 1, 1, 'r', 'a', \
         '2026-01-01', concat('{\"a\": 1, \"b\": \"', repeat('x', 500), '\"}')); \
         set session binlog_row_value_options = 'PARTIAL_JSON'; \
         update stock_movement set document = json_set(document, '$.a', 2) where template_id = 3",
        "was logged as a difference of JSON",
        "alter table stock_movement drop column document",
    ),
    stop(
        "set global gtid_mode = ON_PERMISSIVE; set global gtid_mode = OFF_PERMISSIVE; \
         set session gtid_next = 'ANONYMOUS'; update user_coupon set version = version + 1",
        "has no GTID",
        "set session gtid_next = 'AUTOMATIC'; set global gtid_mode = ON_PERMISSIVE; \
         set global gtid_mode = ON",
    ),
];

/// Walks each half on its own server: a tailer starts four times for each stop.
async fn walked(flavor: Flavor, more: &[Stop]) {
    let stops: Vec<&Stop> = ON_BOTH.iter().chain(more).collect();
    let (some, others) = stops.split_at(stops.len() / 2);
    tokio::join!(walk("stops", flavor, some), walk("more stops", flavor, others));
}

async fn walk(name: &str, flavor: Flavor, stops: &[&Stop]) {
    let Some(test) = Harness::on_own(name, flavor, &[]).await else { return };
    test.sql(
        "create table parent (id bigint primary key); insert into parent values (7);
         create view seen as select * from user_coupon;
         create table setting_off (a int);
         create trigger sets_off after insert on setting_off for each row
             update user_coupon set version = version + 1;
         delimiter //
         create function touching() returns int modifies sql data not deterministic begin
             update user_coupon set version = version + 1; return 1; end //
         delimiter ;",
    );
    let mut next = 1;
    for stop in stops {
        let running = test.start().await;
        test.sql(&coupon(next, next));
        test.coupon_ids_until(next).await;
        test.sql(stop.done);
        let ended = running.ended_by(stop.done).await;
        let said = format!("{:#}", ended.unwrap_err());
        assert!(said.contains(stop.says), "{}: {said}", stop.done);
        assert!(said.contains("--resnapshot"), "no way out: {said}");
        test.sql(stop.mend);
        // The remedy alone, without `--resnapshot`, does not skip the event.
        let again = test.start_with(test.config.clone()).ended().await;
        let again = format!("{:#}", again.unwrap_err());
        assert!(again.contains(stop.says), "{}: {again}", stop.done);
        test.leave_by_resnapshot(next + 1).await;
        next += 2;
    }
}

/// The checkpoint is as a version that follows other tables writes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_table_that_is_not_followed_stops_it_and_the_way_out_leads_out() {
    let test = Harness::new("foreign snapshot").await;
    test.start().await.stop().await.unwrap();
    let under_way = r#""snapshot":{"tables":["claim"],"after":[],"rows":0}"#;
    test.overwrite_checkpoint(r#""snapshot":null"#, under_way).await;
    for _ in 0..2 {
        let ended = test.start_with(test.config.clone()).failed().await;
        assert!(ended.contains("claim") && ended.contains("--resnapshot"), "{ended}");
    }
    test.leave_by_resnapshot(1).await;
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn each_sentence_that_ends_a_tailer_names_a_way_out_that_leads_out() {
        walked(Flavor::Mariadb, ON_MARIADB).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_sentence_that_ends_a_tailer_of_mysql_names_a_way_out_that_leads_out() {
        walked(Flavor::Mysql, ON_MYSQL).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_that_is_dropped_stops_the_tailer_and_the_way_out_leads_out() {
        for test in Harness::on_all("dropped database").await {
            let running = test.start().await;
            test.sql(&coupon(1, 1));
            test.coupon_ids_until(1).await;
            test.drop_database();
            let ended = format!("{:#}", running.ended_by("drop database").await.unwrap_err());
            assert!(ended.contains(DEFINED) && ended.contains("--resnapshot"), "{ended}");
            test.make_database().await;
            let again = test.start_with(test.config.clone()).failed().await;
            assert!(again.contains(DEFINED), "{again}");
            test.leave_by_resnapshot(2).await;
        }
    }

    /// Only a table without transactions leaves the ROLLBACK TO in the binlog, and MySQL rejects the mix.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_rollback_to_a_forgotten_savepoint_of_a_client_stops_it_and_the_way_out_leads_out() {
        const SAVEPOINTS: u32 = 10_001;
        let Some(test) = Harness::on_own("savepoints", Flavor::Mariadb, &[]).await else { return };
        let running = test.start().await;
        test.sql("create table diary (a int) engine = aria");
        let set: String = (0..SAVEPOINTS).map(|number| format!("savepoint s{number};\n")).collect();
        test.sql(&format!(
            "begin; {}; savepoint first; {}; {set} insert into diary values (1); rollback to first; commit",
            coupon(1, 1),
            coupon(2, 2)
        ));
        let says = "fewer savepoints";
        let ended = format!("{:#}", running.ended_by("savepoints").await.unwrap_err());
        assert!(ended.contains(says) && ended.contains("--resnapshot"), "{ended}");
        let again = test.start_with(test.config.clone()).failed().await;
        assert!(again.contains(says), "{again}");
        test.leave_by_resnapshot(3).await;
        let mut ids = test.coupon_ids(2).await;
        ids.sort_unstable();
        assert_eq!(ids, [1, 3], "the second was rolled back");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_for_long_transactions_that_is_not_there_is_mended_by_a_start_with_another() {
        const ROWS: i64 = 40_000;
        for test in Harness::on_all("spill").await {
            let config = Config { spill_folder: "/nowhere".into(), ..test.config.clone() };
            let running = test.start_following(config).await;
            test.sql(&insert_coupons((1..=ROWS).map(|id| coupon_row(id, id))));
            let said = format!("{:#}", running.ended_by("a long transaction").await.unwrap_err());
            assert!(said.contains("--spill-folder"), "{said}");
            let running = test.start().await;
            assert_eq!(test.coupon_ids_until(ROWS).await, (1..=ROWS).collect::<Vec<_>>());
            running.stop().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_event_over_the_limit_stops_the_tailer_and_a_start_with_a_higher_limit_follows_it() {
        const LIMIT: usize = 1 << 20;
        // The servers are its own, because events of other tests may be longer.
        for test in Harness::on_own_of_each("over the limit", &[]).await {
            test.sql("create table long_one (a longblob)");
            let config = Config { packet_bytes_max: LIMIT, ..test.config.clone() };
            let running = test.start_following(config.clone()).await;
            test.sql(&format!("insert into long_one values (repeat('a', {}))", 2 * LIMIT));
            let said = format!("{:#}", running.ended_by("a long event").await.unwrap_err());
            assert!(said.contains("--packet-bytes-max"), "{said}");
            test.sql(&coupon(1, 1));
            let again = format!("{:#}", test.start_with(config).ended().await.unwrap_err());
            assert!(again.contains("--packet-bytes-max"), "{again}");
            let running = test.start().await;
            assert_eq!(test.coupon_ids_until(1).await, [1]);
            assert_eq!(test.coupons(1).await[0].op, Op::Create, "no table was read anew");
            running.stop().await.unwrap();
        }
    }

    /// What is acknowledged when the error comes is in the checkpoint, so the next start publishes none of it again.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_tailer_that_ends_with_an_error_has_written_its_checkpoint() {
        const COUPONS: i64 = 500;
        for test in Harness::on_all("checkpoint of an error").await {
            let running = test.start().await;
            // In one session, so that the error comes before a regular checkpoint covers the last coupons.
            let coupons: Vec<_> = (1..=COUPONS).map(|id| coupon(id, id)).collect();
            test.sql(&format!("{}; truncate stock_movement", coupons.join("; ")));
            let said = format!("{:#}", running.ended_by("truncate").await.unwrap_err());
            assert!(said.contains(DEFINED), "{said}");
            for _ in 0..2 {
                let again = test.start_with(test.config.clone()).ended().await;
                assert!(format!("{:#}", again.unwrap_err()).contains(DEFINED));
            }
            let published = test.coupon_ids_until(COUPONS).await;
            assert_eq!(published, (1..=COUPONS).collect::<Vec<_>>(), "published again");
        }
    }

    /// The checkpoint has a snapshot in progress: a normal start reaches the event again before it reads a table.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_under_way_before_an_event_that_stops_is_begun_anew_when_that_is_asked_for()
    {
        for test in Harness::on_all("stopped snapshot").await {
            test.sql(&coupon(1, 1));
            test.start().await.stop().await.unwrap();
            let under_way = r#""snapshot":{"tables":["user_coupon"],"after":[],"rows":0}"#;
            test.overwrite_checkpoint(r#""snapshot":null"#, under_way).await;
            test.sql("truncate stock_movement");
            for _ in 0..2 {
                let ended = test.start_with(test.config.clone()).ended().await;
                assert!(format!("{:#}", ended.unwrap_err()).contains(DEFINED));
            }
            test.leave_by_resnapshot(2).await;
        }
    }
}
