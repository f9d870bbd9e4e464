//! The outbox: the stream of a template's queued claims, from their admission until the topic has them.
//!
//! `claim.lua` appends to it, relays read it as one consumer group, and what was published leaves it. No epoch clears
//! it: its claims were accepted. Entries are removed only by the run of Redis in which they were read, because a Redis
//! that went back in time gives their ids to other claims.

use std::{collections::HashSet, time::Duration};

use coupon::{ClaimId, Epoch, TemplateId, UserId};
use futures::future::join_all;
use redis::{Cmd, FromRedisValue, RedisResult, Value};

use crate::{
    Gate, GateError, OutboxEntry, Run,
    connection::Live,
    keys::Keys,
    many::{Answers, Part, in_order},
};

/// The relays' consumer group.
const GROUP: &str = "relay";

/// Entries per call of `relayed.lua`: a millisecond at most. Lua's `unpack` takes at most 8,000 values.
const TRIM_MAX: usize = 1000;

/// Entries per step of reading all: a fraction of a millisecond, so that claims hardly wait.
const RANGE_MAX: usize = 500;

/// Outboxes whose lengths are read together: a fraction of a millisecond.
const LENGTHS_AT_ONCE: usize = 1000;

/// Which entries a relay reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxFrom {
    /// Those that no relay was given.
    New,
    /// Those that this relay was given and has not removed, oldest first.
    Leftovers,
}

/// Entries that were read, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRead {
    /// The run of Redis in which they were read.
    pub run: Run,
    pub entries: Vec<OutboxEntry>,
}

/// An id, and the entry's fields and values; absent: it was removed after a relay was given it.
type RawEntry = (String, Option<Vec<Vec<u8>>>);

