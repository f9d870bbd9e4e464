//! A server that accepts only encrypted connections.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use devstack::{Certificates, Flavor};
use topic::Op;

use crate::harness::{Harness, coupon};

async fn demanded(flavor: Flavor) {
    let certificates = Certificates::make(&format!("tailer-demands-{}", flavor.name())).unwrap();
    let settings = [
        format!("--ssl-cert={}", certificates.certificate()),
        format!("--ssl-key={}", certificates.key()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(mut test) = Harness::on_own("demands tls", flavor, &settings).await else { return };
    let running = test.start().await;
    test.sql(&coupon(1, 1));
    assert_eq!(test.coupon_ids_until(1).await, [1]);
    // A tailer without TLS runs until its connection ends, and then stops with a message that names the option.
    let kill = "select concat('kill ', id, ';') from information_schema.processlist \
                where command like 'binlog dump%'";
    let kill = test.sql(kill);
    test.sql("set global require_secure_transport = ON");
    let plain = test.config.clone();
    test.reach_by(&format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={}", certificates.ca()));
    test.sql(&kill);
    let ended = format!("{:#}", running.ended_by("a server that demands TLS").await.unwrap_err());
    assert!(ended.contains("ssl-mode=VERIFY_IDENTITY"), "{ended}");
    let ended = format!("{:#}", test.start_with(plain).ended().await.unwrap_err());
    // MariaDB does not say what is missing.
    let refused = match flavor {
        Flavor::Mariadb => "Access denied",
        Flavor::Mysql => "insecure transport",
    };
    assert!(ended.contains(refused), "{ended}");

    let running = test.start().await;
    test.sql(&coupon(2, 1));
    assert_eq!(test.coupon_ids_until(2).await, [1, 2]);
    let events = test.coupons(2).await;
    assert!(events.iter().all(|event| event.op == Op::Create), "no table was read anew");
    running.stop().await.unwrap();
}

mod full {
    use super::*;

    testkit::on_each_flavor! {
        multi_thread demanded:
        a_mariadb_that_demands_tls_is_followed_by_it_and_not_without,
        a_mysql_that_demands_tls_is_followed_by_it_and_not_without,
    }
}
