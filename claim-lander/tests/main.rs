//! Tests the lander with a real Kafka and MariaDB, with and without a gate: `./dev test`, or `./dev servers up` first.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod beside_payments;
mod damaged;
mod early_payments;
mod harness;
mod locked;
mod outages;
mod payments;
mod poison;

use coupon::{QueuedClaim, TemplateId};
use harness::{Harness, claim};
use testkit::{until, until_true};

const TEMPLATE: TemplateId = TemplateId(10);

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_every_partition_land_once_and_the_rest_is_rejected() {
    let test = Harness::new("lander lands").await;
    let templates = test.templates_on_all_partitions(20).await;
    let users = 1..=25;
    let of_all = |user| templates.iter().map(move |template| claim(*template, user));
    let claims: Vec<QueuedClaim> = users.flat_map(of_all).collect();
    let lander = test.start();
    test.queue_all(&claims).await;
    // A publisher that is not sure whether a claim was published publishes it again.
    test.queue_all(&claims[..40]).await;
    test.caught_up().await;
    let count = i64::try_from(templates.len()).unwrap();
    assert_eq!(test.counts().await, (20 * count, 5 * count, 20 * count));
    let reasons = "select count(distinct reason) from claim where state = 3";
    assert_eq!(test.number(reasons).await, 1);
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_published_up_to_the_end_of_each_partition() {
    let test = Harness::new("lander progress").await;
    let templates = test.templates_on_all_partitions(1_000).await;
    let lander = test.start();
    let claims: Vec<QueuedClaim> = (1..=300).map(|user| claim(templates[0], user)).collect();
    test.queue_all(&claims).await;
    let progress = until(
        async || test.progress().await,
        |progress| {
            progress.len() == templates.len()
                && progress.iter().all(|one| one.committed == one.end)
                && progress.iter().map(|one| one.end).sum::<i64>() == 300
        },
    );
    let progress = progress.await;
    let busy = progress.iter().find(|one| one.end == 300).unwrap();
    assert!(busy.landed_per_s > 0.0 && busy.at_ms > 0, "{busy:?}");
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_is_committed_after_its_claims_have_ended_and_soon() {
    let test = Harness::new("lander offsets").await;
    test.template(TEMPLATE, 10).await;
    let points = runtime::FailPoints::default();
    let mut held = points.hold("lander.before_offset");
    let lander = test.start_changed(|config| config.fail_points = points.clone());
    test.queue(&[claim(TEMPLATE, 1), claim(TEMPLATE, 2)]).await;
    held.reached(1).await;
    // Both messages may be in one batch or in two.
    assert!(test.counts().await.0 >= 1);
    assert_eq!(test.committed().await, 0);
    held.let_go();
    until_true(async || test.committed().await == 2).await;
    assert_eq!(test.counts().await, (2, 0, 2));
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lander_dropped_in_the_middle_loses_and_doubles_nothing() {
    let test = Harness::new("lander dropped").await;
    let templates = test.templates_on_all_partitions(1_000).await;
    for round in 0..3 {
        let users = round * 100..(round + 1) * 100;
        let of_all = |user| templates.iter().map(move |template| claim(*template, user));
        let claims: Vec<QueuedClaim> = users.flat_map(of_all).collect();
        let lander = test.start();
        test.queue_all(&claims).await;
        lander.kill().await;
    }
    let lander = test.start();
    test.caught_up().await;
    let count = 300 * i64::try_from(templates.len()).unwrap();
    assert_eq!(test.counts().await, (count, 0, count));
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn landers_that_come_and_go_land_each_claim_once() {
    let test = Harness::new("landers").await;
    let templates = test.templates_on_all_partitions(1_000).await;
    let first = test.start();
    first.until_ready().await;
    let mut users = 0_i64..;
    let mut queue = async || {
        let claims: Vec<QueuedClaim> = users
            .by_ref()
            .take(100)
            .flat_map(|user| templates.iter().map(move |template| claim(*template, user)))
            .collect();
        test.queue_all(&claims).await;
    };
    queue().await;
    let second = test.start_another();
    queue().await;
    second.until_ready().await;
    queue().await;
    first.stop().await.unwrap();
    queue().await;
    test.caught_up().await;
    let count = 400 * i64::try_from(templates.len()).unwrap();
    assert_eq!(test.counts().await, (count, 0, count));
    second.stop().await.unwrap();
}

mod full {
    use super::*;

    /// The error says why it cannot start, and names the address, the setting or the topic.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_dead_server_is_a_sentence_not_a_hang() {
        let test = Harness::new("lander dead server").await;
        let error =
            test.start_with(|config| "127.0.0.1:1".clone_into(&mut config.kafka_brokers)).await;
        assert!(error.contains("no Kafka broker answered at 127.0.0.1:1"), "{error}");
        let mysql = "mysql://u:p@127.0.0.1:1/coupon";
        let error = test.start_with(|config| config.database_url = mysql.parse().unwrap()).await;
        assert!(error.contains("DATABASE_URL"), "{error}");
        let none = |config: &mut claim_lander::Config| {
            "nobody-made-these".clone_into(&mut config.topic_prefix);
        };
        let error = test.start_with(none).await;
        assert!(error.contains("nobody-made-these.claims"), "{error}");
    }
}
