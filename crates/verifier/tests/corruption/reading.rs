//! The verifier changes nothing on the servers that it reads, and leaves nothing behind.

use std::sync::{Arc, Mutex};

use coupon::TemplateId;
use devstack::{Flavor, OwnRedis, TestServers};
use mysql_store::{connect, verify};
use testkit::{STATE_MAX, until_listed, until_true};
use tokio::process::Command;
use verifier::{ProgressReporter, Settings, Sources, VerifyError};

use crate::{
    hot_user::give,
    stage::{Stage, TEMPLATE},
};

async fn pointed_elsewhere(flavor: Flavor) {
    let Some(stage) = stage_on("wrong view", flavor).await else { return };
    let generation = "select count(*) from view_generation where generation = 1 and run_id = ";
    let known = format!("{generation}(select run_id from (select * from view_generation) known)");
    let name = format!("verifier-other-redis-{}", flavor.name());
    let other = OwnRedis::view(&name, &[]).await.unwrap();
    let settings =
        Settings { view_redis_url: other.url().parse().unwrap(), ..stage.settings.clone() };
    let refused = Sources::connect(&settings).await.err().unwrap();
    let said = runtime::report(&refused);
    assert!(matches!(refused, VerifyError::View(_)) && said.contains("VIEW_REDIS_URL"), "{said}");
    assert_eq!(number(&stage, &known).await, 1, "the generation is what it was");
    assert!(stage.report().await.holds());

    let mut connection = connect::acquire(&stage.sources.pool).await.unwrap();
    let write = verify::execute(&mut connection, "update template_stock set stock = 0").await;
    assert!(write.is_err(), "it can only read");
}

/// Cold views are not compared, so the verifier's own connection must not make a view cold.
#[tokio::test]
async fn a_verifier_learns_of_a_generation_that_has_risen_since_it_connected() {
    let stage = Stage::new("risen").await;
    stage.sql("update view_generation set generation = generation + 1").await;
    let outcome = stage.outcome("I8").await;
    assert!(outcome.to_string().contains("0 views with 0 coupons, 3 cold"), "{outcome}");
    stage.sql("update view_generation set generation = generation - 1").await;
    let later = Sources::connect(&stage.settings).await.unwrap();
    let report = verifier::verify(&later, None, runtime::Clock::system().now()).await.unwrap();
    assert!(report.to_string().contains("3 views with 1 coupon"), "{report}");
}

#[tokio::test]
async fn a_hot_user_is_looked_at_in_a_time_that_grows_with_his_coupons_alone() {
    linear(Flavor::Mariadb).await;
}

/// The coupons of a user with many claims must not all be read for each claim.
#[expect(clippy::print_stdout, reason = "how far from the bound it is")]
async fn linear(flavor: Flavor) {
    let Some(stage) = stage_on("linear", flavor).await else { return };
    let coupons = verify::BULK_ROWS;
    give(&stage, coupons, 100).await;
    let mut connection = stage.mysql().await;
    let before = reads(&mut connection).await;
    assert_eq!(verify::uneven_claims(&mut connection).await.unwrap(), []);
    assert_eq!(verify::orphans(&mut connection).await.unwrap(), []);
    drop(verify::odd_coupons(&mut connection).await.unwrap());
    drop(verify::balances(&mut connection).await.unwrap());
    let read = reads(&mut connection).await - before;
    println!("{read} rows read for {coupons} coupons of 100 claims");
    assert!(read < 30 * coupons, "{read} rows were read for {coupons} coupons");
}

#[tokio::test]
async fn payments_are_looked_at_in_a_time_that_grows_with_their_coupons_alone() {
    paid(Flavor::Mariadb).await;
}

