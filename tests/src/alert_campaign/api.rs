//! Worries about the api itself: its gates, its jobs and its connections.

use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::NewTemplate;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{Stage, fail_points};

/// First the limit of connections of one address, then the number that is opened, and later the limit of all
/// connections: then fewer than one in ten is free.
const CONNECTIONS: &str = "16";
const CONNECTIONS_OPENED: usize = 64;
const CONNECTIONS_MAX: &str = "68";

/// Bytes of a body that is never finished. On so many connections they are more than half of what all may hold, and
/// less than all.
const UNFINISHED_BYTES: usize = 768 * 1024;

/// Failures of a gate's rebuild in a row: more than the rule allows.
const REBUILDS_FAILED: usize = 8;

impl Stage {
    pub(super) async fn gate_not_loaded(&mut self, say: &impl Fn(String)) {
        let points = ["rebuild.before_open=error"; REBUILDS_FAILED].join(",");
        self.set_api(&[("FAIL_POINTS", &points)]).await;
        let now = self.api.clock().now();
        let new = NewTemplate::simple("Without a gate", 5, now, TimeDelta::hours(1));
        // The change is made, and the answer says that its gate is not loaded.
        drop(self.api.publish_new(&new).await);
        self.fires(&["GateNotLoaded", "GateRebuildsFail"], say).await;
        self.set_api(&[("FAIL_POINTS", &fail_points(&self.dir))]).await;
    }

    /// A job of grants waits for its template, which is paused.
    pub(super) async fn old_job(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.api.turn(template, "pause").await.unwrap();
        let grants = json!({ "user_ids": ["1"], "reason": "a campaign" });
        let job = self.operate(&format!("/v1/templates/{template}/grants"), &grants).await;
        let id = job["id"].as_str().unwrap();
        let older = "update job set created_at = created_at - interval 1 hour where id =";
        self.sql(&format!("{older} {id}")).await;
        self.fires(&["JobStuck"], say).await;
        self.operate(&format!("/v1/jobs/{id}/cancel"), &json!({ "reason": "a campaign" })).await;
    }

    /// Opens too many connections from one address, then all that are allowed, then sends bodies that it does not
    /// finish.
    pub(super) async fn busy_api(&mut self, say: &impl Fn(String)) {
        self.set_api(&[("CONNECTIONS_PER_ADDRESS", CONNECTIONS)]).await;
        let open = self.open_connections().await;
        self.fires(&["ApiAddressAtItsLimit"], say).await;
        drop(open);
        let all = CONNECTIONS_OPENED.to_string();
        let settings =
            [("CONNECTIONS_PER_ADDRESS", all.as_str()), ("CONNECTIONS_MAX", CONNECTIONS_MAX)];
        self.set_api(&settings).await;
        let mut open = self.open_connections().await;
        self.fires(&["ApiConnectionsNearlyAll"], say).await;
        let key = &self.platform.options.operator_key;
        let head = format!(
            "POST /v1/templates/1/grants HTTP/1.1\r\nhost: api\r\nx-api-key: {key}\r\n\
             content-type: text/plain\r\ncontent-length: {}\r\n\r\n",
            UNFINISHED_BYTES + 1
        );
        let unfinished = [head.into_bytes(), vec![b'1'; UNFINISHED_BYTES]].concat();
        for connection in &mut open {
            connection.write_all(&unfinished).await.unwrap();
        }
        self.fires(&["ApiRequestsHeld"], say).await;
        drop(open);
        self.set_api(&[("CONNECTIONS_PER_ADDRESS", "256"), ("CONNECTIONS_MAX", "16384")]).await;
    }

    async fn open_connections(&self) -> Vec<TcpStream> {
        let address = self.platform.api_url().trim_start_matches("http://").to_owned();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_OPENED {
            // A connection beyond the limit may be closed before we know that it was open.
            open.extend(TcpStream::connect(&address).await);
        }
        open
    }

    async fn operate(&self, path: &str, body: &Value) -> Value {
        let request = self.api.operator(Method::POST, path).header("idempotency-key", "a-campaign");
        let answer = self.api.send(request.json(body)).await.unwrap();
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.json().unwrap()
    }
}
