//! Takes one claim from the gate through the landing to its answer.
//!
//! A task takes over the claim before the first byte goes to the gate, so the claim continues when its client hangs up.
//! Concurrent requests with the same key in this process share one answer.

mod accept;
mod direct;
pub mod fate;
mod label;
mod queued_fate;
mod spans;
mod stored;
mod under_way;
mod walk;
mod window;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{
    Claim, ClaimId, Epoch, LandedClaim, RejectReason, RequestId, Template, TemplateId, UserId,
};
use redis_gate::Refusal;
use runtime::{Breakers, FailPoints};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

pub use self::under_way::Begun;
use self::under_way::{Handover, Joined, Turn, UnderWay};
#[cfg(doc)]
use crate::gate::resolver::GRACE;
use crate::{
    gate::gates::Gates,
    lander::{Landers, settler::Settler},
    metric,
    queue::QueuePosition,
};

/// Most claims under way in one process. This bounds every queue behind it: a claim holds about two kilobytes, and at
/// 10,000 landed claims a second this many wait for less than two seconds.
pub const CLAIMS_MAX: usize = 16_384;

/// At most one in this many claims under way may be publishing. While the broker is away each of them waits for
/// seconds; without a bound they would leave no room for claims that need no broker.
pub const PUBLISHING_SHARE: usize = 4;

/// The limits for the claims of a process.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most claims under way, at most [`CLAIMS_MAX`].
    pub under_way: usize,
    /// How long the calls to a gate that may have admitted a claim are repeated, normally [`GRACE`]. After that the
    /// resolver ends the admission.
    pub ask_max: Duration,
    /// Replicas of the gate that must have a claim with `accept_after` replica before its 202.
    pub copies: u32,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The user has the coupons.
    Landed {
        /// The claim as issued.
        claim: LandedClaim,
        /// Whether an earlier request with the same key issued it.
        replayed: bool,
    },
    /// The claim is queued, and lands unless MySQL has a reason to reject it.
    Accepted {
        /// The admission, perhaps that of an earlier request with the same key.
        id: ClaimId,
        /// The epoch under which it can land.
        epoch: Epoch,
        /// When the gate admitted it.
        accepted_at: DateTime<Utc>,
        /// Its place in the queue, if this process appended it.
        position: Option<QueuePosition>,
    },
    /// A queued claim with this key was rejected. Final for the key.
    Rejected {
        /// The admission that was rejected.
        id: ClaimId,
        reason: RejectReason,
    },
    /// Refused; final under the current state.
    Refused(Refusal),
    /// The key was used with another payload.
    KeyReused,
    /// A request with this key is under way elsewhere, or here with another payload.
    InProgress,
    /// Nothing definite is known now; repeating the same request may find out.
    Unavailable(Unavailable),
}

/// Why there is no definite answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    Overloaded,
    /// The gate's Redis does not answer.
    Gate,
    GateLoading,
    Store,
    /// The admission was given up; nothing landed.
    GivenUp,
    /// The gate queued the claim, but it is unknown how durably, or MySQL could not be asked for the key. The claim
    /// stays queued and may land.
    Queue {
        /// The admission, perhaps that of an earlier request with the same key.
        id: ClaimId,
        /// The epoch under which it can land.
        epoch: Epoch,
        /// When the gate admitted it.
        accepted_at: DateTime<Utc>,
    },
    Stopping,
}

/// The claims of a process.
#[derive(Clone)]
pub struct Claims {
    work: Arc<walk::Walk>,
    permits: Arc<Semaphore>,
    /// The total number of permits.
    most: usize,
    tasks: TaskTracker,
    under_way: Arc<UnderWay>,
}

