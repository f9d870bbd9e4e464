//! Looking at a gate without changing it: for the resolver, the stock report and the verifier.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use coupon::{ClaimId, Epoch, TemplateId, UserId};

use crate::{Entry, Gate, GateError, Run, keys::Keys};

/// Keys or members that one step of a walk through Redis looks at: a fraction of a millisecond, so that claims hardly wait.
const SCAN_KEYS: usize = 1000;

/// The numbers that an open gate has.
const NUMBERS: [&str; 8] =
    ["epoch", "users", "version", "starts", "ends", "limit", "stock", "movement"];

/// What a gate knows of its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Whether it is being loaded or open.
    pub phase: Phase,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether it was loaded by the run of Redis that answers now.
    pub of_this_run: bool,
    /// How many entries there must be.
    pub users: u64,
    /// What is left; 0 while loading.
    pub stock: i64,
    /// The last movement that the stock contains.
    pub movement: i64,
    /// The template's version.
    pub version: i64,
    /// The template's state, by its word.
    pub state: String,
    /// The claim window, from and until, in milliseconds since 1970.
    pub window_ms: (i64, i64),
    /// How many coupons a user may hold; 0: no limit.
    pub limit: i64,
    /// What cannot be read there, a user's entry by the user: only a new epoch mends it.
    pub unreadable: Option<String>,
}

/// Whether a gate can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Being rebuilt.
    Loading,
    /// Open for claims, in whatever state its template is.
    Open,
}

impl Meta {
    /// Whether claims are decided by it: open, and loaded by the run of Redis that answers now.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open && self.of_this_run
    }
}

/// A field of the users' hash as it stands there, and what it says if it can be read.
pub type ReadEntry = (String, Option<(UserId, Entry)>);

/// An admission whose landing the gate has not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// The admission.
    pub id: ClaimId,
    /// Whose.
    pub user: UserId,
    /// When it was admitted.
    pub admitted_at: DateTime<Utc>,
}

/// Admissions in flight, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flights {
    /// Those that can be read.
    pub admissions: Vec<InFlight>,
    /// How many members beside them no script of ours wrote.
    pub unreadable: usize,
}

impl InFlight {
    /// A member `id:user` with its time in milliseconds, as `claim.lua` writes it.
    pub(crate) fn read(member: &str, score: i64) -> Option<Self> {
        let (id, user) = member.split_once(':')?;
        Some(Self {
            id: id.parse().ok()?,
            user: user.parse().ok()?,
            admitted_at: DateTime::from_timestamp_millis(score)?,
        })
    }
}

