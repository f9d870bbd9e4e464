//! Pure translation of messages into work: view changes per user, unreadable messages.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, TemplateId, UserId};
use redis_view::{Change, ViewCoupon};
use topic::{Event, HEADER_RESTATED, Message, UserCouponRow};

use crate::lag;

/// Largest time of an event or a row, in milliseconds since 1970: the end of the year 9999, as of a `datetime` column.
/// The view's scripts read no more digits.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Largest version of a row: the view's scripts read no more digits.
const VERSION_MAX: i64 = 999_999_999_999_999;

/// The work that a batch of messages requires.
#[derive(Debug, Default)]
pub(crate) struct Work<'a> {
    /// The changes of each user in topic order, which is commit order.
    pub(crate) users: Vec<(UserId, Vec<Change>)>,
    /// Users with a coupon that changed without a newer version, or may have: their views would ignore the change.
    pub(crate) unversioned: Vec<UserId>,
    pub(crate) undecodable: Vec<Undecodable<'a>>,
    /// When the tailer handled the oldest and the newest event, in milliseconds since 1970. For unreadable events, and
    /// those with an impossible time, the broker's timestamp counts, if it is possible.
    handled_ms: Option<(i64, i64)>,
}

/// A message that cannot be read.
#[derive(Debug)]
pub(crate) struct Undecodable<'a> {
    pub(crate) message: &'a Message,
    /// The user named by the message key, if the key is readable.
    pub(crate) user: Option<UserId>,
    pub(crate) reason: anyhow::Error,
}

impl<'a> Work<'a> {
    /// Sorts the messages of a batch.
    pub(crate) fn of(batch: &'a [Message]) -> Self {
        let mut work = Self::default();
        let mut indexes: HashMap<UserId, usize> = HashMap::new();
        for message in batch {
            let (user, change) = match read(message) {
                Ok(Read { user, change, handled_ms, is_unversioned }) => {
                    if is_unversioned {
                        work.unversioned.push(user);
                    }
                    work.waits_since([Some(handled_ms), message.timestamp_ms]);
                    (user, change)
                }
                Err(reason) => {
                    // Still undone until it is a dead letter; the broker's timestamp shows how long it has waited.
                    work.waits_since([message.timestamp_ms, None]);
                    let user = std::str::from_utf8(&message.key).ok();
                    let user = user.and_then(|key| key.parse().ok());
                    work.undecodable.push(Undecodable { message, user, reason });
                    continue;
                }
            };
            let index = *indexes.entry(user).or_insert_with(|| {
                work.users.push((user, Vec::new()));
                work.users.len() - 1
            });
            work.users[index].1.push(change);
        }
        work
    }

    /// Returns the age of the oldest message, in seconds.
    pub(crate) fn lag_seconds(&self, now: DateTime<Utc>) -> Option<f64> {
        self.handled_ms.map(|(oldest_ms, _)| seconds_since(oldest_ms, now))
    }

    /// Returns the age of the newest message, in seconds.
    pub(crate) fn delay_seconds(&self, now: DateTime<Utc>) -> Option<f64> {
        self.handled_ms.map(|(_, newest_ms)| seconds_since(newest_ms, now))
    }

    /// Counts the first of these times that is possible.
    fn waits_since(&mut self, times_ms: [Option<i64>; 2]) {
        let since_ms = times_ms.into_iter().flatten().find(|ms| (0..=TIME_MS_MAX).contains(ms));
        let Some(since_ms) = since_ms else { return };
        let (oldest, newest) = self.handled_ms.unwrap_or((since_ms, since_ms));
        self.handled_ms = Some((oldest.min(since_ms), newest.max(since_ms)));
    }
}

/// Returns the seconds since a time; 0 if it is yet to come.
fn seconds_since(ms: i64, now: DateTime<Utc>) -> f64 {
    lag::seconds(now.timestamp_millis().saturating_sub(ms))
}

