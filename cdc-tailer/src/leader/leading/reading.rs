//! Reads tables and publishes their rows: all of them, or one behind a definition that may have changed it.

use std::time::Duration;

use mysql_store::MySqlConnection;
use runtime::Backoff;
use tracing::{info, warn};

use crate::{
    leader::{
        context::LeaderContext,
        is_unavailable,
        leading::Leading,
        snapshot::{Restates, Snapshot, SnapshotProgress},
        start,
    },
    transaction::{Transaction, rewritten},
};

/// Backoff while MySQL is unreachable during a snapshot.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);

impl Leading<'_> {
    /// Publishes tables. The next chunk is read while the previous one is being acknowledged.
    pub(super) async fn read_tables(
        &mut self,
        mut next: SnapshotProgress,
        reason: &str,
    ) -> anyhow::Result<()> {
        let gtids = &self.publisher.safe().gtids;
        warn!(binlog.gtid = %gtids, tables = ?next.tables(), rows = next.rows(), reason, "reading tables");
        self.context.part.not_ready(format!("reading {:?}: {reason}", next.tables()));
        let mut connection = None;
        let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
        self.acknowledged_so_far(next.clone());
        while !next.is_done() {
            let before = self.publisher.producer().next_number();
            let after = match self.chunk(&mut connection, &next).await {
                Ok(after) => after,
                Err(error) if is_unavailable(&error) => {
                    let error = runtime::report(error.as_ref());
                    runtime::seldom!("reading tables is interrupted", error);
                    connection = None;
                    backoff.wait().await;
                    continue;
                }
                Err(error) => return Err(error.context("snapshot")),
            };
            backoff.reset();
            if let Some(last) = before.checked_sub(1) {
                self.publisher.producer().changed(last).await?;
            }
            self.acknowledged_so_far(next);
            next = after;
        }
        self.publisher.producer().drained().await?;
        info!(snapshot.rows = next.rows(), "tables are read");
        self.snapshot = None;
        self.offer_checkpoint();
        Ok(())
    }

    async fn chunk(
        &mut self,
        connection: &mut Option<MySqlConnection>,
        progress: &SnapshotProgress,
    ) -> anyhow::Result<SnapshotProgress> {
        let url = self.context.config.database_url.expose();
        let connection = match connection {
            Some(open) => open,
            none => {
                let open = none.insert(mysql_store::connect::single(url).await?);
                self.status.rows_guessed =
                    progress.rows() + start::guess_rows(open, progress).await?;
                open
            }
        };
        let LeaderContext { names, database, clock, .. } = self.context;
        let sink = self.publisher.broker_mut();
        Snapshot { sink, names, database, clock }.chunk(connection, progress).await
    }

    fn acknowledged_so_far(&mut self, progress: SnapshotProgress) {
        self.snapshot = Some(progress);
        self.offer_checkpoint();
        self.report(0);
    }

    /// Passes a definition, and reads its table anew. Before a checkpoint may be behind the definition, each one names
    /// the table, so a tailer that ends here leaves the reading to the next one.
    pub(super) async fn publish_definition(
        &mut self,
        transaction: &Transaction,
        table: &str,
    ) -> anyhow::Result<()> {
        let progress = SnapshotProgress::of(table, Restates::Definition);
        self.snapshot = Some(progress.clone());
        let now_ms = self.context.now_ms();
        self.publisher.publish(transaction, now_ms).await?;
        self.publisher.producer().drained().await?;
        self.advance()?;
        self.read_tables(progress, &rewritten(table)).await?;
        self.context.part.ready();
        Ok(())
    }
}
