//! Cache of operators' keys, so that a request does not query MySQL for its caller.
//!
//! A key is read again [`FRESH_FOR`] after it was read, which is how long it may be accepted after another process
//! revoked it. If MySQL does not answer then, the request fails, as operators' requests need MySQL anyway. Only who
//! asks how the platform is, watches its sales, signs in to the console, or pauses a sale at its gate, is answered by a
//! key of the last [`RECENT_FOR`]: that is when it matters. Ids without a key are cached as long, in a map of their own,
//! so that invented ids neither query MySQL for each request nor evict real keys. The cache also notes when keys were
//! used; [`crate::upkeep`] writes that to MySQL.

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
use tokio::{sync::Semaphore, time::timeout};

/// How long a cached key is trusted. Short, since a revocation may take effect this late; one read per key in this time
/// is no load for MySQL.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// How old a key may be that reads the platform's health, or pauses a template at its gate, while MySQL does not answer.
/// As long as an outage in which somebody watches; a key that was revoked elsewhere just before the outage does these two,
/// and nothing else, for as long.
const RECENT_FOR: Duration = Duration::from_mins(15);

/// How long MySQL is waited for if a recent key is at hand. The answer about an outage must not take as long as it takes
/// to notice one.
const RECENT_AFTER: Duration = Duration::from_millis(500);

/// Maximum number of keys in the cache, and of invented ids. A full map is cleared.
const REMEMBERED_MAX: usize = 10_000;

/// Minimum interval between writes of a key's last use. No reader needs it to the second.
pub(crate) const USE_EVERY: Duration = Duration::from_mins(1);

/// Maximum concurrent reads of keys: a small part of the pool, whatever clients send.
const READS_MAX: usize = 4;

/// A key and its digest, which the caller's key must match.
#[derive(Debug)]
pub(crate) struct CachedKey {
    pub(crate) key: ApiKey,
    pub(crate) digest: Digest,
}

pub(crate) struct KeyCache {
    pub(crate) uses: Uses,
    pool: MySqlPool,
    remembered: Mutex<Remembered>,
    reads: Semaphore,
}

/// How old a key may be by which a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAge {
    Fresh,
    /// Up to [`RECENT_FOR`], if MySQL does not answer within [`RECENT_AFTER`].
    Recent,
    /// Up to [`RECENT_FOR`]; MySQL is not asked, because it has just not answered.
    Remembered,
}

/// Keys that were accepted. A request only adds its key here; another task writes it to MySQL.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<ApiKeyId, Use>>);

/// When a key's use was last taken to be written, and whether the key was used since.
#[derive(Clone, Copy, Default)]
struct Use {
    taken: Option<Instant>,
    again: bool,
}

#[derive(Default)]
struct Remembered {
    known: HashMap<ApiKeyId, (Instant, Arc<CachedKey>)>,
    unknown: HashMap<ApiKeyId, Instant>,
}

impl KeyCache {
    pub(crate) fn new(pool: MySqlPool) -> Self {
        let uses = Uses::default();
        Self { uses, pool, remembered: Mutex::default(), reads: Semaphore::new(READS_MAX) }
    }

    /// Returns the key with this id, whether or not it is still accepted.
    pub(crate) async fn get(
        &self,
        id: ApiKeyId,
        age: KeyAge,
    ) -> Result<Option<Arc<CachedKey>>, StoreError> {
        let recent = match age {
            KeyAge::Fresh => None,
            KeyAge::Recent => self.lock().recent(id, Instant::now()),
            KeyAge::Remembered => return Ok(self.lock().recent(id, Instant::now())),
        };
        let Some(recent) = recent else { return self.fresh(id).await };
        match timeout(RECENT_AFTER, self.fresh(id)).await {
            Ok(Err(error)) if !error.is_unavailable() => Err(error),
            Ok(Ok(known)) => Ok(known),
            Ok(Err(_)) | Err(_) => Ok(Some(recent)),
        }
    }

