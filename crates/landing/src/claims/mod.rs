//! The walk of one claim: gate, landing, answer.
//!
//! A claim is handed over before the first byte goes to the gate and lives on when its client hangs
//! up. Requests with the same key in this process wait for the same answer.

pub mod fate;
pub(crate) mod label;
mod spans;
mod walk;
mod window;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
use coupon::{Claim, LandedClaim, PayloadHash, RequestId, Template, TemplateId, UserId};
use mysql_store::MySqlPool;
use redis_gate::Refusal;
use runtime::FailPoints;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

#[cfg(doc)]
use crate::resolver::GRACE;
use crate::{gates::Gates, lander::Landers, metric, settler::Settler};

/// Claims that may be under way in one process. It bounds every queue behind it: a claim holds about
/// two kilobytes, and at 10,000 landed claims a second this many wait for less than two seconds.
pub const CLAIMS_MAX: usize = 16_384;

/// What a claim is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The coupons are the user's.
    Landed {
        /// The claim as issued.
        claim: LandedClaim,
        /// Whether an earlier request with the same key had made it so.
        replayed: bool,
    },
    /// Refused for good, as things stand.
    Refused(Refusal),
    /// The key was used for another payload.
    KeyReused,
    /// A request with this key is under way in another process.
    InProgress,
    /// Nothing definite can be said now; the same request again may.
    Unavailable(Unavailable),
}

/// What stands in the way of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// Too many claims are under way.
    Overloaded,
    /// The gate's Redis does not answer.
    Gate,
    /// The gate is being loaded.
    GateLoading,
    /// MySQL does not answer.
    Store,
    /// The admission was given up; nothing landed.
    GivenUp,
    /// The process is stopping.
    Stopping,
}

/// The claims of a process.
#[derive(Clone)]
pub struct Claims {
    work: Arc<walk::Walk>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    under_way: Arc<UnderWay>,
}

type Key = (TemplateId, UserId, RequestId);
type Pending = watch::Receiver<Option<Answer>>;

/// The requests that this process is answering just now, by key.
#[derive(Default)]
struct UnderWay(Mutex<HashMap<Key, (PayloadHash, Pending)>>);

impl Claims {
    /// Claims that land by `landers`. `clock` tells the time at the gate. A gate that may have admitted a claim is asked
    /// again for `ask_for`, [`GRACE`] as a rule: after that the resolver ends the admission. The fail points are
    /// `claims.after_gate`, `claims.before_fence` and `claims.before_release`.
    pub fn new(
        pool: MySqlPool,
        gates: Gates,
        landers: Landers,
        settler: Settler,
        clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        ask_for: Duration,
        points: FailPoints,
    ) -> Self {
        let clock = Box::new(clock);
        Self {
            work: Arc::new(walk::Walk { pool, gates, landers, settler, clock, points, ask_for }),
            permits: Arc::new(Semaphore::new(CLAIMS_MAX)),
            tasks: TaskTracker::new(),
            under_way: Arc::default(),
        }
    }

    /// Answers a claim. Dropping the future cancels nothing.
    pub async fn claim(&self, template: Arc<Template>, claim: Claim) -> Answer {
        let key = (claim.template_id, claim.user_id, claim.request_id.clone());
        let joined = self.under_way.join(&key, claim.payload_hash, &self.permits);
        let (mut pending, first) = match joined {
            Joined::Full => return Answer::Unavailable(Unavailable::Overloaded),
            // The draft's answer to a key that is still being worked on for another payload.
            Joined::Other(hash, _) if hash != claim.payload_hash => return Answer::InProgress,
            Joined::Other(_, pending) => (pending, false),
            Joined::First { sender, pending, permit } => {
                let turn = Turn { key, under_way: Arc::clone(&self.under_way) };
                let work = Arc::clone(&self.work);
                self.tasks.spawn(async move {
                    let answer = work.run(&template, claim).await;
                    drop(turn);
                    sender.send_replace(Some(answer));
                    drop(permit);
                });
                (pending, true)
            }
        };
        let answer = match pending.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            // The task was ended before it had an answer.
            Err(_) => None,
        };
        match answer.unwrap_or(Answer::Unavailable(Unavailable::Stopping)) {
            Answer::Landed { claim, .. } if !first => Answer::Landed { claim, replayed: true },
            answer => answer,
        }
    }

    /// Sets the gauges of how many claims are under way and where they wait. Whoever measures holds
    /// the landers: a process that drains has to stop measuring first.
    pub fn measure(&self) {
        let under_way = CLAIMS_MAX - self.permits.available_permits();
        for (name, depth) in [
            (metric::CLAIMS_UNDER_WAY, under_way),
            (metric::LANDING_QUEUE, self.work.landers.queued()),
            (metric::SETTLING_QUEUE, self.work.settler.queued()),
        ] {
            metrics::gauge!(name).set(depth as f64);
        }
    }

    /// Waits until no claim is under way, taking no more.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

enum Joined {
    /// Nobody was at it: the caller is, by this permit, and answers all by the sender.
    First { sender: watch::Sender<Option<Answer>>, pending: Pending, permit: OwnedSemaphorePermit },
    /// Somebody is at it, for this payload.
    Other(PayloadHash, Pending),
    /// Nobody was at it, and too many claims are under way.
    Full,
}

impl UnderWay {
    /// The permit is taken under the lock: nobody can wait for one who then gets none.
    fn join(&self, key: &Key, payload_hash: PayloadHash, permits: &Arc<Semaphore>) -> Joined {
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
                let (sender, pending) = watch::channel(None);
                entry.insert((payload_hash, pending.clone()));
                Joined::First { sender, pending, permit }
            }
        }
    }
}

/// The right to answer a key; ends when dropped, however the task ended.
struct Turn {
    key: Key,
    under_way: Arc<UnderWay>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut map = self.under_way.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.remove(&self.key);
    }
}
