//! Templates in memory, so that a claim never waits for MySQL to learn about its template.
//!
//! The cache is filled on a miss, and kept fresh from the template topic; the newer version stays. An id that MySQL
//! does not know is remembered for a moment, so a storm of one unknown id is one query a second. Reads of misses are
//! limited, except those of [`TemplateCache::visible_by_now`], against clients that make up a new id for each request.
//! Beyond the limit the answer is "unknown at the moment", never "no such template".
//!
//! Coupons are shown with their templates (`at_hand.rs`), and shops list what is upcoming and open (`upcoming.rs`).

mod current;
mod listed;
mod lookup;
mod upcoming;

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta};
use coupon::{
    AcceptAfter, ClaimMode, Discount, DiscountKind, HoldTerms, MerchantId, ReturnedStock, Template,
    TemplateId, TemplateState, Validity, Window,
};
use mysql_store::{MySqlPool, connect, template};
use runtime::Clock;
use tokio::sync::Semaphore;
use topic::{Event, Op, TableReader, TemplateRow};
use tracing::warn;

use crate::{code::Code, config::Config, problem::Problem};
use current::Current;
use listed::Listed;
pub(crate) use listed::Position;

/// How long an unknown id is refused from memory.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);

/// Maximum unknown ids in memory. A full map is cleared.
const UNKNOWN_MAX: usize = 10_000;

/// Maximum concurrent reads of misses. The rest wait their turn, and find the answer in memory.
const MISSES_MAX: usize = 4;

const SECOND: Duration = Duration::from_secs(1);

/// Maximum template changes read from the topic at a time.
const CHANGES_MAX: usize = 500;

/// Cache of all templates but drafts.
#[derive(Clone)]
pub(crate) struct TemplateCache {
    pool: MySqlPool,
    clock: Clock,
    known: Arc<RwLock<Known>>,
    /// Whether everything that is upcoming or open was read.
    is_complete: Arc<AtomicBool>,
    unknown: Arc<RwLock<HashMap<TemplateId, Instant>>>,
    misses: Arc<Semaphore>,
    bucket: Arc<Mutex<Bucket>>,
}

/// The newest known version of each template, and which of them lists and live figures show.
#[derive(Default)]
struct Known {
    by_id: HashMap<TemplateId, Arc<Template>>,
    listed: Listed,
    current: Current,
}

/// Limits the misses per second: it fills up with each, and empties evenly (see `rate_limit.rs`).
struct Bucket {
    /// What a miss adds.
    each: Duration,
    empty_at: Instant,
}

impl TemplateCache {
    pub(crate) fn new(pool: MySqlPool, clock: Clock, config: &Config) -> Self {
        let bucket = Bucket::new(config.unknown_templates_per_second, Instant::now());
        Self {
            pool,
            clock,
            known: Arc::default(),
            is_complete: Arc::default(),
            unknown: Arc::default(),
            misses: Arc::new(Semaphore::new(MISSES_MAX)),
            bucket: Arc::new(Mutex::new(bucket)),
        }
    }

    /// Returns a template that shoppers may know of: in any state but draft.
    pub(crate) async fn visible(&self, id: TemplateId) -> Result<Option<Arc<Template>>, Problem> {
        if let Some(template) = self.get(id) {
            return Ok(Some(template));
        }
        if self.is_unknown(id) {
            return Ok(None);
        }
        let _turn = self.misses.acquire().await;
        if let Some(template) = self.get(id) {
            return Ok(Some(template));
        }
        if self.is_unknown(id) {
            return Ok(None);
        }
        // Only requests that will read are counted: those that waited for another's read have its answer by now.
        if !self.may_read() {
            let detail = "Too many unknown templates are asked for. Send the request again.";
            return Err(Problem::new(Code::Overloaded, detail));
        }
        let template = self.read(id).await?;
        if template.is_none() {
            self.remember_unknown(id);
        }
        Ok(template)
    }

    /// Like [`TemplateCache::visible`], but reads what is not in memory, without that limit: the template may have been
    /// published just now.
    pub(crate) async fn visible_by_now(
        &self,
        id: TemplateId,
    ) -> Result<Option<Arc<Template>>, Problem> {
        match self.get(id) {
            Some(template) => Ok(Some(template)),
            None => self.read(id).await,
        }
    }

