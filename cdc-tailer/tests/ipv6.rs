//! A server at an IPv6 address.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::net::{Ipv6Addr, TcpListener};

use devstack::{Flavor, not_checked};

use crate::harness::{Harness, coupon};

/// Addresses of the server: where it listens, and in the URL.
const LISTENS: &str = "--bind-address=127.0.0.1,::1";
const BY_FOUR: &str = "127.0.0.1:";
const BY_SIX: &str = "[::1]:";

async fn at_ipv6(flavor: Flavor) {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        return not_checked(&format!("a {} at an IPv6 address: ::1: {error}", flavor.name()));
    }
    let Some(mut test) = Harness::on_own("ipv6", flavor, &[LISTENS]).await else { return };
    let by_six = test.config.database_url.expose().replacen(BY_FOUR, BY_SIX, 1);
    assert!(by_six.contains(BY_SIX), "{by_six}");
    test.config.database_url = by_six.parse().unwrap();
    test.sql(&coupon(1, 1));
    let tailer = test.start().await;
    test.sql(&coupon(2, 1));
    assert_eq!(test.coupon_ids_until(2).await, [1, 2]);
    tailer.stop().await.unwrap();
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        multi_thread at_ipv6:
        a_mariadb_at_an_ipv6_address_is_read_and_followed,
        a_mysql_at_an_ipv6_address_is_read_and_followed,
    }
}
