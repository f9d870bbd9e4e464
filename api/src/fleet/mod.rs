//! All processes of the platform, as one api sees them: it asks the admin listeners that its settings name.
//!
//! They are asked at each call, so the answer is as true as the listeners are, also while MySQL or Kafka is away
//! (docs/decisions/0061). Only what a dead process cannot say any more is remembered ([`memory`]). What all of it means
//! for users is the [`first_sentence`].

mod abilities;
pub(crate) mod facts;
mod faults;
pub(crate) mod first_sentence;
pub(crate) mod impact;
mod kind;
mod memory;
mod peer;
pub(crate) mod readiness;
mod reading;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
use futures::future::join_all;
use reqwest::{Client, redirect};
use runtime::{Clock, Health};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{
    kind::Kind,
    memory::Memory,
    peer::{Peer, Target},
};

/// Time to resolve a name, and again for one process to answer. It answers from memory.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Most processes that are asked: far more than a platform has, and a bound if a name resolves to a whole network.
const PROCESSES_MAX: usize = 256;

/// Longest answer of a process, in bytes: hundreds of times a usual answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Interval at which the processes are asked although nobody wants to know, so that a death has a time and a name. The
/// time is this inexact.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);

/// Oldest answers that [`Fleet::recent`] returns. [`Fleet::follow`] asks again before that, even if each process is silent
/// for as long as it is waited for.
const RECENT: Duration = Duration::from_secs(10);

/// The processes besides this one, and this one's health.
pub(crate) struct Fleet {
    health: Health,
    clock: Clock,
    peers: Vec<Peer>,
    client: Client,
    memory: Mutex<Memory>,
    last: Mutex<Option<Last>>,
}

/// The last answers that [`Fleet::recent`] may return.
struct Last {
    /// When they were asked for.
    at: Instant,
    seen: Arc<Seen>,
}

/// What the processes answered.
pub(crate) struct Seen {
    pub(crate) at: DateTime<Utc>,
    /// This process is the first; one that does not answer is there with its `error`.
    pub(crate) processes: Vec<Value>,
    /// When a tailer was last seen to lead.
    led_at: Option<DateTime<Utc>>,
}

impl Fleet {
    /// Returns the fleet of the peers in these settings ([`Peer::read`]). Empty ones are left out.
    ///
    /// # Errors
    /// A peer is said to be a process that does not exist, or the HTTP client cannot be made.
    pub(crate) fn new(health: Health, clock: Clock, peers: &[String]) -> anyhow::Result<Self> {
        let peers: anyhow::Result<Vec<Option<Peer>>> =
            peers.iter().map(|peer| Peer::read(peer)).collect();
        let client = Client::builder()
            .timeout(ANSWER_MAX)
            .no_proxy()
            // No other address is asked than those in the settings.
            .redirect(redirect::Policy::none())
            .build()?;
        let peers = peers?.into_iter().flatten().collect();
        let memory = Mutex::default();
        let last = Mutex::default();
        Ok(Self { health, clock, peers, client, memory, last })
    }

    /// Returns answers that are at most [`RECENT`] old. Many may call it at once, and often: it asks nobody while
    /// [`Fleet::follow`] does.
    pub(crate) async fn recent(&self) -> Arc<Seen> {
        let known = self.last().as_ref().filter(|last| last.at.elapsed() < RECENT).map(Last::seen);
        match known {
            Some(seen) => seen,
            None => self.look().await,
        }
    }

