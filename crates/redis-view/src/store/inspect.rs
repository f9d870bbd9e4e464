//! Raw inspection of stored views, for the verifier and tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use coupon::UserId;
use redis::{RedisResult, aio::MultiplexedConnection};

use crate::{ViewCoupon, ViewError, ViewStore, entry, keys, store::rebuild::VIEW_LIFE};

/// Number of keys requested in one step of a scan.
const SCAN_COUNT: usize = 1000;

/// Maximum coupons of a view that is read in one transaction, which takes the server a few milliseconds.
const WHOLE_MAX: usize = 10_000;

/// Everything that a user's keys hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Whether readers trust the view under the generation of this connection.
    pub trusted: bool,
    /// The list without its marker: member → score, with `i64::MAX` for a score that is not an integer.
    pub list: BTreeMap<String, i64>,
    /// The times to live of list and hash.
    pub lives: [KeyLife; 2],
    /// The hash without its marker: coupon id → entry, see [`crate::Change::entry`].
    pub coupons: BTreeMap<String, String>,
    /// Members, fields and values whose bytes are no text. They stand in `list` and `coupons` with those bytes
    /// replaced.
    pub no_text: BTreeSet<String>,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLife {
    /// There is no such key.
    Absent,
    /// Redis never removes it by itself.
    Endless,
    /// Redis removes it after this time.
    For(Duration),
}

impl KeyLife {
    /// Longest life of a view's key.
    pub const MOST: Duration = VIEW_LIFE;

    /// From an answer of `PTTL`.
    fn of(milliseconds: i64) -> Self {
        match (milliseconds, u64::try_from(milliseconds)) {
            (_, Ok(milliseconds)) => Self::For(Duration::from_millis(milliseconds)),
            (-2, Err(_)) => Self::Absent,
            (_, Err(_)) => Self::Endless,
        }
    }
}

/// A member with its score, or a field with its value, as stored in Redis: they need not be text.
type Pair = (Vec<u8>, Vec<u8>);
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A list with its scores, a hash, and the time to live of each in milliseconds, negative if there is none.
type Read = (Pairs, Pairs, i64, i64);

impl Contents {
    /// Parses the details of a listed coupon.
    ///
    /// # Errors
    /// The hash has none, or they cannot be read.
    pub fn details(&self, id: &str) -> Result<ViewCoupon, ViewError> {
        match self.coupons.get(id) {
            Some(text) => entry::listed(id, text),
            None => Err(ViewError::unreadable(format!("coupon {id} has no details"))),
        }
    }
}

