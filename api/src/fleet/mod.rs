//! All processes of the platform, as one api sees them: it asks the admin listeners that its settings name.
//!
//! They are asked at each call and nothing is stored, so the answer is as true as the listeners are, also while MySQL or
//! Kafka is away (docs/decisions/0061).

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use reqwest::{Client, redirect};
use runtime::Health;
use serde_json::{Value, json};
use tokio::{net::lookup_host, task::JoinSet, time::timeout};

/// Time to resolve a name, and again for one process to answer. It answers from memory.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Most processes that are asked: far more than a platform has, and a bound if a name resolves to a whole network.
const PROCESSES_MAX: usize = 256;

/// Longest answer of a process, in bytes: hundreds of times a usual answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The processes besides this one, and this one's health.
pub(crate) struct Fleet {
    health: Health,
    /// Admin addresses, `host:port`. A host may stand for several processes.
    peers: Vec<String>,
    client: Client,
}

impl Fleet {
    /// Returns the fleet of the peers at these addresses. Empty ones are left out.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub(crate) fn new(health: Health, peers: &[String]) -> anyhow::Result<Self> {
        let peers = peers.iter().map(|peer| peer.trim().to_owned());
        let client = Client::builder()
            .timeout(ANSWER_MAX)
            .no_proxy()
            // No other address is asked than those in the settings.
            .redirect(redirect::Policy::none())
            .build()?;
        Ok(Self { health, peers: peers.filter(|peer| !peer.is_empty()).collect(), client })
    }

    /// Asks every process. This one is the first; a peer that does not answer is there with its `error`.
    pub(crate) async fn ask(&self) -> Vec<Value> {
        let mut seen = vec![json!({
            "process": "api",
            "address": null,
            "version": runtime::VERSION,
            "commit": runtime::COMMIT,
            "status": self.health.word(),
            "roles": self.health.roles(),
            "parts": self.health.parts(),
            "details": self.health.status(),
        })];
        let mut asked = JoinSet::new();
        for (peer, address) in self.addresses().await {
            let client = self.client.clone();
            asked.spawn(async move { (peer.clone(), one(&client, &peer, address).await) });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by(|(one, _), (other, _)| one.cmp(other));
        seen.extend(answers.into_iter().map(|(_, answer)| answer));
        seen
    }

    /// Resolves the peers, all at once: each process behind a name is asked by its own address.
    async fn addresses(&self) -> Vec<(String, Result<SocketAddr, String>)> {
        let found = join_all(self.peers.iter().map(|peer| resolved(peer))).await;
        found.into_iter().flatten().take(PROCESSES_MAX).collect()
    }
}

/// Returns the addresses behind a peer's name, or why there are none.
async fn resolved(peer: &str) -> Vec<(String, Result<SocketAddr, String>)> {
    match timeout(ANSWER_MAX, lookup_host(peer)).await {
        Ok(Ok(found)) => found.map(|at| (at.to_string(), Ok(at))).collect(),
        Ok(Err(error)) => vec![(peer.to_owned(), Err(runtime::report(&error)))],
        Err(_) => vec![(peer.to_owned(), Err("the name is not resolved".to_owned()))],
    }
}

/// Asks one process.
async fn one(client: &Client, peer: &str, address: Result<SocketAddr, String>) -> Value {
    let answer = match address {
        Ok(address) => health_of(client, address).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(mut health) => {
            health["address"] = json!(peer);
            health
        }
        Err(error) => {
            json!({ "process": null, "address": peer, "status": "no answer", "error": error })
        }
    }
}

async fn health_of(client: &Client, address: SocketAddr) -> Result<Value, String> {
    let asked = async {
        let answer = client.get(format!("http://{address}/health")).send().await?;
        let mut answer = answer.error_for_status()?;
        let mut body = Vec::<u8>::new();
        while body.len() <= ANSWER_BYTES_MAX
            && let Some(piece) = answer.chunk().await?
        {
            body.extend_from_slice(&piece);
        }
        Ok::<_, reqwest::Error>(body)
    };
    let body = asked.await.map_err(|error| runtime::report(&error.without_url()))?;
    if body.len() > ANSWER_BYTES_MAX {
        return Err("the answer is too long".to_owned());
    }
    let health: Option<Value> = serde_json::from_slice(&body).ok();
    health.filter(Value::is_object).ok_or_else(|| "the answer is no object".to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Returns the address of a server that answers each request with this head and body.
    async fn peer(head: &str, body: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let length = body.len();
        let answer =
            format!("{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut asked = [0; 4096];
                if socket.read(&mut asked).await.is_ok() {
                    // A client that has read enough leaves.
                    drop(socket.write_all(answer.as_bytes()).await);
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn no_peer_leads_to_another_address_or_fills_the_memory() {
        let well = peer("HTTP/1.1 200 OK", r#"{"process":"well","status":"ready"}"#).await;
        let elsewhere = format!("HTTP/1.1 302 Found\r\nlocation: http://{well}/health");
        let elsewhere = peer(&elsewhere, "").await;
        let endless = format!("{{\"text\":\"{}\"}}", "x".repeat(2 * ANSWER_BYTES_MAX));
        let endless = peer("HTTP/1.1 200 OK", &endless).await;
        let peers = [well.clone(), elsewhere.clone(), endless.clone()];
        let seen = Fleet::new(Health::default(), &peers).unwrap().ask().await;
        let of = |address: &str| seen.iter().find(|one| one["address"] == address).unwrap();
        assert_eq!(of(&well)["process"], "well");
        assert_eq!(of(&elsewhere)["error"], "the answer is no object");
        assert_eq!(of(&endless)["error"], "the answer is too long");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_is_shown_with_the_reason() {
        let peers = ["127.0.0.1:1".to_owned(), String::new()];
        let seen = Fleet::new(Health::default(), &peers).unwrap().ask().await;
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0]["process"], "api");
        assert_eq!(
            (&seen[1]["address"], &seen[1]["status"]),
            (&json!("127.0.0.1:1"), &json!("no answer"))
        );
        assert!(seen[1]["error"].as_str().unwrap().contains("refused"), "{}", seen[1]);
    }
}