    /// Asks every process, and keeps what they answered.
    async fn look(&self) -> Arc<Seen> {
        let at = Instant::now();
        let seen = Arc::new(self.ask().await);
        *self.last() = Some(Last { at, seen: Arc::clone(&seen) });
        seen
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every process.
    pub(crate) async fn ask(&self) -> Seen {
        let own = json!({
            "process": Kind::Api.word(),
            "address": null,
            "version": runtime::VERSION,
            "commit": runtime::COMMIT,
            "status": self.health.word(),
            "roles": self.health.roles(),
            "parts": self.health.parts(),
            "details": self.health.status(),
        });
        let mut asked = JoinSet::new();
        for target in self.targets().await {
            let client = self.client.clone();
            asked.spawn(async move { one(&client, target).await });
        }
        let mut processes = asked.join_all().await;
        processes.sort_by(|one, other| one["address"].as_str().cmp(&other["address"].as_str()));
        processes.insert(0, own);
        let at = self.clock.now();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.learn(&mut processes, at);
        Seen { at, processes, led_at: memory.led_at() }
    }

    /// Asks again and again, so that what [`memory`] keeps is known before somebody asks. Never returns.
    pub(crate) async fn follow(&self) {
        loop {
            drop(self.look().await);
            sleep(FOLLOW_EVERY).await;
        }
    }

    /// Resolves the peers, all at once: each process behind a name is asked by its own address.
    async fn targets(&self) -> Vec<Target> {
        let found = join_all(self.peers.iter().map(Peer::targets)).await;
        found.into_iter().flatten().take(PROCESSES_MAX).collect()
    }
}

impl Last {
    fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }
}

/// Asks one process.
async fn one(client: &Client, target: Target) -> Value {
    let Target { kind, shown, found } = target;
    let answer = match found {
        Ok(address) => health_of(client, address).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(mut health) => {
            health["address"] = json!(shown);
            // One that does not say what it is, is what the settings say.
            if Kind::of_word(health["process"].as_str().unwrap_or_default()).is_none()
                && let Some(kind) = kind
            {
                health["process"] = json!(kind.word());
            }
            health
        }
        Err(error) => {
            let process = kind.map(Kind::word);
            json!({ "process": process, "address": shown, "status": "no answer", "error": error })
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
    let body = asked.await.map_err(|error| innermost(&error))?;
    if body.len() > ANSWER_BYTES_MAX {
        return Err("the answer is too long".to_owned());
    }
    let health: Option<Value> = serde_json::from_slice(&body).ok();
    health.filter(Value::is_object).ok_or_else(|| "the answer is no object".to_owned())
}

/// Returns what happened, without the layers of the client that it happened in.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

#[cfg(test)]
mod asking {
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

    async fn ask(peers: &[String]) -> Vec<Value> {
        let fleet = Fleet::new(Health::default(), Clock::system(), peers).unwrap();
        fleet.ask().await.processes
    }

    #[tokio::test]
    async fn no_peer_leads_to_another_address_or_fills_the_memory() {
        let well = peer("HTTP/1.1 200 OK", r#"{"process":"well","status":"ready"}"#).await;
        let elsewhere = format!("HTTP/1.1 302 Found\r\nlocation: http://{well}/health");
        let elsewhere = peer(&elsewhere, "").await;
        let endless = format!("{{\"text\":\"{}\"}}", "x".repeat(2 * ANSWER_BYTES_MAX));
        let endless = peer("HTTP/1.1 200 OK", &endless).await;
        let peers = [well.clone(), elsewhere.clone(), endless.clone()];
        let seen = ask(&peers).await;
        let of = |address: &str| seen.iter().find(|one| one["address"] == address).unwrap();
        assert_eq!(of(&well)["process"], "well");
        assert_eq!(of(&elsewhere)["error"], "the answer is no object");
        assert_eq!(of(&endless)["error"], "the answer is too long");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_is_shown_with_the_reason() {
        let peers = ["cdc-tailer=127.0.0.1:1".to_owned(), String::new()];
        let seen = ask(&peers).await;
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0]["process"], "api");
        assert_eq!(
            (&seen[1]["address"], &seen[1]["status"]),
            (&json!("127.0.0.1:1"), &json!("no answer"))
        );
        assert_eq!(seen[1]["process"], "cdc-tailer", "the settings name it");
        assert!(seen[1]["since"].is_string(), "{}", seen[1]);
        assert!(seen[1]["error"].as_str().unwrap().contains("refused"), "{}", seen[1]);
    }
}
