//! Relays that die, or lose their names or servers: every claim reaches the topic, at worst twice.

use std::collections::BTreeMap;

use coupon::AcceptAfter;
use devstack::OwnBroker;
use runtime::{FailPoints, Health};
use testkit::{Proxy, counted, server_of, sql, until, until_true};

use crate::harness::{Harness, TEMPLATE};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_and_not_removed_is_published_again() {
    let test = Harness::new("not removed").await;
    let points = FailPoints::default();
    points.fail("relay.after_ack");
    let relay = test.start_changed(|config| config.fail_points = points).await;
    let id = test.queue(TEMPLATE, AcceptAfter::Gate).await.claim.id;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await, [id, id]);
    relay.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_loses_its_name_goes_on_under_another() {
    let test = Harness::new("lost name").await;
    let relay = test.start().await;
    assert_eq!(test.names_held(), 2);
    let thief = "update lease set holder = 'thief', until = utc_timestamp(3) + interval 1 hour \
         where name = 'outbox-relay-1'";
    sql(&test.scope.endpoints.database_url, thief);
    until_true(async || test.names_held() == 2).await;
    test.queue_many(10).await;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await.len(), 10);
    relay.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_starts_without_mysql_publishes_and_holds_names_once_mysql_is_there() {
    let test = Harness::new("relay starts without mysql").await;
    let direct = &test.scope.endpoints.database_url;
    let proxy = Proxy::start("127.0.0.1:1".parse().unwrap()).await;
    let health = Health::default();
    let relay = test.start_as(health.clone(), |config| {
        config.database_url = proxy.instead_of(direct).parse().unwrap();
    });
    let relay = relay.await;
    test.queue_many(10).await;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await.len(), 10);
    until_true(async || health.degraded().contains_key("mysql")).await;
    assert_eq!(test.names_held(), 0);

    proxy.lead_to(server_of(direct));
    until_true(async || test.names_held() == 2).await;
    test.queue_many(10).await;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await.len(), 20);
    until(async || health.degraded(), BTreeMap::is_empty).await;
    relay.stop().await.unwrap();
    assert_eq!(test.names_held(), 0, "names are given back");
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_dead_worker_had_in_hand_is_taken_over_by_another() {
        let test = Harness::new("dead worker").await;
        let points = FailPoints::default();
        let mut hold = points.hold("relay.after_read");
        let dead = test.start_changed(|config| config.fail_points = points.clone()).await;
        let queued = test.queue(TEMPLATE, AcceptAfter::Gate).await;
        hold.reached(1).await;
        dead.kill().await;
        assert_eq!(test.published_ids().await, []);
        let before = counted("outbox_relay_taken_over_total", "");
        let other = test.start().await;
        test.until_empty(TEMPLATE).await;
        assert_eq!(test.published_ids().await, [queued.claim.id]);
        assert!(counted("outbox_relay_taken_over_total", "") > before);
        other.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn while_mysql_is_away_workers_keep_their_names_and_go_on() {
        let mut test = Harness::new("relay without mysql").await;
        let direct = test.scope.endpoints.database_url.clone();
        let proxy = Proxy::before(&direct).await;
        test.scope.endpoints.database_url = proxy.instead_of(&direct);
        let health = Health::default();
        let relay = test.start_as(health.clone(), |_| {}).await;
        proxy.close();
        until(async || health.degraded(), |degraded| degraded.contains_key("mysql")).await;
        test.queue_many(10).await;
        test.until_empty(TEMPLATE).await;
        assert_eq!(test.published_ids().await.len(), 10);
        relay.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_relay_that_starts_while_mysql_accepts_connections_and_answers_nothing_publishes() {
        let test = Harness::new("relay starts beside silent mysql").await;
        let direct = &test.scope.endpoints.database_url;
        let proxy = Proxy::before(direct).await;
        let mut silent = proxy.hold_request(b"_sqlx_migrations");
        let health = Health::default();
        let relay = test.start_as(health.clone(), |config| {
            config.database_url = proxy.instead_of(direct).parse().unwrap();
        });
        let ((), relay) = tokio::join!(silent.reached(), relay);
        test.queue_many(10).await;
        test.until_empty(TEMPLATE).await;
        assert_eq!(test.published_ids().await.len(), 10);
        until_true(async || test.names_held() == 2).await;
        until(async || health.degraded(), BTreeMap::is_empty).await;
        relay.stop().await.unwrap();
    }

    /// A spare name has no lease that could end, and no other worker may ever have it.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_worker_without_a_lease_had_in_hand_is_taken_over_when_it_dies() {
        let test = Harness::new("dead spare worker").await;
        let points = FailPoints::default();
        let mut hold = points.hold("relay.after_read");
        let dead = test.start_changed(|config| {
            config.database_url = "mysql://u:p@127.0.0.1:1/coupon".parse().unwrap();
            config.fail_points = points.clone();
        });
        let dead = dead.await;
        let queued = test.queue(TEMPLATE, AcceptAfter::Gate).await;
        hold.reached(1).await;
        dead.kill().await;
        assert_eq!(test.published_ids().await, []);
        let other = test.start().await;
        test.until_empty(TEMPLATE).await;
        assert_eq!(test.published_ids().await, [queued.claim.id]);
        other.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn while_no_broker_answers_claims_wait_in_their_outbox() {
        let mut broker = OwnBroker::start("relay-broker").await.unwrap();
        let test = Harness::on_broker("relay without broker", &broker.brokers()).await;
        let relay = test.start().await;
        broker.server.kill().unwrap();
        let before = counted("outbox_relay_retries_total", "");
        test.queue_many(10).await;
        until_true(async || counted("outbox_relay_retries_total", "") > before).await;
        assert_eq!(test.gate.outbox_len(TEMPLATE).await.unwrap(), 10);
        broker.server.start().await.unwrap();
        test.until_empty(TEMPLATE).await;
        let mut published = test.published_ids().await;
        published.dedup();
        assert_eq!(published.len(), 10);
        relay.until_ready().await;
        relay.stop().await.unwrap();
    }
}
