//! Reads gates without changing them: for the resolver, the keeper, the stock report and the verifier.

use std::collections::{BTreeSet, HashMap};

use coupon::{ClaimMode, Epoch, TemplateId, TemplateState, UserId};

use crate::{Entry, Gate, GateError, Run, keys::Keys};

/// Keys or members per SCAN step: a fraction of a millisecond, so that claims hardly wait.
pub(crate) const SCAN_KEYS: usize = 1000;

/// The numeric fields of an open gate.
const NUMBERS: [&str; 8] =
    ["epoch", "users", "version", "starts", "ends", "limit", "stock", "movement"];

/// Fields that every gate has, also while it is loading.
const OF_EACH: [&str; 3] = ["phase", "epoch", "users"];

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
    /// Whether admissions are landed at once or queued; direct in a gate without a mode.
    pub mode: ClaimMode,
    /// Start and end of the claim window, in milliseconds since 1970.
    pub window_ms: (i64, i64),
    /// Most coupons per user; 0: no limit.
    pub limit: i64,
    /// Lapses after which a user is refused; 0: never, and in a gate of an older version.
    pub lapses_allowed: i64,
    /// Fields that hold what no script writes, or that are missing: their names and what they hold.
    pub odd: Vec<String>,
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

/// The fields of a hash, as stored in Redis: names and values need not be text.
type RawFields = HashMap<Vec<u8>, Vec<u8>>;

