//! For I10: the topics of templates, movements and wake-ups agree with MySQL, and every message is readable.
//!
//! A draft may be deleted, with its movements. Its deletion is an event like any other. A snapshot does not publish
//! earlier deletions, so a draft in the topic may be gone from MySQL; any other template must be there.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use coupon::{EXPIRY_SHARDS, TemplateState, Validity};
use mysql_store::{
    MySqlConnection, connect,
    verify::topic_rows::{self, MovementRow},
};
use topic::{Event, ExpiryWakeUp, Message, Op, StockMovementRow, TableReader, TemplateRow, decode};

use crate::{Sources, VerifyError, outcome::Findings};

/// Rows per statement when reading MySQL.
const ROWS_PER_READ: u32 = 1_000;

/// Messages read at a time.
const BATCH: usize = 1_000;

/// Checks the three topics.
pub(crate) async fn are_sound(
    sources: &Sources,
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let gone = templates(sources, connection, findings).await?;
    movements(sources, connection, &gone, findings).await?;
    let topic = sources.topics.expiry();
    each_message(sources, &topic, |message| {
        let wake_up = payload::<ExpiryWakeUp>(message);
        let known = wake_up.filter(|wake_up| i64::from(wake_up.shard) < EXPIRY_SHARDS);
        findings.expect(known.is_some(), || at(message, "is no wake-up of a shard"));
    })
    .await
}

/// Describes a difference between MySQL and the topics of templates and movements, if any.
pub(crate) async fn difference(sources: &Sources) -> Result<Option<String>, VerifyError> {
    let mut findings = Findings::of("I10", "the topics hold what MySQL holds");
    let mut connection = connect::acquire(&sources.pool).await?;
    let gone = templates(sources, &mut connection, &mut findings).await?;
    movements(sources, &mut connection, &gone, &mut findings).await?;
    Ok(findings.first())
}

/// The topic is compacted: only the latest event of each template is certain to remain. Returns the drafts that were
/// deleted.
async fn templates(
    sources: &Sources,
    connection: &mut MySqlConnection,
    findings: &mut Findings,
) -> Result<HashSet<i64>, VerifyError> {
    let topic = sources.topics.template();
    let mut in_topic: HashMap<i64, TemplateRow> = HashMap::new();
    let mut gone: HashSet<i64> = HashSet::new();
    each_message(sources, &topic, |message| {
        let event = payload::<Event<TemplateRow>>(message);
        if let Some(deleted) = event.as_ref().and_then(deleted) {
            findings.expect(is_under(message, deleted.id), || at(message, "is under another key"));
            findings
                .expect(is_draft(deleted), || at(message, "deletes a template that was no draft"));
            gone.insert(deleted.id);
            return;
        }
        let Some(row) = event.and_then(|event| event.after) else {
            return findings.add(at(message, "holds no template"));
        };
        findings.expect(is_under(message, row.id), || at(message, "is under another key"));
        let known = in_topic.entry(row.id).or_insert_with(|| row.clone());
        findings.expect(known.version != row.version || *known == row, || {
            at(message, "holds the same version with other content")
        });
        if row.version > known.version {
            *known = row;
        }
    })
    .await?;
    let mut from = Some(i64::MIN);
    while let Some(id) = from {
        let page = topic_rows::templates_from(connection, id, ROWS_PER_READ).await?;
        from = page.next;
        for unreadable in &page.unreadable {
            in_topic.remove(&unreadable.key);
            findings.add(unreadable.to_string());
        }
        for row in page.rows.iter().map(template_row) {
            let id = row.id;
            let latest = in_topic.remove(&row.id);
            findings.expect(!gone.contains(&id), || {
                format!("template {id} is in MySQL, and the topic calls it deleted")
            });
            let version = latest.as_ref().map(|latest| latest.version);
            findings.expect(latest == Some(row), || match version {
                Some(version) => {
                    format!("template {id}: version {version} in the topic is not MySQL's row")
                }
                None => format!("template {id} is not in the topic"),
            });
        }
    }
    for (id, row) in in_topic {
        // After a repeated message the deletion is not the template's last event; an id is never reused.
        if gone.contains(&id) || is_draft(&row) {
            gone.insert(id);
        } else {
            findings.add(format!("the topic holds template {id}, which MySQL does not have"));
        }
    }
    Ok(gone)
}

/// Returns the row that an event deletes, or `None` if it deletes none.
fn deleted<R>(event: &Event<R>) -> Option<&R> {
    event.before.as_ref().filter(|_| event.op == Op::Delete)
}

fn is_draft(row: &TemplateRow) -> bool {
    row.state == TemplateState::Draft.code()
}