impl Gate {
    /// Confirms that a queued claim was published under this very gate, and takes its entry out of the outbox. Call it
    /// after the topic has acknowledged the claim; only if it returns `true` is the claim certain to be landed or
    /// rejected, whatever happens to Redis. `run` is the one that answered the claim; `entry` is its entry, if known.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; the gate may have confirmed it.
    pub async fn published(
        &self,
        template: TemplateId,
        epoch: Epoch,
        run: &Run,
        user: UserId,
        id: ClaimId,
        entry: Option<&str>,
    ) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        if live.run != *run {
            return Ok(false);
        }
        let mut call = self.scripts.published.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.outbox())
            .arg(epoch.0)
            .arg(run.as_str())
            .arg(user.0)
            .arg(id.0)
            .arg(GROUP)
            .arg(entry.unwrap_or_default());
        let confirmed: i64 = self.invoke("published", live, &call).await?;
        Ok(confirmed == 1)
    }

    /// Lists the templates that have an outbox, perhaps an empty one, on a server that answers. Scans all keys of Redis.
    pub async fn outboxes(&self) -> Result<Vec<TemplateId>, GateError> {
        let read = |key: &str| Keys::of_outbox(self.prefix(), key);
        Ok(self.scan("outbox", Some("stream"), read).await?.into_iter().collect())
    }

    /// Counts the entries of an outbox.
    pub async fn outbox_len(&self, template: TemplateId) -> Result<u64, GateError> {
        let live = self.live(template).await?;
        let result = redis::cmd("XLEN")
            .arg(self.keys(template).outbox())
            .query_async(&mut live.connection.clone())
            .await;
        live.checked("outbox_len", result).await
    }

    /// Counts the entries of many outboxes, in their order, in one round trip for each thousand of a server. A key of
    /// another type holds none: the rebuild of its gate removes it.
    pub async fn outbox_lens(&self, templates: &[TemplateId]) -> Vec<Result<u64, GateError>> {
        let parts = self.parts(templates, |template| *template).into_iter();
        let answered = join_all(parts.map(async |part| {
            let lengths = self.lens_of(&part).await;
            part.answered(lengths)
        }));
        in_order(templates.len(), answered.await)
    }

    async fn lens_of(&self, part: &Part<'_, TemplateId>) -> Result<Answers<u64>, GateError> {
        let live = part.live().await?;
        let mut lengths = Vec::with_capacity(part.items.len());
        for some in part.items.chunks(LENGTHS_AT_ONCE) {
            let mut pipe = redis::pipe();
            pipe.ignore_errors();
            for template in some {
                pipe.cmd("XLEN").arg(self.keys(**template).outbox());
            }
            let result = pipe.query_async(&mut live.connection.clone()).await;
            let some: Vec<RedisResult<u64>> = live.checked("outbox_lens", result).await?;
            for length in some {
                let length = live.checked("outbox_lens", length).await;
                let is_of_keys = length.as_ref().is_err_and(GateError::is_of_keys);
                lengths.push(if is_of_keys { Ok(0) } else { length });
            }
        }
        Ok(lengths)
    }

    /// Returns those of `claims` that are not in an outbox; one that is there during the whole call is not among them.
    /// Reads entries, the oldest first, until all are found, so it is for the rare case of a missing claim. An entry
    /// that cannot be read is skipped.
    pub async fn missing_in_outbox(
        &self,
        template: TemplateId,
        mut claims: HashSet<ClaimId>,
    ) -> Result<HashSet<ClaimId>, GateError> {
        let live = self.live(template).await?;
        let mut from = "-".to_owned();
        while !claims.is_empty() {
            let result = redis::cmd("XRANGE")
                .arg(self.keys(template).outbox())
                .arg(&from)
                .arg("+")
                .arg("COUNT")
                .arg(RANGE_MAX)
                .query_async(&mut live.connection.clone())
                .await;
            let entries: Vec<(String, Vec<Vec<u8>>)> =
                live.checked("missing_in_outbox", result).await?;
            let Some((last, _)) = entries.last() else { break };
            from = format!("({last}");
            for id in entries.iter().filter_map(|(_, fields)| OutboxEntry::claim_id(fields)) {
                claims.remove(&id);
            }
        }
        Ok(claims)
    }

    /// Gives `worker` at most `max` entries. It has them until it removes them ([`Gate::trim_outbox`]) or another takes
    /// them over ([`Gate::take_over_outbox`]). Each entry may have been published before.
    ///
    /// # Errors
    /// No answer, or an error of Redis. Entries given without an answer are leftovers.
    pub async fn read_outbox(
        &self,
        template: TemplateId,
        worker: &str,
        from: OutboxFrom,
        max: usize,
    ) -> Result<OutboxRead, GateError> {
        let from = match from {
            OutboxFrom::New => ">",
            OutboxFrom::Leftovers => "0",
        };
        let key = self.keys(template).outbox();
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(worker).arg("COUNT").arg(max);
        read.arg("STREAMS").arg(&key).arg(from);
        loop {
            let live = self.live(template).await?;
            let answer = self.as_group("read_outbox", &live, &key, &read).await?;
            // Nothing, or one stream with its entries.
            let streams: Option<Vec<(Vec<u8>, Vec<RawEntry>)>> = parse("read_outbox", &answer)?;
            let given = streams.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
            if let Some(read) = self.entries_of(template, &live, given).await? {
                return Ok(read);
            }
        }
    }

    /// Gives `worker` at most `max` entries that another relay was given at least `idle` ago and has not read again
    /// since.
    ///
    /// # Errors
    /// As of [`Gate::read_outbox`].
    pub async fn take_over_outbox(
        &self,
        template: TemplateId,
        worker: &str,
        idle: Duration,
        max: usize,
    ) -> Result<OutboxRead, GateError> {
        let key = self.keys(template).outbox();
        let idle_ms = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let mut from = "0-0".to_owned();
        loop {
            let live = self.live(template).await?;
            let mut take = redis::cmd("XAUTOCLAIM");
            take.arg(&key).arg(GROUP).arg(worker).arg(idle_ms).arg(&from).arg("COUNT").arg(max);
            let answer = self.as_group("take_over_outbox", &live, &key, &take).await?;
            // Next id, entries, and ids of entries that were removed meanwhile.
            let taken: Option<(String, Vec<RawEntry>, Vec<String>)> =
                parse("take_over_outbox", &answer)?;
            let nothing = OutboxRead { run: live.run.clone(), entries: Vec::new() };
            let Some((next, given, _)) = taken else { return Ok(nothing) };
            let is_last = next == "0-0";
            match self.entries_of(template, &live, given).await? {
                Some(read) if is_last || !read.entries.is_empty() => return Ok(read),
                None if is_last => return Ok(nothing),
                // One call scans a bounded number of entries.
                Some(_) | None => from = next,
            }
        }
    }

    /// Removes relayed entries, read in `run`. Returns whether the server is still of that run; if not, they stay.
    ///
    /// # Errors
    /// No answer, or an error of Redis. Removing the same entries again does no harm.
    pub async fn trim_outbox(
        &self,
        template: TemplateId,
        run: &Run,
        ids: &[String],
    ) -> Result<bool, GateError> {
        let key = self.keys(template).outbox();
        for ids in ids.chunks(TRIM_MAX) {
            let live = self.live(template).await?;
            if live.run != *run {
                return Ok(false);
            }
            let mut call = self.scripts.relayed.key(&key);
            call.arg(run.as_str()).arg(GROUP).arg(ids);
            let removed: i64 = self.invoke("relayed", live.clone(), &call).await?;
            if removed != 1 {
                // The server has changed under this connection; the next one learns its run.
                live.forget().await;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a command of the consumer group, and makes the group if it is missing. Nil: there is no outbox.
    async fn as_group(
        &self,
        call: &'static str,
        live: &Live,
        key: &str,
        command: &Cmd,
    ) -> Result<Value, GateError> {
        let mut connection = live.connection.clone();
        let mut result: RedisResult<Value> = command.query_async(&mut connection).await;
        if matches!(&result, Err(error) if error.code() == Some("NOGROUP")) {
            let mut make = self.scripts.make_group.key(key);
            make.arg(GROUP);
            let made: i64 = self.invoke("make_group", live.clone(), &make).await?;
            if made == 0 {
                return Ok(Value::Nil);
            }
            result = command.query_async(&mut connection).await;
        }
        live.checked(call, result).await
    }

    /// Converts the entries that a relay was given. Takes those removed meanwhile off its list. `None` if all of them
    /// were.
    async fn entries_of(
        &self,
        template: TemplateId,
        live: &Live,
        given: Vec<RawEntry>,
    ) -> Result<Option<OutboxRead>, GateError> {
        let run = live.run.clone();
        if given.is_empty() {
            return Ok(Some(OutboxRead { run, entries: Vec::new() }));
        }
        // The clock that made the ids.
        let result = redis::cmd("TIME").query_async(&mut live.connection.clone()).await;
        let (seconds, micros): (u64, u64) = live.checked("time", result).await?;
        let now_ms = seconds.saturating_mul(1000).saturating_add(micros / 1000);
        let mut entries = Vec::new();
        let mut removed = Vec::new();
        for (id, fields) in given {
            match fields {
                Some(fields) => entries.push(OutboxEntry::read(template, id, &fields, now_ms)),
                None => removed.push(id),
            }
        }
        self.trim_outbox(template, &run, &removed).await?;
        Ok((!entries.is_empty()).then_some(OutboxRead { run, entries }))
    }
}

fn parse<T: FromRedisValue>(call: &'static str, answer: &Value) -> Result<T, GateError> {
    T::from_redis_value_ref(answer).map_err(|_| GateError::Unreadable { call })
}
