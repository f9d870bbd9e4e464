//! Worries of queued claims: a full outbox, a relay without names, and a gate that waits for its queue.

use super::{Stage, redis};

/// Fills a stream up to a length, in one step.
const FILL: &str = "for i = redis.call('XLEN', KEYS[1]) + 1, tonumber(ARGV[1]) do \
                    redis.call('XADD', KEYS[1], '*', 'filler', i) end";

/// Claims of one template that its outbox takes, and no more.
const OUTBOX_MAX: &str = "100000";

/// Names of all relays' workers together.
const NAMES: u16 = 64;

impl Stage {
    pub(super) async fn full_outbox(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new.in_mode("queued", "gate")).await;
        self.platform.relay.kill().unwrap();
        let gate = self.servers.endpoints().gate_redis_url;
        let outbox = format!("gate:1:{{{template}:0}}:outbox");
        redis(&gate, &["EVAL", FILL, "1", &outbox, OUTBOX_MAX]).await;
        self.claim(template, 1, 503).await;
        self.fires(&["OutboxFull"], say).await;
        redis(&gate, &["DEL", &outbox]).await;
        self.platform.relay.start().await.unwrap();
    }

    /// Another holder has all names that relays' workers may have.
    pub(super) async fn names_taken(&mut self, say: &impl Fn(String)) {
        let names: Vec<String> = (1..=NAMES)
            .map(|name| format!("('outbox-relay-{name}', 'a campaign', '2100-01-01')"))
            .collect();
        self.sql(&format!("replace into lease (name, holder, until) values {}", names.join(", ")))
            .await;
        self.fires(&["RelayWorkersMissing"], say).await;
        self.sql("delete from lease where holder = 'a campaign'").await;
        self.all_ready().await;
    }

    pub(super) async fn draining_gate(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new.in_mode("queued", "topic")).await;
        self.platform.lander.pause().unwrap();
        self.claim(template, 1, 202).await;
        let gate = self.servers.endpoints().gate_redis_url;
        redis(&gate, &["DEL", &format!("gate:1:{{{template}:0}}:meta")]).await;
        self.fires(&["GateDrains"], say).await;
        self.platform.lander.resume().unwrap();
        self.all_ready().await;
    }
}
