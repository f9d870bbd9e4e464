//! Servers that are away.

use coupon::TemplateId;
use devstack::{Flavor, OwnBroker, OwnDatabase};
use testkit::{Proxy, server_of, until_true};

use crate::harness::{Harness, claim};

const TEMPLATE: TemplateId = TemplateId(10);

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gate_a_lander_starts_lands_and_is_ready() {
    let test = Harness::new("lander no gate").await;
    test.template(TEMPLATE, 100).await;
    let lander = test.start_changed(|config| {
        config.gate_redis_url = "redis://127.0.0.1:1".parse().unwrap();
    });
    let claims: Vec<_> = (1..=50).map(|user| claim(TEMPLATE, user)).collect();
    test.queue(&claims).await;
    test.caught_up().await;
    assert_eq!(test.counts().await, (50, 0, 50));
    lander.until_ready().await;
    lander.stop().await.unwrap();
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn while_mysql_is_away_claims_wait_and_none_is_given_up() {
        let mut own = OwnDatabase::start("lander-mysql-away", Flavor::Mariadb, &[]).await.unwrap();
        let test = Harness::on_database("lander mysql away", &own.url()).await;
        test.template(TEMPLATE, 100).await;
        let lander = test.start();
        test.queue(&[claim(TEMPLATE, 1)]).await;
        test.caught_up().await;
        own.server.kill().unwrap();
        let claims: Vec<_> = (2..=20).map(|user| claim(TEMPLATE, user)).collect();
        test.queue(&claims).await;
        lander.until_unready("mysql", "").await;
        assert_eq!(test.committed().await, 1);
        own.server.start().await.unwrap();
        test.caught_up().await;
        assert_eq!(test.counts().await, (20, 0, 20));
        assert_eq!(test.dead_letters().await.len(), 0);
        lander.until_ready().await;
        lander.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lander_that_is_to_stop_while_mysql_is_away_ends_and_the_next_one_goes_on() {
        let mut own = OwnDatabase::start("lander-stopped", Flavor::Mariadb, &[]).await.unwrap();
        let test = Harness::on_database("lander stopped", &own.url()).await;
        test.template(TEMPLATE, 100).await;
        let lander = test.start();
        lander.until_ready().await;
        own.server.kill().unwrap();
        test.queue(&[claim(TEMPLATE, 1)]).await;
        lander.until_unready("mysql", "").await;
        lander.stop().await.unwrap();
        assert_eq!(test.committed().await, 0);
        own.server.start().await.unwrap();
        let lander = test.start();
        test.caught_up().await;
        assert_eq!(test.counts().await, (1, 0, 1));
        lander.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lander_whose_partitions_are_lost_says_so_until_it_has_some_again() {
        let mut broker = OwnBroker::start("lander-broker").await.unwrap();
        let address = broker.server.address().to_string();
        let test = Harness::on_broker("lander broker away", &address).await;
        test.template(TEMPLATE, 100).await;
        let lander = test.start();
        lander.until_part_ready("partitions").await;
        broker.server.kill().unwrap();
        lander.until_unready("partitions", "were lost").await;
        broker.server.start().await.unwrap();
        lander.until_ready().await;
        test.queue(&[claim(TEMPLATE, 1)]).await;
        test.caught_up().await;
        assert_eq!(test.counts().await, (1, 0, 1));
        lander.stop().await.unwrap();
    }

    /// Other landers may reach a server that this one does not.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lander_that_alone_has_no_mysql_leaves_its_partitions_to_others_until_it_has_it_again()
     {
        let test = Harness::new("lander cut off").await;
        let templates = test.templates_on_all_partitions(100).await;
        let direct = test.scope.endpoints.database_url.clone();
        let proxy = Proxy::before(&direct).await;
        let cut_off = test.start_changed(|config| {
            config.database_url = proxy.instead_of(&direct).parse().unwrap();
        });
        cut_off.until_ready().await;
        let other = test.start_another();
        proxy.lead_to("127.0.0.1:1".parse().unwrap());
        proxy.cut();
        let claims: Vec<_> = templates.iter().map(|template| claim(*template, 1)).collect();
        test.queue(&claims).await;
        let all = i64::try_from(templates.len()).unwrap();
        until_true(async || test.counts().await == (all, 0, all)).await;
        cut_off.until_unready("partitions", "MySQL").await;

        proxy.lead_to(server_of(&direct));
        cut_off.until_ready().await;
        other.stop().await.unwrap();
        let claims: Vec<_> = templates.iter().map(|template| claim(*template, 2)).collect();
        test.queue(&claims).await;
        test.caught_up().await;
        assert_eq!(test.counts().await, (2 * all, 0, 2 * all));
        cut_off.stop().await.unwrap();
    }
}