impl Gate {
    /// What the gate of `template` knows; absent: there is none.
    ///
    /// # Errors
    /// No answer, or a key of another type ([`GateError::is_of_keys`]).
    pub async fn meta(&self, template: TemplateId) -> Result<Option<Meta>, GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("HGETALL")
            .arg(self.keys(template).meta())
            .query_async(&mut live.connection.clone())
            .await;
        let fields: HashMap<String, String> = self.checked("meta", &live, result).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        Ok(Some(read_meta(&fields, &live.run)))
    }

    /// The templates that have a gate here, in whatever phase and of whatever run. It walks through all keys of
    /// Redis: three for each gate, however many users it has.
    ///
    /// # Errors
    /// No answer.
    pub async fn templates(&self) -> Result<BTreeSet<TemplateId>, GateError> {
        self.scan("meta", |key| Keys::of_meta(self.prefix(), key)).await
    }

    /// Every epoch of every template that has users or in-flight entries here.
    pub(crate) async fn epochs(&self) -> Result<BTreeSet<(TemplateId, Epoch)>, GateError> {
        self.scan("*", |key| Keys::of_epoch(self.prefix(), key)).await
    }

    async fn scan<T: Ord>(
        &self,
        part: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, GateError> {
        let live = self.redis.live().await?;
        let pattern = Keys::pattern(self.prefix(), part);
        let (mut found, mut cursor) = (BTreeSet::new(), 0_u64);
        loop {
            let result = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(SCAN_KEYS)
                .query_async(&mut live.connection.clone())
                .await;
            let (next, keys): (u64, Vec<String>) = self.checked("scan", &live, result).await?;
            found.extend(keys.iter().filter_map(|key| read(key)));
            if next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// What the gate of `template` has left, and how many admissions are in flight, at one moment; absent: it is not
    /// open in this epoch.
    ///
    /// # Errors
    /// No answer.
    pub async fn account(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<Option<(Meta, u64)>, GateError> {
        let live = self.redis.live().await?;
        let keys = self.keys(template);
        let result = redis::pipe()
            .atomic()
            .cmd("HGETALL")
            .arg(keys.meta())
            .cmd("ZCARD")
            .arg(keys.inflight(epoch))
            .query_async(&mut live.connection.clone())
            .await;
        let (fields, in_flight): (HashMap<String, String>, u64) =
            self.checked("account", &live, result).await?;
        let meta = read_meta(&fields, &live.run);
        Ok((meta.is_open() && meta.epoch == epoch).then_some((meta, in_flight)))
    }

    /// At most `limit` admissions in flight since `before` or earlier, without the `passed` oldest.
    ///
    /// # Errors
    /// No answer.
    pub async fn in_flight(
        &self,
        template: TemplateId,
        epoch: Epoch,
        before: DateTime<Utc>,
        passed: usize,
        limit: usize,
    ) -> Result<Flights, GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("ZRANGE")
            .arg(self.keys(template).inflight(epoch))
            .arg("-inf")
            .arg(before.timestamp_millis())
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(passed)
            .arg(limit)
            .arg("WITHSCORES")
            .query_async(&mut live.connection.clone())
            .await;
        let members: Vec<(String, i64)> = self.checked("in_flight", &live, result).await?;
        let read = members.iter().filter_map(|(member, score)| InFlight::read(member, *score));
        let admissions: Vec<_> = read.collect();
        Ok(Flights { unreadable: members.len() - admissions.len(), admissions })
    }

    /// One admission, if it is in flight. It walks through all that are: for somebody who asks by hand.
    ///
    /// # Errors
    /// No answer.
    pub async fn find_in_flight(
        &self,
        template: TemplateId,
        epoch: Epoch,
        id: ClaimId,
    ) -> Result<Option<InFlight>, GateError> {
        let live = self.redis.live().await?;
        let mut cursor = 0_u64;
        loop {
            let result = redis::cmd("ZSCAN")
                .arg(self.keys(template).inflight(epoch))
                .arg(cursor)
                .arg("MATCH")
                .arg(format!("{id}:*"))
                .arg("COUNT")
                .arg(SCAN_KEYS)
                .query_async(&mut live.connection.clone())
                .await;
            let (next, found): (u64, Vec<(String, i64)>) =
                self.checked("find_in_flight", &live, result).await?;
            let read = |(member, score): &(String, i64)| InFlight::read(member, *score);
            if let Some(entry) = found.iter().find_map(read) {
                return Ok(Some(entry));
            }
            if next == 0 {
                return Ok(None);
            }
            cursor = next;
        }
    }

    /// How many admissions are in flight.
    ///
    /// # Errors
    /// No answer.
    pub async fn in_flight_count(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<u64, GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("ZCARD")
            .arg(self.keys(template).inflight(epoch))
            .query_async(&mut live.connection.clone())
            .await;
        self.checked("in_flight_count", &live, result).await
    }

    /// How many users have an entry; fewer than [`Meta::users`]: some are lost.
    ///
    /// # Errors
    /// No answer.
    pub async fn user_count(&self, template: TemplateId, epoch: Epoch) -> Result<u64, GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("HLEN")
            .arg(self.keys(template).users(epoch))
            .query_async(&mut live.connection.clone())
            .await;
        self.checked("user_count", &live, result).await
    }

    /// A user's entry.
    ///
    /// # Errors
    /// No answer, or an entry of an unknown layout.
    pub async fn entry(
        &self,
        template: TemplateId,
        epoch: Epoch,
        user: UserId,
    ) -> Result<Option<Entry>, GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("HGET")
            .arg(self.keys(template).users(epoch))
            .arg(user.0)
            .query_async(&mut live.connection.clone())
            .await;
        let bytes: Option<Vec<u8>> = self.checked("entry", &live, result).await?;
        bytes
            .map(|bytes| Entry::decode(&bytes))
            .transpose()
            .map_err(|_| GateError::Unreadable { call: "entry" })
    }

    /// Some users' entries, and where to go on; 0: from the beginning, and at the end. Some may come twice.
    ///
    /// # Errors
    /// No answer.
    pub async fn entries_from(
        &self,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<ReadEntry>), GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("HSCAN")
            .arg(self.keys(template).users(epoch))
            .arg(cursor)
            .arg("COUNT")
            .arg(SCAN_KEYS)
            .query_async(&mut live.connection.clone())
            .await;
        let (next, fields): (u64, Vec<(String, Vec<u8>)>) =
            self.checked("entries", &live, result).await?;
        let read = |(user, bytes): (String, Vec<u8>)| {
            let id = user.parse().ok();
            (user, id.zip(Entry::decode(&bytes).ok()))
        };
        Ok((next, fields.into_iter().map(read).collect()))
    }

    /// Which of these users have no entry.
    ///
    /// # Errors
    /// No answer.
    pub async fn without_entry(
        &self,
        template: TemplateId,
        epoch: Epoch,
        users: &[UserId],
    ) -> Result<Vec<UserId>, GateError> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.redis.live().await?;
        let mut pipe = redis::pipe();
        for user in users {
            pipe.cmd("HEXISTS").arg(self.keys(template).users(epoch)).arg(user.0);
        }
        let result = pipe.query_async(&mut live.connection.clone()).await;
        let there: Vec<bool> = self.checked("entries", &live, result).await?;
        Ok(users.iter().zip(there).filter(|(_, there)| !there).map(|(user, _)| *user).collect())
    }

    /// Every user's entry. For the verifier: it reads the whole hash in steps.
    ///
    /// # Errors
    /// No answer, or an entry of an unknown layout.
    pub async fn entries(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<HashMap<UserId, Entry>, GateError> {
        let (mut entries, mut cursor) = (HashMap::new(), 0);
        loop {
            let (next, read) = self.entries_from(template, epoch, cursor).await?;
            for (_, entry) in read {
                entries.extend([entry.ok_or(GateError::Unreadable { call: "entries" })?]);
            }
            if next == 0 {
                return Ok(entries);
            }
            cursor = next;
        }
    }
}

fn read_meta(fields: &HashMap<String, String>, run: &Run) -> Meta {
    let read = |name: &str| fields.get(name).and_then(|text| text.parse::<i64>().ok());
    let number = |name: &str| read(name).unwrap_or(0);
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    // One that cannot be read answers nobody, like one that is being loaded, until it is begun anew.
    let is_readable = NUMBERS.iter().all(|name| read(name).is_some());
    Meta {
        phase: if is_readable && text("phase") == "open" { Phase::Open } else { Phase::Loading },
        epoch: Epoch(number("epoch")),
        of_this_run: text("run") == run.as_str(),
        users: number("users").unsigned_abs(),
        stock: number("stock"),
        movement: number("movement"),
        version: number("version"),
        state: text("state").to_owned(),
        window_ms: (number("starts"), number("ends")),
        limit: number("limit"),
        unreadable: fields.get("unreadable").cloned(),
    }
}
