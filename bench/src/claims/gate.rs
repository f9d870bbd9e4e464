//! Admissions per second through the product's client of the gate, beside redis-benchmark with the very same script and
//! arguments of the same lengths, on the same Redis. Gates of their own, with other keys than the platform's.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{ClaimId, ClaimMode, Epoch, TemplateId, TemplateState, UserId};
use devstack::project_root;
use redis_gate::{Gate, GateRedis, OpenFacts, QueueOptions, Verdict};
use runtime::Clock;
use tokio::task::JoinSet;

use crate::{
    redis_tools::{Load, ask, per_second},
    stage::BareServers,
};

/// Prefix of all keys here.
const PREFIX: &str = "bench:";
const EPOCH: Epoch = Epoch(1);

/// Admissions of each measurement, some seconds of them, and of the warm-up.
const ADMISSIONS: u32 = 200_000;
const WARM_UP: u32 = 20_000;
/// Measurements of each kind, in turn; the median counts.
const ROUNDS: usize = 3;

/// Tasks that share the client's connection.
const TASKS: u32 = 256;
/// What redis-benchmark does by default: fifty connections, one request at a time on each.
const BY_DEFAULT: Load = Load { requests: ADMISSIONS, connections: 50, pipelined: 1 };
/// As many requests under way as the client has, on few connections, which saves Redis most of its system calls.
const PIPELINED: Load = Load { connections: 4, pipelined: TASKS / 4, ..BY_DEFAULT };

/// First id of the client's users and claims. With it they have as many digits as redis-benchmark's, and as an api's.
const FIRST_USER: i64 = 1_000_000_000_000;
const FIRST_CLAIM: i64 = 1_000_000_000_000_000_000;
/// Start of a key; a number of twelve digits follows.
const KEY: &str = "3f2b8c1e-7a44-4a0e-8a11-";

/// Share of redis-benchmark's users who may come a second time, and are refused: a few in a hundred thousand do.
const REFUSED_MAX: f64 = 0.001;

/// Admissions per second and the fewest users admitted in a round, by client.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    pub client: Admitted,
    pub by_default: Admitted,
    pub pipelined: Admitted,
}

#[derive(Debug, Clone, Copy)]
pub struct Admitted {
    pub per_s: f64,
    pub users: u64,
}

impl Beside {
    /// The client's rate over the better one of redis-benchmark's.
    pub fn ratio(&self) -> f64 {
        self.client.per_s / self.by_default.per_s.max(self.pipelined.per_s)
    }
}

/// Measures on servers without a platform, and removes its keys.
///
/// # Errors
/// The gate's Redis fails, or too few were admitted.
///
/// # Panics
/// A task of the client panicked.
pub async fn measure(servers: &BareServers) -> Result<Beside> {
    let url = servers.stack.endpoints().gate_redis_url;
    let side = Side {
        server: servers.stack.gate.address(),
        gate: Gate::new(GateRedis::connect(&url).await?, PREFIX),
        clock: Clock::system(),
    };
    let mut templates = (1..).map(TemplateId);
    let mut next = || templates.next().expect("the numbers do not end");
    side.by_client(next(), WARM_UP).await?;
    let mut client = Vec::new();
    let mut by_default = Vec::new();
    let mut pipelined = Vec::new();
    for _ in 0..ROUNDS {
        client.push(side.by_client(next(), ADMISSIONS).await?);
        by_default.push(side.by_benchmark(next(), BY_DEFAULT).await?);
        pipelined.push(side.by_benchmark(next(), PIPELINED).await?);
    }
    let [client, by_default, pipelined] = [client, by_default, pipelined].map(median);
    Ok(Beside { client, by_default, pipelined })
}

/// The gates of both sides.
#[derive(Clone)]
struct Side {
    server: SocketAddr,
    gate: Gate,
    clock: Clock,
}

impl Side {
    async fn by_client(&self, template: TemplateId, admissions: u32) -> Result<Admitted> {
        self.open(template).await?;
        let next = Arc::new(AtomicI64::new(0));
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for _ in 0..TASKS {
            let side = self.clone();
            let next = Arc::clone(&next);
            tasks.spawn(async move { side.admit(template, &next, admissions.into()).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("a task of the client does not panic")?;
        }
        let per_s = f64::from(admissions) / began.elapsed().as_secs_f64();
        Ok(Admitted { per_s, users: self.end(template).await? })
    }

    /// Admits users until all are admitted.
    async fn admit(&self, template: TemplateId, next: &AtomicI64, all: i64) -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= all {
                return Ok(());
            }
            let id = ClaimId(FIRST_CLAIM + number);
            let user = UserId(FIRST_USER + number);
            let key = format!("{KEY}{number:012}");
            let now = self.clock.now();
            let claim = testkit::claim(id, template, user, &key, 1, now);
            let verdict = self.gate.claim(&claim, EPOCH, now, QueueOptions::direct()).await?;
            ensure!(
                matches!(verdict, Verdict::Admitted { .. }),
                "a claim was not admitted: {verdict:?}"
            );
        }
    }

