//! Worries about the users' lists: damaged, forgotten, cold, and changes that the topic forgot.

use coupon::UserId;
use testkit::{Proxy, until};
use topic::{topic_offsets, verify::forget_messages};

use super::{Stage, redis};

impl Stage {
    pub(super) async fn damaged_view(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.claim(template, 80, 201).await;
        let shopper = self.api.shopper(UserId(80)).unwrap();
        let view = self.servers.endpoints().view_redis_url;
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 1);
        redis(&view, &["HSET", "view:1:{80}:coupons", "~token", "garbage"]).await;
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 1);
        self.fires(&["ViewDamaged"], say).await;
    }

    /// The view loses a coupon between its write and the check that it is there.
    pub(super) async fn forgetful_view(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        let shopper = self.api.shopper(UserId(84)).unwrap();
        assert!(shopper.all_coupons().await.unwrap().is_empty());
        let view = self.servers.endpoints().view_redis_url;
        let proxy = Proxy::before(&view).await;
        self.set_consumer(&proxy.instead_of(&view)).await;
        let mut look = proxy.hold_request(b"ZMSCORE");
        self.claim(template, 84, 201).await;
        look.reached().await;
        redis(&view, &["ZREMRANGEBYSCORE", "view:1:{84}:list", "0", "+inf"]).await;
        look.go_on();
        self.fires(&["ViewLosesWrites"], say).await;
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 1);
        self.set_consumer(&view).await;
    }

    /// Restarts the consumer with the view at this address.
    async fn set_consumer(&mut self, view: &str) {
        let consumer = &mut self.platform.sync_consumer;
        consumer.set_env("VIEW_REDIS_URL", view);
        consumer.restart().await.unwrap();
    }

    /// No user's list is in the view, as if each had been evicted since it was read last.
    pub(super) async fn cold_views(&mut self, say: &impl Fn(String)) {
        let reads = self.first_reads();
        self.fires(&["ViewTooSmall"], say).await;
        drop(reads);
    }

    /// Has the broker delete a change that no consumer has read.
    pub(super) async fn forgotten_messages(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        let brokers = self.servers.endpoints().kafka_brokers;
        let topic = self.names.user_coupon();
        let end = async || -> i64 {
            let held = topic_offsets(&brokers, &topic).await.unwrap();
            held.iter().map(|partition| partition.end).sum()
        };
        self.platform.sync_consumer.stop().await.unwrap();
        let before = end().await;
        self.claim(template, 82, 201).await;
        until(end, |end| *end > before).await;
        forget_messages(&brokers, &topic).await.unwrap();
        self.platform.sync_consumer.start().await.unwrap();
        self.fires(&["ConsumerGap"], say).await;
    }
}
