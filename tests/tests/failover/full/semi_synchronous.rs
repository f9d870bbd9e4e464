//! With semi-synchronous replication that never falls back, a commit is visible and answered only once the replica has it.

use std::collections::BTreeSet;

use coupon::{ClaimId, UserId};
use devstack::{Flavor, Replication};
use pipeline_tests::{
    failover::{DatabasePair, rush::Rush},
    until,
};
use testkit::sql;

use crate::failover::full::asynchronous::{KEY, claim, numbers, won};

/// Returns the claims that were answered 201.
async fn answered(rush: Rush) -> BTreeSet<ClaimId> {
    rush.end().await.into_iter().map(|promised| promised.id).collect()
}

testkit::on_each_flavor! {
    multi_thread dies:
    a_primary_that_dies_with_semi_sync_loses_no_201,
    a_mysql_primary_that_dies_with_semi_sync_loses_no_201,
}

async fn dies(flavor: Flavor) {
    let pair = DatabasePair::start("semi-dies", flavor, Replication::SemiSynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("semi dies", |_| ()).await;
    let template = world.template(1_000_000, |new| new).await;
    let rush = Rush::start(&world, &[template], 1);
    world.until(template, |coupons| coupons.all() >= 200).await;
    pair.fail_over();
    let behind = claim(&world, template, 9_000_000).await;
    assert_eq!(behind.status, 201, "{behind:?}");
    let answered = answered(rush).await;
    assert!(answered.len() >= 200, "{}", answered.len());
    let url = pair.on_replica(&world.scope.endpoints.database_url);
    let rows = numbers(&url, "select id from claim where state = 1");
    assert!(answered.is_subset(&rows), "{:?}", &answered - &rows);
    let lost = numbers(&url, "select claim_id from lost_claim");
    assert!(lost.is_disjoint(&answered), "{lost:?}");
    world.end().await;
}

testkit::on_each_flavor! {
    multi_thread isolated:
    an_isolated_primary_answers_no_201,
    an_isolated_mysql_primary_answers_no_201,
}

/// The apis still reach the primary; its replica does not.
async fn isolated(flavor: Flavor) {
    let pair = DatabasePair::start("semi-isolated", flavor, Replication::SemiSynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("semi isolated", |_| ()).await;
    let template = world.template(1_000, |new| new).await;
    let before = won(&world, template, 0..5).await;
    pair.cut_replication();
    // Each waits for its commit until the request's deadline.
    let claims = (5..10).map(async |user| {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        shopper.claim(template, Some(KEY), 1).await
    });
    for answer in futures::future::join_all(claims).await {
        assert!(answer.as_ref().is_ok_and(|answer| answer.status == 503), "{answer:?}");
    }
    pair.fail_over();
    let behind = won(&world, template, 5..15).await;
    let url = pair.on_replica(&world.scope.endpoints.database_url);
    let rows = numbers(&url, "select id from claim where state = 1");
    assert_eq!(rows, &before | &behind);
    assert_eq!(world.count(template).await.all(), 15);
    world.end().await;
}

testkit::on_each_flavor! {
    multi_thread followed:
    the_topic_holds_nothing_that_the_new_primary_lacks,
    the_topic_holds_nothing_that_the_new_mysql_primary_lacks,
}

/// The tailer follows the replica. On the primary it would publish what no replica has acknowledged.
async fn followed(flavor: Flavor) {
    let pair = DatabasePair::start("semi-followed", flavor, Replication::SemiSynchronous).await;
    let Some(mut pair) = pair else { return };
    let follow = |platform: &mut devstack::Platform| {
        let on_replica = pair.on_replica(&platform.endpoints.database_url);
        platform.cdc_tailer.set_env("DATABASE_URL", &on_replica);
    };
    let world = pair.world("semi followed", follow).await;
    let template = world.template(1_000_000, |new| new).await;
    let rush = Rush::start(&world, &[template], 1);
    world.until(template, |coupons| coupons.all() >= 100).await;
    pair.cut_replication();
    // The primary's binlog has transactions by now that the replica never gets.
    let primary = pair.primary.url();
    let waits = async || sql(&primary, "show processlist").to_lowercase();
    until(waits, |list| list.contains("semi-sync") || list.contains("semisync")).await;
    pair.fail_over();
    let behind = claim(&world, template, 9_000_000).await;
    assert_eq!(behind.status, 201, "{behind:?}");
    let answered = answered(rush).await;
    let url = pair.on_replica(&world.scope.endpoints.database_url);
    let rows = numbers(&url, "select id from claim where state = 1");
    assert!(answered.is_subset(&rows), "{:?}", &answered - &rows);
    // I10 compares the topic with MySQL.
    world.assert_sound(None).await;
    world.end().await;
}
