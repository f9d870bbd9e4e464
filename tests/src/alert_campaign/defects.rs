//! Worries that a defect or a foreign writer makes: wrong gates, refused rows, broken streams, foreign and lost
//! messages.

use coupon::{TemplateId, UserId};
use mysql_store::{connect, verify as store};
use shopper::NewTemplate;
use testkit::{CouponRow, insert_coupons, sql, sql_time, until};
use tokio::time::sleep;
use topic::{Producer, ProducerOptions};

use super::{LOOK_EVERY, Stage, redis};

impl Stage {
    /// Makes gates promise what MySQL does not have, forget what they gave, hold too little, and be unreadable.
    pub(super) async fn wrong_gates(&mut self, say: &impl Fn(String)) {
        let gate = self.servers.endpoints().gate_redis_url;
        let key = |template: TemplateId, part: &str| format!("gate:1:{{{template}:0}}:{part}");
        let sold_out = self.template(1, |new| new).await;
        self.claim(sold_out, 1, 201).await;
        redis(&gate, &["HSET", &key(sold_out, "meta"), "stock", "5"]).await;
        self.claim(sold_out, 2, 409).await;

        let short = self.template(5, |new| new).await;
        redis(&gate, &["HINCRBY", &key(short, "meta"), "stock", "-3"]).await;

        let users = async |template| {
            let epoch = redis(&gate, &["HGET", &key(template, "meta"), "epoch"]).await;
            key(template, &format!("users:{epoch}"))
        };
        let unreadable = self.template(5, |new| new).await;
        redis(&gate, &["HSET", &users(unreadable).await, "70", "garbage"]).await;
        let claim = self.claim_aside(unreadable, 70);

        let twice = |new: NewTemplate| NewTemplate { per_user_limit: 2, ..new };
        let numbered = self.template(5, |new| twice(new).in_mode("queued", "gate")).await;
        let shopper = self.api.shopper(UserId(1)).unwrap();
        let first = shopper.claim(numbered, Some("first"), 1).await.unwrap();
        let count = format!("select count(*) from user_coupon where template_id = {numbered}");
        let count = async || self.number(&count).await;
        until(count, |landed| *landed == 1).await;
        // The number that the gate gives next.
        let renumber =
            "update user_coupon set claim_no = 2, version = version + 1 where template_id =";
        self.sql(&format!("{renumber} {numbered}")).await;
        let second = shopper.claim(numbered, Some("second"), 1).await.unwrap();
        assert_eq!([first.status, second.status], [202, 202], "{second:?}");
        let alerts =
            ["GateDisagreesWithMysql", "GateUnreadable", "QueuedGateWrong", "GateHoldsTooLittle"];
        self.fires(&alerts, say).await;
        claim.abort();
    }

    pub(super) async fn foreign_messages(&mut self, say: &impl Fn(String)) {
        let brokers = self.servers.endpoints().kafka_brokers;
        let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
        let names = &self.names;
        for topic in [names.user_coupon(), names.stock_movement(), names.expiry(), names.claims()] {
            producer.send(&topic, None, b"1", b"{", &[]).await.unwrap();
        }
        let alerts =
            ["ConsumerDeadLetters", "MovementsUnreadable", "ExpiryUnreadable", "QueuedClaimsFail"];
        self.fires(&alerts, say).await;
    }

    pub(super) async fn unversioned_update(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.claim(template, 1, 201).await;
        self.sql("drop trigger user_coupon_version").await;
        self.sql("update user_coupon set changed_at = changed_at + interval 1 second").await;
        self.fires(&["TailerUnversioned"], say).await;
    }

    /// A coupon comes into MySQL past the binlog, so no wake-up announces its end.
    pub(super) async fn lost_wake_up(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        let ended = CouponRow {
            template_id: template.0,
            valid_until: sql_time(self.api.clock().now()),
            ..CouponRow::unused(1, 1)
        };
        let past_the_binlog = format!("set sql_log_bin = 0; {}", insert_coupons([ended]));
        sql(&self.servers.endpoints().database_url, &past_the_binlog);
        self.platform.expiry_worker.ask().unwrap();
        self.fires(&["ExpirySweepFinds"], say).await;
    }

    /// Has MySQL refuse each row of a claim.
    pub(super) async fn refused_rows(&mut self, say: &impl Fn(String)) {
        let direct = self.template(5, |new| new).await;
        let queued = self.template(5, |new| new.in_mode("queued", "gate")).await;
        let refuses = "create trigger refuses before insert on claim for each row \
                       signal sqlstate '45000'";
        self.sql(refuses).await;
        let claims = [self.claim_aside(direct, 1), self.claim_aside(queued, 1)];
        self.fires(&["LandingRefused", "QueuedLandingRefused"], say).await;
        self.sql("drop trigger refuses").await;
        for claim in claims {
            claim.await.unwrap();
        }
    }

    /// Ends each connection on which the tailer reads, as a server or a network does.
    pub(super) async fn broken_binlog_streams(&mut self, say: &impl Fn(String)) {
        const STREAM: &str = "select coalesce(max(id), 0) from information_schema.processlist \
                              where command like 'Binlog Dump%'";
        let url = self.servers.endpoints().database_url;
        let breaking = tokio::spawn(async move {
            let mut connection = connect::single(&url).await.unwrap();
            loop {
                let stream = store::number(&mut connection, STREAM).await.unwrap();
                // The connection may be gone by now.
                drop(store::execute(&mut connection, &format!("kill {stream}")).await);
                sleep(LOOK_EVERY).await;
            }
        });
        self.fires(&["TailerReconnects"], say).await;
        breaking.abort();
        self.all_ready().await;
    }

    pub(super) async fn too_long_row(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.set_tailer(&["--message-bytes-max=64"]).await;
        self.claim(template, 83, 201).await;
        self.fires(&["TailerDeadLetters"], say).await;
        self.set_tailer(&[]).await;
    }

    /// Leaves a transaction prepared while all tables are read.
    pub(super) async fn left_prepared(&mut self, say: &impl Fn(String)) {
        let url = self.servers.endpoints().database_url;
        sql(
            &url,
            "create table other (id bigint); xa start 'left'; insert into other values (1); \
             xa end 'left'; xa prepare 'left'",
        );
        self.set_tailer(&["--resnapshot"]).await;
        self.fires(&["TailerLeftPrepared"], say).await;
        sql(&url, "xa rollback 'left'");
        self.set_tailer(&[]).await;
    }

    /// Restarts the tailer with other arguments.
    async fn set_tailer(&mut self, arguments: &[&str]) {
        let tailer = &mut self.platform.cdc_tailer;
        tailer.stop().await.unwrap();
        tailer.set_arguments([]);
        for argument in arguments {
            tailer.add_argument(argument);
        }
        tailer.start().await.unwrap();
    }
}
