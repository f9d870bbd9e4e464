//! Reads the admissions of a gate that are not settled: those in flight, which their process lands, and those queued.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, Epoch, TemplateId, UserId};
use redis::{FromRedisValue as _, Value};

use crate::{Gate, GateError, inspect::SCAN_KEYS};

/// An admission whose landing is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    pub id: ClaimId,
    pub user: UserId,
    /// Time of the admission.
    pub admitted_at: DateTime<Utc>,
}

/// A member of a sorted set and its score, as stored in Redis, perhaps not by a script.
type RawFlight = (Vec<u8>, Value);

/// Admissions in flight, or queued, oldest first.
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
    /// Reads at most `limit` admissions in flight since `before` or earlier, oldest first, skipping the first `passed`.
    pub async fn in_flight(
        &self,
        template: TemplateId,
        epoch: Epoch,
        before: DateTime<Utc>,
        passed: usize,
        limit: usize,
    ) -> Result<Flights, GateError> {
        let key = self.keys(template).inflight(epoch);
        self.flights("in_flight", &key, before, passed, limit).await
    }

    /// Reads at most `limit` admissions queued since `before` or earlier, oldest first, skipping the first `passed`.
    pub async fn queued_flights(
        &self,
        template: TemplateId,
        epoch: Epoch,
        before: DateTime<Utc>,
        passed: usize,
        limit: usize,
    ) -> Result<Flights, GateError> {
        let key = self.keys(template).queued(epoch);
        self.flights("queued_flights", &key, before, passed, limit).await
    }

    async fn flights(
        &self,
        call: &'static str,
        key: &str,
        before: DateTime<Utc>,
        passed: usize,
        limit: usize,
    ) -> Result<Flights, GateError> {
        let live = self.redis.live(key).await?;
        let result = redis::cmd("ZRANGE")
            .arg(key)
            .arg("-inf")
            .arg(before.timestamp_millis())
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(passed)
            .arg(limit)
            .arg("WITHSCORES")
            .query_async(&mut live.connection.clone())
            .await;
        let members: Vec<RawFlight> = live.checked(call, result).await?;
        let admissions: Vec<_> = members.iter().filter_map(read_raw).collect();
        Ok(Flights { unreadable: members.len() - admissions.len(), admissions })
    }

    /// Finds an admission in flight or queued. Scans all of them, so it is only for lookups of single claims: those of
    /// operators, and those of users within the limit of fences.
    pub async fn find_in_flight(
        &self,
        template: TemplateId,
        epoch: Epoch,
        id: ClaimId,
    ) -> Result<Option<InFlight>, GateError> {
        let keys = self.keys(template);
        for key in [keys.inflight(epoch), keys.queued(epoch)] {
            let found = self.find_flight(&key, id).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn find_flight(&self, key: &str, id: ClaimId) -> Result<Option<InFlight>, GateError> {
        let live = self.redis.live(key).await?;
        let mut cursor = 0_u64;
        loop {
            let result = redis::cmd("ZSCAN")
                .arg(key)
                .arg(cursor)
                .arg("MATCH")
                .arg(format!("{id}:*"))
                .arg("COUNT")
                .arg(SCAN_KEYS)
                .query_async(&mut live.connection.clone())
                .await;
            let (next, found): (u64, Vec<RawFlight>) =
                live.checked("find_in_flight", result).await?;
            if let Some(entry) = found.iter().find_map(read_raw) {
                return Ok(Some(entry));
            }
            if next == 0 {
                return Ok(None);
            }
            cursor = next;
        }
    }

    /// Counts the admissions in flight.
    pub async fn in_flight_count(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<u64, GateError> {
        self.count("in_flight_count", &self.keys(template).inflight(epoch)).await
    }

    /// Counts the queued admissions.
    pub async fn queued_count(&self, template: TemplateId, epoch: Epoch) -> Result<u64, GateError> {
        self.count("queued_count", &self.keys(template).queued(epoch)).await
    }

    async fn count(&self, call: &'static str, key: &str) -> Result<u64, GateError> {
        let live = self.redis.live(key).await?;
        let result = redis::cmd("ZCARD").arg(key).query_async(&mut live.connection.clone()).await;
        live.checked(call, result).await
    }
}

/// Reads a member; `None` if it is not text, or its score is no whole number.
fn read_raw((member, score): &RawFlight) -> Option<InFlight> {
    InFlight::read(std::str::from_utf8(member).ok()?, i64::from_redis_value_ref(score).ok()?)
}