impl Claims {
    /// Creates the claims of a process. They land by `landers`, or through the queue of `gates`. `clock` supplies the
    /// time that is sent to the gate. The fail points are `claims.after_gate`, `claims.before_fence`,
    /// `claims.before_release`, `claims.after_queued` and `claims.after_publish`.
    pub fn new(
        gates: Gates,
        landers: Landers,
        settler: Settler,
        clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        bounds: Bounds,
        points: FailPoints,
    ) -> Self {
        let pool = gates.pool().clone();
        let clock = Box::new(clock);
        let publishing = Semaphore::new((bounds.under_way / PUBLISHING_SHARE).max(1));
        let work = walk::Walk {
            pool,
            gates,
            landers,
            settler,
            clock,
            points,
            ask_max: bounds.ask_max,
            copies: bounds.copies,
            publishing,
            unanswered: Breakers::new(accept::PUBLISH_AGAIN),
        };
        Self {
            work: Arc::new(work),
            permits: Arc::new(Semaphore::new(bounds.under_way)),
            most: bounds.under_way,
            tasks: TaskTracker::new(),
            under_way: Arc::default(),
        }
    }

    /// Returns whether a claim is refused as sold out without asking the gate ([`crate::sold_out`]). It is not refused
    /// while the same key is under way here, since both get the same answer. Do not call this for a claim whose
    /// coupon has just been added to the stock: such a claim needs the gate's current answer.
    pub fn is_sold_out(
        &self,
        template: &Template,
        user: UserId,
        request_id: &RequestId,
        quantity: u32,
    ) -> bool {
        let now = (self.work.clock)();
        let refused = self.work.is_left_to_the_gate(template, now)
            && self.work.gates.sold_out().refuses(template.id, user, quantity, now)
            && !self.is_under_way(template.id, user, request_id);
        if refused {
            metrics::counter!(metric::LOCAL_REFUSALS.name).increment(1);
        }
        refused
    }

    fn is_under_way(&self, template: TemplateId, user: UserId, request_id: &RequestId) -> bool {
        // Most claims of a sold-out template come while nothing is under way.
        self.permits.available_permits() < self.most
            && self.under_way.contains(&(template, user, request_id.clone()))
    }

    /// Answers a claim. Dropping the future does not cancel it.
    pub async fn claim(&self, template: Arc<Template>, claim: Claim) -> Answer {
        self.begin(template, claim).answer().await
    }

    /// Hands a claim over to a task, or joins the request with its key that is under way here.
    pub fn begin(&self, template: Arc<Template>, claim: Claim) -> Begun {
        let key = (claim.template_id, claim.user_id, claim.request_id.clone());
        let joined = self.under_way.join(&key, claim.payload_hash, &self.permits);
        Begun(match joined {
            Joined::Full => Handover::Answered(Answer::Unavailable(Unavailable::Overloaded)),
            // The Idempotency-Key draft demands this for a key that is in use with another payload.
            Joined::Other(hash, _) if hash != claim.payload_hash => {
                Handover::Answered(Answer::InProgress)
            }
            Joined::Other(_, pending) => Handover::Waiting { pending, first: false },
            Joined::First { sender, pending, permit } => {
                let turn = Turn { key, under_way: Arc::clone(&self.under_way) };
                let work = Arc::clone(&self.work);
                let decides = pending.decides.clone();
                self.tasks.spawn(async move {
                    let answer = work.run(&template, claim, &decides).await;
                    drop(turn);
                    sender.send_replace(Some(answer));
                    drop(permit);
                });
                Handover::Waiting { pending, first: true }
            }
        })
    }

    /// Sets the gauges for claims under way and where they wait. The measuring task holds the landers, so a process
    /// that drains must stop measuring first.
    pub fn measure(&self) {
        let under_way = self.most - self.permits.available_permits();
        for (name, depth) in [
            (metric::CLAIMS_UNDER_WAY.name, under_way),
            (metric::CLAIMS_UNDER_WAY_MAX.name, self.most),
            (metric::LANDING_QUEUE.name, self.work.landers.queued()),
            (metric::SETTLING_QUEUE.name, self.work.settler.queued()),
        ] {
            metrics::gauge!(name).set(depth as f64);
        }
        self.work.gates.sold_out().measure();
    }

    /// Accepts no more claims and waits until none is under way.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