/// The payments of a merchant must not all be read for each coupon, although the statistics know of none.
#[expect(clippy::print_stdout, reason = "how far from the bound it is")]
async fn paid(flavor: Flavor) {
    let Some(stage) = stage_on("paid", flavor).await else { return };
    let first = 1_000_000;
    let coupons = verify::BULK_ROWS;
    let mut connection = stage.mysql().await;
    verify::execute(&mut connection, "drop trigger user_coupon_version").await.unwrap();
    let held_until = runtime::Clock::system().now() + chrono::TimeDelta::hours(1);
    stage
        .sql(&format!("update template_stock set stock = stock + {coupons} where template_id = 7"))
        .await;
    verify::hold_bulk(&mut connection, TEMPLATE, first, held_until).await.unwrap();
    let paid_at = "claim.created_at + interval 10 second";
    stage
        .sql(&format!(
            "insert into coupon_payment (merchant_id, payment_ref, claim_id, coupons, confirmed_at) \
             select coupon.merchant_id, concat('pay-', coupon.id), claim.id, coupon.id, {paid_at} \
             from user_coupon coupon join claim on claim.id = coupon.claim_id where coupon.id >= {first}"
        ))
        .await;
    stage
        .sql(&format!(
            "update user_coupon coupon join claim on claim.id = coupon.claim_id \
             set coupon.status = 0, coupon.version = 2, coupon.valid_from = {paid_at}, coupon.valid_until = {paid_at} + \
             interval timestampdiff(second, claim.valid_from, claim.valid_until) second where coupon.id >= {first}"
        ))
        .await;
    let before = reads(&mut connection).await;
    assert_eq!(verify::odd_holds(&mut connection).await.unwrap(), []);
    assert_eq!(verify::odd_confirmed_validities(&mut connection).await.unwrap(), []);
    let odd = verify::odd_payments(&mut connection).await.unwrap();
    assert!(odd.is_empty(), "{odd:?}");
    let read = reads(&mut connection).await - before;
    println!("{read} rows read for {coupons} payments");
    assert!(read < 30 * coupons, "{read} rows were read for {coupons} payments");
    // Nor may all claims be read for the ledger of a template that has none.
    let before = reads(&mut connection).await;
    assert_eq!(verify::sum_of_ledger(&mut connection, TemplateId(8)).await.unwrap(), 0);
    let read = reads(&mut connection).await - before;
    assert!(read < coupons / 10, "{read} rows were read for an empty ledger");
}

#[tokio::test]
async fn a_verifier_that_is_asked_to_stop_leaves_no_statement_behind() {
    stopped(Flavor::Mariadb).await;
}

async fn stopped(flavor: Flavor) {
    let Some(stage) = stage_on("stopped", flavor).await else { return };
    let mut lock = stage.mysql().await;
    verify::execute(&mut lock, "lock tables user_coupon write").await.unwrap();
    let mut verify = stage.program().spawn().unwrap();
    // MySQL shows a statement for a moment after its answer, including the lock's own, which no longer waits.
    let waiting =
        "db = database() and info like '%user_coupon%' and state like 'Waiting for table%'";
    let mut watcher = stage.mysql().await;
    until_listed(async || verify::sessions(&mut watcher, waiting).await.unwrap()).await;
    let id = verify.id().unwrap().to_string();
    Command::new("kill").arg(id).status().await.unwrap();
    let ended = tokio::time::timeout(STATE_MAX, verify.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(1));
    let ended = async || verify::sessions(&mut watcher, waiting).await.unwrap() == Some(Vec::new());
    until_true(ended).await;
    verify::execute(&mut lock, "unlock tables").await.unwrap();
}

#[tokio::test]
async fn it_reports_how_far_it_has_come() {
    let mut stage = Stage::new("progress").await;
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&reported);
    stage.sources.progress =
        ProgressReporter::to(move |line| lines.lock().unwrap().push(line.to_owned()));
    assert!(stage.report().await.holds());
    let reported = reported.lock().unwrap();
    for part in ["I7: template 7", "I8 and I11: 0 of 3 views", "I9: 3 coupons", "I10: "] {
        assert!(reported.iter().any(|line| line.starts_with(part)), "{part} in {reported:?}");
    }
}

/// A stage on the shared MariaDB or the shared MySQL. `None` if MySQL is not installed.
async fn stage_on(name: &str, flavor: Flavor) -> Option<Stage> {
    Some(Stage::on(TestServers::on(flavor)?.scope(name)).await)
}

async fn number(stage: &Stage, sql: &str) -> i64 {
    verify::number(&mut stage.mysql().await, sql).await.unwrap()
}

/// Rows that the server has read for this connection.
async fn reads(connection: &mut mysql_store::MySqlConnection) -> i64 {
    verify::rows_read(connection).await.unwrap()
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        pointed_elsewhere:
        a_verifier_that_is_pointed_at_another_redis_says_so_and_changes_nothing,
        a_verifier_of_a_mysql_that_is_pointed_at_another_redis_says_so_and_changes_nothing,
    }

    #[tokio::test]
    async fn a_hot_user_of_a_mysql_is_looked_at_in_a_time_that_grows_with_his_coupons_alone() {
        linear(Flavor::Mysql).await;
    }

    #[tokio::test]
    async fn payments_of_a_mysql_are_looked_at_in_a_time_that_grows_with_their_coupons_alone() {
        paid(Flavor::Mysql).await;
    }

    #[tokio::test]
    async fn a_verifier_that_is_asked_to_stop_leaves_no_statement_on_mysql() {
        stopped(Flavor::Mysql).await;
    }
}
