//! A view behind sentinels.

use devstack::{OwnPair, TestServers};
use redis_view::{Applied, PageAnswer};

use crate::{
    full::failover::{Platform, ask},
    harness::{USER, rebuild, unused, used},
};

#[tokio::test]
async fn views_of_a_master_that_died_are_cold_on_the_new_one_until_they_are_rebuilt() {
    let mut pair =
        OwnPair::start(&TestServers::shared().scope("view sentinel").database, &[]).await.unwrap();
    let platform = Platform::default();
    let store = platform.process(&pair.url()).await.unwrap();
    rebuild(&store, &[unused(1)]).await;
    assert!(matches!(ask(&store).await, PageAnswer::Page(page) if page.coupons.len() == 1));

    pair.master.server.kill().unwrap();
    assert_eq!(ask(&store).await, PageAnswer::Cold);
    assert_eq!(platform.number(), 2);
    assert_eq!(store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Cold]);
    rebuild(&store, &[used(1)]).await;
    assert!(matches!(ask(&store).await, PageAnswer::Page(page) if page.coupons.is_empty()));
    // A process that starts later finds the same server.
    let other = platform.process(&pair.url()).await.unwrap();
    assert!(matches!(ask(&other).await, PageAnswer::Page(_)));
    assert_eq!(platform.number(), 2);
}