/// The content of an event.
struct Read {
    user: UserId,
    change: Change,
    handled_ms: i64,
    is_unversioned: bool,
}

fn read(message: &Message) -> anyhow::Result<Read> {
    let payload = message.payload.as_deref().unwrap_or_default();
    let event: Event<UserCouponRow> = topic::decode(payload)?;
    // Coupons are never deleted, so every event has a row after it.
    let row = event.after.ok_or_else(|| anyhow::anyhow!("event without a row after it"))?;
    Ok(Read {
        user: UserId(row.user_id),
        change: change(&row)?,
        handled_ms: event.ts_ms,
        is_unversioned: event.before.is_some_and(|before| before.version >= row.version)
            || message.header(HEADER_RESTATED).is_some(),
    })
}

fn change(row: &UserCouponRow) -> anyhow::Result<Change> {
    let is_version = (1..=VERSION_MAX).contains(&row.version);
    anyhow::ensure!(is_version, "version {} is not above 0, or too large", row.version);
    for (name, id) in [
        ("id", row.id),
        ("template_id", row.template_id),
        ("user_id", row.user_id),
        ("claim_no", row.claim_no),
        ("claim_id", row.claim_id),
    ] {
        anyhow::ensure!(id >= 0, "{name} {id} is below 0");
    }
    let coupon = ViewCoupon {
        id: CouponId(row.id),
        template_id: TemplateId(row.template_id),
        claim_no: row.claim_no,
        claim_id: ClaimId(row.claim_id),
        claimed_at: time(row.claimed_at)?,
        valid_from: time(row.valid_from)?,
        valid_until: time(row.valid_until)?,
    };
    Ok(Change { coupon, status: CouponStatus::from_code(row.status)?, version: row.version })
}

/// Rejects times that no row has. One before 1970 would collide with the list's marker score.
fn time(ms: i64) -> anyhow::Result<DateTime<Utc>> {
    let time = DateTime::from_timestamp_millis(ms).filter(|_| (0..=TIME_MS_MAX).contains(&ms));
    time.ok_or_else(|| anyhow::anyhow!("{ms} is not a time"))
}

#[cfg(test)]
mod tests {
    use topic::{Op, Source};

    use super::*;

    fn row(id: i64, user_id: i64) -> UserCouponRow {
        UserCouponRow {
            id,
            template_id: 1,
            user_id,
            claim_no: 1,
            claim_id: id,
            merchant_id: 1,
            status: 0,
            version: 1,
            expiry_shard: u8::try_from(user_id % 64).unwrap(),
            claimed_at: 1_000,
            changed_at: 1_000,
            valid_from: 1_000,
            valid_until: 5_250,
            used_at: None,
            order_ref: None,
            trace_parent: None,
            issued_no: None,
        }
    }

    fn message(row: Option<UserCouponRow>, key: &str) -> Message {
        let event = Event {
            before: None,
            after: row,
            op: Op::Create,
            source: Source::default(),
            ts_ms: 7_000,
        };
        Message {
            topic: "t".to_owned(),
            partition: 0,
            offset: 0,
            key: key.as_bytes().to_vec(),
            payload: Some(serde_json::to_vec(&event).unwrap()),
            headers: Vec::new(),
            timestamp_ms: None,
        }
    }

    #[test]
    fn changes_are_grouped_by_user_in_the_order_of_the_topic() {
        let used = UserCouponRow { status: 1, version: 2, ..row(1, 7) };
        let batch = [
            message(Some(row(1, 7)), "7"),
            message(Some(row(2, 8)), "8"),
            message(Some(used), "7"),
        ];
        let work = Work::of(&batch);
        let versions: Vec<(i64, Vec<i64>)> = work
            .users
            .iter()
            .map(|(user, changes)| (user.0, changes.iter().map(|change| change.version).collect()))
            .collect();
        assert_eq!(versions, [(7, vec![1, 2]), (8, vec![1])]);
        assert_eq!(work.handled_ms, Some((7_000, 7_000)));
        assert!(work.undecodable.is_empty());
    }

