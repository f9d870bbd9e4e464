//! Checks many gates at once for keys that are missing, new or not as the scripts leave them, so that idle gates cost
//! next to nothing: one command covers hundreds of them, or in a cluster one round trip to each master.

use std::{collections::BTreeMap, time::Duration};

use coupon::{Epoch, TemplateId};
use futures::future::join_all;
use redis::{FromRedisValue as _, RedisResult};
use redis_address::slot_of;

use super::{Answers, Part, in_order};
use crate::{Gate, GateError, Run, connection::Live, keys::Keys, verdict::NOTED};

/// Gates asked for together; takes Redis some tens of microseconds.
const GATES_AT_ONCE: usize = 250;

/// A gate as of its last check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedGate {
    pub template: TemplateId,
    pub epoch: Epoch,
    /// The run of the server that had it.
    pub run: Run,
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

/// Keys of a gate, all of which must exist, or none of which may.
struct Wanted {
    template: TemplateId,
    keys: Vec<String>,
    /// The run that the gate's server must be in, if it must be in one.
    run: Option<Run>,
}

impl Gate {
    /// Returns the keys of gates that have another type than theirs, that Redis will remove by itself although no script
    /// lets them end, or that keep winners waiting for longer than a look allows; absent keys are in order.
    pub async fn key_faults(
        &self,
        gates: &[(TemplateId, Epoch)],
    ) -> Result<Vec<KeyFault>, GateError> {
        let parts = self.parts(gates, |(template, _)| *template).into_iter();
        let answered = join_all(parts.map(async |part| {
            let faults = self.faults_of(&part).await;
            part.answered(faults)
        }));
        let mut faults = Vec::new();
        for of_gate in in_order(gates.len(), answered.await) {
            faults.extend(of_gate?);
        }
        Ok(faults)
    }

    async fn faults_of(
        &self,
        part: &Part<'_, (TemplateId, Epoch)>,
    ) -> Result<Answers<Vec<KeyFault>>, GateError> {
        let live = part.live().await?;
        let mut faults = Vec::with_capacity(part.items.len());
        for some in part.items.chunks(GATES_AT_ONCE) {
            let mut pipe = redis::pipe();
            for (template, epoch) in some {
                for (key, _) in self.keys(*template).of_gate(*epoch) {
                    pipe.cmd("TYPE").arg(&key).cmd("PTTL").arg(&key);
                }
            }
            let result = pipe.query_async(&mut live.connection.clone()).await;
            let answers: Vec<redis::Value> = live.checked("key_faults", result).await?;
            let mut answers = answers.chunks_exact(2);
            for (template, epoch) in some {
                let mut of_gate = Vec::new();
                for (key, of_type) in self.keys(*template).of_gate(*epoch) {
                    let Some([kind, lives]) = answers.next() else { break };
                    let read =
                        (String::from_redis_value_ref(kind), i64::from_redis_value_ref(lives));
                    let (Ok(kind), Ok(lives)) = read else {
                        return Err(GateError::Unreadable { call: "key_faults" });
                    };
                    let what = key_fault(&key, of_type, &kind, lives);
                    of_gate.extend(what.map(|what| KeyFault { template: *template, what }));
                }
                faults.push(Ok(of_gate));
            }
        }
        Ok(faults)
    }

    /// Returns those of `gates` that have lost a key since, whose server is of another run, or that could not be asked.
    /// The contents of keys are not checked.
    pub async fn lost(&self, gates: &[CheckedGate]) -> Vec<TemplateId> {
        let wanted = gates.iter().map(|gate| {
            let keys = self.keys(gate.template);
            let users = gate.has_users.then(|| keys.users(gate.epoch));
            let keys = std::iter::once(keys.meta()).chain(users).collect();
            Wanted { template: gate.template, keys, run: Some(gate.run.clone()) }
        });
        self.differing(&wanted.collect::<Vec<_>>(), true).await
    }

