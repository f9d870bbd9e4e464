//! `view_generation`: the generations of the views, slot by slot, and the servers they belong to.
//!
//! A server that failed over or restarted may have lost writes. So views carry the generation of the server that made
//! them, and another server of the same slots gets a higher one. A failover of MySQL may forget a raise, so each server
//! of MySQL begins far above the generations of the one before it. The table has one row:
//!
//! - `generation`: the highest generation so far,
//! - `server`: the server of MySQL that gave it,
//! - `run_id`: the server that has all slots, with this generation; empty in a cluster,
//! - `servers`: in a cluster, as JSON, all masters, and `[last slot, master, generation]` for each range of slots in
//!   order.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{
    StoreError,
    settings::primary_server::{RAISE, SERVER},
};

/// Attempts at raising the generation. Each failure means that another process has just changed it, and a process does
/// so once per connection.
const RAISES_MAX: u32 = 32;

/// Last slot of a cluster, and of a single server, which has all slots.
const SLOT_MAX: u16 = 16_383;

/// A slot range of one server, and the server's run and replication id.
pub type Served = (RangeInclusive<u16>, String);

/// A slot range and the generation of its views.
pub type Generation = (RangeInclusive<u16>, i64);

/// Contents of the row.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Servers {
    masters: Vec<String>,
    slots: Vec<(u16, usize, i64)>,
}

/// Returns the generations of the views on these servers, for all their slots in order. A slot that has moved from
/// another server gets a generation above all earlier ones: writes may be lost, and every view built under an older
/// generation becomes cold at once.
///
/// # Errors
/// A statement fails, or the row does not have the format of this version.
pub async fn generations_of(
    connection: &mut MySqlConnection,
    served: &[Served],
) -> Result<Vec<Generation>, StoreError> {
    renumber(connection).await?;
    for _ in 0..RAISES_MAX {
        let stored = stored(connection).await?;
        let is_first = stored.is_none();
        let (servers, highest) = stored.unwrap_or_default();
        let met = servers.meet(served, highest + 1);
        if met == servers {
            return Ok(met.generations());
        }
        let is_ours = if is_first {
            insert_first(connection, &met).await?
        } else {
            raise(connection, &met, highest).await?
        };
        if is_ours {
            return Ok(met.generations());
        }
    }
    Err(StoreError::unreadable("view_generation: other processes kept changing it"))
}

/// Gives all views generations above all that an earlier server of MySQL may have given, if this one has not done so.
///
/// # Errors
/// A statement fails, or the row does not have the format of this version.
pub async fn renumber(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    let sql =
        format!("select server, {SERVER}, unix_timestamp() from view_generation where id = 1");
    let row: Option<(Option<String>, String, i64)> = sqlx::query_as(AssertSqlSafe(sql))
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::query("read which server gave the view generation"))?;
    let Some((before, server, now)) = row else { return Ok(()) };
    if before.as_ref() == Some(&server) {
        return Ok(());
    }
    let Some((mut servers, highest)) = stored(connection).await? else { return Ok(()) };
    // The time too: a second failover to a server that lacks the first one's raise would give the same again.
    let generation = if before.is_some() { (highest + RAISE).max(now) } else { highest };
    if before.is_some() {
        for (_, _, of_slots) in &mut servers.slots {
            *of_slots = generation;
        }
    }
    let (run, slots) = servers.columns()?;
    // Compare-and-set: after another process has done it, there is nothing left to do.
    let sql = format!(
        "update view_generation set run_id = ?, servers = ?, generation = ?, server = ? \
         where id = 1 and generation = ? and ? = {SERVER}"
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(run)
        .bind(slots)
        .bind(generation)
        .bind(&server)
        .bind(highest)
        .bind(&server)
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::query("raise the view generation behind a failover"))
}

/// Returns the generations of the views on these servers if they are the servers known to MySQL; changes nothing. The
/// generation is 0, which no view has, if no server was ever recorded. Returns `None` if MySQL knows other servers for
/// some slots.
///
/// # Errors
/// The statement fails, or the row does not have the format of this version.
pub async fn known_generations(
    connection: &mut MySqlConnection,
    served: &[Served],
) -> Result<Option<Vec<Generation>>, StoreError> {
    let Some((servers, highest)) = stored(connection).await? else {
        return Ok(Some(served.iter().map(|(slots, _)| (slots.clone(), 0)).collect()));
    };
    let met = servers.meet(served, highest + 1);
    Ok((met == servers).then(|| met.generations()))
}

impl Servers {
    /// Returns the new contents for these servers. `next` is the generation of slots that have a new server.
    fn meet(&self, served: &[Served], next: i64) -> Self {
        let mut met = Self::default();
        for (slot, run) in
            served.iter().flat_map(|(slots, run)| slots.clone().map(move |slot| (slot, run)))
        {
            let known = self.of(slot).filter(|(known, _)| known == run);
            met.push(slot, run, known.map_or(next, |(_, generation)| generation));
        }
        met
    }