impl ViewStore {
    /// Returns the users that have a view or one of its keys, in any state.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn users(&self) -> Result<Vec<UserId>, ViewError> {
        let live = self.live().await?;
        let mut users = Vec::new();
        // A slot may move during the scan, and take a view from a server not scanned yet to one already scanned.
        let rounds = if live.masters.is_cluster() { 2 } else { 1 };
        for mut master in (0..rounds).flat_map(|_| live.masters.all()) {
            let found = self.users_on(&mut master).await;
            users.extend(
                found.map_err(|source| self.failed_for_all("scan the views", &live, source))?,
            );
        }
        users.sort_unstable();
        users.dedup();
        Ok(users)
    }

    async fn users_on(&self, master: &mut MultiplexedConnection) -> RedisResult<Vec<UserId>> {
        let mut users = Vec::new();
        let mut cursor = 0u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(keys::all(self.prefix()));
            scan.arg("COUNT").arg(SCAN_COUNT);
            // Bytes: a key of others that matches need not be text.
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(master).await?;
            let names = found.iter().filter_map(|key| str::from_utf8(key).ok());
            users.extend(names.filter_map(|key| keys::user_of_key(self.prefix(), key)));
            if next == 0 {
                return Ok(users);
            }
            cursor = next;
        }
    }

    /// Reads the contents of the user's keys: most views in one transaction, long ones in pieces. A transaction for a
    /// long view would occupy the server for longer than clients wait.
    ///
    /// A change made between pieces may be missing from the contents. A view that is rebuilt meanwhile is not trusted.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn contents(&self, user: UserId) -> Result<Contents, ViewError> {
        let live = self.live().await?;
        let keys = self.keys(user);
        let slot = self.slot(user);
        let mut master = live.masters.at(live.masters.index_of(slot));
        let read = async {
            let length: usize = redis::cmd("HLEN").arg(&keys[1]).query_async(&mut master).await?;
            match length {
                0..=WHOLE_MAX => read_whole(&mut master, &keys).await,
                _ => read_pieces(&mut master, &keys).await,
            }
        };
        let (list, coupons, list_ms, coupons_ms) =
            read.await.map_err(|source| self.failed("read a whole view", user, &live, source))?;
        let mut no_text = BTreeSet::new();
        let list = texts(&list, &mut no_text);
        let mut coupons = texts(&coupons, &mut no_text);
        let generation = live.generation(slot);
        let score = |(member, text): (String, String)| (member, text.parse().unwrap_or(i64::MAX));
        let list: BTreeMap<String, i64> = list.into_iter().map(score).collect();
        let (markers, list): (BTreeMap<_, _>, _) =
            list.into_iter().partition(|(_, score)| *score < 0);
        let token = coupons.remove("~token").unwrap_or_default();
        let state = coupons.remove("~state").unwrap_or_default();
        coupons.remove("~since");
        let trusted = state == "complete"
            && token.starts_with(&format!("{generation}:{user}:"))
            && markers.into_keys().eq([format!("~{token}")]);
        let lives = [KeyLife::of(list_ms), KeyLife::of(coupons_ms)];
        Ok(Contents { trusted, list, lives, coupons, no_text })
    }
}

/// Reads pairs as text. Those that are none are also named.
fn texts(pairs: &Pairs, no_text: &mut BTreeSet<String>) -> BTreeMap<String, String> {
    let mut text = |bytes: &Vec<u8>| {
        let text = String::from_utf8_lossy(bytes);
        if let std::borrow::Cow::Owned(replaced) = &text {
            no_text.insert(replaced.clone());
        }
        text.into_owned()
    };
    pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
}

async fn read_whole(master: &mut MultiplexedConnection, keys: &[String; 2]) -> RedisResult<Read> {
    let [list, coupons] = keys;
    redis::pipe()
        .atomic()
        .cmd("ZRANGE")
        .arg(list)
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .cmd("HGETALL")
        .arg(coupons)
        .cmd("PTTL")
        .arg(list)
        .cmd("PTTL")
        .arg(coupons)
        .query_async(master)
        .await
}

/// A scan returns all elements that exist during the whole scan. The list comes first: a change between the scans makes
/// the hash newer than the list. MySQL is read later, so it may be newer too.
async fn read_pieces(master: &mut MultiplexedConnection, keys: &[String; 2]) -> RedisResult<Read> {
    let token = async |master: &mut MultiplexedConnection| -> RedisResult<Option<Vec<u8>>> {
        redis::cmd("HGET").arg(&keys[1]).arg("~token").query_async(master).await
    };
    let before = token(master).await?;
    let list = scan(master, "ZSCAN", &keys[0]).await?;
    let mut coupons = scan(master, "HSCAN", &keys[1]).await?;
    if token(master).await? != before {
        coupons.remove(&b"~state"[..]);
    }
    let lives: (i64, i64) = redis::pipe()
        .cmd("PTTL")
        .arg(&keys[0])
        .cmd("PTTL")
        .arg(&keys[1])
        .query_async(master)
        .await?;
    Ok((list, coupons, lives.0, lives.1))
}

async fn scan(master: &mut MultiplexedConnection, command: &str, key: &str) -> RedisResult<Pairs> {
    let mut all = BTreeMap::new();
    let mut cursor = 0u64;
    loop {
        let mut scan = redis::cmd(command);
        scan.arg(key).arg(cursor).arg("COUNT").arg(SCAN_COUNT);
        let (next, found): (u64, Vec<Pair>) = scan.query_async(master).await?;
        all.extend(found);
        if next == 0 {
            return Ok(all);
        }
        cursor = next;
    }
}
