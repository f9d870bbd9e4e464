//! Remaining stock of templates for shop pages: from memory, and from the gate a few times a second.
//!
//! However many pages are open, each process reads a template's gate once in [`FRESH_FOR`], and requests that come
//! during the read wait for its answer. A gate that does not answer also costs one wait in that time.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use coupon::TemplateId;
use redis_gate::Gate;
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;

/// Longest age of an answer: less than a page notices, and four reads a second for each template.
const FRESH_FOR: Duration = Duration::from_millis(250);

/// Maximum templates in the cache: more than are ever open at once. A full cache is cleared.
const TEMPLATES_MAX: usize = 10_000;

/// When the gate was read, and what it had left. Inner `None`: it was not loaded.
type Seen = Option<(Instant, Option<i64>)>;

/// The last answers of the gates.
pub(crate) struct ShopStock {
    gate: Gate,
    seen: RwLock<HashMap<TemplateId, Arc<Mutex<Seen>>>>,
}

impl ShopStock {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate, seen: RwLock::default() }
    }

    /// Returns what is left, or `None` if the gate is not loaded or does not answer. Never below 0, although a cut may
    /// put a gate there for a moment.
    pub(crate) async fn left(&self, template: TemplateId) -> Option<i64> {
        let entry = self.entry(template);
        let mut seen = entry.lock().await;
        if let Some((at, left)) = *seen
            && at.elapsed() < FRESH_FOR
        {
            return left;
        }
        let left = match self.gate.meta(template).await {
            Ok(meta) => meta.filter(redis_gate::Meta::is_open).map(|meta| meta.stock.max(0)),
            Err(error) => {
                let error = runtime::report(&error);
                debug!(template.id = %template, error, "the remaining stock cannot be read");
                None
            }
        };
        *seen = Some((Instant::now(), left));
        left
    }

    fn entry(&self, template: TemplateId) -> Arc<Mutex<Seen>> {
        let known = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get(&template) {
            return Arc::clone(entry);
        }
        drop(known);
        let mut known = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TEMPLATES_MAX {
            known.clear();
        }
        Arc::clone(known.entry(template).or_default())
    }
}
