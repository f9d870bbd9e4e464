//! Applies a migration statement by statement, so that one that was cut short goes on where it was.
//!
//! Both servers commit at each change of the schema, so a migration is no transaction. But each statement alone happens or
//! does not, even if the server is killed. So the migration's row says before each statement that it is sent, and after it
//! that it is done. One that was sent and has no answer is sent once more: if the server then says that what it makes is
//! there already, it is done (docs/decisions/0093-a-migration-goes-on-where-it-was-cut-short.md).

use std::time::Instant;

use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, migrate::Migration};

use super::{progress::Progress, readable, statements::statements};
use crate::StoreError;

/// Answers to a statement whose effect is there already: its table (1050), column (1060), key (1061) or trigger (1359)
/// exists, or what it drops does not (1091). The server gives them before it changes anything.
const ALREADY_SO: [u16; 5] = [1050, 1060, 1061, 1091, 1359];

/// The same for a statement that inserts rows, all or none: one is there already. To others it says that rows are in the
/// way.
const ROW_EXISTS: u16 = 1062;

/// Applies a migration, or what is left of it. `progress` is what its row says; `None`: it has none yet.
pub(super) async fn apply(
    connection: &mut MySqlConnection,
    migration: &Migration,
    progress: Option<Progress>,
) -> Result<(), StoreError> {
    let began = Instant::now();
    let progress = match progress {
        Some(progress) => progress,
        None => begin(connection, migration).await?,
    };
    let of_all = statements(migration.sql.as_str()).into_iter().enumerate();
    for (number, text) in of_all.skip(progress.statements()) {
        let is_recorded = progress != Progress::Unknown;
        let is_in_doubt = progress.is_in_doubt(number);
        Statement { version: migration.version, number, text, is_recorded, is_in_doubt }
            .carry_out(connection)
            .await?;
    }
    let nanoseconds = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
    sqlx::query("update _sqlx_migrations set success = true, execution_time = ? where version = ?")
        .bind(nanoseconds)
        .bind(migration.version)
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::query("record that a migration is finished"))
}

/// Writes a migration's row.
async fn begin(
    connection: &mut MySqlConnection,
    migration: &Migration,
) -> Result<Progress, StoreError> {
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
         values (?, ?, false, ?, ?)",
    )
    .bind(migration.version)
    .bind(readable::described(migration))
    .bind(&*migration.checksum)
    .bind(Progress::NONE.encode())
    .execute(connection)
    .await
    .map_err(StoreError::query("record that a migration begins"))?;
    Ok(Progress::NONE)
}

/// A statement of a migration.
struct Statement {
    version: i64,
    /// Counted from 0.
    number: usize,
    text: String,
    /// Whether the migration's row says how far it is.
    is_recorded: bool,
    /// Whether it may have been carried out before.
    is_in_doubt: bool,
}

impl Statement {
    /// Carries it out unless that has happened. What it does to rows commits together with the record of it.
    async fn carry_out(&self, connection: &mut MySqlConnection) -> Result<(), StoreError> {
        self.record(connection, self.number, true).await?;
        let mut transaction = connection
            .begin()
            .await
            .map_err(StoreError::query("begin a statement's transaction"))?;
        let text = AssertSqlSafe(self.text.as_str());
        let sent = sqlx::raw_sql(text).execute(&mut *transaction).await;
        let Err(error) = sent.map_err(StoreError::query("apply the migrations")) else {
            self.record(&mut transaction, self.number + 1, false).await?;
            return transaction.commit().await.map_err(StoreError::query("commit a migration"));
        };
        // Without a definite answer the statement stays in doubt, and the connection may be gone.
        let Some(code) = error.number().filter(|_| !error.is_unavailable()) else {
            return Err(self.unknown(&error));
        };
        transaction.rollback().await.map_err(StoreError::query("roll a migration back"))?;
        if self.is_in_doubt && self.is_already_so(code) {
            return self.record(connection, self.number + 1, false).await;
        }
        self.record(connection, self.number, false).await?;
        Err(self.refused(&error))
    }

    /// Records that this many statements are done, and whether the next one is sent.
    async fn record(
        &self,
        connection: &mut MySqlConnection,
        statements: usize,
        is_next_in_doubt: bool,
    ) -> Result<(), StoreError> {
        if !self.is_recorded {
            return Ok(());
        }
        Progress::Done { statements, is_next_in_doubt }.write(connection, self.version).await
    }

    fn is_already_so(&self, code: u16) -> bool {
        ALREADY_SO.contains(&code) || (code == ROW_EXISTS && self.text.starts_with("insert "))
    }

    fn refused(&self, error: &StoreError) -> StoreError {
        let hint = match error.is_lock_wait() {
            true => {
                " Another session uses the table: wait for it or end it (`show full processlist`)."
            }
            false => "",
        };
        StoreError::Settings(format!(
            "{}: the server refuses it, and it has changed nothing: {}.{hint} Put that right, then run `api --migrate` \
             again: it goes on with this statement",
            self.place(),
            said(error)
        ))
    }

    fn unknown(&self, error: &StoreError) -> StoreError {
        StoreError::Settings(format!(
            "{}: the server gave no definite answer and may go on with it: {}. Run `api --migrate` again: it waits until the server \
             has ended with it, and then goes on",
            self.place(),
            said(error)
        ))
    }

    /// Names the statement.
    fn place(&self) -> String {
        let begin = self.text.lines().next().unwrap_or_default();
        format!("migration {}, statement {} (`{begin} …`)", self.version, self.number + 1)
    }
}

/// What the server or the system said.
fn said(error: &StoreError) -> String {
    match error {
        StoreError::Query { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