    /// Returns those of `gates` that have admissions in flight or queued now, that exist now and did not before, or that
    /// could not be asked.
    pub async fn stirred(&self, gates: &[QuietGate]) -> Vec<TemplateId> {
        let wanted = gates.iter().map(|gate| {
            let keys = self.keys(gate.template);
            let stirred = gate.epoch.map_or_else(
                || vec![keys.meta()],
                |epoch| vec![keys.inflight(epoch), keys.queued(epoch)],
            );
            Wanted { template: gate.template, keys: stirred, run: None }
        });
        self.differing(&wanted.collect::<Vec<_>>(), false).await
    }

    /// Returns the gates that lack a key, if `should_exist`; otherwise those that have one. A gate that could not be
    /// asked is among them: whoever looks at it alone learns why.
    async fn differing(&self, gates: &[Wanted], should_exist: bool) -> Vec<TemplateId> {
        let parts = self.parts(gates, |gate| gate.template).into_iter();
        let answered = join_all(parts.map(async |part| {
            let differ = differ(&part, should_exist).await;
            part.answered(differ)
        }));
        let answers = in_order(gates.len(), answered.await);
        let all = gates.iter().zip(answers);
        all.filter(|(_, differs)| !matches!(differs, Ok(false)))
            .map(|(gate, _)| gate.template)
            .collect()
    }
}

/// Finds the gates of one server that differ, by bisection: it costs a few commands for each such gate and few for all
/// the others.
async fn differ(part: &Part<'_, Wanted>, should_exist: bool) -> Result<Answers<bool>, GateError> {
    let live = part.live().await?;
    let gates = &part.items;
    let is_other = |gate: &&Wanted| gate.run.as_ref().is_some_and(|run| *run != live.run);
    let mut answers: Answers<bool> = gates.iter().map(|gate| Ok(is_other(gate))).collect();
    let mut unsearched = together(&live, gates);
    while let Some(groups) = next_groups(&mut unsearched) {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for group in &groups {
            let keys: Vec<&String> = group.iter().flat_map(|place| &gates[*place].keys).collect();
            pipe.cmd("EXISTS").arg(keys);
        }
        let result = pipe.query_async(&mut live.connection.clone()).await;
        let found: Vec<RedisResult<usize>> = live.checked("exists", result).await?;
        for (group, found) in groups.into_iter().zip(found) {
            let keys: usize = group.iter().map(|place| gates[*place].keys.len()).sum();
            let wanted = if should_exist { keys } else { 0 };
            match live.checked("exists", found).await {
                Ok(found) if found == wanted => {}
                Ok(_) if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    unsearched.extend([first.to_vec(), second.to_vec()]);
                }
                Ok(_) => answers[group[0]] = Ok(true),
                Err(error) => group.iter().for_each(|place| answers[*place] = Err(error.clone())),
            }
        }
    }
    Ok(answers)
}

/// Groups the gates, by their places, whose keys one command may name: on a single server those of any gates, in a
/// cluster those of one slot.
fn together(live: &Live, gates: &[&Wanted]) -> Vec<Vec<usize>> {
    let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (place, gate) in gates.iter().enumerate() {
        let first = gate.keys.first().filter(|_| !live.spans_slots());
        by_slot.entry(first.map_or(0, |key| slot_of(key))).or_default().push(place);
    }
    let chunks = |places: Vec<usize>| {
        places.chunks(GATES_AT_ONCE).map(<[usize]>::to_vec).collect::<Vec<_>>()
    };
    by_slot.into_values().flat_map(chunks).collect()
}

/// Takes the groups of the next round trip off the list; `None`: there are none.
fn next_groups(unsearched: &mut Vec<Vec<usize>>) -> Option<Vec<Vec<usize>>> {
    let mut gates = 0;
    let mut fits = |group: &[usize]| {
        gates += group.len();
        gates <= GATES_AT_ONCE
    };
    let count = unsearched.iter().rev().take_while(|group| fits(group.as_slice())).count();
    let groups = unsearched.split_off(unsearched.len() - count);
    (!groups.is_empty()).then_some(groups)
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
