//! Templates in memory: a claim never waits for MySQL to learn what it is about.
//!
//! Filled on a miss, and kept fresh from the template topic; what is newer by version stays. An id
//! that MySQL does not know is remembered for a moment, so a storm of unknown ids is one query a
//! second for each.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta};
use coupon::{
    Discount, DiscountKind, MerchantId, Template, TemplateId, TemplateState, Validity, Window,
};
use mysql_store::{MySqlPool, StoreError, connect, template};
use tokio::sync::Semaphore;
use topic::{Event, TableReader, TemplateRow};
use tracing::warn;

/// How long an unknown id is refused from memory.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);

/// Unknown ids remembered at a time; beyond it they are all forgotten.
const UNKNOWN_MAX: usize = 10_000;

/// Misses read from MySQL at a time: the rest wait their turn, and find the answer in memory.
const MISSES_MAX: usize = 4;

/// Template changes taken from the topic at a time.
const CHANGES_MAX: usize = 500;

/// The templates that this process has heard of.
#[derive(Clone)]
pub(crate) struct TemplateCache {
    pool: MySqlPool,
    known: Arc<RwLock<HashMap<TemplateId, Arc<Template>>>>,
    unknown: Arc<RwLock<HashMap<TemplateId, Instant>>>,
    misses: Arc<Semaphore>,
}

impl TemplateCache {
    pub(crate) fn new(pool: MySqlPool) -> Self {
        Self {
            pool,
            known: Arc::default(),
            unknown: Arc::default(),
            misses: Arc::new(Semaphore::new(MISSES_MAX)),
        }
    }

    /// A template that shoppers may know of: beyond draft.
    pub(crate) async fn published(
        &self,
        id: TemplateId,
    ) -> Result<Option<Arc<Template>>, StoreError> {
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
        let mut connection = connect::acquire(&self.pool).await?;
        match template::get(&mut connection, id).await? {
            Some(template) if template.state != TemplateState::Draft => {
                Ok(Some(self.apply(template)))
            }
            _ => {
                self.remember_unknown(id);
                Ok(None)
            }
        }
    }

    /// Takes a template in if it is newer than the known one; answers the newer of the two.
    pub(crate) fn apply(&self, template: Template) -> Arc<Template> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let id = template.id;
        match known.get(&id) {
            Some(newer) if newer.version >= template.version => Arc::clone(newer),
            _ => {
                let template = Arc::new(template);
                known.insert(id, Arc::clone(&template));
                self.unknown.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
                template
            }
        }
    }

    /// Follows the template topic for ever.
    ///
    /// # Errors
    /// The topic cannot be read; the cache then lives on misses alone.
    pub(crate) async fn follow(&self, brokers: &str, topic: &str) -> anyhow::Result<()> {
        let mut reader = TableReader::open(brokers, topic).await?;
        loop {
            for message in reader.next_batch(CHANGES_MAX).await? {
                let Some(payload) = message.payload.as_deref() else { continue };
                let row = topic::decode::<Event<TemplateRow>>(payload).ok().and_then(|e| e.after);
                match row.map(from_row).transpose() {
                    Ok(Some(template)) if template.state != TemplateState::Draft => {
                        self.apply(template);
                    }
                    Ok(_) => {}
                    Err(error) => warn!(error = ?error, "a template's change was passed over"),
                }
            }
        }
    }

    fn get(&self, id: TemplateId) -> Option<Arc<Template>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
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

fn from_row(row: TemplateRow) -> anyhow::Result<Template> {
    let time = |ms: i64| DateTime::from_timestamp_millis(ms).context("a time out of range");
    let validity = match (row.valid_for_ms, row.valid_from, row.valid_until) {
        (Some(ms), _, _) => Validity::Relative { valid_for: TimeDelta::milliseconds(ms) },
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
        state: TemplateState::from_code(row.state)?,
        version: row.version,
    })
}
