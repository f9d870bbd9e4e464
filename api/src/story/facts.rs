//! What a claim's way left behind, as far as it is known.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{AcceptAfter, CouponId, RejectReason};
use landing::ids::made_at;
use mysql_store::user_coupon::UserCoupon;
use topic::Source;

/// Everything that is known of a claim's way.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// When the claim's id was made.
    pub(crate) received_at: DateTime<Utc>,
    pub(crate) admitted: Known<Admitted>,
    /// The claim on its way through the queue. `Never`: it took the direct way.
    pub(crate) relayed: Known<Relayed>,
    pub(crate) end: End,
    /// The event of its first coupon.
    pub(crate) change: Known<Change>,
    /// Whether its user's list shows its coupons.
    pub(crate) seen: Known<Seen>,
    /// Its coupons as they are now.
    pub(crate) coupons: Vec<UserCoupon>,
}

/// A fact from a server other than MySQL, or one that may have left no record.
#[derive(Debug, Clone)]
pub(crate) enum Known<T> {
    Is(T),
    /// It has not happened, and this is what it may wait for.
    NotYet(&'static str),
    /// This claim never comes there.
    Never(&'static str),
    /// It cannot be determined, for this reason.
    Unknown(String),
}

/// An admission at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) at: DateTime<Utc>,
    /// Stock before it and behind it, where the gate's answer was not lost.
    pub(crate) stock: Option<(i64, i64)>,
}

/// A queued claim's first message.
#[derive(Debug, Clone)]
pub(crate) struct Relayed {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) accept_after: AcceptAfter,
    pub(crate) admitted: Admitted,
}

/// The event of a coupon's insert.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// When it was sent to the topic.
    pub(crate) at: Option<DateTime<Utc>>,
    /// When the tailer read it.
    pub(crate) read_at: Option<DateTime<Utc>>,
    /// Its place in the binlog.
    pub(crate) source: Source,
}

/// Where a list comes from that has a claim's coupons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The view.
    Listed,
    /// MySQL, because the view does not hold the list at the moment.
    Cold,
}

/// How a claim ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    UnderWay,
    /// With these coupons.
    Landed(Vec<CouponId>),
    Rejected {
        reason: RejectReason,
        at: DateTime<Utc>,
    },
    /// A failover of MySQL lost it.
    Lost {
        /// When that was found.
        at: DateTime<Utc>,
    },
    GivenUp {
        at: DateTime<Utc>,
    },
}

impl Facts {
    /// Returns when a lander began with a landed claim: its coupons got their ids then.
    pub(crate) fn taken_at(&self) -> Option<DateTime<Utc>> {
        let End::Landed(coupons) = &self.end else { return None };
        coupons.iter().min().map(|first| made_at(first.0))
    }
}

/// Length of the second that the binlog says of a commit, without its last millisecond.
const REST_OF_SECOND: TimeDelta = TimeDelta::milliseconds(999);

impl Change {
    /// Returns when the change was committed: when the tailer read it, or the end of the second that the binlog names
    /// if that was before. `None` for a row of a snapshot, which does not say when it was committed.
    pub(crate) fn committed_at(&self) -> Option<DateTime<Utc>> {
        if self.source.snapshot {
            return None;
        }
        let second = Some(self.source.ts_ms).filter(|ms| *ms > 0);
        let second = second.and_then(DateTime::from_timestamp_millis);
        let latest = second.map(|second| second + REST_OF_SECOND);
        match (self.read_at, latest) {
            (Some(read), Some(latest)) => Some(read.min(latest)),
            (read, latest) => read.or(latest),
        }
    }
}
