//! Requests that this process is answering, by key. A second request with a key joins the first one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use coupon::{Claim, ClaimId, PayloadHash, RequestId, TemplateId, UserId};
use redis_gate::Verdict;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Answer, Unavailable};

pub(super) type Key = (TemplateId, UserId, RequestId);

/// Requests that this process is answering, by key.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashMap<Key, (PayloadHash, Pending)>>);

/// A request that a task answers.
#[derive(Clone)]
pub(super) struct Pending {
    answer: watch::Receiver<Option<Answer>>,
    pub(super) decides: Decides,
}

/// The admission whose outcome is that of a request's key, once the gate has named it. A request with a known key gets
/// the outcome of an earlier one, and its own id is never admitted.
#[derive(Debug, Clone, Default)]
pub(super) struct Decides(Arc<AtomicI64>);

impl Decides {
    /// Notes the admission that the gate's answer to a claim names, if it names one.
    pub(super) fn note(&self, claim: &Claim, verdict: &Verdict) {
        match verdict {
            Verdict::Admitted { .. } | Verdict::Queued { .. } => self.set(claim.id),
            Verdict::Replay { id, .. } => self.set(*id),
            _ => {}
        }
    }

    fn set(&self, id: ClaimId) {
        self.0.store(id.0, Ordering::Relaxed);
    }

    /// The admission turned out not to decide: the key has the answer of another one, which is not known.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn get(&self) -> Option<ClaimId> {
        Some(ClaimId(self.0.load(Ordering::Relaxed))).filter(|id| id.0 != 0)
    }
}

/// A claim that was handed over: a task answers it, or its answer is known.
pub struct Begun(pub(super) Handover);

pub(super) enum Handover {
    Answered(Answer),
    Waiting { pending: Pending, first: bool },
}

impl Begun {
    /// Waits for the answer. Dropping the future does not cancel the claim.
    pub async fn answer(&mut self) -> Answer {
        let (pending, first) = match &mut self.0 {
            Handover::Answered(answer) => return answer.clone(),
            Handover::Waiting { pending, first } => (pending, *first),
        };
        let answer = match pending.answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            // The task ended without an answer.
            Err(_) => None,
        };
        match answer.unwrap_or(Answer::Unavailable(Unavailable::Stopping)) {
            Answer::Landed { claim, .. } if !first => Answer::Landed { claim, replayed: true },
            answer => answer,
        }
    }

    /// Returns the admission whose outcome is that of the request, if the gate has named it. It may be an earlier one.
    pub fn decided_by(&self) -> Option<ClaimId> {
        match &self.0 {
            Handover::Answered(_) => None,
            Handover::Waiting { pending, .. } => pending.decides.get(),
        }
    }
}

pub(super) enum Joined {
    /// The key was free: the caller works under this permit and answers all waiters through the sender.
    First { sender: watch::Sender<Option<Answer>>, pending: Pending, permit: OwnedSemaphorePermit },
    /// Another request with the key is under way, with a payload of this hash.
    Other(PayloadHash, Pending),
    /// The key was free, but too many claims are under way.
    Full,
}

impl UnderWay {
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    /// Joins the request that is being answered for this key, or becomes it. The permit is taken under the lock:
    /// otherwise a second request could join a first one that then gets no permit.
    pub(super) fn join(
        &self,
        key: &Key,
        payload_hash: PayloadHash,
        permits: &Arc<Semaphore>,
    ) -> Joined {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map.entry(key.clone()) {
            Entry::Occupied(entry) => {
                let (hash, pending) = entry.get();
                Joined::Other(*hash, pending.clone())
            }
            Entry::Vacant(entry) => {
                let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
                    return Joined::Full;
                };
                let (sender, answer) = watch::channel(None);
                let pending = Pending { answer, decides: Decides::default() };
                entry.insert((payload_hash, pending.clone()));
                Joined::First { sender, pending, permit }
            }
        }
    }
}

/// The right to answer a key. Dropping it frees the key, however the task ended.
pub(super) struct Turn {
    pub(super) key: Key,
    pub(super) under_way: Arc<UnderWay>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut map = self.under_way.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.remove(&self.key);
    }
}
