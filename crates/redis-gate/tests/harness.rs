//! A separate gate for each test, and helpers to read its keys and to damage them.

use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{Claim, ClaimId, ClaimMode, Epoch, Numbers, TemplateId, TemplateState, UserId};
use devstack::TestServers;
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use redis_gate::{
    Entry, Gate, GateRedis, OpenFacts, QueueOptions, Refusal, RequestState, Run, Verdict,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// The template of most tests; each test has separate keys.
pub(crate) const TEMPLATE: TemplateId = TemplateId(1);

pub(crate) const EPOCH: Epoch = Epoch(7);

pub(crate) const USER: UserId = UserId(70);

pub(crate) struct TestGate {
    pub(crate) gate: Gate,
    pub(crate) url: String,
    redis: MultiplexedConnection,
    prefix: String,
}

impl TestGate {
    /// An absent gate on the shared Redis.
    pub(crate) async fn absent(name: &str) -> Self {
        let scope = TestServers::shared().scope(name);
        Self::on(scope.endpoints.gate_redis_url, scope.key_prefix).await
    }

    /// An open gate on the shared Redis.
    pub(crate) async fn open(name: &str, facts: OpenFacts) -> Self {
        let gate = Self::absent(name).await;
        gate.rebuild(EPOCH, facts).await;
        gate
    }

    /// An absent gate on any Redis.
    pub(crate) async fn on(url: String, prefix: String) -> Self {
        let gate = Gate::new(GateRedis::connect(&url).await.unwrap(), &prefix);
        let redis = raw(&url).await;
        Self { gate, url, redis, prefix }
    }

    /// The same gate, as another process sees it.
    pub(crate) async fn another(&self) -> Gate {
        Gate::new(GateRedis::connect(&self.url).await.unwrap(), &self.prefix)
    }

    pub(crate) async fn rebuild(&self, epoch: Epoch, facts: OpenFacts) {
        assert!(self.gate.begin(TEMPLATE, epoch).await.unwrap());
        assert!(self.gate.open(TEMPLATE, epoch, &facts).await.unwrap());
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Verdict {
        self.gate.claim(claim, EPOCH, now(), QueueOptions::direct()).await.unwrap()
    }

    /// Claims, after MySQL was found to have no answer under the key.
    pub(crate) async fn claim_looked(&self, claim: &Claim) -> Verdict {
        let looked = QueueOptions { looked: true, ..QueueOptions::direct() };
        self.gate.claim(claim, EPOCH, now(), looked).await.unwrap()
    }

    /// Claims, and returns the numbers, the entry in the outbox and the run of the claim, which must be queued.
    pub(crate) async fn queue(&self, claim: &Claim) -> (Numbers, String, Run) {
        match self.claim_looked(claim).await {
            Verdict::Queued { numbers, entry, run, .. } => (numbers, entry, run),
            other => panic!("{other:?}"),
        }
    }

    /// Claims, and returns the numbers of the claim, which must be admitted.
    pub(crate) async fn admit(&self, claim: &Claim) -> Numbers {
        match self.claim(claim).await {
            Verdict::Admitted { numbers, .. } => numbers,
            other => panic!("{other:?}"),
        }
    }

    /// The gate's answer to the key of `first`, which was admitted to the direct way.
    pub(crate) async fn replay_of(&self, first: &Claim, state: RequestState) -> Verdict {
        Verdict::Replay {
            id: first.id,
            state,
            numbers: vec![1],
            look_in_mysql: false,
            admitted_at: None,
            run: self.gate.run_of(TEMPLATE).await.unwrap(),
        }
    }

    pub(crate) async fn settle(&self, claim: &Claim) -> Option<u32> {
        self.gate.settle(TEMPLATE, EPOCH, &[(claim.user_id, claim.id)]).await.unwrap()
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Option<bool> {
        self.gate.release(TEMPLATE, EPOCH, claim.user_id, claim.id).await.unwrap()
    }

    pub(crate) async fn stock(&self) -> i64 {
        self.gate.meta(TEMPLATE).await.unwrap().unwrap().stock
    }

    pub(crate) async fn entry(&self, user: UserId) -> Entry {
        self.gate.entry(TEMPLATE, EPOCH, user).await.unwrap().unwrap()
    }

    pub(crate) async fn in_flight(&self) -> u64 {
        self.gate.in_flight_count(TEMPLATE, EPOCH).await.unwrap()
    }

    pub(crate) async fn queued(&self) -> u64 {
        self.gate.queued_count(TEMPLATE, EPOCH).await.unwrap()
    }

    pub(crate) async fn outbox_len(&self) -> u64 {
        self.gate.outbox_len(TEMPLATE).await.unwrap()
    }

    /// The names of the keys are a contract: `lua/README.md`.
    pub(crate) fn meta(&self) -> String {
        format!("{}gate:1:{{{TEMPLATE}:0}}:meta", self.prefix)
    }

    pub(crate) fn users(&self, epoch: Epoch) -> String {
        format!("{}gate:1:{{{TEMPLATE}:0}}:users:{epoch}", self.prefix)
    }

    pub(crate) fn in_flight_key(&self, epoch: Epoch) -> String {
        format!("{}gate:1:{{{TEMPLATE}:0}}:inflight:{epoch}", self.prefix)
    }

    pub(crate) fn queued_key(&self, epoch: Epoch) -> String {
        format!("{}gate:1:{{{TEMPLATE}:0}}:queued:{epoch}", self.prefix)
    }

    pub(crate) fn outbox_key(&self) -> String {
        format!("{}gate:1:{{{TEMPLATE}:0}}:outbox", self.prefix)
    }

    /// Notes, as a look does, that an api may refuse users from memory, for longer than a test takes.
    pub(crate) async fn note_refusals(&self) {
        let key = format!("{}gate:1:{{{TEMPLATE}:0}}:refusing", self.prefix);
        self.send(&["SET", &key, "", "PX", "600000"]).await;
    }

    /// Changes a field of meta, as no script would.
    pub(crate) async fn set_meta(&self, field: &str, value: &str) {
        self.send(&["HSET", &self.meta(), field, value]).await;
    }

    pub(crate) async fn send(&self, words: &[&str]) {
        send(&mut self.redis.clone(), words).await;
    }

    /// The same, with words that need not be text.
    pub(crate) async fn send_bytes(&self, words: &[&[u8]]) {
        let mut redis = self.redis.clone();
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.exec_async(&mut redis).await.unwrap();
    }

    /// Reads every key of this gate with all its contents.
    pub(crate) async fn memory(&self) -> Memory {
        let mut redis = self.redis.clone();
        let pattern = format!("{}*", self.prefix);
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.unwrap();
        let mut memory = Memory::new();
        for key in keys {
            let kind: String = redis::cmd("TYPE").arg(&key).query_async(&mut redis).await.unwrap();
            if kind == "stream" {
                let mut look = redis::cmd("XRANGE");
                look.arg(&key).arg("-").arg("+");
                let entries: Vec<(Vec<u8>, Vec<Vec<u8>>)> =
                    look.query_async(&mut redis).await.unwrap();
                let entries = entries.into_iter().map(|(id, fields)| (id, fields.concat()));
                memory.insert(key, entries.collect());
                continue;
            }
            // The note that an api may refuse from memory: it expires by itself.
            if kind == "string" || kind == "none" {
                continue;
            }
            let mut look = match kind.as_str() {
                "hash" => redis::cmd("HGETALL"),
                _ => redis::cmd("ZRANGE"),
            };
            look.arg(&key);
            if kind == "zset" {
                look.arg(0).arg(-1).arg("WITHSCORES");
            }
            memory.insert(key, look.query_async(&mut redis).await.unwrap());
        }
        memory
    }
}

/// Key → field or member → value or score.
type Memory = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A separate connection for the test.
pub(crate) async fn raw(url: &str) -> MultiplexedConnection {
    // Under load an answer may take long.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

pub(crate) async fn send(redis: &mut MultiplexedConnection, words: &[&str]) -> redis::Value {
    redis::cmd(words[0]).arg(&words[1..]).query_async(redis).await.unwrap()
}

/// A Redis that a test may damage; it ends with the test.
pub(crate) struct OwnRedis {
    pub(crate) url: String,
    port: u16,
    server: Child,
    folder: std::path::PathBuf,
}

impl OwnRedis {
    pub(crate) async fn start(name: &str, settings: &[&str]) -> Self {
        let scope = TestServers::shared().scope(name);
        let folder = devstack::project_root().join(".dev/test").join(scope.database);
        std::fs::create_dir_all(&folder).unwrap();
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let url = format!("redis://127.0.0.1:{port}");
        let server = spawn(port, &folder, settings).await;
        Self { url, port, server, folder }
    }

    /// Kills the server and restarts it on the same port, with the contents of its file.
    pub(crate) async fn crash_and_start(&mut self, settings: &[&str]) {
        self.server.kill().await.unwrap();
        self.server = spawn(self.port, &self.folder, settings).await;
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

async fn spawn(port: u16, folder: &std::path::Path, settings: &[&str]) -> Child {
    let mut server = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
        .arg(folder)
        .args(settings)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stdout.take().unwrap()).lines();
    while let Some(line) = log.next_line().await.unwrap() {
        if line.contains("Ready to accept connections") {
            // Keep reading the pipe; otherwise the server would end at its next line.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return server;
        }
    }
    panic!("redis-server did not start");
}

/// The time at which all tests run.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).unwrap()
}

/// A published template: ten coupons, two per user, claimable from a second before [`now`] to a second after.
pub(crate) fn facts() -> OpenFacts {
    OpenFacts {
        version: 1,
        state: TemplateState::Published,
        mode: ClaimMode::Direct,
        starts_at: now() - TimeDelta::seconds(1),
        ends_at: now() + TimeDelta::seconds(1),
        limit: 2,
        stock: 10,
        movement: 1,
        lapses_allowed: 0,
    }
}

/// The same template, with its claims queued.
pub(crate) fn queued_facts() -> OpenFacts {
    OpenFacts { mode: ClaimMode::Queued, ..facts() }
}

/// A claim of `user` under `key`, with a unique id.
pub(crate) fn claim(user: UserId, key: &str, quantity: u32) -> Claim {
    /// The first id is beyond 2^53, where Lua's numbers are no longer exact.
    static NEXT: AtomicI64 = AtomicI64::new((1 << 53) + 1);
    let id = ClaimId(NEXT.fetch_add(1, Ordering::Relaxed));
    testkit::claim(id, TEMPLATE, user, key, quantity, now())
}

/// The same request as another admission.
pub(crate) fn again(first: &Claim) -> Claim {
    claim(first.user_id, first.request_id.as_str(), first.quantity)
}

/// A refusal that is final.
pub(crate) fn refused(refusal: Refusal) -> Verdict {
    Verdict::Refused { refusal, look_in_mysql: false }
}
