//! What a caller says with a claim, and the gate's answer to it.

use std::{borrow::Cow, ops::RangeInclusive, time::Duration};

use chrono::{DateTime, TimeZone, Utc};
use coupon::{AcceptAfter, Claim, ClaimId, Epoch, Numbers, limit};
use redis::{Cmd, FromRedisValue, RedisWrite, Script, ToRedisArgs, Value};

use crate::{RequestState, Run, keys::Keys};

/// How long an api may refuse users from memory by a look at a gate, counted from the moment before the look was sent.
/// The first winners of a reopened sale wait up to 110 ms. Each api must have a winner within 200 ms; the rest of that
/// time is for a busy machine.
pub const REFUSING: Duration = Duration::from_millis(100);

/// How long the gate notes a look. The margin far exceeds what two clocks drift apart in that time.
pub(crate) const NOTED: Duration = Duration::from_millis(110);

/// Most claims in one template's outbox. An entry takes a few hundred bytes, so that many are tens of megabytes. While
/// the relays or the broker are away, claims beyond it are refused, so that the gate's memory lasts.
pub const OUTBOX_MAX: usize = 100_000;

/// Most queued claims of one user that have not ended: twice as many as the largest limit on coupons allows. Each claim
/// and each report of an end decodes the user's whole entry, which takes 4 µs per queued claim.
pub const QUEUED_PER_USER_MAX: usize = 200;

/// Parameters that the api sends with a claim in case the gate queues it. The gate alone decides whether it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// Whether landings cannot keep up; in mode spill the gate then queues the claim.
    pub behind: bool,
    /// What the answer to a queued claim waits for. It tells the relay when it may publish the entry.
    pub accept_after: AcceptAfter,
    /// Whether MySQL was found to have no answer under the key, after [`Verdict::LookFirst`].
    pub looked: bool,
}

impl QueueOptions {
    /// The options for a template that is believed to be direct.
    pub fn direct() -> Self {
        Self { behind: false, accept_after: AcceptAfter::default(), looked: false }
    }
}

/// One call of `claim.lua`, without the run of the server.
pub(crate) struct ClaimCall<'a> {
    pub(crate) claim: Cow<'a, Claim>,
    /// The gate's epoch as the caller knows it.
    pub(crate) epoch: Epoch,
    pub(crate) now: DateTime<Utc>,
    pub(crate) queueing: QueueOptions,
    /// Whether a replay of a queued request writes something, so that a WAIT after it covers the request.
    pub(crate) touch: bool,
}

impl ClaimCall<'_> {
    pub(crate) fn keys(&self, keys: &Keys) -> [String; 6] {
        let epoch = self.epoch;
        let in_flight = keys.inflight(epoch);
        let queued = keys.queued(epoch);
        [keys.meta(), keys.users(epoch), in_flight, queued, keys.outbox(), keys.refusing()]
    }

    /// Returns the call for a server of this run. It is written at once: a `ScriptInvocation` would first copy each key
    /// and argument.
    pub(crate) fn call(&self, script: &Script, keys: &[String; 6], run: &Run) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        let arguments = Arguments { asked: self, run };
        call.arg(script.get_hash()).arg(keys.len()).arg(keys).arg(arguments);
        call
    }
}

/// The arguments of `claim.lua`, in its header's order.
struct Arguments<'a> {
    asked: &'a ClaimCall<'a>,
    run: &'a Run,
}

impl ToRedisArgs for Arguments<'_> {
    fn write_redis_args<W>(&self, out: &mut W)
    where
        W: ?Sized + RedisWrite,
    {
        let ClaimCall { claim, epoch, now, queueing, touch } = self.asked;
        out.write_arg_fmt(epoch.0);
        out.write_arg(self.run.as_str().as_bytes());
        out.write_arg_fmt(now.timestamp_millis());
        out.write_arg_fmt(claim.user_id.0);
        out.write_arg(&claim.request_id.digest());
        out.write_arg(&claim.payload_hash.0);
        out.write_arg_fmt(claim.id.0);
        out.write_arg_fmt(claim.quantity);
        out.write_arg_fmt(u8::from(queueing.behind));
        out.write_arg_fmt(OUTBOX_MAX);
        out.write_arg(claim.request_id.as_str().as_bytes());
        out.write_arg_fmt(queueing.accept_after.code());
        out.write_arg(claim.trace_parent.as_deref().unwrap_or_default().as_bytes());
        out.write_arg_fmt(u8::from(*touch));
        out.write_arg_fmt(QUEUED_PER_USER_MAX);
        out.write_arg_fmt(u8::from(queueing.looked));
    }
}