    #[test]
    fn a_change_that_keeps_its_version_names_the_user_whose_view_must_go() {
        let event = |before: i64, after: i64| {
            let mut message = message(Some(row(1, 7)), "7");
            let row = |version| Some(UserCouponRow { version, ..row(1, 7) });
            let source = Source::default();
            let ts_ms = 7_000;
            let event =
                Event { before: row(before), after: row(after), op: Op::Update, source, ts_ms };
            message.payload = Some(serde_json::to_vec(&event).unwrap());
            message
        };
        let batch = [event(1, 2)];
        assert_eq!(Work::of(&batch).unversioned, []);
        // Read anew behind a definition: its values may be others than they were in this version.
        let mut restated = message(Some(row(1, 7)), "7");
        restated.headers.push((HEADER_RESTATED.to_owned(), b"definition".to_vec()));
        for batch in [[event(2, 2)], [event(3, 2)], [restated]] {
            assert_eq!(Work::of(&batch).unversioned, [UserId(7)]);
        }
    }

    #[test]
    fn an_unreadable_message_is_put_aside_with_the_user_that_its_key_names() {
        let mut garbage = message(None, "7");
        garbage.payload = Some(b"{".to_vec());
        let batch = [
            garbage,
            message(None, "x"),
            message(Some(UserCouponRow { status: 9, ..row(1, 7) }), "7"),
            message(Some(UserCouponRow { claimed_at: -1, ..row(1, 7) }), "7"),
            message(Some(UserCouponRow { valid_until: TIME_MS_MAX + 1, ..row(1, 7) }), "7"),
            message(Some(UserCouponRow { version: 0, ..row(1, 7) }), "7"),
            message(Some(UserCouponRow { version: VERSION_MAX + 1, ..row(1, 7) }), "7"),
            message(Some(UserCouponRow { template_id: -1, ..row(1, 7) }), "7"),
            Message { payload: None, ..message(None, "7") },
            message(Some(row(3, 9)), "9"),
        ];
        let alone = [Message { timestamp_ms: Some(3_000), ..message(None, "7") }];
        assert_eq!(Work::of(&alone).handled_ms, Some((3_000, 3_000)), "it is not done either");
        let work = Work::of(&batch);
        let users: Vec<_> = work.undecodable.iter().map(|unread| unread.user).collect();
        let seven = Some(UserId(7));
        let of_rows = [seven; 7];
        assert_eq!(users[..2], [seven, None]);
        assert_eq!(users[2..], of_rows);
        assert_eq!(work.users.len(), 1);
    }

    /// The event itself is applied: only its time is of no use.
    #[test]
    fn a_time_that_cannot_be_counts_as_that_of_the_broker_or_as_none() {
        let at = |ts_ms: i64, timestamp_ms| {
            let event = Event {
                before: None,
                after: Some(row(1, 7)),
                op: Op::Create,
                source: Source::default(),
                ts_ms,
            };
            let payload = Some(serde_json::to_vec(&event).unwrap());
            Message { payload, timestamp_ms, ..message(None, "7") }
        };
        let now = DateTime::from_timestamp_millis(9_000).unwrap();
        for impossible in [i64::MIN, -1, TIME_MS_MAX + 1, i64::MAX] {
            for (stamp, lag) in [(Some(3_000), Some(6.0)), (Some(impossible), None), (None, None)] {
                let batch = [at(impossible, stamp)];
                let work = Work::of(&batch);
                assert_eq!(
                    (work.lag_seconds(now), work.users.len()),
                    (lag, 1),
                    "{impossible} {stamp:?}"
                );
            }
        }
        assert_eq!(Work::of(&[at(0, None)]).lag_seconds(now), Some(9.0));
        assert_eq!(Work::of(&[at(TIME_MS_MAX, None)]).delay_seconds(now), Some(0.0));
    }
}
