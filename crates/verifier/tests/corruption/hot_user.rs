//! The whole of `verify` beside a user with forty thousand coupons: as many statements as its coupons fill reads,
//! and bounded memory.

use std::time::Duration;

use coupon::UserId;
use devstack::{Flavor, peak_mib};
use mysql_store::verify;
use runtime::Clock;
use tokio::time::timeout;

use crate::stage::Stage;

const COUPONS: i64 = 40_000;
const CLAIMS: i64 = 1_000;
/// Id of the first coupon and claim.
const FIRST: i64 = 100_000;

/// Most statements: far fewer than one for each claim.
const STATEMENTS_MAX: i64 = CLAIMS / 2;

/// Most rows that the server reads for each coupon, in all checks together.
const READS_MAX: i64 = 100;

/// Most memory of the process, of a debug build. One that holds a list of all coupons for each claim takes more for
/// the ids alone: eight bytes for each of forty million.
const PEAK_MIB_MAX: f64 = 256.0;

/// Most characters of the finding about a list that lacks one coupon: an id has six or more, and a list forty
/// thousand.
const TOLD_MAX: usize = 4_000;

/// Interval between looks at the process's memory.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// On its own server: others' statements would count too.
#[expect(clippy::print_stdout, reason = "how far from the bounds it is")]
async fn bounded(flavor: Flavor) {
    let Some((stage, _own)) = Stage::on_own("hot user", flavor).await else { return };
    // Without a limit a coupon's number is its id.
    stage.sql("update coupon_template set per_user_limit = 0 where id = 7").await;
    give(&stage, COUPONS, CLAIMS).await;
    stage.build_view(UserId(5)).await;

    let mut connection = stage.mysql().await;
    let mut counted =
        async |pattern: &str| verify::counted(&mut connection, pattern).await.unwrap();
    let before = [counted("Com_select").await, counted("Handler_read%").await];
    let report = stage.report().await;
    let statements = counted("Com_select").await - before[0];
    let reads = counted("Handler_read%").await - before[1];
    println!("{statements} statements, {reads} rows read on {flavor}");
    let views = report.outcomes.iter().find(|outcome| outcome.invariant == "I8").unwrap();
    assert!(views.to_string().contains("4 views with 40,001 coupons"), "{views}");
    assert!(!report.holds(), "no message tells of the coupons: {report}");
    assert!(statements < STATEMENTS_MAX, "{statements} statements for {CLAIMS} claims");
    assert!(reads < READS_MAX * COUPONS, "{reads} rows were read for {COUPONS} coupons");

    // Only the differences of a long list are reported.
    let lost = FIRST + COUPONS / 2;
    let view = stage.scope.endpoints.view_redis_url.clone();
    stage.redis(&view, &format!("ZREM {{p}}view:1:{{5}}:list 7_{lost}")).await;
    let told = stage.outcome("I8").await.to_string();
    assert!(told.contains(&lost.to_string()), "{told}");
    assert!(told.len() < TOLD_MAX, "{} characters for one coupon of {COUPONS}", told.len());

    let peak = peak(&stage).await;
    assert!((1.0..PEAK_MIB_MAX).contains(&peak), "{peak} MiB");
}

/// Gives `coupons` coupons of template 7 to user 5, evenly in `claims` claims. Removes the trigger that checks
/// versions.
pub(crate) async fn give(stage: &Stage, coupons: i64, claims: i64) {
    let mut connection = stage.mysql().await;
    verify::execute(&mut connection, "drop trigger user_coupon_version").await.unwrap();
    let now = Clock::system().now();
    for first in (FIRST..FIRST + coupons).step_by(usize::try_from(verify::BULK_ROWS).unwrap()) {
        verify::insert_bulk(&mut connection, first, now).await.unwrap();
        let update = format!(
            "update user_coupon set template_id = 7, user_id = 5, claim_id = {FIRST} + id % {claims}, \
             claim_no = id where id >= {first}"
        );
        stage.sql(&update).await;
    }
    let insert = format!(
        "insert into claim (template_id, user_id, request_id, id, quantity, \
         state, reason, payload_hash, valid_from, valid_until, created_at) \
         select 7, 5, concat('hot-', coupon.id), coupon.id, {}, 1, null, claim.payload_hash, \
         coupon.valid_from, coupon.valid_until, coupon.claimed_at \
         from user_coupon coupon join claim on claim.id = 101 \
         where coupon.id >= {FIRST} and coupon.id < {FIRST} + {claims}",
        coupons / claims
    );
    stage.sql(&insert).await;
}

/// Runs the program; returns the most memory that it took, as far as looks from outside see it.
async fn peak(stage: &Stage) -> f64 {
    let mut verify = stage.program().spawn().unwrap();
    let pid = i32::try_from(verify.id().unwrap()).unwrap();
    let mut peak = 0.0;
    loop {
        peak = peak_mib(pid).unwrap_or_default().max(peak);
        if let Ok(ended) = timeout(LOOK_EVERY, verify.wait()).await {
            assert_eq!(ended.unwrap().code(), Some(1), "violations");
            return peak;
        }
    }
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        bounded:
        all_checks_of_a_user_with_forty_thousand_coupons_are_bounded,
        all_checks_of_a_user_with_forty_thousand_coupons_are_bounded_on_mysql,
    }
}