/// The gate's answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted; it must now be landed.
    Admitted {
        /// Its claim numbers; empty without a limit.
        numbers: Numbers,
        /// Stock left.
        left: i64,
    },
    /// Admitted into the queue, and in the outbox.
    Queued {
        /// Its claim numbers; empty without a limit.
        numbers: Numbers,
        /// Stock left.
        left: i64,
        /// Id of its entry in the outbox.
        entry: String,
        /// Whether MySQL must be checked for the key before the claim is called accepted.
        look_in_mysql: bool,
        /// The run of Redis that answered.
        run: Run,
    },
    /// The claim would be queued, but the outbox is full; nothing was done.
    OutboxFull,
    /// The claim would be queued, but the user has [`QUEUED_PER_USER_MAX`] queued claims; nothing was done.
    TooManyQueued,
    /// The claim would be queued, but its key may have its answer in MySQL; nothing was done. If it has none, send the
    /// claim again with [`QueueOptions::looked`].
    LookFirst,
    /// The gate remembers this request.
    Replay {
        /// Id of the admission that used the key.
        id: ClaimId,
        /// What the gate knows about its landing.
        state: RequestState,
        /// Its claim numbers.
        numbers: Numbers,
        /// Whether MySQL must be checked for the key before anything is said that only the gate supports.
        look_in_mysql: bool,
        /// Time of the admission, of a queued request.
        admitted_at: Option<DateTime<Utc>>,
        /// The run of Redis that answered.
        run: Run,
    },
    /// The key was used with another payload.
    KeyReused,
    /// The gate is absent, loading, or of another run; nothing is known.
    NotLoaded,
    /// The gate has another epoch than the caller sent; nothing was done.
    OtherEpoch(Epoch),
    /// This admission, or a later one of the user, was dropped from the entry. It may have landed, which only MySQL
    /// knows; nothing was done. A new claim has a later id.
    TooOld,
    Refused {
        refusal: Refusal,
        /// Whether MySQL must be checked for the key before the refusal is final.
        look_in_mysql: bool,
    },
}

/// Why the gate refuses a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The window has not opened.
    NotOpen {
        /// Start of the window.
        starts_at: DateTime<Utc>,
    },
    /// The template is paused.
    Paused,
    /// The window is over.
    Closed,
    /// The template has ended.
    Ended,
    /// The user would hold more than the limit.
    Limit {
        /// Number of coupons that the user holds.
        taken: u32,
    },
    /// No stock is left.
    SoldOut,
    /// The user let as many holds lapse as the template allows.
    Banned {
        /// Number of lapses.
        lapses: u32,
    },
    /// Less stock is left than requested.
    Insufficient {
        /// Stock left.
        left: i64,
    },
}

/// Reads a number as the scripts write it, whole and in plain decimal; `None` for any other text, and for one that no
/// gate has. So nothing computes with damage.
pub(crate) fn read_number(text: &[u8], range: &RangeInclusive<i64>) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    let is_plain = number.to_string().as_bytes() == text;
    (is_plain && range.contains(&number)).then_some(number)
}

/// Returns how long a success behind an answer of `claim.lua` must be held back, at most [`NOTED`].
pub(crate) fn wait(answer: &[Value]) -> Duration {
    let int = |at: usize| answer.get(at).and_then(|value| i64::from_redis_value_ref(value).ok());
    let at = match int(0) {
        Some(12 | 17) => 1,
        Some(4..=11 | 15) => 2,
        Some(0) => 3,
        Some(13) => 5,
        Some(1) => 6,
        _ => return Duration::ZERO,
    };
    let noted = int(at).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    // No script notes a longer time.
    noted.map_or(Duration::ZERO, |noted| noted.min(NOTED))
}

/// Decodes the answer of `claim.lua` from a server of this run; its header lists the codes.
pub(crate) fn verdict(answer: &[Value], run: &Run) -> Option<Verdict> {
    let int = |at: usize| answer.get(at).and_then(|value| i64::from_redis_value_ref(value).ok());
    let bytes =
        |at: usize| answer.get(at).and_then(|value| Vec::<u8>::from_redis_value_ref(value).ok());
    let refused = |refusal| Some(Verdict::Refused { refusal, look_in_mysql: int(1)? == 1 });
    match int(0)? {
        0 => Some(Verdict::Admitted { numbers: bytes(1)?, left: int(2)? }),
        1 => Some(Verdict::Replay {
            id: ClaimId(int(1)?),
            state: RequestState::from_byte(*bytes(2)?.first()?)?,
            numbers: bytes(3)?,
            look_in_mysql: int(4)? == 1,
            admitted_at: int(5)
                .filter(|ms| limit::CLAIMED_AT_MS.contains(ms))
                .and_then(|ms| Utc.timestamp_millis_opt(ms).single()),
            run: run.clone(),
        }),
        2 => Some(Verdict::KeyReused),
        3 => Some(Verdict::NotLoaded),
        4 => Some(Verdict::OtherEpoch(Epoch(int(1)?))),
        5 => refused(Refusal::NotOpen { starts_at: Utc.timestamp_millis_opt(int(3)?).single()? }),
        6 => refused(Refusal::Paused),
        7 => refused(Refusal::Closed),
        8 => refused(Refusal::Ended),
        9 => refused(Refusal::Limit { taken: u32::try_from(int(3)?).ok()? }),
        10 => refused(Refusal::SoldOut),
        11 => refused(Refusal::Insufficient { left: int(3)? }),
        12 => Some(Verdict::TooOld),
        13 => Some(Verdict::Queued {
            numbers: bytes(1)?,
            left: int(2)?,
            entry: String::from_utf8(bytes(3)?).ok()?,
            look_in_mysql: int(4)? == 1,
            run: run.clone(),
        }),
        14 => Some(Verdict::OutboxFull),
        15 => refused(Refusal::Banned { lapses: u32::try_from(int(3)?).ok()? }),
        16 => Some(Verdict::TooManyQueued),
        17 => Some(Verdict::LookFirst),
        _ => None,
    }
}
