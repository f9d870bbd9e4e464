//! The three brokers of a cluster die one after another under the tailer.

use devstack::{Flavor, OwnBrokers, Scope, TestServers};
use pipeline_tests::{
    mixed_load::DIARY,
    tail::{Tail, log, until_leading},
    topic_contents::TopicContents,
    until,
};
use topic::verify::copies_in_sync;

use crate::tailer::full::servers::{SOME, assert_published, load, start};

/// Copies of each partition.
pub(crate) const COPIES: usize = 3;

/// Each of the three dies once, so the victims include the leaders of all partitions, the coordinators of the
/// tailers' group and of the checkpoint's transactions, and the controller.
#[tokio::test]
async fn one_broker_of_three_after_the_other_dies_under_load_and_nothing_is_lost_or_published_twice()
 {
    let own = start("three-brokers", Flavor::Mariadb, &[]).await.unwrap();
    let mut cluster = OwnBrokers::start("three-nodes").await.unwrap();
    let mut scope = TestServers::shared().scope("brokers");
    scope.endpoints.kafka_brokers = cluster.brokers();
    scope.endpoints.database_url = own.url();
    let replicated = COPIES.to_string();
    let mut tail =
        Tail::prepare(scope, |options| options.with_env("TOPIC_REPLICATION", &replicated)).await;
    tail.sql(DIARY);
    tail.lead().await;
    until_in_sync(&tail.scope).await;
    let mut heard = TopicContents::open(&tail).await;
    let pid = tail.tailer().pid();
    let mut number = 0;
    for victim in 0..COPIES {
        let mut next = || {
            number += 1;
            load(&tail, number)
        };
        let running = next();
        heard.until_more(SOME).await;
        cluster.servers[victim].kill().unwrap();
        running.await.unwrap();
        next().await.unwrap();
        // Publishing continues with two brokers of three.
        assert_published(&tail, &mut heard).await;
        let running = next();
        cluster.servers[victim].start().await.unwrap();
        running.await.unwrap();
        assert_published(&tail, &mut heard).await;
        until_in_sync(&tail.scope).await;
    }
    heard.assert_table(&tail);
    // The topics were written by one client without repetitions.
    assert_eq!(heard.duplicates, 0, "changes came again: {}", log(tail.tailer()));
    assert!(tail.tailer().is_running() && tail.tailer().pid() == pid, "{}", log(tail.tailer()));
    assert!(tail.tailer().stop().await.unwrap().unwrap().success(), "{}", log(tail.tailer()));
    // The checkpoint is readable from any of the three brokers.
    tail.lead().await;
    load(&tail, number + 1).await.unwrap();
    assert_published(&tail, &mut heard).await;
    tail.end();
}

/// Without a majority of its controllers the cluster answers, but creates no topic.
#[tokio::test]
async fn a_tailer_that_starts_before_a_cluster_without_majority_waits_and_leads_when_there_is_one()
{
    let mut cluster = OwnBrokers::start("no-majority").await.unwrap();
    let mut scope = TestServers::shared().scope("no-majority");
    scope.endpoints.kafka_brokers = cluster.brokers();
    let mut tail = Tail::prepare(scope, |options| options).await;
    for lost in &mut cluster.servers[1..] {
        lost.kill().unwrap();
    }
    tail.tailer().spawn().unwrap();
    let tailer = tail.tailer();
    let ready = async || tailer.answer("/readyz").await.unwrap_or_default();
    until(ready, |said| said.contains("could not be created")).await;
    for lost in &mut cluster.servers[1..] {
        lost.spawn().unwrap();
    }
    cluster.ready().await.unwrap();
    until_leading(tail.tailer()).await;
    tail.end();
}

/// Waits until every partition of the platform's topics, and of Kafka's own, has all its copies.
pub(crate) async fn until_in_sync(scope: &Scope) {
    let brokers = &scope.endpoints.kafka_brokers;
    let copies = async || copies_in_sync(brokers, &scope.topic_prefix).await.unwrap_or_default();
    until(copies, |copies| *copies == COPIES).await;
}
