//! Rate limits of a user's claims and reads, and of the fences that a user or a merchant has placed: one rate for bursts
//! and one for the long run, counted in memory.
//!
//! Each rate is a leaky bucket in the form of its theoretical arrival time (GCRA): one number for each user and rate
//! says when the bucket is empty again. So counting is a comparison and an addition, and a user who was idle for a
//! minute needs no memory. Refused requests are not counted: a user who waits as long as asked is let in. Each process
//! counts for itself, so behind several a user gets a multiple of the rate.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use coupon::{MerchantId, UserId};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use crate::problem::Problem;

/// Header: what is left of the tighter rate (draft-ietf-httpapi-ratelimit-headers).
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Header: the rates.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Number of locks that users are spread over: many more than cores, so that two requests rarely meet.
const STRIPES: usize = 64;

/// Maximum users remembered per stripe, 24 bytes each: a million in all stripes, more than one process serves within a
/// minute. Further users are not counted.
const USERS_MAX: usize = 1_000_000 / STRIPES;

/// Minimum interval between searches of a full stripe for users to forget.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Pause before a refusal. A client that sends again at once then sends four requests a second on each connection. Without
/// it a user with two hundred connections took 17,000 refusals a second, and others' claims took eight times as long
/// (bench/results/overload.json).
const REFUSAL_PAUSE: Duration = Duration::from_millis(250);

/// Most refusals that pause at a time; further ones are answered at once. Each keeps its request in memory.
const PAUSING_MAX: usize = 2_048;

/// Maximum seconds that are added to a wait, so that users who were refused together do not come back together.
const JITTER_SECONDS: u32 = 2;

/// Whose requests are counted: a user or a merchant.
pub(crate) trait Owner: Copy + Eq + Hash {
    fn number(self) -> i64;
}

impl Owner for UserId {
    fn number(self) -> i64 {
        self.0
    }
}

impl Owner for MerchantId {
    fn number(self) -> i64 {
        self.0
    }
}

/// A quota of requests within a window.
#[derive(Debug, Clone, Copy)]
struct Rate {
    name: &'static str,
    quota: u32,
    window: Duration,
}

/// The rate limits of a process.
pub(crate) struct RateLimit<O = UserId> {
    rates: [Rate; 2],
    policy: HeaderValue,
    stripes: Vec<Mutex<Stripe<O>>>,
    pauses: Semaphore,
    started: Instant,
}

/// For each user or merchant the times at which the buckets are empty again, in microseconds since the start.
struct Stripe<O> {
    owners: HashMap<O, [u64; 2]>,
    forgot_at: Duration,
}

/// Remaining requests of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemainingQuota {
    rate: &'static str,
    requests: u64,
    /// Time until the whole quota is available again.
    full_in: Duration,
}

/// A user has used up a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany {
    left: RemainingQuota,
    pub(super) wait: Duration,
}

impl<O: Owner> RateLimit<O> {
    /// Limits the requests of one owner per second and per minute. 0: no limit.
    pub(crate) fn new(per_second: u32, per_minute: u32) -> Self {
        let rate =
            |name, quota, seconds| Rate { name, quota, window: Duration::from_secs(seconds) };
        let rates = [rate("second", per_second, 1), rate("minute", per_minute, 60)];
        let policy: Vec<String> = rates
            .iter()
            .filter(|rate| rate.quota > 0)
            .map(|rate| format!("\"{}\";q={};w={}", rate.name, rate.quota, rate.window.as_secs()))
            .collect();
        Self {
            rates,
            policy: HeaderValue::from_str(&policy.join(", "))
                .unwrap_or(HeaderValue::from_static("")),
            stripes: (0..STRIPES).map(|_| Mutex::new(Stripe::new())).collect(),
            pauses: Semaphore::new(PAUSING_MAX),
            started: Instant::now(),
        }
    }