    async fn by_benchmark(&self, template: TemplateId, load: Load) -> Result<Admitted> {
        self.open(template).await?;
        let command = self.command(template).await?;
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        // Sent once beforehand, which admits one user, because redis-benchmark does not show answers.
        let answer = ask(self.server, &command).await?;
        ensure!(answer.lines().next() == Some("0"), "a claim was not admitted: {answer}");
        let per_s = per_second(self.server, load, &command).await?;
        let users = self.end(template).await?;
        let least = f64::from(load.requests) * (1.0 - REFUSED_MAX);
        ensure!(users as f64 >= least, "of {} only {users} were admitted", load.requests);
        Ok(Admitted { per_s, users })
    }

    /// The client's call, as `lua/gate/claim.lua` lists keys and arguments.
    async fn command(&self, template: TemplateId) -> Result<Vec<String>> {
        let run = self.gate.run_of(template).await?.to_string();
        let mut command = vec!["EVALSHA".to_owned(), self.script().await?, "6".to_owned()];
        command.extend(keys(template));
        let now = self.clock.now().timestamp_millis().to_string();
        let arguments = [
            &EPOCH.to_string(),
            &run,
            &now,
            "1__rand_int__",
            // Digests of key and payload: sixteen bytes each.
            "key-__rand_int__",
            "quantity=1......",
            "1000000__rand_int__",
            // One coupon; the caller's lander keeps up; the outbox may be long.
            "1",
            "0",
            &redis_gate::OUTBOX_MAX.to_string(),
            &format!("{KEY}__rand_int__"),
            // No 202, no trace parent, and no replay that must write.
            &QueueOptions::direct().accept_after.code().to_string(),
            "",
            "0",
            &redis_gate::QUEUED_PER_USER_MAX.to_string(),
        ];
        command.extend(arguments.map(str::to_owned));
        Ok(command)
    }

    /// The digest of the client's script. The client has loaded it: loading it again adds none.
    async fn script(&self) -> Result<String> {
        let folder = project_root().join("lua/gate");
        let read = |file: &str| {
            let file = folder.join(file);
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let entry = read("includes/entry.lua")?;
        let text = read("claim.lua")?.replace("-- include entry\n", &entry);
        let before = self.scripts().await?;
        let digest = ask(self.server, &["SCRIPT", "LOAD", &text]).await?;
        ensure!(self.scripts().await? == before, "the client runs another script");
        Ok(digest)
    }

    /// Redis's count of its cached scripts.
    async fn scripts(&self) -> Result<String> {
        let info = ask(self.server, &["INFO", "memory"]).await?;
        let line = info.lines().find(|line| line.starts_with("number_of_cached_scripts:"));
        Ok(line.context("Redis does not count its scripts")?.to_owned())
    }

    async fn open(&self, template: TemplateId) -> Result<()> {
        let now = self.clock.now();
        let facts = OpenFacts {
            version: 1,
            state: TemplateState::Published,
            mode: ClaimMode::Direct,
            starts_at: now - TimeDelta::hours(1),
            ends_at: now + TimeDelta::hours(1),
            limit: 1,
            stock: coupon::limit::STOCK_MAX,
            movement: 1,
            lapses_allowed: 0,
        };
        ensure!(self.gate.begin(template, EPOCH).await?, "a gate that is not new");
        ensure!(self.gate.open(template, EPOCH, &facts).await?, "the gate did not open");
        Ok(())
    }

    /// Removes the gate, and returns how many users it had admitted.
    async fn end(&self, template: TemplateId) -> Result<u64> {
        let meta = self.gate.meta(template).await?.context("the gate is gone")?;
        let keys = keys(template);
        let unlink: Vec<&str> =
            ["UNLINK"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        ask(self.server, &unlink).await?;
        Ok(meta.users)
    }
}

/// The names are a contract: `lua/README.md`.
fn keys(template: TemplateId) -> [String; 6] {
    let meta = "meta";
    let users = format!("users:{EPOCH}");
    let in_flight = format!("inflight:{EPOCH}");
    let queued = format!("queued:{EPOCH}");
    let outbox = "outbox";
    let refusing = "refusing";
    [meta, &users, &in_flight, &queued, outbox, refusing]
        .map(|part| format!("{PREFIX}gate:1:{{{template}:0}}:{part}"))
}

/// The median rate, with the fewest users of all rounds.
fn median(mut rounds: Vec<Admitted>) -> Admitted {
    rounds.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let users = rounds.iter().map(|round| round.users).min().unwrap_or_default();
    Admitted { users, ..rounds[rounds.len() / 2] }
}
