//! Worries about servers and processes that are away or stand still.

use mysql_store::{connect, verify as store};

use super::Stage;

/// Templates with a claim in each second while Kafka is away: as many as the statistics count one by one. After a
/// minute more of their messages wait than may.
const COUNTED: usize = 256;

/// Templates whose queued claims wait for Kafka, each of which the relay tries again.
const QUEUED: usize = 10;

/// Claims at a time for them. Each waits five seconds for its answer, and there are to be three hundred.
const QUEUED_AT_ONCE: usize = 64;

/// How long MySQL keeps its binlog while Kafka is away: half of it is over when changes are late.
const BINLOG_SECONDS: i64 = 60;

impl Stage {
    pub(super) async fn kafka_away(&mut self, say: &impl Fn(String)) {
        let mut counted = Vec::new();
        for _ in 0..COUNTED - QUEUED {
            counted.push(self.template(1, |new| new).await);
        }
        let mut queued = Vec::new();
        for _ in 0..QUEUED {
            queued.push(self.template(1_000, |new| new.in_mode("queued", "topic")).await);
        }
        let kept = self.number("select cast(@@global.binlog_expire_logs_seconds as signed)").await;
        self.sql(&format!("set global binlog_expire_logs_seconds = {BINLOG_SECONDS}")).await;
        self.servers.kafka.kill().unwrap();
        let claims = [self.claims(&queued, QUEUED_AT_ONCE), self.claims_each_second(&counted)];
        let alerts = [
            "ServerAway",
            "ReadinessLost",
            "LagUnknown",
            "ClaimAppendsFail",
            "TailerBehind",
            "TailerBinlogExpires",
            "OutboxNotRelayed",
            "QueuedClaimsUnknown",
            "RelayRetries",
            "QueuedClaimsLate",
            "ClaimStatsLost",
        ];
        self.fires(&alerts, say).await;
        drop(claims);
        self.servers.kafka.start().await.unwrap();
        self.sql(&format!("set global binlog_expire_logs_seconds = {kept}")).await;
        self.all_ready().await;
    }

    pub(super) async fn processes_away(&mut self, say: &impl Fn(String)) {
        self.platform.cdc_tailer.kill().unwrap();
        self.platform.expiry_worker.kill().unwrap();
        self.fires(&["ProcessDown", "TailerNoLeader", "ExpiryShardsUnowned"], say).await;
        self.platform.cdc_tailer.start().await.unwrap();
        self.platform.expiry_worker.start().await.unwrap();
    }

    pub(super) async fn wrong_clock(&mut self, say: &impl Fn(String)) {
        self.clock.set(10).unwrap();
        self.fires(&["ClocksApart", "ExpiryStopped"], say).await;
        self.clock.set(0).unwrap();
        self.all_ready().await;
    }

    /// Another session locks a table of MySQL, so that no process can land or end what the gate admitted.
    pub(super) async fn locked_table(&mut self, say: &impl Fn(String)) {
        let direct = self.template(5, |new| new).await;
        let queued = self.template(5, |new| new.in_mode("queued", "gate")).await;
        let url = self.servers.endpoints().database_url;
        let mut holder = connect::single(&url).await.unwrap();
        store::execute(&mut holder, "lock tables claim write").await.unwrap();
        let claims = [self.claim_aside(direct, 1), self.claim_aside(queued, 1)];
        self.fires(&["ClaimsStuck", "ClaimLanderBehind"], say).await;
        store::execute(&mut holder, "unlock tables").await.unwrap();
        self.all_ready().await;
        for claim in claims {
            claim.await.unwrap();
        }
    }

    /// MySQL stands still, then it is gone.
    pub(super) async fn mysql_away(&mut self, say: &impl Fn(String)) {
        self.servers.database.pause().unwrap();
        let asking = self.unknown_templates();
        self.fires(&["ApiPoolEmpty"], say).await;
        self.servers.database.kill().unwrap();
        self.fires(&["ApiErrors", "ExpiryRetries"], say).await;
        drop(asking);
        self.servers.database.start().await.unwrap();
        self.all_ready().await;
    }

    pub(super) async fn view_away(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.servers.view.kill().unwrap();
        self.claim(template, 81, 201).await;
        self.fires(&["ConsumerBehind", "ConsumerRetries"], say).await;
        self.servers.view.start().await.unwrap();
        self.all_ready().await;
    }
}
