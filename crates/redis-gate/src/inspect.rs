//! Reads gates without changing them: for the resolver, the keeper, the stock report and the verifier.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use coupon::{ClaimId, Epoch, TemplateId, UserId};

use crate::{Entry, Gate, GateError, Run, keys::Keys};

/// Keys or members per SCAN step: a fraction of a millisecond, so that claims hardly wait.
const SCAN_KEYS: usize = 1000;

/// The numeric fields of an open gate.
const NUMBERS: [&str; 8] =
    ["epoch", "users", "version", "starts", "ends", "limit", "stock", "movement"];

/// What a gate knows about its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub phase: Phase,
    pub epoch: Epoch,
    /// Whether the current run of Redis loaded it.
    pub of_this_run: bool,
    /// Number of entries that there must be.
    pub users: u64,
    /// Stock left; 0 while loading.
    pub stock: i64,
    /// Number of the last movement that the stock contains.
    pub movement: i64,
    /// Version of the template.
    pub version: i64,
    /// The template's state, as a word.
    pub state: String,
    /// Start and end of the claim window, in milliseconds since 1970.
    pub window_ms: (i64, i64),
    /// Most coupons per user; 0: no limit.
    pub limit: i64,
    /// What cannot be read in the gate; for an entry, its user. Only a new epoch repairs it.
    pub unreadable: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Loading,
    /// Open for claims, whatever the template's state.
    Open,
}

impl Meta {
    /// Returns whether the gate decides claims: it is open, and the current run of Redis loaded it.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open && self.of_this_run
    }
}

/// A raw field name of the users hash, and its user and entry if they can be read.
pub type ReadEntry = (String, Option<(UserId, Entry)>);

/// An admission whose landing is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    pub id: ClaimId,
    pub user: UserId,
    /// Time of the admission.
    pub admitted_at: DateTime<Utc>,
}

/// Admissions in flight, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flights {
    /// Readable admissions.
    pub admissions: Vec<InFlight>,
    /// Number of members in a format that no script writes.
    pub unreadable: usize,
}

impl InFlight {
    /// Parses a member `id:user` and its time in milliseconds, as written by `claim.lua`.
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
    /// Reads what the gate of `template` knows; `None` if there is no gate.
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

    /// Lists the templates that have a gate here, in any phase and of any run. Scans all keys of Redis: three for each
    /// gate, however many users it has.
    ///
    /// # Errors
    /// No answer.
    pub async fn templates(&self) -> Result<BTreeSet<TemplateId>, GateError> {
        self.scan("meta", |key| Keys::of_meta(self.prefix(), key)).await
    }

    /// Lists every epoch of every template that has users or in-flight entries here.
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

    /// Reads the state of the gate of `template` and the number of admissions in flight, atomically; `None` if the gate
    /// is not open in this epoch.
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

    /// Reads at most `limit` admissions in flight since `before` or earlier, oldest first, skipping the first `passed`.
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

    /// Finds an admission in flight. Scans all of them, so it is only for requests made by hand.
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

    /// Counts the admissions in flight.
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

    /// Counts the users with an entry. Fewer than [`Meta::users`] means that some are lost.
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

    /// Reads a user's entry.
    ///
    /// # Errors
    /// No answer, or an entry in an unknown layout.
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

    /// Reads some users' entries and returns the next cursor. Cursor 0 starts, and a returned 0 ends. Some entries may
    /// come twice.
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

    /// Returns those of `users` that have no entry.
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

    /// Reads every user's entry, in steps; for the verifier.
    ///
    /// # Errors
    /// No answer, or an entry in an unknown layout.
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
    // An unreadable gate answers no claims, like a loading one, until it is rebuilt.
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