/// A field name of the users hash, and its user and entry if they can be read.
pub type ReadEntry = (String, Option<(UserId, Entry)>);

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
        let fields: RawFields = self.checked("meta", &live, result).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        Ok(Some(read_meta(&fields, &live.run)))
    }

    /// Lists the templates that have a gate here, in any phase and of any run. Scans all keys of Redis: up to five
    /// for each gate, however many users it has.
    ///
    /// # Errors
    /// No answer.
    pub async fn templates(&self) -> Result<BTreeSet<TemplateId>, GateError> {
        self.scan("meta", None, |key| Keys::of_meta(self.prefix(), key)).await
    }

    /// Lists every epoch of every template that has users, in-flight or queued entries here.
    pub(crate) async fn epochs(&self) -> Result<BTreeSet<(TemplateId, Epoch)>, GateError> {
        self.scan("*", None, |key| Keys::of_epoch(self.prefix(), key)).await
    }

    /// Lists what `read` finds in the names of all keys of this part and, if given, of this type.
    pub(crate) async fn scan<T: Ord>(
        &self,
        part: &str,
        kind: Option<&str>,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, GateError> {
        let live = self.redis.live().await?;
        let pattern = Keys::pattern(self.prefix(), part);
        let (mut found, mut cursor) = (BTreeSet::new(), 0_u64);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_KEYS);
            if let Some(kind) = kind {
                scan.arg("TYPE").arg(kind);
            }
            let result = scan.query_async(&mut live.connection.clone()).await;
            let (next, keys): (u64, Vec<Vec<u8>>) = self.checked("scan", &live, result).await?;
            // All our keys are text.
            let names = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
            found.extend(names.filter_map(&read));
            if next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// Reads the state of the gate of `template` and the number of admissions in flight or queued, atomically; `None`
    /// if the gate is not open in this epoch.
    ///
    /// # Errors
    /// No answer, or a key of another type ([`GateError::is_of_keys`]); the outbox is among them.
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
            .cmd("ZCARD")
            .arg(keys.queued(epoch))
            // Only checks that it can be appended to.
            .cmd("XLEN")
            .arg(keys.outbox())
            .query_async(&mut live.connection.clone())
            .await;
        let (fields, in_flight, queued, _waiting): (RawFields, u64, u64, u64) =
            self.checked("account", &live, result).await?;
        let meta = read_meta(&fields, &live.run);
        Ok((meta.is_open() && meta.epoch == epoch).then_some((meta, in_flight + queued)))
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
        let (next, fields) = self.scan_users::<Vec<u8>>("entries", template, epoch, cursor).await?;
        let read = |(user, bytes): (String, Vec<u8>)| {
            // The scripts name users by `Display`, and would not find one under another spelling.
            let id = user.parse().ok().filter(|id: &UserId| id.to_string() == user);
            (user, id.zip(Entry::decode(&bytes).ok()))
        };
        Ok((next, fields.into_iter().map(read).collect()))
    }

    /// Reads some of the users who have an entry, and returns the next cursor, like [`Gate::entries_from`]. Users are
    /// absent whose names cannot be read.
    ///
    /// # Errors
    /// No answer.
    pub async fn users_from(
        &self,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<Option<UserId>>), GateError> {
        let scanned = self.scan_users::<redis::Value>("users", template, epoch, cursor).await;
        let (next, fields) = scanned?;
        Ok((next, fields.into_iter().map(|(user, _)| user.parse().ok()).collect()))
    }

    /// Reads some fields of the users hash, with each value as a `V`.
    async fn scan_users<V: redis::FromRedisValue>(
        &self,
        call: &'static str,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, V)>), GateError> {
        let live = self.redis.live().await?;
        let result = redis::cmd("HSCAN")
            .arg(self.keys(template).users(epoch))
            .arg(cursor)
            .arg("COUNT")
            .arg(SCAN_KEYS)
            .query_async(&mut live.connection.clone())
            .await;
        let (next, fields): (u64, Vec<(Vec<u8>, V)>) = self.checked(call, &live, result).await?;
        let named =
            |(name, value): (Vec<u8>, V)| (String::from_utf8_lossy(&name).into_owned(), value);
        Ok((next, fields.into_iter().map(named).collect()))
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

fn read_meta(fields: &RawFields, run: &Run) -> Meta {
    let lossy = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let fields: HashMap<String, String> =
        fields.iter().map(|(name, value)| (lossy(name), lossy(value))).collect();
    let read = |name: &str| fields.get(name).and_then(|text| text.parse::<i64>().ok());
    let number = |name: &str| read(name).unwrap_or(0);
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    // An unreadable gate answers no claims, like a loading one, until it is rebuilt.
    let is_readable = NUMBERS.iter().all(|name| read(name).is_some())
        && TemplateState::from_word(text("state")).is_some();
    let odd = odd_fields(&fields);
    Meta {
        phase: if is_readable && text("phase") == "open" { Phase::Open } else { Phase::Loading },
        epoch: Epoch(number("epoch")),
        of_this_run: text("run") == run.as_str(),
        users: number("users").unsigned_abs(),
        stock: number("stock"),
        movement: number("movement"),
        version: number("version"),
        state: text("state").to_owned(),
        mode: ClaimMode::from_word(text("mode")).unwrap_or_default(),
        window_ms: (number("starts"), number("ends")),
        limit: number("limit"),
        lapses_allowed: number("lapses_allowed"),
        odd,
        unreadable: fields.get("unreadable").cloned(),
    }
}

/// Names the fields that hold what no script writes, and those that are missing.
fn odd_fields(fields: &HashMap<String, String>) -> Vec<String> {
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    let is_right = |name: &str, text: &str| match name {
        "phase" => matches!(text, "loading" | "open"),
        "users" => text.parse::<u64>().is_ok(),
        "state" => TemplateState::from_word(text).is_some(),
        "mode" => ClaimMode::from_word(text).is_some(),
        "lapses_allowed" => is_number(text),
        name if NUMBERS.contains(&name) => is_number(text),
        _ => true,
    };
    let is_open = fields.get("phase").is_some_and(|phase| phase == "open");
    let needed = NUMBERS.iter().chain(&["state"]).filter(|_| is_open);
    let mut odd: Vec<String> = OF_EACH
        .iter()
        .chain(needed.filter(|name| !OF_EACH.contains(*name)))
        .filter(|name| !fields.contains_key(**name))
        .map(|name| format!("{name} is missing"))
        .collect();
    let wrong = fields.iter().filter(|(name, text)| !is_right(name, text));
    odd.extend(wrong.map(|(name, text)| format!("{name} is {text:?}")));
    odd.sort_unstable();
    odd
}
