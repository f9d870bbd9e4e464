//! `finding`: what a reconciler found wrong, and what became of it. Of each kind, template and user or claim at most one
//! finding stands: it is open, being repaired or accepted. A finding that ended stays as it is, and the same thing found
//! again is another one.

use chrono::{DateTime, Utc};
use coupon::{
    Epoch, FindingAbout, FindingId, FindingKind, FindingState, MerchantId, TemplateId, UnknownCode,
};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, QueryBuilder, Row, mysql::MySqlRow};

use crate::{
    StoreError,
    code::{Code, code_of},
    datetime::{NullableTime, datetime},
    listed::{Listed, listed},
};

/// Longest `expected` and `seen`, in characters: the columns' length.
const VALUE_CHARS_MAX: usize = 200;

/// Longest sentence, in characters: the column's length.
const LINE_CHARS_MAX: usize = 500;

/// Most rows of the index that one page reads: few enough for one statement, even if the filter passes none.
pub const SCANNED_MAX: u32 = 10_000;

/// Kinds that belong to the platform.
fn of_platform() -> impl Iterator<Item = FindingKind> {
    FindingKind::ALL.into_iter().filter(|kind| kind.is_platforms())
}

/// What was found, as a look judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The template's merchant; of what belongs to the platform, the platform's.
    pub merchant_id: MerchantId,
    pub kind: FindingKind,
    /// `None`: it is about no template.
    pub template: Option<TemplateId>,
    pub about: FindingAbout,
    /// The epoch that was judged.
    pub epoch: Option<Epoch>,
    /// The version that was judged.
    pub version: Option<i64>,
    /// What should be there; stored to the 200th character.
    pub expected: String,
    /// What is there; stored to the 200th character.
    pub seen: String,
    /// How many coupons it is about; 0: it is no matter of their number.
    pub coupons: i64,
    /// What these are worth at most, in minor units of the template's currency. `None`: not known.
    pub money: Option<i64>,
    /// A sentence for people; stored to the 500th character.
    pub line: String,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub id: FindingId,
    /// The latest look's.
    pub found: Found,
    pub state: FindingState,
    /// How often it was found.
    pub looks: i64,
    pub first_seen: DateTime<Utc>,
    pub last_seen: DateTime<Utc>,
    /// When it was last accepted, repaired or overtaken.
    pub decided_at: Option<DateTime<Utc>>,
    /// By whom: `key:<id>`, `platform`, or [`super::finding_decision::RECONCILER`].
    pub decided_by: Option<String>,
    /// Why it was accepted or repaired, in the operator's words.
    pub reason: Option<String>,
}

/// Which findings a page shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Only this merchant's. `None`: all.
    pub merchant: Option<MerchantId>,
    /// Whether what belongs to the platform is among them.
    pub with_platforms: bool,
    pub template: Option<TemplateId>,
    pub kind: Option<FindingKind>,
    pub state: Option<FindingState>,
}

/// A part of the findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Those that pass the filter, the newest first. Those that cannot be read are named.
    pub findings: Vec<Listed<Finding, FindingId>>,
    /// The id down to which every one was looked at, if there may be more behind it.
    pub down_to: Option<FindingId>,
}

/// Records what a look found: a new finding with this id, or another look at the one that stands. One that was accepted is
/// open again if it is about another number of coupons, or, where their number does not matter, about something else.
/// Returns the one that stands.
pub async fn record(
    connection: &mut MySqlConnection,
    id: FindingId,
    found: &Found,
    now: DateTime<Utc>,
) -> Result<Finding, StoreError> {
    let open = FindingState::Open.code();
    let accepted = FindingState::Accepted.code();
    let changed = "coupons <> values(coupons) or (coupons = 0 \
                   and not (expected = values(expected) and seen = values(seen)))";
    let again = format!("state = {accepted} and ({changed})");
    // Assignments take effect from left to right, so what compares with the columns comes first.
    let sql = format!(
        "insert into finding (id, merchant_id, kind, state, template_id, about, about_id, ended, \
         epoch, version, expected, seen, coupons, money, line, looks, first_seen, last_seen) \
         values (?, ?, ?, {open}, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) \
         on duplicate key update decided_at = if({again}, null, decided_at), \
         decided_by = if({again}, null, decided_by), reason = if({again}, null, reason), \
         state = if({again}, {open}, state), epoch = values(epoch), version = values(version), \
         expected = values(expected), seen = values(seen), coupons = values(coupons), \
         money = values(money), line = values(line), looks = looks + 1, \
         last_seen = greatest(last_seen, values(last_seen))"
    );
    let (about, about_id) = found.about.code();
    sqlx::query(AssertSqlSafe(sql))
        .bind(id.0)
        .bind(found.merchant_id.0)
        .bind(found.kind.code())
        .bind(template_of(found))
        .bind(about)
        .bind(about_id)
        .bind(found.epoch.map(|epoch| epoch.0))
        .bind(found.version)
        .bind(cut(&found.expected, VALUE_CHARS_MAX))
        .bind(cut(&found.seen, VALUE_CHARS_MAX))
        .bind(found.coupons)
        .bind(found.money)
        .bind(cut(&found.line, LINE_CHARS_MAX))
        .bind(datetime(now))
        .bind(datetime(now))
        .execute(&mut *connection)
        .await
        .map_err(StoreError::query("record a finding"))?;
    // Ended by another meanwhile: the next look records it anew.
    standing(connection, found).await?.ok_or(StoreError::Contended)
}

