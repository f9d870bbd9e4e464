//! Reads the users of a template that is sold out, one template at a time.

use std::sync::PoisonError;

use coupon::{Epoch, TemplateId};
use redis_gate::{GateError, SoldOutGate, SoldOutLook};
use tracing::debug;

use super::{Micros, SoldOut, memory::Known};
use crate::sync::Arc;

/// After a scan the template rests for this many times the scan's duration. While units come back one by one, each to
/// a new user, scans therefore take a tenth of the time, and the gate answers in between.
const REST_FACTOR: u64 = 9;

/// The shortest rest, longer than two look intervals.
const REST_MIN: Micros = 100_000;

/// Users that a scan may read beyond nine eighths of the gate's count: some come twice while Redis resizes the table.
const TWICE_MAX: usize = 2_000;

impl SoldOut {
    /// Reads the users of templates that are worth a scan, one template after the other. Never returns.
    pub(super) async fn scan_on(&self) {
        loop {
            let Some((template, epoch)) = self.next_due() else {
                self.0.wanted.notified().await;
                continue;
            };
            let begun = self.0.now();
            match self.scan(template, epoch).await {
                Ok(Some(known)) => {
                    let users = known.users();
                    let fits = self.0.memory.insert(template, Arc::new(known));
                    debug!(template.id = %template, users, fits, "read the users of a sold out template");
                }
                Ok(None) => {}
                Err(error) => {
                    let why = format!("template {template}: {}", runtime::report(&error));
                    runtime::seldom!("the users of a sold out template are not read", why);
                }
            }
            self.rest(template, begun);
        }
    }

    /// Returns a template that is worth a scan.
    fn next_due(&self) -> Option<(TemplateId, Epoch)> {
        let now = self.0.now();
        let refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = refused.iter().filter(|(_, counted)| counted.is_due(now));
        due.next().map(|(template, counted)| (*template, counted.epoch))
    }

    /// Restarts the count, and lets the template rest after a scan that began at `begun`.
    fn rest(&self, template: TemplateId, begun: Micros) {
        let now = self.0.now();
        let mut refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = refused.get_mut(&template) {
            counted.count = 0;
            counted.rests_until = now + (REST_FACTOR * (now - begun)).max(REST_MIN);
        }
    }

    /// Reads all users with an entry; `None` if the gate is not sold out, or has more of them than there is room for.
    async fn scan(&self, template: TemplateId, epoch: Epoch) -> Result<Option<Known>, GateError> {
        let gate = &self.0.gate;
        let look = SoldOutLook { template, epoch, users: None };
        let found = gate.sold_out(&[look]).await.pop().transpose()?.flatten();
        let room = self.0.memory.room();
        let count = |found: SoldOutGate| usize::try_from(found.users).unwrap_or(usize::MAX);
        let Some(found) = found.filter(|found| count(*found) <= room) else { return Ok(None) };
        let most = count(found) + count(found) / 8 + TWICE_MAX;
        let mut users = Vec::with_capacity(count(found));
        let mut cursor = 0;
        loop {
            let (next, page) = gate.users_from(template, epoch, cursor).await?;
            for user in page {
                let Some(user) = user else { return Ok(None) };
                users.push(user.0);
            }
            if users.len() > most {
                return Ok(None);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        // Sorting a million takes some ten milliseconds, and other tasks need not wait for it.
        let sorting = tokio::task::spawn_blocking(move || {
            users.sort_unstable();
            users.dedup();
            users
        });
        let Ok(users) = sorting.await else { return Ok(None) };
        Ok(Some(Known::new(epoch, found, users, self.0.now())))
    }
}
