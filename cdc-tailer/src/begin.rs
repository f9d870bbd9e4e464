//! Where a term begins: at the checkpoint, or with a snapshot and the reason for it.

use mysql_store::{
    MySqlConnection,
    settings::{self, BinlogSettings},
    snapshot,
};
use topic::Acknowledged;

use crate::{
    checkpoint,
    config::Resnapshot,
    fit,
    position::{GtidSet, Position},
    preflight,
    snapshot::Progress,
    tailer::Ground,
};

/// Where to begin.
#[derive(Debug)]
pub(crate) struct Begin {
    /// The server that the position is of.
    pub(crate) server: String,
    pub(crate) position: Position,
    /// When that was the end of the binlog, milliseconds since 1970.
    pub(crate) as_of_ms: i64,
    /// What must be in the topics for the position to be true.
    pub(crate) acknowledged: Acknowledged,
    /// What must be read before following.
    pub(crate) snapshot: Option<Progress>,
    /// Why.
    pub(crate) reason: String,
}

/// Decides by the checkpoint, and by what the configuration asks for.
pub(crate) async fn decide(
    ground: &Ground<'_>,
    settings: &BinlogSettings,
    connection: &mut MySqlConnection,
) -> anyhow::Result<Begin> {
    let (brokers, names) = (ground.config.brokers(), &ground.names);
    let Some(checkpoint) = checkpoint::load(brokers, names, &ground.database).await? else {
        return anew(ground, "there is no checkpoint".to_owned()).await;
    };
    let mismatch = fit::mismatch(&checkpoint, settings, connection, brokers, names).await?;
    if let Some(reason) = mismatch {
        return anew(ground, format!("the checkpoint does not fit: {reason}")).await;
    }
    let asked = "asked for by --resnapshot";
    // One under way goes on: a tailer that is killed again and again would never end it otherwise.
    let (snapshot, reason) = match (checkpoint.snapshot.clone(), ground.config.wanted_snapshot()) {
        (None, None) => (None, String::new()),
        (Some(progress), None | Some(Resnapshot::All)) => (Some(progress), "going on".to_owned()),
        (Some(progress), Some(Resnapshot::Table(table))) => {
            (Some(progress.and(table)), asked.to_owned())
        }
        (None, Some(Resnapshot::Table(table))) => (Some(Progress::of(table)), asked.to_owned()),
        (None, Some(Resnapshot::All)) => return anew(ground, asked.to_owned()).await,
    };
    Ok(Begin {
        server: settings.server_identity.clone(),
        position: checkpoint.position()?,
        as_of_ms: checkpoint.as_of_ms,
        acknowledged: checkpoint.acknowledged,
        snapshot,
        reason,
    })
}

/// All tables, and then what comes after now.
pub(crate) async fn anew(ground: &Ground<'_>, reason: String) -> anyhow::Result<Begin> {
    let mut connection = preflight::connect(ground.config.database_url.expose()).await?;
    let settings = preflight::settings(&mut connection).await?;
    let as_of_ms = ground.clock.now().timestamp_millis();
    let text = settings::readable_position(&mut connection, settings.flavor).await?;
    let gtids = GtidSet::parse(preflight::flavor(&settings), &text)?;
    Ok(Begin {
        server: settings.server_identity,
        position: Position { gtids, file: "".into(), offset: 0 },
        as_of_ms,
        acknowledged: Acknowledged::new(),
        snapshot: Some(Progress::of_all()),
        reason,
    })
}

/// How many rows the server guesses the tables to hold that are not read whole yet.
pub(crate) async fn guess_rows(
    connection: &mut MySqlConnection,
    progress: &Progress,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for table in progress.tables() {
        rows += snapshot::estimated_rows(connection, table).await?;
    }
    Ok(rows)
}
