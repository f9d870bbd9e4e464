//! I10: the topic holds every committed change.
//!
//! A change is one version of a coupon. Duplicates are allowed, and so is a snapshot: a row that it read covers all
//! versions up to its own. Only a few numbers per coupon are kept in memory. Too many coupons are divided among
//! several passes.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use coupon::{CouponStatus, UserId, partition_of};
use mysql_store::{
    MySqlConnection, connect, snapshot, user_coupon::UserCoupon, verify::topic_rows::coupons_from,
};
use topic::{Event, Message, Op, UserCouponRow, decode};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
    topics::{self, at, each_message, is_under},
};

/// Coupons per statement when reading MySQL.
const ROWS_PER_READ: u32 = 10_000;

/// Coupons checked per pass: about a hundred megabytes.
const COUPONS_PER_PASS: u64 = 1_000_000;

/// I10: every version of every coupon is in the topic as committed, first occurrences are in order, and each message is
/// in its user's partition. The other topics agree with MySQL.
pub(crate) async fn are_published(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I10", "the topic holds every committed change, in order");
    match look(sources, &mut findings).await {
        Ok(Looked::At { messages }) => Ok(findings.over(count(messages, "message"))),
        Ok(Looked::Skipped { why }) => Ok(findings.skipped_unless_broken(why)),
        Err(error) => findings.end(Err(error)),
    }
}

enum Looked {
    At { messages: usize },
    Skipped { why: &'static str },
}

async fn look(sources: &Sources, findings: &mut Findings) -> Result<Looked, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    topics::are_sound(sources, &mut connection, findings).await?;
    let topic = sources.topics.user_coupon();
    let offsets = sources.offsets.topic_offsets(&topic).await?;
    if offsets.iter().any(|partition| partition.start > 0) {
        let why = "the topic's retention has removed its beginning";
        return Ok(Looked::Skipped { why });
    }
    let partitions = i32::try_from(offsets.len()).unwrap_or(i32::MAX);
    let coupons = snapshot::estimated_rows(&mut connection, "user_coupon").await?;
    let passes = i64::try_from(coupons / COUPONS_PER_PASS).unwrap_or(i64::MAX - 1) + 1;
    let mut messages = 0;
    for pass in 0..passes {
        let mut look = TopicPass { partitions, passes, pass, seen: HashMap::new() };
        messages = 0;
        each_message(sources, &topic, |message| {
            messages += 1;
            look.record(message, findings);
        })
        .await?;
        look.compare(&mut connection, findings).await?;
        for id in look.seen.keys() {
            findings.add(format!("the topic holds coupon {id}, which MySQL does not have"));
        }
    }
    Ok(Looked::At { messages })
}

/// One pass over the topic.
struct TopicPass {
    partitions: i32,
    passes: i64,
    pass: i64,
    seen: HashMap<i64, Seen>,
}

/// State of one coupon according to the topic.
#[derive(Debug, Default)]
struct Seen {
    /// The versions seen, each with a hash of its content.
    versions: Vec<(i64, u64)>,
    /// The highest version that a snapshot read.
    snapshot: i64,
}

impl Seen {
    fn content(&self, version: i64) -> Option<u64> {
        self.versions.iter().find(|(known, _)| *known == version).map(|(_, content)| *content)
    }

    fn knows(&self, version: i64) -> bool {
        version <= self.snapshot || self.content(version).is_some()
    }

    /// The first version up to `last` that the topic lacks. Steps over those that a snapshot covers: there may be any
    /// number.
    fn first_missing(&self, last: i64) -> Option<i64> {
        let first = self.snapshot.max(0).checked_add(1)?;
        (first..=last).find(|version| !self.knows(*version))
    }

    /// Compares the coupon in the topic with MySQL's row.
    fn is_of(&self, row: &UserCoupon, findings: &mut Findings) {
        let id = row.id;
        let version = row.version;
        if let Some(missing) = self.first_missing(version) {
            findings.add(format!("coupon {id}: version {missing} is not in the topic"));
        }
        let beyond = self.versions.iter().map(|(version, _)| *version).max().unwrap_or(0);
        findings.expect(beyond <= version, || {
            format!("coupon {id}: the topic knows version {beyond}, MySQL {version}")
        });
        let in_topic = self.content(version);
        findings
            .expect(in_topic.is_none_or(|in_topic| in_topic == content(&topic_row(row))), || {
                format!("coupon {id}: version {version} in the topic is not MySQL's row")
            });
    }
}