    /// Runs `work` for a request of `owner`, or refuses it after a pause. Either answer says what the owner has left.
    pub(crate) async fn limited<T: IntoResponse>(
        &self,
        owner: O,
        work: impl Future<Output = T>,
    ) -> Response {
        let (left, mut answer) = match self.count(owner) {
            Ok(left) => (left, work.await.into_response()),
            Err(too_many) => {
                if let Ok(_place) = self.pauses.try_acquire() {
                    sleep(REFUSAL_PAUSE).await;
                }
                (Some(too_many.left), too_many.problem().into_response())
            }
        };
        if let Some(left) = left {
            self.set_headers(&left, answer.headers_mut());
        }
        answer
    }

    /// Counts a request of `owner`. Returns `None` if nothing is limited.
    pub(crate) fn count(&self, owner: O) -> Result<Option<RemainingQuota>, TooMany> {
        if self.rates.iter().all(|rate| rate.quota == 0) {
            return Ok(None);
        }
        self.count_at(owner, self.started.elapsed()).map(Some)
    }

    fn count_at(&self, owner: O, at: Duration) -> Result<RemainingQuota, TooMany> {
        let stripe = usize::try_from(owner.number().unsigned_abs()).unwrap_or(0) % STRIPES;
        let mut stripe = self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner);
        let known = stripe.owners.get(&owner).copied().unwrap_or_default();
        let counted = self.counted(known, at);
        if let Ok((next, _)) = counted
            && (stripe.owners.contains_key(&owner) || stripe.make_room(at))
        {
            stripe.owners.insert(owner, next);
        }
        counted.map(|(_, left)| left)
    }

    /// Returns the buckets after one more request, or which bucket has no room.
    fn counted(
        &self,
        known: [u64; 2],
        at: Duration,
    ) -> Result<([u64; 2], RemainingQuota), TooMany> {
        let now = micros(at);
        let mut next = known;
        let mut tightest: Option<RemainingQuota> = None;
        let mut too_many: Option<TooMany> = None;
        for (rate, empty_at) in self.rates.iter().zip(&mut next) {
            let Some(each) = micros(rate.window).checked_div(u64::from(rate.quota)) else {
                continue;
            };
            let before = now.max(*empty_at);
            *empty_at = before + each;
            // A multiple of `each`, so that a remainder of the division does not lower the quota.
            let room = each * u64::from(rate.quota);
            let filled = *empty_at - now;
            let left = |filled: u64| RemainingQuota {
                rate: rate.name,
                requests: room.saturating_sub(filled) / each,
                full_in: Duration::from_micros(filled),
            };
            if filled > room {
                let wait = Duration::from_micros(filled - room);
                if too_many.is_none_or(|other| other.wait < wait) {
                    too_many = Some(TooMany { left: left(before - now), wait });
                }
            } else if tightest.is_none_or(|other| left(filled).requests < other.requests) {
                tightest = Some(left(filled));
            }
        }
        match (too_many, tightest) {
            (Some(too_many), _) => Err(too_many),
            (None, Some(left)) => Ok((next, left)),
            (None, None) => {
                Ok((next, RemainingQuota { rate: "", requests: 0, full_in: Duration::ZERO }))
            }
        }
    }

    /// Sets the headers that say what the user has left.
    fn set_headers(&self, left: &RemainingQuota, headers: &mut HeaderMap) {
        let full_in = left.full_in.as_micros().div_ceil(1_000_000);
        let value = format!("\"{}\";r={};t={full_in}", left.rate, left.requests);
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(RATE_LIMIT, value);
        }
        headers.insert(RATE_LIMIT_POLICY, self.policy.clone());
    }
}

impl<O: Owner> Stripe<O> {
    fn new() -> Self {
        Self { owners: HashMap::new(), forgot_at: Duration::ZERO }
    }

    /// Makes room for another owner by forgetting those whose buckets are empty. Returns whether there is any.
    fn make_room(&mut self, at: Duration) -> bool {
        if self.owners.len() < USERS_MAX {
            return true;
        }
        if at < self.forgot_at + FORGET_EVERY {
            return false;
        }
        self.forgot_at = at;
        let now = micros(at);
        self.owners.retain(|_, empty_at| empty_at.iter().any(|empty_at| *empty_at > now));
        self.owners.len() < USERS_MAX
    }
}