/// The movements of a `gone` template were deleted with it.
async fn movements(
    sources: &Sources,
    connection: &mut MySqlConnection,
    gone: &HashSet<i64>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let topic = sources.topics.stock_movement();
    let offsets = sources.offsets.topic_offsets(&topic).await?;
    let is_whole = offsets.iter().all(|partition| partition.start == 0);
    let mut in_topic: BTreeMap<(i64, i64), (i64, u64)> = BTreeMap::new();
    each_message(sources, &topic, |message| {
        let event = payload::<Event<StockMovementRow>>(message);
        if let Some(deleted) = event.as_ref().and_then(deleted) {
            let template = deleted.template_id;
            findings.expect(is_under(message, template), || at(message, "is under another key"));
            findings.expect(gone.contains(&template), || {
                at(message, "deletes a movement of a template that is there")
            });
            return;
        }
        let Some(row) = event.and_then(|event| event.after) else {
            return findings.add(at(message, "holds no movement"));
        };
        findings.expect(is_under(message, row.template_id), || at(message, "is under another key"));
        let moved = (row.delta, content(&row));
        let known = *in_topic.entry((row.template_id, row.seq)).or_insert(moved);
        findings.expect(known == moved, || at(message, "moves otherwise than before"));
    })
    .await?;
    let mut from = Some((i64::MIN, i64::MIN));
    while let Some((template, seq)) = from {
        let page = topic_rows::movements_from(connection, template, seq, ROWS_PER_READ).await?;
        from = page.next;
        for unreadable in &page.unreadable {
            in_topic.remove(&unreadable.key);
            findings.add(unreadable.to_string());
        }
        for row in page.rows.into_iter().map(movement_row) {
            let template = row.template_id;
            let seq = row.seq;
            let delta = row.delta;
            let moved = in_topic.remove(&(template, seq));
            let right = moved == Some((delta, content(&row))) || (moved.is_none() && !is_whole);
            findings.expect(right, || {
                let moved = moved.map(|(delta, _)| delta);
                format!("template {template}, movement {seq}: {delta} in MySQL, {moved:?} in the topic, or another column differs")
            });
        }
    }
    for (template, seq) in in_topic.keys().filter(|(template, _)| !gone.contains(template)) {
        findings.add(format!(
            "the topic holds movement {seq} of template {template}, which MySQL does not have"
        ));
    }
    Ok(())
}

/// Hash of a movement's content except its change of the total.
fn content(row: &StockMovementRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&row.reason, &row.actor, row.created_at, &row.request_id).hash(&mut hasher);
    (row.total_after, row.stock_after).hash(&mut hasher);
    (row.kind, row.delta_stock, &row.returned).hash(&mut hasher);
    hasher.finish()
}

/// The row as it appears in an event.
fn movement_row(row: MovementRow) -> StockMovementRow {
    StockMovementRow {
        template_id: row.template_id.0,
        seq: row.seq,
        delta: row.delta,
        reason: row.reason,
        actor: row.actor,
        created_at: row.created_at.timestamp_millis(),
        request_id: row.request_id.map(|bytes| BASE64_STANDARD.encode(bytes)),
        total_after: row.total_after,
        stock_after: row.stock_after,
        kind: row.kind.code(),
        delta_stock: row.delta_stock,
        returned: row.returned,
    }
}

/// Calls `look` for every message up to the topic's end at the start of the read.
pub(crate) async fn each_message(
    sources: &Sources,
    topic: &str,
    mut look: impl FnMut(&Message),
) -> Result<(), VerifyError> {
    let mut reader = TableReader::open_to_end(&sources.brokers, topic).await?;
    let mut looked_at = 0;
    while !reader.caught_up() {
        let batch = reader.next_batch(BATCH).await?;
        looked_at += batch.len();
        sources.progress.say(|| format!("I10: {looked_at} messages of {topic}"));
        batch.iter().for_each(&mut look);
    }
    Ok(())
}

/// Describes a message's position and its fault.
pub(crate) fn at(message: &Message, what: &str) -> String {
    let Message { topic, partition, offset, .. } = message;
    format!("{topic}, partition {partition}, offset {offset} {what}")
}

/// Whether a message has this id as its key.
pub(crate) fn is_under(message: &Message, id: i64) -> bool {
    message.key == id.to_string().as_bytes()
}

fn payload<T: serde::de::DeserializeOwned>(message: &Message) -> Option<T> {
    decode(message.payload.as_deref()?).ok()
}

fn template_row(row: &topic_rows::TemplateRow) -> TemplateRow {
    let template = &row.template;
    let millis = |time: chrono::DateTime<chrono::Utc>| time.timestamp_millis();
    let (from, until, valid_for) = match template.validity {
        Validity::Absolute { from, until } => (Some(millis(from)), Some(millis(until)), None),
        Validity::Relative { valid_for } => (None, None, Some(valid_for.num_milliseconds())),
    };
    TemplateRow {
        id: template.id.0,
        merchant_id: template.merchant_id.0,
        name: template.name.clone(),
        discount_kind: template.discount.kind.code(),
        discount_value: template.discount.value,
        discount_cap: template.discount.cap,
        minimum_spend: template.discount.minimum_spend,
        currency: template.discount.currency.clone(),
        per_user_limit: template.per_user_limit.cast_signed(),
        max_per_claim: template.max_per_claim.cast_signed(),
        claim_starts_at: millis(template.window.starts_at),
        claim_ends_at: millis(template.window.ends_at),
        valid_from: from,
        valid_until: until,
        valid_for_ms: valid_for,
        self_redeem: template.self_redeem.into(),
        stackable: template.stackable.into(),
        claim_mode: template.claim_mode.code(),
        accept_after: template.accept_after.code(),
        hold_ms: template.hold.hold.map_or(0, |hold| hold.num_milliseconds()),
        lapses_allowed: template.hold.lapses_allowed.cast_signed(),
        returned_stock: template.hold.returned_stock.code(),
        state: template.state.code(),
        version: template.version,
        created_at: millis(row.created_at),
        changed_at: millis(row.changed_at),
    }
}
