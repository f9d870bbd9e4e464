//! Chooses where a leadership starts: at the checkpoint, or with a snapshot and the reason for it.

use std::sync::Arc;

use mysql_store::{MySqlConnection, settings, snapshot};
use tokio::task::spawn_blocking;
use topic::Acknowledged;

use crate::{
    binlog::{
        gtid::GtidSet,
        position::{File, Position},
    },
    config::Resnapshot,
    error::Directive,
    leader::{
        checkpoint,
        context::LeaderContext,
        preflight, prepared,
        snapshot::{Restates, SnapshotProgress},
        topics_check,
    },
    source::{
        Origin, Server,
        connection::Connection,
        restarts::{self, Run},
        same_history,
    },
};

/// Start of a leadership.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) position: Position,
    /// The last file up to which the server is known to have written all changes into its binlog.
    pub(crate) followed: Arc<File>,
    /// When `position` was the end of the binlog, milliseconds since 1970.
    pub(crate) as_of_ms: i64,
    /// Messages that must be in the topics for the position to be valid.
    pub(crate) acknowledged: Acknowledged,
    /// Tables to read before following the binlog.
    pub(crate) snapshot: Option<SnapshotProgress>,
    /// Reason for the snapshot.
    pub(crate) reason: String,
}

/// Decides from the checkpoint and the configuration.
pub(crate) async fn decide(
    context: &LeaderContext<'_>,
    server: &Arc<Server>,
) -> anyhow::Result<Begin> {
    let wanted = context.config.wanted_snapshot();
    let asked = "asked for by --resnapshot";
    // This overrides the checkpoint, even a snapshot in progress: the request may be the way out of it.
    if wanted == Some(Resnapshot::All) {
        return anew(context, server, asked.to_owned(), Restates::History).await;
    }
    let brokers = context.config.brokers();
    let names = &context.names;
    let Some(checkpoint) = checkpoint::load(brokers, names, &context.database).await? else {
        let reason = "there is no checkpoint".to_owned();
        return anew(context, server, reason, Restates::Nothing).await;
    };
    let position = match checkpoint.position() {
        Ok(position) => position,
        Err(error) => {
            let reason = format!("the checkpoint is damaged: {error}");
            return anew(context, server, reason, Restates::History).await;
        }
    };
    let mismatch = match topics_check::mismatch(&checkpoint, server.flavor, brokers).await? {
        None => other_history(server, &position).await?,
        some => some,
    };
    let run = match mismatch {
        None => goes_on(server, checkpoint.followed()).await?,
        Some(reason) => Run::Unknown(reason),
    };
    let followed = match run {
        Run::GoesOnTo(followed) => followed,
        Run::Unknown(reason) => {
            let reason = format!("the checkpoint does not fit: {reason}");
            return anew(context, server, reason, Restates::History).await;
        }
    };
    // A snapshot in progress continues; otherwise a tailer that is killed repeatedly would never finish it.
    let (snapshot, reason) = match (checkpoint.snapshot.clone(), wanted) {
        (None, None | Some(Resnapshot::All)) => (None, String::new()),
        (Some(progress), None | Some(Resnapshot::All)) => (Some(progress), "going on".to_owned()),
        (Some(progress), Some(Resnapshot::Table(table))) => {
            (Some(progress.and(table)), asked.to_owned())
        }
        (None, Some(Resnapshot::Table(table))) => {
            (Some(SnapshotProgress::of(table, Restates::History)), asked.to_owned())
        }
    };
    Ok(Begin {
        position,
        followed,
        as_of_ms: checkpoint.as_of_ms,
        acknowledged: checkpoint.acknowledged,
        snapshot,
        reason,
    })
}

/// Returns why the server's history is not the one that led to `position`. Transient errors are ignored: the reader
/// checks again at each connection.
async fn other_history(
    server: &Arc<Server>,
    position: &Position,
) -> anyhow::Result<Option<String>> {
    let origin = Origin { server: Arc::clone(server), after: position.clone() };
    let proven = spawn_blocking(move || {
        let identity = Connection::beside(&origin.server)?.identity().to_owned();
        same_history::prove(&origin, &identity)
    });
    match proven.await? {
        Err(error) if error.directive() == Directive::Resnapshot => {
            Ok(Some(runtime::report(&error)))
        }
        Ok(()) | Err(_) => Ok(None),
    }
}

async fn goes_on(server: &Arc<Server>, followed: File) -> anyhow::Result<Run> {
    let server = Arc::clone(server);
    Ok(spawn_blocking(move || restarts::since(&server, Arc::new(followed))).await??)
}

/// Starts with a snapshot of all tables, followed by all later changes.
pub(crate) async fn anew(
    context: &LeaderContext<'_>,
    server: &Arc<Server>,
    reason: String,
    restates: Restates,
) -> anyhow::Result<Begin> {
    let mut connection = preflight::connect(context.config.database_url.expose()).await?;
    let settings = preflight::settings(&mut connection).await?;
    let as_of_ms = context.clock.now().timestamp_millis();
    let text = settings::readable_position(&mut connection, settings.flavor).await?;
    let gtids = GtidSet::parse(server.flavor, &text)?;
    let mut position = locate(server, gtids).await?;
    // All other transactions that were prepared before the position have ended before the second position.
    position.pending.unread = prepared::until_ended(&mut connection, context.part).await?;
    let text = settings::readable_position(&mut connection, settings.flavor).await?;
    position.pending.covered = Some(GtidSet::parse(server.flavor, &text)?);
    Ok(Begin {
        followed: Arc::clone(&position.file),
        position,
        as_of_ms,
        acknowledged: Acknowledged::new(),
        snapshot: Some(SnapshotProgress::of_all(restates)),
        reason,
    })
}

/// Locates the position of `gtids`. This may block until the connection times out: while the server begins a binlog
/// file or resets its binlog, it sends no dump and no list of files until the writes are on disk.
async fn locate(server: &Arc<Server>, gtids: GtidSet) -> anyhow::Result<Position> {
    let server = Arc::clone(server);
    Ok(spawn_blocking(move || same_history::locate(&server, gtids)).await??)
}

/// Returns the server's estimate of rows in the tables that are not fully read yet.
pub(crate) async fn guess_rows(
    connection: &mut MySqlConnection,
    progress: &SnapshotProgress,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for table in progress.tables() {
        rows += snapshot::estimated_rows(connection, table).await?;
    }
    Ok(rows)
}
