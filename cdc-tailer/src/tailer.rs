//! The life of a tailer: look at the ground, stand by, lead, and stand by again when another leads.

use std::time::Duration;

use anyhow::Context as _;
use mysql_store::StoreError;
use runtime::{Backoff, Clock, Part};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topic::{TopicError, TopicNames};
use tracing::warn;

use crate::{
    address::Address, checkpoint, config::Config, dry_run, leadership::Leadership, metrics,
    preflight, term,
};

/// Waits before a fenced tailer stands by again.
const STAND_BY_MIN: Duration = Duration::from_millis(200);
const STAND_BY_MAX: Duration = Duration::from_secs(10);

/// What every term stands on.
pub(crate) struct Ground<'a> {
    pub(crate) config: &'a Config,
    pub(crate) clock: &'a Clock,
    pub(crate) part: &'a Part,
    pub(crate) names: TopicNames,
    pub(crate) database: String,
    pub(crate) address: Address,
}

/// Follows the binlog until `stop`, then drains and writes a last checkpoint; stands by while another
/// tailer of this database does that. Says in `part` what it is doing.
///
/// # Errors
/// What somebody must look at: settings, grants, a table that cannot be followed.
pub async fn run(
    config: &Config,
    clock: &Clock,
    part: &Part,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::describe();
    let url = config.database_url.expose();
    let ground = Ground {
        config,
        clock,
        part,
        names: TopicNames::new(&config.topic_prefix),
        database: mysql_store::connect::database_of(url)?,
        address: Address::of_binlog(url, config.binlog_address.as_deref())?,
    };
    if config.dry_run {
        return dry_run::run(&ground, stop).await;
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        checked = check(&ground) => checked?,
    }
    let mut backoff = Backoff::new(STAND_BY_MIN, STAND_BY_MAX);
    loop {
        let ended = serve(&ground, &stop).await;
        match ended {
            Err(error) if is_fenced(&error) => {
                let reason = runtime::report(error.as_ref());
                warn!(error = reason, "another tailer leads: this one stands by");
            }
            // It was there at the start, so it is only away: between being elected and leading.
            Err(error) if is_unavailable(&error) => {
                let reason = runtime::report(error.as_ref());
                warn!(error = reason, "mysql is away: this tailer stands by");
                part.not_ready(reason);
            }
            ended => return ended,
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = backoff.wait() => {}
        }
    }
}

/// A standby that could not lead should say so before it is needed.
async fn check(ground: &Ground<'_>) -> anyhow::Result<()> {
    let config = ground.config;
    let mut connection = preflight::connect(config.database_url.expose()).await?;
    preflight::settings(&mut connection).await?;
    let brokers = config.brokers();
    topic::ensure_topics(brokers, &ground.names, &config.layout()).await.context("topics")
}

/// Stands by, then leads until `stop` or an end by itself.
async fn serve(ground: &Ground<'_>, stop: &CancellationToken) -> anyhow::Result<()> {
    let (config, part) = (ground.config, ground.part);
    ::metrics::gauge!(metrics::LEADS).set(0.0);
    part.tell(json!({ "role": "standby" }));
    let joining = Leadership::join(
        config.brokers(),
        &ground.names,
        &ground.database,
        config.leader_timeout(),
    );
    let mut leadership = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        joined = joining => joined.context("leadership")?,
    };
    let elected = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        elected = leadership.elected(part) => Some(elected),
    };
    let ended = match elected {
        None => Ok(()),
        Some(Ok(())) => {
            part.not_ready("elected");
            term::lead(ground, &leadership, stop).await
        }
        Some(failed) => failed,
    };
    leadership.leave().await;
    ended
}

fn is_fenced(error: &anyhow::Error) -> bool {
    let fenced = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(TopicError::Fenced { .. }))
    };
    error.chain().any(fenced)
}

/// Whether MySQL did not answer.
pub(crate) fn is_unavailable(error: &anyhow::Error) -> bool {
    let unavailable = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().is_some_and(StoreError::is_unavailable)
    };
    error.chain().any(unavailable)
}

/// The last checkpoint as JSON text; `None`: there is none. Disturbs no tailer that runs.
///
/// # Errors
/// No broker answers.
pub async fn position(config: &Config) -> anyhow::Result<Option<String>> {
    let database = mysql_store::connect::database_of(config.database_url.expose())?;
    let names = TopicNames::new(&config.topic_prefix);
    match checkpoint::load(config.brokers(), &names, &database).await? {
        Some(checkpoint) => Ok(Some(serde_json::to_string_pretty(&checkpoint)?)),
        None => Ok(None),
    }
}
