//! `--dry-run`: prints changes from now on to standard output, without brokers or checkpoint.

use std::{
    io::{BufWriter, Write as _},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use mysql_store::settings;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::{
    binlog::{gtid::GtidSet, schema::Followed},
    leader::{context::LeaderContext, preflight},
    publish::{
        messages::{Messages, TABLES},
        sink::Lines,
    },
    source::{
        Origin, Server, queue,
        reader::{self, Incoming},
        same_history,
    },
};

/// Prints until `stop`.
pub(crate) async fn run(
    context: &LeaderContext<'_>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let config = context.config;
    let mut connection = preflight::connect(config.database_url.expose()).await?;
    let settings = preflight::settings(&mut connection).await?;
    let position = settings::readable_position(&mut connection, settings.flavor).await?;
    let flavor = preflight::flavor(&settings);
    // Not the configured id: the server would disconnect a running tailer that uses it.
    let own = context.config.server_id(&context.database) ^ std::process::id();
    let server = Arc::new(Server { server_id: own, ..context.server(flavor) });
    let gtids = GtidSet::parse(flavor, &position)?;
    let at = Arc::clone(&server);
    let after = spawn_blocking(move || same_history::locate(&at, gtids)).await??;
    let read_files_to = Arc::clone(&after.file);
    let origin = Origin { server, after };
    let followed = Followed { database: context.database.clone(), tables: TABLES };
    let (sender, mut receiver) = queue::bounded(config.queue_bytes);
    let spill_folder = config.spill_folder.clone();
    let reader = reader::spawn(origin, followed, read_files_to, spill_folder, sender)
        .context("reader thread")?;
    let mut messages = Messages::new(&context.names);
    let mut lines = Lines(BufWriter::new(std::io::stdout()));
    loop {
        let some = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            some = receiver.recv_some() => some,
        };
        let Some(some) = some else { break };
        for incoming in some {
            match incoming {
                Incoming::Connected => context.part.ready_as("dry run"),
                Incoming::Disconnected(reason) => context.part.not_ready(reason),
                Incoming::Idle(_) => {}
                Incoming::Transaction(transaction) => {
                    let now_ms = context.clock.now().timestamp_millis();
                    messages.put_out(&transaction, now_ms, &mut lines).await?;
                }
            }
        }
        lines.0.flush().context("standard output")?;
    }
    match spawn_blocking(|| reader.join()).await? {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(())) | Err(_) => Err(anyhow!("the binlog reader ended")),
    }
}
