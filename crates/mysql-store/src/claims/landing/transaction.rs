//! The transaction of a landing, whatever its guard.

use std::io;

use sqlx::{Connection, MySqlConnection};

use super::{
    Attempt,
    guard::{Demand, Guard},
    insert::{self, Rows},
};
use crate::{StoreError, connect};

/// What one transaction writes.
pub(crate) struct Work<'a> {
    pub(crate) rows: Vec<Rows<'a>>,
    /// One for each template and epoch.
    pub(crate) demands: Vec<Demand>,
    pub(crate) guard: Guard,
    /// Names of the points after the rows, after the guard, and before the commit.
    pub(crate) points: [&'static str; 3],
}

/// Runs the transaction. Calls `reach` with the name of each point.
pub(crate) async fn run<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    work: &Work<'_>,
    reach: impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin a landing"))?;
    let done = write(&mut transaction, work, &reach).await;
    let keeps = |attempt: &Attempt| matches!(attempt, Attempt::Landed);
    connect::finish(transaction, done, keeps, ["commit a landing", "roll back a landing"]).await
}

/// Runs everything between begin and commit.
async fn write<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    work: &Work<'_>,
    reach: &impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let stopped = |error| StoreError::query("go on with a landing")(sqlx::Error::Io(error));
    let [after_insert, after_guard, before_commit] = work.points;
    if let Some(refused) = insert::all(connection, &work.rows).await? {
        return Ok(refused);
    }
    reach(after_insert).await.map_err(stopped)?;
    let matched = work.guard.take(connection, &work.demands).await?;
    reach(after_guard).await.map_err(stopped)?;
    if matched < work.demands.len() as u64 {
        return Ok(Attempt::GuardRefused);
    }
    reach(before_commit).await.map_err(stopped)?;
    Ok(Attempt::Landed)
}
