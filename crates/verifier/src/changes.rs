//! I10: the topic holds every committed change.
//!
//! A change is a coupon's version. Duplicates are allowed, and so is a snapshot: a row it read stands
//! for all versions up to its own.

use std::collections::{BTreeSet, HashMap};

use coupon::CouponStatus;
use mysql_store::{connect, snapshot};
use topic::{Event, Message, Op, TableReader, UserCouponRow, decode, topic_offsets};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// Coupons read from MySQL by one statement.
const ROWS_PER_READ: u32 = 10_000;

/// I10: every version of every coupon is in the topic, and first occurrences are in order.
pub(crate) async fn are_published(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I10", "the topic holds every committed change, in order");
    let topic = sources.topics.user_coupon();
    let offsets = topic_offsets(&sources.brokers, &topic).await?;
    if offsets.iter().any(|partition| partition.start > 0) {
        return Ok(findings.skipped("the topic's retention has removed its beginning"));
    }
    let messages = TableReader::open(&sources.brokers, &topic).await?.read_to_end().await?;
    let mut seen: HashMap<i64, Seen> = HashMap::new();
    for message in &messages {
        record(message, &mut seen, &mut findings);
    }
    compare(sources, &mut seen, &mut findings).await?;
    for id in seen.keys() {
        findings.add(format!("the topic tells of coupon {id}, which MySQL does not have"));
    }
    Ok(findings.over(count(messages.len(), "message")))
}

/// What the topic says of one coupon.
#[derive(Debug, Default)]
struct Seen {
    /// The versions that came as changes.
    versions: BTreeSet<i64>,
    /// The highest version that a snapshot read.
    snapshot: i64,
}

impl Seen {
    fn knows(&self, version: i64) -> bool {
        version <= self.snapshot || self.versions.contains(&version)
    }
}

fn record(message: &Message, seen: &mut HashMap<i64, Seen>, findings: &mut Findings) {
    let (partition, offset) = (message.partition, message.offset);
    let event: Option<Event<UserCouponRow>> =
        message.payload.as_deref().and_then(|payload| decode(payload).ok());
    let Some((op, before, row)) =
        event.and_then(|event| Some((event.op, event.before, event.after?)))
    else {
        return findings.add(format!("partition {partition}, offset {offset} holds no change"));
    };
    findings.expect(before.is_none_or(|before| is_lawful(&before, &row)), || {
        let (id, version, status) = (row.id, row.version, row.status);
        format!("coupon {id}: version {version} made it {status}, which it could not become")
    });
    let coupon = seen.entry(row.id).or_default();
    if op == Op::Read {
        coupon.snapshot = coupon.snapshot.max(row.version);
        return;
    }
    let in_order = coupon.knows(row.version) || row.version == 1 || coupon.knows(row.version - 1);
    findings.expect(in_order, || {
        let (id, version) = (row.id, row.version);
        format!(
            "coupon {id}: version {version} came first, at partition {partition}, offset {offset}"
        )
    });
    coupon.versions.insert(row.version);
}

/// Whether one row may follow the other: used once until its order gives it back, and then not by that
/// order; expired for ever.
fn is_lawful(before: &UserCouponRow, after: &UserCouponRow) -> bool {
    let status = |row: &UserCouponRow| CouponStatus::from_code(row.status);
    match (status(before), status(after)) {
        (Ok(CouponStatus::Unused), Ok(CouponStatus::Used)) => {
            before.order_ref.is_none() || before.order_ref != after.order_ref
        }
        (Ok(CouponStatus::Unused), Ok(_)) => true,
        (Ok(CouponStatus::Used), Ok(CouponStatus::Unused)) => before.order_ref == after.order_ref,
        _ => false,
    }
}

/// Compares with MySQL and takes out what was compared.
async fn compare(
    sources: &Sources,
    seen: &mut HashMap<i64, Seen>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let mut after = 0;
    loop {
        let rows = snapshot::user_coupon_after(&mut connection, after, ROWS_PER_READ).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.id.0;
        for row in &rows {
            let (id, version) = (row.id, row.version);
            let topic = seen.remove(&id.0).unwrap_or_default();
            let missing = (1..=version).find(|version| !topic.knows(*version));
            findings.expect(missing.is_none(), || {
                format!("coupon {id}: version {} is not in the topic", missing.unwrap_or(version))
            });
            let beyond = topic.versions.last().copied().unwrap_or(0).max(topic.snapshot);
            findings.expect(beyond <= version, || {
                format!("coupon {id}: the topic knows version {beyond}, MySQL {version}")
            });
        }
    }
}
