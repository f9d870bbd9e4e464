//! Checks many gates at once: for keys that are missing or new, where one command covers hundreds of gates, so idle
//! gates cost next to nothing; and for those that are still sold out.

use std::time::Duration;

use coupon::{Epoch, TemplateId};
use redis::{FromRedisValue as _, RedisResult, Value};

use crate::{Gate, GateError, connection::Live, keys::Keys, replica::lacks_script, verdict::NOTED};

/// Gates per command; takes Redis some tens of microseconds.
const GATES_AT_ONCE: usize = 250;

/// A gate as of its last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedGate {
    pub template: TemplateId,
    pub epoch: Epoch,
    /// Whether it had users' entries.
    pub has_users: bool,
}

/// A gate that had nothing in flight or queued at its last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietGate {
    pub template: TemplateId,
    /// Absent: there was no gate.
    pub epoch: Option<Epoch>,
}

/// A key of a gate that is not as the scripts leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFault {
    pub template: TemplateId,
    /// The key, and what is wrong with it.
    pub what: String,
}

/// A look at a gate that was sold out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldOutLook {
    pub template: TemplateId,
    pub epoch: Epoch,
    /// How many users with an entry the caller knows, if it is to refuse all others. Absent: it only asks.
    pub users: Option<u64>,
}

/// A gate that refuses every user without an entry as sold out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldOutGate {
    /// How many users have an entry. Never falls within an epoch.
    pub users: u64,
    /// Start and end of the claim window, in milliseconds since 1970. Outside it a claim is refused for another reason.
    pub window_ms: (i64, i64),
    /// Most coupons per user. A claim for more is refused for another reason.
    pub limit: i64,
}

impl Gate {
    /// Returns the keys of gates that have another type than theirs, that Redis will remove by itself although no script
    /// lets them end, or that keep winners waiting for longer than a look allows; absent keys are in order.
    pub async fn key_faults(
        &self,
        gates: &[(TemplateId, Epoch)],
    ) -> Result<Vec<KeyFault>, GateError> {
        let mut faults = Vec::new();
        for some in gates.chunks(GATES_AT_ONCE) {
            let live = self.redis.live().await?;
            let mut pipe = redis::pipe();
            for (template, epoch) in some {
                for (key, _) in self.keys(*template).of_gate(*epoch) {
                    pipe.cmd("TYPE").arg(&key).cmd("PTTL").arg(&key);
                }
            }
            let result = pipe.query_async(&mut live.connection.clone()).await;
            let answers: Vec<redis::Value> = self.checked("key_faults", &live, result).await?;
            let mut answers = answers.chunks_exact(2);
            for (template, epoch) in some {
                for (key, of_type) in self.keys(*template).of_gate(*epoch) {
                    let Some([kind, lives]) = answers.next() else { break };
                    let read =
                        (String::from_redis_value_ref(kind), i64::from_redis_value_ref(lives));
                    let (Ok(kind), Ok(lives)) = read else {
                        return Err(GateError::Unreadable { call: "key_faults" });
                    };
                    let what = key_fault(&key, of_type, &kind, lives);
                    faults.extend(what.map(|what| KeyFault { template: *template, what }));
                }
            }
        }
        Ok(faults)
    }

    /// Sends looks at gates that were sold out. Each answer is `None` if the gate is not in this epoch, or refuses
    /// users without an entry for another reason or not at all. If it has as many users as the look says, the caller
    /// may refuse all others for [`crate::REFUSING`], counted from before this call.
    pub async fn sold_out(
        &self,
        looks: &[SoldOutLook],
    ) -> Result<Vec<Option<SoldOutGate>>, GateError> {
        let live = self.redis.live().await?;
        let mut results = self.send_looks(&live, looks).await;
        if results.as_ref().is_ok_and(|results| results.iter().any(lacks_script)) {
            results = match self.scripts.sold_out.load_async(&mut live.connection.clone()).await {
                Ok(_) => self.send_looks(&live, looks).await,
                Err(error) => Err(error),
            };
        }
        let results = self.checked("sold_out", &live, results).await?;
        // A gate whose keys are of another type is not known to be sold out.
        Ok(results.into_iter().map(|result| sold_out(&result.ok()?)).collect())
    }

