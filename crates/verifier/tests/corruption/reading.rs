//! The verifier changes nothing on the servers that it reads, and leaves nothing behind.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use devstack::OwnView;
use mysql_store::{connect, verify};
use tokio::{process::Command, time::sleep};
use verifier::{Progress, Settings, Sources, VerifyError};

use crate::stage::Stage;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// The longest wait for a state.
const AT_LAST: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_verifier_that_is_pointed_at_another_redis_says_so_and_changes_nothing() {
    let stage = Stage::new("wrong view").await;
    let generation = "select count(*) from view_generation where generation = 1 and run_id = ";
    let known = format!("{generation}(select run_id from (select * from view_generation) known)");
    let other = OwnView::start("verifier-wrong-view", &[]).await.unwrap();
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

/// The coupons of a user with many claims must not all be read for each claim.
#[tokio::test]
async fn a_hot_user_is_looked_at_in_a_time_that_grows_with_his_coupons_alone() {
    let stage = Stage::new("hot user").await;
    let mut connection = stage.mysql().await;
    let coupons = verify::BULK_ROWS;
    let now = runtime::Clock::system().now();
    verify::insert_bulk(&mut connection, 100_000, now).await.unwrap();
    stage
        .sql(
            "drop trigger user_coupon_version; insert into claim (template_id, user_id, request_id, id, quantity, \
             state, reason, payload_hash, valid_from, valid_until, created_at) \
             select 7, 5, concat('hot-', coupon.id), coupon.id, 100, 1, null, claim.payload_hash, \
             coupon.valid_from, coupon.valid_until, coupon.claimed_at \
             from user_coupon coupon join claim on claim.id = 101 \
             where coupon.id >= 100000 and coupon.id < 100100; \
             update user_coupon set template_id = 7, user_id = 5, claim_id = 100000 + id % 100, claim_no = id \
             where id >= 100000",
        )
        .await;
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
async fn a_verifier_that_is_asked_to_stop_leaves_no_statement_behind() {
    let stage = Stage::new("stopped").await;
    let mut lock = stage.mysql().await;
    verify::execute(&mut lock, "lock tables user_coupon write").await.unwrap();
    let settings = &stage.settings;
    let mut verify = Command::new(env!("CARGO_BIN_EXE_verify"))
        .env("DATABASE_URL", settings.database_url.expose())
        .env("GATE_REDIS_URL", settings.gate_redis_url.expose())
        .env("VIEW_REDIS_URL", settings.view_redis_url.expose())
        .env("KAFKA_BROKERS", &settings.kafka_brokers)
        .env("KEY_PREFIX", &settings.key_prefix)
        .env("TOPIC_PREFIX", &settings.topic_prefix)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // This query must not match itself.
    let waiting = "select count(*) from information_schema.processlist where db = database() \
                   and info like '%user_coupon%' and info not like '%processlist%'";
    until(async || number(&stage, waiting).await > 0).await;
    let id = verify.id().unwrap().to_string();
    Command::new("kill").arg(id).status().await.unwrap();
    let ended = tokio::time::timeout(AT_LAST, verify.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(1));
    until(async || number(&stage, waiting).await == 0).await;
    verify::execute(&mut lock, "unlock tables").await.unwrap();
}

#[tokio::test]
async fn it_tells_how_far_it_has_come() {
    let mut stage = Stage::new("progress").await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&told);
    stage.sources.progress = Progress::to(move |line| lines.lock().unwrap().push(line.to_owned()));
    assert!(stage.report().await.holds());
    let told = told.lock().unwrap();
    for part in ["I7: template 7", "I8 and I11: 0 of 3 views", "I9: 3 coupons", "I10: "] {
        assert!(told.iter().any(|line| line.starts_with(part)), "{part} in {told:?}");
    }
}

async fn until(mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            sleep(LOOK).await;
        }
    };
    tokio::time::timeout(AT_LAST, wait).await.unwrap();
}

async fn number(stage: &Stage, sql: &str) -> i64 {
    verify::number(&mut stage.mysql().await, sql).await.unwrap()
}

/// Rows that the server has read for this connection.
async fn reads(connection: &mut mysql_store::MySqlConnection) -> i64 {
    verify::rows_read(connection).await.unwrap()
}
