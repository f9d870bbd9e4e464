//! The tailer with real servers and a real Kafka: `./dev test`, or `./dev servers up` first.

mod alterations;
mod bulk;
mod by_hand;
mod damage;
mod golden;
mod gtids;
mod harness;
mod history;
mod ipv6;
mod oversized;
mod settings;
mod stalls;
mod stops;
mod tls;
mod xa;

use std::fs;

use devstack::project_root;
use harness::{Harness, coupon};
use topic::{Op, TemplateRow};

const INSERT_TEMPLATE: &str = "insert into coupon_template values \
    (7, 1, 'Zwölf % 券', 1, 1250, null, 0, 'EUR', 2, 2, '2026-01-01', '2026-12-31 23:59:59.999', \
     null, null, 86400000, 1, 1, '2026-01-01 00:00:00.001', '2026-01-01 00:00:00.002', 0, 1, 0, 2, \
     0, 0, 0);";

#[tokio::test(flavor = "multi_thread")]
async fn committed_rows_come_in_order_with_their_values() {
    let test = Harness::new("committed rows").await;
    let tailer = test.start().await;
    test.sql(INSERT_TEMPLATE);
    test.sql(&format!("{}; {}", coupon(1, 70), coupon(2, 71)));
    test.sql(
        "update user_coupon set status = 1, version = 2, used_at = '2026-05-05 05:05:05.555', \
         order_ref = 'o-\"1\"' where id = 1; delete from user_coupon where id = 2;",
    );
    let events = test.coupons(4).await;
    let ops: Vec<_> = events.iter().map(|event| event.op).collect();
    assert_eq!(ops, [Op::Create, Op::Create, Op::Update, Op::Delete]);
    let before = events[2].before.clone().unwrap();
    let after = events[2].after.clone().unwrap();
    assert_eq!((before.version, before.used_at, before.order_ref.as_deref()), (1, None, None));
    assert_eq!((after.id, after.user_id, after.status, after.version), (1, 70, 1, 2));
    assert_eq!(after.used_at, Some(1_777_957_505_555));
    assert_eq!(after.order_ref.as_deref(), Some("o-\"1\""));
    assert_eq!(after.expiry_shard, 200, "unsigned");
    assert!(events[3].after.is_none());
    assert!(events.iter().all(|event| event.source.gtid.is_some() && !event.source.snapshot));

    let templates = test.events::<TemplateRow>(&test.names.template(), 1).await;
    let template = templates[0].after.clone().unwrap();
    assert_eq!(template.name, "Zwölf % 券");
    assert_eq!((template.valid_from, template.valid_for_ms), (None, Some(86_400_000)));
    assert_eq!(template.claim_ends_at, 1_798_761_599_999);
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_after_a_savepoint_arrive_unless_they_were_rolled_back() {
    let test = Harness::new("savepoints").await;
    let tailer = test.start().await;
    // With a table without transactions, the rows rolled back stay in the binlog. MySQL rejects the mix.
    let diary = if test.is_mariadb() {
        test.sql("create table diary (a int) engine = aria");
        "insert into diary values (1)"
    } else {
        "do 0"
    };
    test.sql(&format!(
        "begin; {}; savepoint one; {}; {diary}; rollback to one; {}; commit; {}",
        coupon(1, 1),
        coupon(2, 2),
        coupon(3, 3),
        coupon(4, 4),
    ));
    assert_eq!(test.coupon_ids(3).await, [1, 3, 4]);
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abruptly_dropped_tailer_loses_nothing() {
    let test = Harness::new("dropped").await;
    for round in 0..4 {
        let tailer = test.start().await;
        let first = round * 100 + 1;
        let inserts: Vec<_> = (first..first + 100).map(|id| coupon(id, id % 7)).collect();
        test.sql(&inserts.join("; "));
        // It is aborted in the middle of its work.
        tailer.abort();
    }
    let tailer = test.start().await;
    let mut seen = test.coupon_ids_until(400).await;
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (1..=400).collect::<Vec<_>>());
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_reads_what_is_there_and_a_later_one_does_not() {
    let test = Harness::new("first start").await;
    test.sql(INSERT_TEMPLATE);
    test.sql(&format!("{}; {}", coupon(1, 1), coupon(2, 1)));
    test.start().await.stop().await.unwrap();
    test.sql(&coupon(3, 1));
    let tailer = test.start().await;
    let events = test.coupons(3).await;
    let ops: Vec<_> = events.iter().map(|event| event.op).collect();
    assert_eq!(ops, [Op::Read, Op::Read, Op::Create]);
    assert!(events[0].source.snapshot);
    let streamed = events[2].after.clone().unwrap();
    let read = events[1].after.clone().unwrap();
    assert_eq!(topic::UserCouponRow { id: 3, claim_no: 3, ..read }, streamed, "same row, two ways");
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_traffic_moves_the_checkpoint() {
    let test = Harness::new("foreign").await;
    let tailer = test.start().await;
    test.sql("create table other (a int, b varbinary(8), c geometry)");
    let before = test.checkpoint().await;
    test.sql("insert into other values (1, x'ff', point(1, 1))");
    test.checkpoint_other_than(&before).await;
    tailer.stop().await.unwrap();
    assert_eq!(test.coupon_ids(0).await, [] as [i64; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_tailer_stands_by_until_the_first_one_leaves() {
    let test = Harness::new("standby").await;
    let first = test.start().await;
    let second = test.start().await;
    test.sql(&coupon(1, 1));
    assert_eq!(test.coupon_ids_until(1).await, [1]);
    first.stop().await.unwrap();
    test.sql(&coupon(2, 1));
    assert_eq!(test.coupon_ids_until(2).await, [1, 2]);
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_ends_with_a_sentence() {
    let test = Harness::new("refused").await;
    let url = &test.config.database_url.expose().to_owned();
    let wrong_password = url.replacen("coupon:coupon@", "coupon:wrong@", 1);
    let refused = |url: String| {
        let mut config = test.config.clone();
        config.database_url = url.parse().unwrap();
        test.start_with(config)
    };
    let error = format!("{:#}", refused(wrong_password).ended().await.unwrap_err());
    assert!(error.contains("DATABASE_URL") && error.contains("Access denied"), "{error}");
    let nobody = "mysql://u:p@127.0.0.1:1/d".to_owned();
    let error = format!("{:#}", refused(nobody).ended().await.unwrap_err());
    assert!(error.contains("DATABASE_URL"), "{error}");
    assert!(!error.contains("u:p"), "{error}");
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_checkpoint_that_does_not_fit_leads_to_a_snapshot() {
        for test in Harness::on_all("does not fit").await {
            test.start().await.stop().await.unwrap();
            let expected = [1, 1, 2, 1, 2, 3].map(|id| (Op::Read, id));
            // First the checkpoint of another server, whose last transaction was written at another time; then a position
            // that this server never had; then a damaged checkpoint.
            let other_server =
                [(r#"","gtid":""#, r#"9","gtid":""#), (r#""written":1"#, r#""written":2"#)];
            let damaged = [(r#"","gtid":""#, r#"","gtid":"x"#), (r#""sum":"#, r#""sum": "#)];
            let future = [(r#"","file""#, r#"000000","file""#), (r#""sum":"#, r#""sum": "#)];
            for (id, published, changes) in [(1, 1, other_server), (2, 3, future), (3, 6, damaged)]
            {
                test.sql(&coupon(id, 1));
                for (from, to) in changes {
                    test.overwrite_checkpoint(from, to).await;
                }
                let tailer = test.start().await;
                let events = test.coupons(published).await;
                let coupons: Vec<_> = events
                    .iter()
                    .map(|event| (event.op, event.after.clone().unwrap().id))
                    .collect();
                assert_eq!(coupons, expected[..published]);
                tailer.stop().await.unwrap();
            }
        }
    }

    /// Grants the rights in ops/mysql-grants.sql. They also show transactions that are prepared by XA, on MySQL too.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_documented_grants_are_enough() {
        let grants = fs::read_to_string(project_root().join("ops/mysql-grants.sql")).unwrap();
        let grants = grants.lines().filter(|line| line.contains("'coupon_tailer'"));
        let grants = grants.collect::<Vec<_>>().join("\n");
        for mut test in Harness::on_all("grants").await {
            // Users exist per server, so this one has the name of the test's topics and database.
            let user = test.names.prefix();
            let grants =
                grants.replace("coupon_tailer", user).replace(" coupon.", &format!(" {user}."));
            test.sql(&format!("create user '{user}'@'%' identified by 'documented';\n{grants}"));
            let url = test.config.database_url.expose();
            let url = url.replacen("coupon:coupon@", &format!("{user}:documented@"), 1);
            test.config.database_url = url.parse().unwrap();
            let coupons = [coupon(1, 70), coupon(2, 70)];
            test.sql(&format!(
                "{}; xa start 'a'; {}; xa end 'a'; xa prepare 'a'",
                coupons[0], coupons[1]
            ));
            let tailer = test.start_with(test.config.clone());
            tailer.until_unready("binlog", "XA transactions are prepared").await;
            test.sql("xa commit 'a'");
            tailer.until_ready().await;
            test.sql(&coupon(3, 70));
            assert_eq!(test.coupon_ids_until(3).await, [1, 2, 3]);
            tailer.stop().await.unwrap();
            test.sql(&format!("drop user '{}'@'%'", test.names.prefix()));
        }
    }
}
