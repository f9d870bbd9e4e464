//! Worries about held coupons and their payments.

use std::time::Duration;

use chrono::TimeDelta;
use coupon::{ClaimId, TemplateId, UserId, limit::HOLD_MS_MIN};
use mysql_store::connect;
use shopper::Claimed;
use testkit::until;
use tokio::time::sleep;
use topic::{Producer, ProducerOptions};

use super::{LOOK_EVERY, Stage};

/// Coupons of a template that lapse together, and payments that come together: what is late is most of what is counted.
const MANY: i64 = 100;

/// A little longer than the rules allow a lapse or a payment to wait.
const TOO_LONG: Duration = Duration::from_secs(12);

impl Stage {
    pub(super) async fn late_holds(&mut self, say: &impl Fn(String)) {
        let template = self.held(MANY + 1).await;
        let late = self.claim_held(template, 1).await;
        self.until_lapsed(template, 1).await;
        let api = self.api.clone();
        let paying = tokio::spawn(async move {
            loop {
                drop(api.confirm(late, "late", None).await);
                sleep(LOOK_EVERY).await;
            }
        });
        self.fires(&["PaymentsTooLate"], say).await;
        paying.abort();
        self.platform.expiry_worker.pause().unwrap();
        for user in 2..=MANY + 1 {
            self.claim_held(template, user).await;
        }
        sleep(TOO_LONG).await;
        self.platform.expiry_worker.resume().unwrap();
        self.fires(&["EndsLate"], say).await;
        self.until_lapsed(template, MANY + 1).await;
    }

    /// A session keeps a coupon locked whose hold is over, for longer than a minute.
    pub(super) async fn locked_hold(&mut self, say: &impl Fn(String)) {
        let template = self.held(1).await;
        self.platform.expiry_worker.pause().unwrap();
        self.claim_held(template, 1).await;
        let pool = connect::pool(&self.servers.endpoints().database_url, 1).await.unwrap();
        let mut holder = connect::begin(&pool).await.unwrap();
        let lock = format!("select * from user_coupon where template_id = {template} for update");
        mysql_store::verify::execute(&mut holder, &lock).await.unwrap();
        self.platform.expiry_worker.resume().unwrap();
        // MySQL ends a session that is silent in a transaction.
        let keeping = tokio::spawn(async move {
            while mysql_store::verify::execute(&mut holder, "select 1").await.is_ok() {
                sleep(LOOK_EVERY).await;
            }
        });
        self.fires(&["HoldsStayBehind", "ExpiryLate"], say).await;
        keeping.abort();
        self.until_lapsed(template, 1).await;
    }

    pub(super) async fn bad_payments(&mut self, say: &impl Fn(String)) {
        let brokers = self.servers.endpoints().kafka_brokers;
        let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
        let payments = self.names.payments();
        let sending = tokio::spawn({
            let producer = producer.clone();
            let payments = payments.clone();
            async move {
                loop {
                    drop(producer.send(&payments, None, b"1", b"{", &[]).await);
                    sleep(LOOK_EVERY).await;
                }
            }
        });
        self.fires(&["PaymentsFail"], say).await;
        sending.abort();
        self.platform.lander.pause().unwrap();
        for _ in 0..10 * MANY {
            producer.send(&payments, None, b"1", b"{", &[]).await.unwrap();
        }
        sleep(TOO_LONG).await;
        self.platform.lander.resume().unwrap();
        self.fires(&["PaymentsDelayed"], say).await;
        self.all_ready().await;
    }

    /// Publishes a template whose holds are as short as they may be.
    async fn held(&self, stock: i64) -> TemplateId {
        self.template(stock, |new| new.held_for(TimeDelta::milliseconds(HOLD_MS_MIN))).await
    }

    async fn claim_held(&self, template: TemplateId, user: i64) -> ClaimId {
        let shopper = self.api.shopper(UserId(user)).unwrap();
        let answer = shopper.claim(template, Some("held"), 1).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json::<Claimed>().unwrap().id
    }

    async fn until_lapsed(&self, template: TemplateId, coupons: i64) {
        let lapsed = format!(
            "select count(*) from user_coupon where template_id = {template} and status = 5"
        );
        until(async || self.number(&lapsed).await, |lapsed| *lapsed == coupons).await;
    }
}
