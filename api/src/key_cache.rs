//! Operators' keys in memory, so that a request does not ask MySQL who sent it.
//!
//! A key is read anew once it was read [`FRESH_FOR`] ago: that is how long one may be accepted after its
//! revocation by another process. If MySQL does not answer then, nobody is let in: what an operator wants is
//! in MySQL anyway. Ids that nothing has are remembered as long and apart, so that whoever makes them up
//! neither asks MySQL for each request nor pushes real keys out. When keys were used is noted here too, and written
//! by [`crate::upkeep`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use coupon::ApiKeyId;
use mysql_store::{
    MySqlPool, StoreError,
    api_key::{self, ApiKey, Digest},
    connect,
};
use tokio::sync::Semaphore;

/// How long what was read is believed: short, as it is how late a revocation may be noticed, and one read
/// in so long for each key is nothing to MySQL.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// Keys remembered at a time, and made-up ids; beyond it they are all forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// How often a key's use is written at most: nobody asks when a key was used to the second.
pub(crate) const USE_EVERY: Duration = Duration::from_mins(1);

/// Keys read from MySQL at a time: a part of the pool, whatever is sent.
const READS_MAX: usize = 4;

/// A key and the digest that whoever uses it has to send.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) key: ApiKey,
    pub(crate) digest: Digest,
}

/// The keys that this process has heard of.
pub(crate) struct KeyCache {
    pub(crate) uses: Uses,
    pool: MySqlPool,
    remembered: Mutex<Remembered>,
    reads: Semaphore,
}

/// Which keys were accepted, for whoever writes it down: a request only leaves its key here.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<ApiKeyId, Use>>);

/// When a key's use was last taken to be written, and whether it was used since.
#[derive(Clone, Copy, Default)]
struct Use {
    taken: Option<Instant>,
    again: bool,
}

#[derive(Default)]
struct Remembered {
    known: HashMap<ApiKeyId, (Instant, Arc<Known>)>,
    unknown: HashMap<ApiKeyId, Instant>,
}

impl KeyCache {
    pub(crate) fn new(pool: MySqlPool) -> Self {
        let uses = Uses::default();
        Self { uses, pool, remembered: Mutex::default(), reads: Semaphore::new(READS_MAX) }
    }

    /// The key of this id, whether or not it is accepted still.
    ///
    /// # Errors
    /// MySQL does not answer.
    pub(crate) async fn get(&self, id: ApiKeyId) -> Result<Option<Arc<Known>>, StoreError> {
        if let Some(remembered) = self.lock().get(id, Instant::now()) {
            return Ok(remembered);
        }
        let _turn = self.reads.acquire().await;
        if let Some(remembered) = self.lock().get(id, Instant::now()) {
            return Ok(remembered);
        }
        // Before the read: a revocation that comes after it may be missed by it.
        let read_at = Instant::now();
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            api_key::get(&mut connection, id).await
        });
        let known = read.await?.map(|(key, digest)| Arc::new(Known { key, digest }));
        self.lock().put(id, read_at, known.clone());
        Ok(known)
    }

    /// Reads the key anew when it is asked for next.
    pub(crate) fn forget(&self, id: ApiKeyId) {
        self.lock().known.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Uses {
    /// This key was accepted now.
    pub(crate) fn note(&self, id: ApiKeyId) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= REMEMBERED_MAX && !uses.contains_key(&id) {
            uses.clear();
        }
        uses.entry(id).or_default().again = true;
    }

    /// Keys that were accepted since they were last taken, and were not taken within [`USE_EVERY`].
    pub(crate) fn take(&self) -> Vec<ApiKeyId> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Vec<ApiKeyId> {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |taken: Option<Instant>| {
            taken.is_none_or(|taken| now.saturating_duration_since(taken) >= USE_EVERY)
        };
        let due = uses.iter_mut().filter(|(_, one)| one.again && is_due(one.taken));
        due.map(|(id, one)| {
            *one = Use { taken: Some(now), again: false };
            *id
        })
        .collect()
    }
}

impl Remembered {
    /// What is known of an id at `now`; absent: MySQL has to be asked.
    fn get(&self, id: ApiKeyId, now: Instant) -> Option<Option<Arc<Known>>> {
        let is_fresh = |read_at: Instant| now.saturating_duration_since(read_at) < FRESH_FOR;
        let known = self.known.get(&id).filter(|(read_at, _)| is_fresh(*read_at));
        if let Some((_, known)) = known {
            return Some(Some(Arc::clone(known)));
        }
        let unknown = self.unknown.get(&id).is_some_and(|read_at| is_fresh(*read_at));
        unknown.then_some(None)
    }

    fn put(&mut self, id: ApiKeyId, read_at: Instant, found: Option<Arc<Known>>) {
        if let Some(known) = found {
            if self.known.len() >= REMEMBERED_MAX {
                self.known.clear();
            }
            self.unknown.remove(&id);
            self.known.insert(id, (read_at, known));
        } else {
            if self.unknown.len() >= REMEMBERED_MAX {
                self.unknown.clear();
            }
            self.known.remove(&id);
            self.unknown.insert(id, read_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::{MerchantId, Scopes};

    use super::*;

    fn known(id: i64) -> Arc<Known> {
        let key = ApiKey {
            id: ApiKeyId(id),
            merchant_id: MerchantId(1),
            name: "till".to_owned(),
            scopes: Scopes::all(),
            created_at: DateTime::UNIX_EPOCH,
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        Arc::new(Known { key, digest: [0; 32] })
    }

    #[test]
    fn what_was_read_is_believed_for_a_moment_only() {
        let (mut remembered, start) = (Remembered::default(), Instant::now());
        remembered.put(ApiKeyId(1), start, Some(known(1)));
        remembered.put(ApiKeyId(2), start, None);
        let look = |id, after| remembered.get(ApiKeyId(id), start + after).map(|it| it.is_some());
        let last = FRESH_FOR - Duration::from_millis(1);
        assert_eq!((look(1, last), look(2, last), look(3, last)), (Some(true), Some(false), None));
        assert_eq!((look(1, FRESH_FOR), look(2, FRESH_FOR)), (None, None));
    }

    #[test]
    fn a_key_that_is_used_all_the_time_is_written_once_a_minute() {
        let (uses, start) = (Uses::default(), Instant::now());
        let mut taken = Vec::new();
        for second in 0..=180 {
            uses.note(ApiKeyId(1));
            let now = start + Duration::from_secs(second);
            taken.extend(uses.take_at(now).into_iter().map(|_| second));
        }
        assert_eq!(taken, [0, 60, 120, 180]);
        assert_eq!(uses.take_at(start + Duration::from_hours(1)), [], "not used since");
    }

    #[test]
    fn made_up_ids_take_bounded_room_and_push_no_key_out() {
        let (mut remembered, now) = (Remembered::default(), Instant::now());
        remembered.put(ApiKeyId(0), now, Some(known(0)));
        for id in 1..=2 * REMEMBERED_MAX as i64 {
            remembered.put(ApiKeyId(id), now, None);
        }
        assert!(remembered.unknown.len() <= REMEMBERED_MAX);
        assert!(remembered.get(ApiKeyId(0), now).is_some_and(|known| known.is_some()));
        // One that is made after it was asked for.
        remembered.put(ApiKeyId(5), now, None);
        remembered.put(ApiKeyId(5), now, Some(known(5)));
        assert!(remembered.get(ApiKeyId(5), now).is_some_and(|known| known.is_some()));
    }
}