impl TopicPass {
    fn record(&mut self, message: &Message, findings: &mut Findings) {
        let event: Option<Event<UserCouponRow>> =
            message.payload.as_deref().and_then(|payload| decode(payload).ok());
        let Some((op, before, row)) =
            event.and_then(|event| Some((event.op, event.before, event.after?)))
        else {
            if self.pass == 0 {
                findings.add(at(message, "holds no change"));
            }
            return;
        };
        if row.id.rem_euclid(self.passes) != self.pass {
            return;
        }
        let id = row.id;
        let version = row.version;
        let status = row.status;
        findings.expect(is_under(message, row.user_id), || at(message, "is under another key"));
        let partition = partition_of(UserId(row.user_id), self.partitions);
        findings.expect(message.partition == partition, || {
            at(message, "is in another user's partition")
        });
        findings.expect(before.is_none_or(|before| is_lawful(&before, &row)), || {
            format!("coupon {id}: version {version} made it {status}, which it could not become")
        });
        let coupon = self.seen.entry(id).or_default();
        let content = content(&row);
        match coupon.content(version) {
            Some(known) => findings.expect(known == content, || {
                at(message, "holds the same version with other content")
            }),
            None => {
                let in_order = op == Op::Read
                    || coupon.knows(version)
                    || version == 1
                    || version.checked_sub(1).is_none_or(|before| coupon.knows(before));
                findings.expect(in_order, || {
                    let partition = message.partition;
                    let offset = message.offset;
                    format!(
                        "coupon {id}: version {version} came first, at partition {partition}, offset {offset}"
                    )
                });
                coupon.versions.push((version, content));
            }
        }
        if op == Op::Read {
            coupon.snapshot = coupon.snapshot.max(version);
        }
    }

    /// Compares the coupons with MySQL, and removes those that it compared.
    async fn compare(
        &mut self,
        connection: &mut MySqlConnection,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let passes = self.passes;
        let pass = self.pass;
        let is_of_this_pass = |id: i64| id.rem_euclid(passes) == pass;
        let mut from = Some(i64::MIN);
        while let Some(id) = from {
            let page = coupons_from(connection, id, ROWS_PER_READ).await?;
            from = page.next;
            for row in page.rows.iter().filter(|row| is_of_this_pass(row.id.0)) {
                let topic = self.seen.remove(&row.id.0).unwrap_or_default();
                topic.is_of(row, findings);
            }
            for row in page.unreadable.iter().filter(|row| is_of_this_pass(row.key)) {
                findings.add(row.to_string());
                self.seen.remove(&row.key);
            }
        }
        Ok(())
    }
}

/// Hash of a row's content; equal for equal rows.
fn content(row: &UserCouponRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish()
}

/// Whether `after` may follow `before`. A used coupon may only be given back by its order, which then cannot use it
/// again; an expired or cancelled one never changes.
fn is_lawful(before: &UserCouponRow, after: &UserCouponRow) -> bool {
    let status = |row: &UserCouponRow| CouponStatus::from_code(row.status);
    let (Ok(was), Ok(is)) = (status(before), status(after)) else { return false };
    match (was, is) {
        // It follows its template's validity, was extended, or its row records an order that was cancelled before it
        // used the coupon.
        (CouponStatus::Unused, CouponStatus::Unused) => true,
        _ if !was.may_become(is) => false,
        (CouponStatus::Unused, CouponStatus::Used) => {
            before.order_ref.is_none() || before.order_ref != after.order_ref
        }
        (CouponStatus::Used, CouponStatus::Unused)
        | (CouponStatus::Unused, CouponStatus::Cancelled) => before.order_ref == after.order_ref,
        _ => true,
    }
}

/// The row as it appears in an event.
fn topic_row(row: &UserCoupon) -> UserCouponRow {
    UserCouponRow {
        id: row.id.0,
        template_id: row.template_id.0,
        user_id: row.user_id.0,
        claim_no: row.claim_no,
        claim_id: row.claim_id.0,
        merchant_id: row.merchant_id.0,
        status: row.status.code(),
        version: row.version,
        expiry_shard: row.expiry_shard,
        claimed_at: row.claimed_at.timestamp_millis(),
        changed_at: row.changed_at.timestamp_millis(),
        valid_from: row.valid_from.timestamp_millis(),
        valid_until: row.valid_until.timestamp_millis(),
        used_at: row.used_at.map(|at| at.timestamp_millis()),
        order_ref: row.order_ref.clone(),
        trace_parent: row.trace_parent.clone(),
        issued_no: row.issued_no,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_at_the_ends_of_their_type_neither_end_the_check_nor_keep_it() {
        let snapshot = Seen { versions: Vec::new(), snapshot: i64::MAX };
        assert_eq!(snapshot.first_missing(i64::MAX), None);
        let two = Seen { versions: vec![(1, 0), (2, 0)], snapshot: 0 };
        assert_eq!(two.first_missing(i64::MAX), Some(3));
        assert_eq!(
            [i64::MIN, 0, 1, 2, 3].map(|last| two.first_missing(last)),
            [None, None, None, None, Some(3)]
        );
    }
}