    /// Counts a read of MySQL. Returns whether it is within the limit.
    fn may_read(&self) -> bool {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).takes_one(Instant::now())
    }

    async fn read(&self, id: TemplateId) -> Result<Option<Arc<Template>>, Problem> {
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::get(&mut connection, id).await
        });
        let visible = read.await?.filter(|template| template.state != TemplateState::Draft);
        Ok(visible.map(|template| self.apply(template)))
    }

    /// Stores a template if it is newer than the known one. Returns the newer of the two.
    pub(crate) fn apply(&self, template: Template) -> Arc<Template> {
        let now = self.clock.now();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let id = template.id;
        match known.by_id.get(&id) {
            Some(newer) if newer.version >= template.version => Arc::clone(newer),
            _ => {
                let template = Arc::new(template);
                let before = known.by_id.insert(id, Arc::clone(&template));
                known.listed.replace(before.as_deref(), &template, now);
                known.current.replace(&template, now);
                self.unknown.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
                template
            }
        }
    }

    /// Follows the template topic. Returns only on an error.
    ///
    /// # Errors
    /// The topic cannot be read. The cache then relies on misses alone.
    pub(crate) async fn follow(&self, brokers: &str, topic: &str) -> anyhow::Result<()> {
        let mut reader = TableReader::open(brokers, topic).await?;
        loop {
            for message in reader.next_batch(CHANGES_MAX).await? {
                let Some(payload) = message.payload.as_deref() else { continue };
                let event = topic::decode::<Event<TemplateRow>>(payload).ok();
                if let Some(deleted) = event.as_ref().and_then(deleted) {
                    self.forget(deleted);
                    continue;
                }
                match event.and_then(|event| event.after).map(from_row).transpose() {
                    Ok(Some(template)) if template.state != TemplateState::Draft => {
                        self.apply(template);
                    }
                    Ok(_) => {}
                    Err(error) => warn!(
                        error = runtime::report(error.as_ref()),
                        "a template's change was passed over"
                    ),
                }
            }
        }
    }

    /// Forgets a template that was deleted; the next request for it reads MySQL.
    fn forget(&self, id: TemplateId) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = known.by_id.remove(&id) {
            known.listed.remove(&template);
            known.current.remove(id);
        }
    }

    /// Returns whether a template is in memory. Each template that users claim from is.
    pub(crate) fn knows(&self, id: TemplateId) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.contains_key(&id)
    }

    fn get(&self, id: TemplateId) -> Option<Arc<Template>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    fn is_unknown(&self, id: TemplateId) -> bool {
        let unknown = self.unknown.read().unwrap_or_else(PoisonError::into_inner);
        unknown.get(&id).is_some_and(|since| since.elapsed() < UNKNOWN_FOR)
    }

    fn remember_unknown(&self, id: TemplateId) {
        let mut unknown = self.unknown.write().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() >= UNKNOWN_MAX {
            unknown.clear();
        }
        unknown.insert(id, Instant::now());
    }
}

impl Bucket {
    fn new(per_second: NonZeroU32, now: Instant) -> Self {
        Self { each: SECOND / per_second.get(), empty_at: now }
    }

    fn takes_one(&mut self, now: Instant) -> bool {
        let next = self.empty_at.max(now) + self.each;
        let fits = next <= now + SECOND;
        if fits {
            self.empty_at = next;
        }
        fits
    }
}

/// Returns the template that an event deletes. The platform deletes drafts only, which are not in memory.
fn deleted(event: &Event<TemplateRow>) -> Option<TemplateId> {
    event.before.as_ref().filter(|_| event.op == Op::Delete).map(|row| TemplateId(row.id))
}

pub(crate) fn from_row(row: TemplateRow) -> anyhow::Result<Template> {
    let time = |ms: i64| DateTime::from_timestamp_millis(ms).context("a time out of range");
    let validity = match (row.valid_for_ms, row.valid_from, row.valid_until) {
        (Some(ms), _, _) => {
            let valid_for = TimeDelta::try_milliseconds(ms).context("a validity out of range")?;
            Validity::Relative { valid_for }
        }
        (None, Some(from), Some(until)) => {
            Validity::Absolute { from: time(from)?, until: time(until)? }
        }
        _ => anyhow::bail!("a template without a validity"),
    };
    Ok(Template {
        id: TemplateId(row.id),
        merchant_id: MerchantId(row.merchant_id),
        name: row.name,
        discount: Discount {
            kind: DiscountKind::from_code(row.discount_kind)?,
            value: row.discount_value,
            cap: row.discount_cap,
            minimum_spend: row.minimum_spend,
            currency: row.currency,
        },
        per_user_limit: row.per_user_limit.try_into()?,
        max_per_claim: row.max_per_claim.try_into()?,
        window: Window { starts_at: time(row.claim_starts_at)?, ends_at: time(row.claim_ends_at)? },
        validity,
        self_redeem: row.self_redeem == 1,
        stackable: row.stackable == 1,
        claim_mode: ClaimMode::from_code(row.claim_mode)?,
        accept_after: AcceptAfter::from_code(row.accept_after)?,
        hold: HoldTerms {
            hold: (row.hold_ms > 0).then(|| TimeDelta::milliseconds(row.hold_ms)),
            lapses_allowed: row.lapses_allowed.try_into()?,
            returned_stock: ReturnedStock::from_code(row.returned_stock)?,
        },
        state: TemplateState::from_code(row.state)?,
        version: row.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_ids_are_looked_up_within_a_second_and_no_more() {
        let start = Instant::now();
        let mut bucket = Bucket::new(NonZeroU32::new(500).unwrap(), start);
        let mut taken = |ms: u64, asked: u32| {
            let now = start + Duration::from_millis(ms);
            (0..asked).filter(|_| bucket.takes_one(now)).count()
        };
        assert_eq!(taken(0, 5_000), 500);
        assert_eq!(taken(100, 5_000), 50, "it empties evenly");
        assert_eq!(taken(60_000, 5_000), 500, "and never gives more at once");
    }
}