    async fn fresh(&self, id: ApiKeyId) -> Result<Option<Arc<CachedKey>>, StoreError> {
        if let Some(remembered) = self.lock().get(id, Instant::now()) {
            return Ok(remembered);
        }
        let _turn = self.reads.acquire().await;
        if let Some(remembered) = self.lock().get(id, Instant::now()) {
            return Ok(remembered);
        }
        // Taken before the read, which may miss a revocation that comes after it.
        let read_at = Instant::now();
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            api_key::get(&mut connection, id).await
        });
        let known = read.await?.map(|(key, digest)| Arc::new(CachedKey { key, digest }));
        self.lock().put(id, read_at, known.clone());
        Ok(known)
    }

    /// Makes the next call of [`KeyCache::get`] for this key read it from MySQL.
    pub(crate) fn forget(&self, id: ApiKeyId) {
        self.lock().known.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Uses {
    /// Notes that a key was accepted now.
    pub(crate) fn note(&self, id: ApiKeyId) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= REMEMBERED_MAX && !uses.contains_key(&id) {
            uses.clear();
        }
        uses.entry(id).or_default().again = true;
    }

    /// Takes the keys that were accepted since they were last taken, unless that is less than [`USE_EVERY`] ago.
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
    /// Returns what the cache knows of an id at `now`. Outer `None`: MySQL has to be asked. Inner `None`: there is no
    /// such key.
    fn get(&self, id: ApiKeyId, now: Instant) -> Option<Option<Arc<CachedKey>>> {
        let is_fresh = |read_at: Instant| now.saturating_duration_since(read_at) < FRESH_FOR;
        let known = self.known.get(&id).filter(|(read_at, _)| is_fresh(*read_at));
        if let Some((_, known)) = known {
            return Some(Some(Arc::clone(known)));
        }
        let unknown = self.unknown.get(&id).is_some_and(|read_at| is_fresh(*read_at));
        unknown.then_some(None)
    }

    /// Returns a key that MySQL had within the last [`RECENT_FOR`].
    fn recent(&self, id: ApiKeyId, now: Instant) -> Option<Arc<CachedKey>> {
        let (read_at, known) = self.known.get(&id)?;
        let age = now.saturating_duration_since(*read_at);
        (age < RECENT_FOR).then(|| Arc::clone(known))
    }

    fn put(&mut self, id: ApiKeyId, read_at: Instant, found: Option<Arc<CachedKey>>) {
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

    fn known(id: i64) -> Arc<CachedKey> {
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
        Arc::new(CachedKey { key, digest: [0; 32] })
    }

    #[test]
    fn a_key_that_was_read_is_cached_for_a_moment_only() {
        let mut remembered = Remembered::default();
        let start = Instant::now();
        remembered.put(ApiKeyId(1), start, Some(known(1)));
        remembered.put(ApiKeyId(2), start, None);
        let look = |id, after| remembered.get(ApiKeyId(id), start + after).map(|it| it.is_some());
        let last = FRESH_FOR - Duration::from_millis(1);
        assert_eq!((look(1, last), look(2, last), look(3, last)), (Some(true), Some(false), None));
        assert_eq!((look(1, FRESH_FOR), look(2, FRESH_FOR)), (None, None));
        let recent = |id, after| remembered.recent(ApiKeyId(id), start + after).is_some();
        let last = RECENT_FOR - Duration::from_millis(1);
        assert!(recent(1, FRESH_FOR) && recent(1, last), "while MySQL is away");
        assert!(!recent(1, RECENT_FOR) && !recent(2, FRESH_FOR) && !recent(3, FRESH_FOR));
    }

    #[test]
    fn a_key_that_is_used_all_the_time_is_written_once_a_minute() {
        let uses = Uses::default();
        let start = Instant::now();
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
        let mut remembered = Remembered::default();
        let now = Instant::now();
        remembered.put(ApiKeyId(0), now, Some(known(0)));
        for id in 1..=2 * REMEMBERED_MAX as i64 {
            remembered.put(ApiKeyId(id), now, None);
        }
        assert!(remembered.unknown.len() <= REMEMBERED_MAX);
        assert!(remembered.get(ApiKeyId(0), now).is_some_and(|known| known.is_some()));
        // A key that is made after its id was asked for.
        remembered.put(ApiKeyId(5), now, None);
        remembered.put(ApiKeyId(5), now, Some(known(5)));
        assert!(remembered.get(ApiKeyId(5), now).is_some_and(|known| known.is_some()));
    }
}