/// Returns the finding that stands of this kind, template, and user or claim.
async fn standing(
    connection: &mut MySqlConnection,
    found: &Found,
) -> Result<Option<Finding>, StoreError> {
    let (about, about_id) = found.about.code();
    let row = sqlx::query(
        "select * from finding where kind = ? and template_id = ? and about = ? and about_id = ? \
         and ended = 0",
    )
    .bind(found.kind.code())
    .bind(template_of(found))
    .bind(about)
    .bind(about_id)
    .fetch_optional(connection)
    .await;
    let finding = row.and_then(|row| row.as_ref().map(from_row).transpose());
    finding.map_err(StoreError::query("read a finding that stands"))
}

/// Returns a finding of any merchant.
pub async fn get(
    connection: &mut MySqlConnection,
    id: FindingId,
) -> Result<Option<Finding>, StoreError> {
    let row = sqlx::query("select * from finding where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await;
    let finding = row.and_then(|row| row.as_ref().map(from_row).transpose());
    finding.map_err(StoreError::query("read a finding"))
}

/// Like [`get`]. Until the transaction ends, nobody else changes the finding.
pub async fn get_locked(
    transaction: &mut MySqlConnection,
    id: FindingId,
) -> Result<Option<Finding>, StoreError> {
    let row = sqlx::query("select * from finding where id = ? for update")
        .bind(id.0)
        .fetch_optional(transaction)
        .await;
    let finding = row.and_then(|row| row.as_ref().map(from_row).transpose());
    finding.map_err(StoreError::query("lock a finding"))
}

/// Returns the findings with ids below `before`, the newest first, that pass the filter: at most `limit`, among the next
/// [`SCANNED_MAX`].
pub async fn page(
    connection: &mut MySqlConnection,
    filter: &Filter,
    before: Option<FindingId>,
    limit: u32,
) -> Result<Page, StoreError> {
    let below = before.map_or(i64::MAX, |id| id.0);
    // Only an index is read.
    let mut head = QueryBuilder::<MySql>::new(
        "select count(*), min(id) from (select id from finding where id < ",
    );
    head.push_bind(below);
    of_merchant(&mut head, filter);
    head.push(" order by id desc limit ").push_bind(SCANNED_MAX).push(") passed");
    let passed: Result<(i64, Option<i64>), _> =
        head.build_query_as().fetch_one(&mut *connection).await;
    let (passed, lowest) = passed.map_err(StoreError::query("bound a part of the findings"))?;
    let Some(lowest) = lowest else { return Ok(Page { findings: Vec::new(), down_to: None }) };
    let mut query = QueryBuilder::<MySql>::new("select * from finding where id < ");
    query.push_bind(below).push(" and id >= ").push_bind(lowest);
    of_merchant(&mut query, filter);
    if !filter.with_platforms {
        for kind in of_platform() {
            query.push(" and kind <> ").push_bind(kind.code());
        }
    }
    if let Some(template) = filter.template {
        query.push(" and template_id = ").push_bind(template.0);
    }
    if let Some(kind) = filter.kind {
        query.push(" and kind = ").push_bind(kind.code());
    }
    if let Some(state) = filter.state {
        query.push(" and state = ").push_bind(state.code());
    }
    query.push(" order by id desc limit ").push_bind(limit);
    let rows = query.build().fetch_all(connection).await;
    let findings = rows
        .and_then(|rows| listed(&rows, from_row, |row| row.try_get("id").map(FindingId)))
        .map_err(StoreError::query("read the findings"))?;
    let more = passed >= i64::from(SCANNED_MAX);
    Ok(Page { findings, down_to: more.then_some(FindingId(lowest)) })
}

fn of_merchant(query: &mut QueryBuilder<MySql>, filter: &Filter) {
    if let Some(merchant) = filter.merchant {
        query.push(" and merchant_id = ").push_bind(merchant.0);
    }
}

fn template_of(found: &Found) -> i64 {
    found.template.map_or(0, |id| id.0)
}

/// The text to the column's length.
fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

fn from_row(row: &MySqlRow) -> Result<Finding, sqlx::Error> {
    let template: i64 = row.try_get("template_id")?;
    let about_id: i64 = row.try_get("about_id")?;
    let about: Code = row.try_get("about")?;
    let about = about.read(|code| FindingAbout::from_code(code, about_id));
    let unknown = |error: UnknownCode| sqlx::Error::ColumnDecode {
        index: "about".to_owned(),
        source: error.into(),
    };
    let decided_at: NullableTime = row.try_get("decided_at")?;
    Ok(Finding {
        id: FindingId(row.try_get("id")?),
        found: Found {
            merchant_id: MerchantId(row.try_get("merchant_id")?),
            kind: code_of(row, "kind")?,
            template: (template != 0).then_some(TemplateId(template)),
            about: about.map_err(unknown)?,
            epoch: row.try_get::<Option<i64>, _>("epoch")?.map(Epoch),
            version: row.try_get("version")?,
            expected: row.try_get("expected")?,
            seen: row.try_get("seen")?,
            coupons: row.try_get("coupons")?,
            money: row.try_get("money")?,
            line: row.try_get("line")?,
        },
        state: code_of(row, "state")?,
        looks: row.try_get("looks")?,
        first_seen: row.try_get("first_seen")?,
        last_seen: row.try_get("last_seen")?,
        decided_at: decided_at.into(),
        decided_by: row.try_get("decided_by")?,
        reason: row.try_get("reason")?,
    })
}