    /// Returns the server of a slot and the generation of its views.
    fn of(&self, slot: u16) -> Option<(&str, i64)> {
        let range = self.slots.partition_point(|(last, ..)| *last < slot);
        let (_, master, generation) = self.slots.get(range)?;
        Some((self.masters.get(*master)?, *generation))
    }

    /// Adds the next slot.
    fn push(&mut self, slot: u16, run: &str, generation: i64) {
        let master = self.masters.iter().position(|known| known == run).unwrap_or_else(|| {
            self.masters.push(run.to_owned());
            self.masters.len() - 1
        });
        match self.slots.last_mut() {
            Some(range) if (range.1, range.2) == (master, generation) => range.0 = slot,
            _ => self.slots.push((slot, master, generation)),
        }
    }

    fn generations(&self) -> Vec<Generation> {
        let mut next = 0;
        let range = |&(last, _, generation): &(u16, usize, i64)| {
            let first = std::mem::replace(&mut next, last.saturating_add(1));
            (first..=last, generation)
        };
        self.slots.iter().map(range).collect()
    }

    /// Values of the columns `run_id` and `servers`.
    fn columns(&self) -> Result<(&str, Option<String>), StoreError> {
        match (&*self.masters, &*self.slots) {
            // One range: all slots got their generation at once, so it is the highest, which has its own column.
            ([run], [_]) => Ok((run, None)),
            _ => {
                let servers = serde_json::to_string(self).map_err(|error| broken(&error))?;
                Ok(("", Some(servers)))
            }
        }
    }
}

async fn stored(connection: &mut MySqlConnection) -> Result<Option<(Servers, i64)>, StoreError> {
    let row: Option<(String, Option<String>, i64)> =
        sqlx::query_as("select run_id, servers, generation from view_generation where id = 1")
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("read the view generation"))?;
    let Some((run, servers, generation)) = row else { return Ok(None) };
    let servers = match servers.filter(|_| run.is_empty()) {
        Some(servers) => serde_json::from_str(&servers).map_err(|error| broken(&error))?,
        None => Servers { masters: vec![run], slots: vec![(SLOT_MAX, 0, generation)] },
    };
    Ok(Some((servers, generation)))
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::unreadable(format!("view_generation: {error}"))
}

/// Compare-and-set; returns false if another process was faster.
async fn raise(
    connection: &mut MySqlConnection,
    servers: &Servers,
    highest: i64,
) -> Result<bool, StoreError> {
    let (run, servers) = servers.columns()?;
    sqlx::query(
        "update view_generation set run_id = ?, servers = ?, generation = generation + 1 \
         where id = 1 and generation = ?",
    )
    .bind(run)
    .bind(servers)
    .bind(highest)
    .execute(connection)
    .await
    .map(|done| done.rows_affected() == 1)
    .map_err(StoreError::query("raise the view generation"))
}

/// Inserts the row, as the first process of a new platform; returns false if another process was faster.
async fn insert_first(
    connection: &mut MySqlConnection,
    servers: &Servers,
) -> Result<bool, StoreError> {
    let (run, servers) = servers.columns()?;
    let sql = format!(
        "insert into view_generation (id, run_id, servers, generation, server) \
         values (1, ?, ?, 1, {SERVER})"
    );
    let inserted =
        sqlx::query(AssertSqlSafe(sql)).bind(run).bind(servers).execute(connection).await;
    match inserted.map_err(StoreError::query("create the view generation")) {
        Ok(_) => Ok(true),
        Err(error) if error.duplicate_key().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(ranges: &[(u16, u16, &str)]) -> Vec<Served> {
        ranges.iter().map(|&(first, last, run)| (first..=last, run.to_owned())).collect()
    }

    #[test]
    fn only_slots_that_another_server_has_now_get_the_next_generation() {
        let one = Servers::default().meet(&served(&[(0, 99, "a"), (100, 199, "b")]), 1);
        assert_eq!(one.generations(), [(0..=99, 1), (100..=199, 1)]);
        let moved =
            one.meet(&served(&[(0, 89, "a"), (90, 91, "b"), (92, 99, "a"), (100, 199, "b")]), 2);
        let expected = [(0..=89, 1), (90..=91, 2), (92..=99, 1), (100..=199, 1)];
        assert_eq!(moved.generations(), expected);
        // `b` failed over; its slots have changed since the first call.
        let over =
            moved.meet(&served(&[(0, 89, "a"), (90, 91, "c"), (92, 99, "a"), (100, 199, "c")]), 3);
        let expected = [(0..=89, 1), (90..=91, 3), (92..=99, 1), (100..=199, 3)];
        assert_eq!(over.generations(), expected);
        // The slots are back on `a`, whose views of them are older than what the others wrote.
        let back = over.meet(&served(&[(0, 99, "a"), (100, 199, "c")]), 4);
        let expected = [(0..=89, 1), (90..=91, 4), (92..=99, 1), (100..=199, 3)];
        assert_eq!(back.generations(), expected);
        assert_eq!(back.meet(&served(&[(0, 99, "a"), (100, 199, "c")]), 5), back);
    }
}
