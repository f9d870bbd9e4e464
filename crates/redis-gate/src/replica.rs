//! Claims that count only once replicas have them: many claims, then one WAIT for all of them.
//!
//! WAIT covers what its own connection wrote, and blocks everything behind it there. Therefore these claims have a
//! connection of their own, and one task sends them in rounds: those that arrive during a round form the next. Each
//! server has its own rounds, because one whose replicas are away takes the full time for each of them.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{FromRedisValue, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};

use crate::{
    GateError, GateRedis, GateServer, Verdict,
    connection::{Live, Server},
    scripts::Scripts,
    verdict::{ClaimCall, verdict, wait},
};

/// Most claims of a round: some milliseconds of scripts, which other connections wait for.
const ROUND_MAX: usize = 256;

/// Most claims that wait for a round of one server. While a replica is away each round takes its full time, and more claims would use
/// up the permits of their process.
const WAITING_MAX: usize = 16 * ROUND_MAX;

/// How long replicas have for a round, in milliseconds. A healthy one confirms within a few; together with the scripts
/// this is below the time limit for an answer.
const COPIES_WAIT_MS: u64 = 500;

/// The gate's answer to a claim that waited for replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicated {
    pub verdict: Verdict,
    /// Whether enough replicas confirmed in time what was written for it. If not, they may still have it.
    pub confirmed: bool,
    /// How long a success must be held back.
    pub wait: Duration,
}

type Answer = Result<Replicated, GateError>;

/// The rounds of one process. The task of a server starts with its first claim, and ends with the last [`crate::Gate`]
/// or after the server has lost its slots.
pub(crate) struct Rounds {
    redis: GateRedis,
    scripts: Arc<Scripts>,
    waiting: Mutex<HashMap<GateServer, mpsc::Sender<One>>>,
}

/// A claim that waits for its round.
struct One {
    keys: [String; 6],
    asked: ClaimCall<'static>,
    copies: u32,
    answer: oneshot::Sender<Answer>,
}

impl Rounds {
    /// Creates rounds on a connection of their own.
    pub(crate) fn new(redis: GateRedis, scripts: Arc<Scripts>) -> Self {
        Self { redis, scripts, waiting: Mutex::default() }
    }

    /// Sends one claim with the next round of its server.
    pub(crate) async fn ask(
        &self,
        server: &GateServer,
        keys: [String; 6],
        asked: ClaimCall<'static>,
        copies: u32,
    ) -> Answer {
        let (answer, answered) = oneshot::channel();
        // Nothing was sent if there is no room. The task ends only after it has answered all that wait.
        let one = One { keys, asked, copies, answer };
        self.of(server).try_send(one).map_err(|_| GateError::Unreachable { source: None })?;
        let ended = |_| GateError::Unknown {
            call: "claim",
            source: io::Error::from(io::ErrorKind::BrokenPipe).into(),
        };
        answered.await.map_err(ended)?
    }

    /// Returns where claims wait for the rounds of a server.
    fn of(&self, server: &GateServer) -> mpsc::Sender<One> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.get(server) {
            return sender.clone();
        }
        waiting.retain(|known, _| self.redis.has(known));
        let (sender, of_server) = mpsc::channel(WAITING_MAX);
        tokio::spawn(run(self.redis.server(server), Arc::clone(&self.scripts), of_server));
        waiting.insert(server.clone(), sender.clone());
        sender
    }
}

async fn run(server: Arc<Server>, scripts: Arc<Scripts>, mut waiting: mpsc::Receiver<One>) {
    let mut round = Vec::with_capacity(ROUND_MAX);
    while waiting.recv_many(&mut round, ROUND_MAX).await > 0 {
        let answers = ask_all(&server, &scripts, &round).await;
        for (one, answer) in round.drain(..).zip(answers) {
            // A caller that is gone needs no answer.
            drop(one.answer.send(answer));
        }
    }
}

/// Sends a round, and returns its answers in the same order.
async fn ask_all(server: &Arc<Server>, scripts: &Scripts, round: &[One]) -> Vec<Answer> {
    let live = match server.live().await {
        Ok(live) => live,
        Err(error) => return round.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut results = send(&live, scripts, round).await;
    if results.as_ref().is_ok_and(|results| results.iter().any(lacks_script)) {
        // Those that did run are replayed.
        results = match scripts.claim.load_async(&mut live.connection.clone()).await {
            Ok(_) => send(&live, scripts, round).await,
            Err(error) => Err(error),
        };
    }
    let mut results = match live.checked("claim", results).await {
        Ok(results) => results,
        Err(error) => return round.iter().map(|_| Err(error.clone())).collect(),
    };
    let copies = match results.pop() {
        Some(waited) => read::<u32>(&live, "wait", waited).await,
        None => Err(GateError::Unreadable { call: "wait" }),
    };
    // Without an answer to WAIT no copy is known.
    let copies = copies.unwrap_or(0);
    let mut answers = Vec::with_capacity(round.len());
    for (one, result) in round.iter().zip(results) {
        let answer = read::<Vec<Value>>(&live, "claim", result).await;
        let known = answer.and_then(|answer| {
            let known = verdict(&answer, &live.run).map(|verdict| (verdict, wait(&answer)));
            known.ok_or(GateError::Unreadable { call: "claim" })
        });
        let confirmed = copies >= one.copies;
        answers.push(known.map(|(verdict, wait)| Replicated { verdict, confirmed, wait }));
    }
    answers
}

/// Sends the claims and one WAIT for the most copies that any of them needs. Returns one result for each, WAIT's last.
async fn send(
    live: &Live,
    scripts: &Scripts,
    round: &[One],
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut pipe = redis::pipe();
    pipe.ignore_errors();
    for One { keys, asked, .. } in round {
        pipe.add_command(asked.call(&scripts.claim, keys, &live.run));
    }
    let copies = round.iter().map(|one| one.copies).max().unwrap_or(0);
    pipe.cmd("WAIT").arg(copies).arg(COPIES_WAIT_MS);
    pipe.query_async(&mut live.connection.clone()).await
}

/// Returns whether a call was not run because Redis does not have the script.
pub(crate) fn lacks_script<T>(result: &RedisResult<T>) -> bool {
    matches!(result, Err(error) if error.code() == Some("NOSCRIPT"))
}

async fn read<T: FromRedisValue>(
    live: &Live,
    call: &'static str,
    result: RedisResult<Value>,
) -> Result<T, GateError> {
    let result = result.and_then(|value| Ok(T::from_redis_value(value)?));
    live.checked(call, result).await
}