    async fn send_looks(
        &self,
        live: &Live,
        looks: &[SoldOutLook],
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for look in looks {
            let keys = self.keys(look.template);
            pipe.cmd("EVALSHA")
                .arg(self.scripts.sold_out.get_hash())
                .arg(3)
                .arg(keys.meta())
                .arg(keys.users(look.epoch))
                .arg(keys.refusing())
                .arg(look.epoch.0)
                .arg(live.run.as_str())
                .arg(look.users.map_or_else(String::new, |users| users.to_string()))
                .arg(millis(NOTED));
        }
        pipe.query_async(&mut live.connection.clone()).await
    }

    /// Returns those of `gates` that have lost a key since. The contents of keys are not checked.
    pub async fn lost(&self, gates: &[CheckedGate]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &CheckedGate| {
            let keys = self.keys(gate.template);
            let users = gate.has_users.then(|| keys.users(gate.epoch));
            (gate.template, std::iter::once(keys.meta()).chain(users).collect())
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), true).await
    }

    /// Returns those of `gates` that have admissions in flight or queued now, or that exist now and did not before.
    pub async fn stirred(&self, gates: &[QuietGate]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &QuietGate| {
            let keys = self.keys(gate.template);
            let stirred = gate.epoch.map_or_else(
                || vec![keys.meta()],
                |epoch| vec![keys.inflight(epoch), keys.queued(epoch)],
            );
            (gate.template, stirred)
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), false).await
    }

    /// Returns the gates that lack a key, if `should_exist`; otherwise those that have one. It searches by bisection, so
    /// the cost is a few commands for each such gate and one for all the others.
    async fn differing(
        &self,
        gates: &[(TemplateId, Vec<String>)],
        should_exist: bool,
    ) -> Result<Vec<TemplateId>, GateError> {
        let live = self.redis.live().await?;
        let mut unsearched: Vec<_> = gates.chunks(GATES_AT_ONCE).collect();
        let mut differing = Vec::new();
        while let Some(part) = unsearched.pop() {
            let keys: Vec<&String> = part.iter().flat_map(|(_, keys)| keys).collect();
            let wanted = if should_exist { keys.len() } else { 0 };
            let result =
                redis::cmd("EXISTS").arg(keys).query_async(&mut live.connection.clone()).await;
            let found: usize = self.checked("exists", &live, result).await?;
            match part {
                _ if found == wanted => {}
                [(template, _)] => differing.push(*template),
                part => {
                    let (first, second) = part.split_at(part.len() / 2);
                    unsearched.extend([first, second]);
                }
            }
        }
        Ok(differing)
    }
}

/// Decodes the answer of `sold_out.lua`; its header says what it is.
fn sold_out(answer: &Value) -> Option<SoldOutGate> {
    let (1, users, starts, ends, limit) =
        <(i64, u64, i64, i64, i64)>::from_redis_value_ref(answer).ok()?
    else {
        return None;
    };
    Some(SoldOutGate { users, window_ms: (starts, ends), limit })
}

/// Redis' answer about the life of a key that is not there.
const GONE: i64 = -2;

/// What is wrong with a key, if anything. `lives` is in milliseconds; below 0, Redis does not remove it.
fn key_fault(key: &str, of_type: &str, kind: &str, lives: i64) -> Option<String> {
    let longest = i64::try_from(millis(NOTED)).unwrap_or(i64::MAX);
    match kind {
        "none" => None,
        // It ended between the two questions.
        _ if lives == GONE => None,
        kind if kind != of_type => Some(format!("{key} is a {kind}, not a {of_type}")),
        _ if of_type == Keys::NOTE && !(0..=longest).contains(&lives) => {
            Some(format!("{key} lives for {lives} ms, and may for {longest}"))
        }
        _ if of_type != Keys::NOTE && lives >= 0 => {
            Some(format!("{key} has an expiry: Redis removes it in {lives} ms"))
        }
        _ => None,
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