impl TooMany {
    fn problem(&self) -> Problem {
        Problem::too_many(seconds_to_wait(self.wait))
    }
}

/// Returns the whole seconds that a refused caller is asked to wait.
pub(crate) fn seconds_to_wait(wait: Duration) -> u32 {
    let seconds = u32::try_from(wait.as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX);
    seconds.saturating_add(fastrand::u32(0..=JITTER_SECONDS))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const USER: UserId = UserId(7);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns how many of `tries` requests at one moment are let in.
    fn let_in(limit: &RateLimit, user: UserId, ms: u64, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(limit.count_at(user, at(ms)).is_ok())).sum()
    }

    #[test]
    fn a_burst_takes_the_quota_and_it_comes_back_evenly() {
        let limit = RateLimit::new(10, 0);
        assert_eq!(let_in(&limit, USER, 0, 50), 10);
        assert_eq!(let_in(&limit, USER, 99, 50), 0);
        assert_eq!(let_in(&limit, USER, 100, 50), 1);
        assert_eq!(let_in(&limit, USER, 600, 50), 5);
        assert_eq!(let_in(&limit, USER, 60_000, 50), 10, "and never more than the quota");
        assert_eq!(let_in(&limit, UserId(8), 60_000, 50), 10, "each user has an own one");
    }

    #[test]
    fn the_minute_limits_a_user_who_keeps_to_the_second() {
        let limit = RateLimit::new(10, 30);
        let all: u32 = (0..60).map(|second| let_in(&limit, USER, second * 1_000, 10)).sum();
        // The quota of thirty, and half a claim a second.
        assert_eq!(all, 30 + 29);
        let refused = limit.count_at(USER, at(59_000)).unwrap_err();
        assert_eq!((refused.left.rate, refused.left.requests), ("minute", 0));
        assert!(refused.wait <= Duration::from_secs(2), "{refused:?}");
        assert!(limit.count_at(USER, at(59_000) + refused.wait).is_ok(), "who waits is let in");
    }

    #[test]
    fn headers_show_the_tighter_rate() {
        let limit = RateLimit::new(10, 30);
        let left = limit.count_at(USER, at(0)).unwrap();
        let mut headers = HeaderMap::new();
        limit.set_headers(&left, &mut headers);
        assert_eq!(headers[RATE_LIMIT], "\"second\";r=9;t=1");
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"second\";q=10;w=1, \"minute\";q=30;w=60");
        assert_eq!(RateLimit::new(0, 0).count(USER), Ok(None));
    }

    #[tokio::test]
    async fn a_refusal_pauses_and_where_too_many_do_it_comes_at_once() {
        let limit = RateLimit::new(0, 1);
        let at_once = || {
            let answer = limit.limited(USER, async { "served" }).now_or_never();
            answer.map(|answer| answer.status().as_u16())
        };
        assert_eq!(at_once(), Some(200));
        assert_eq!(at_once(), None);
        let _all = limit.pauses.acquire_many(u32::try_from(PAUSING_MAX).unwrap()).await.unwrap();
        assert_eq!(at_once(), Some(429));
    }

    #[test]
    fn memory_is_bounded_and_quiet_users_are_forgotten() {
        let limit = RateLimit::new(10, 600);
        let user = |number: usize| UserId(i64::try_from(number * STRIPES).unwrap());
        for number in 0..USERS_MAX {
            assert!(limit.count_at(user(number), at(0)).is_ok());
        }
        assert_eq!(let_in(&limit, user(USERS_MAX), 1, 50), 50, "too many to be counted");
        let users = |limit: &RateLimit| limit.stripes[0].lock().unwrap().owners.len();
        assert_eq!(users(&limit), USERS_MAX);
        assert_eq!(let_in(&limit, user(USERS_MAX), 2_000, 50), 10, "the others are forgotten");
        assert_eq!(users(&limit), 1);
    }
}
