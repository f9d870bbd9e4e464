//! A server at an IPv6 address.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::net::{Ipv6Addr, TcpListener};

use devstack::{Flavor, not_checked};

use crate::harness::{Harness, coupon};

/// Where the server listens, and how it is called.
const LISTENS: &str = "--bind-address=127.0.0.1,::1";
const BY_FOUR: &str = "127.0.0.1:";
const BY_SIX: &str = "[::1]:";

#[tokio::test(flavor = "multi_thread")]
async fn a_mariadb_at_an_ipv6_address_is_read_and_followed() {
    at_ipv6(Flavor::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_at_an_ipv6_address_is_read_and_followed() {
    at_ipv6(Flavor::Mysql).await;
}

async fn at_ipv6(flavor: Flavor) {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        return not_checked(&format!("a {} at an IPv6 address: ::1: {error}", flavor.name()));
    }
    let Some(mut test) = Harness::on_own("ipv6", flavor, &[LISTENS]).await else { return };
    let url = test.config.database_url.expose().to_owned();
    let (_, place) = url.split_once('@').unwrap();
    let (place, _) = place.split_once('/').unwrap();
    let place = place.replacen(BY_FOUR, BY_SIX, 1);
    let by_six = url.replacen(BY_FOUR, BY_SIX, 1);
    assert!(by_six.contains(&place), "{by_six}");

    test.sql(&coupon(1, 1));
    // For everything, and for the binlog alone.
    for (id, url, binlog_address) in [(2, by_six, None), (3, url, Some(place))] {
        test.config.database_url = url.parse().unwrap();
        test.config.binlog_address = binlog_address;
        let tailer = test.start().await;
        test.sql(&coupon(id, 1));
        assert_eq!(test.coupon_ids_until(id).await, (1..=id).collect::<Vec<_>>());
        tailer.stop().await.unwrap();
    }
}
