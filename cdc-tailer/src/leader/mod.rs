//! Life cycle of a tailer: check the server, stand by, lead, and stand by again when another leads.

mod binlog_backlog;
pub(crate) mod checkpoint;
mod context;
mod dry_run;
mod election;
mod leading;
mod preflight;
mod prepared;
mod snapshot;
mod start;
mod status;
pub(crate) mod topics_check;

use std::time::Duration;

use anyhow::Context as _;
use mysql_store::{StoreError, settings};
use runtime::{Backoff, Clock, Part};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topic::{TopicError, TopicNames};
use tracing::warn;

use crate::{
    config::Config,
    error::{Directive, TailError},
    leader::{
        context::LeaderContext,
        election::{GroupLeft, Leadership},
        leading::Doubt,
    },
    metrics,
    source::address::Address,
};

/// Backoff before a fenced tailer stands by again.
const STAND_BY_MIN: Duration = Duration::from_millis(200);
const STAND_BY_MAX: Duration = Duration::from_secs(10);

/// Interval between checks for missing tables.
const TABLES_LOOK: Duration = Duration::from_secs(1);

/// Follows the binlog until `stop`, then drains and writes a last checkpoint. Stands by while another tailer of this
/// database leads. Reports its state in `part`.
///
/// # Errors
/// Problems that an operator must solve: settings, grants, a table that cannot be followed.
pub async fn run(
    config: &Config,
    clock: &Clock,
    part: &Part,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    runtime::metric::describe(&metrics::METRICS);
    let url = config.database_url.expose();
    let address = Address::parse(url)?;
    let database = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        checked = check(config, part) => checked?,
    };
    let names = TopicNames::new(&config.topic_prefix);
    let context = LeaderContext { config, clock, part, names, database, address };
    if config.dry_run {
        return dry_run::run(&context, stop).await;
    }
    let mut backoff = Backoff::new(STAND_BY_MIN, STAND_BY_MAX);
    let mut doubt = Doubt::None;
    loop {
        let error = match serve(&context, doubt, &stop).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let Some(pause) = Pause::after(&error) else { return Err(error) };
        let reason = runtime::report(error.as_ref());
        doubt = match pause {
            Pause::Fenced => {
                warn!(error = reason, "another tailer leads: this one stands by");
                Doubt::None
            }
            Pause::Topics => {
                runtime::seldom!("a topic is not as it must be: this tailer stands by", reason);
                part.not_ready(reason);
                Doubt::Topics
            }
            Pause::Mysql => {
                runtime::seldom!("mysql is away: this tailer stands by", reason);
                part.not_ready(reason);
                doubt
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = backoff.wait() => {}
        }
        if doubt == Doubt::Topics {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                made = make_topics(config, part) => if let Err(error) = made {
                    let reason = runtime::report(error.as_ref());
                    runtime::seldom!("the topics cannot be made", reason);
                }
            }
        }
    }
}

/// Checks early whether this tailer could lead, so that a standby reports problems before it is needed. Waits for the
/// followed tables. Returns the database name in the server's spelling, which is the only one that matches the binlog.
async fn check(config: &Config, part: &Part) -> anyhow::Result<String> {
    let url = config.database_url.expose();
    mysql_store::connect::database_of(url)?;
    let mut connection = preflight::connect(url).await?;
    preflight::settings(&mut connection).await?;
    let database = settings::database(&mut connection).await.context("database")?;
    let mut is_logged = false;
    loop {
        let missing = preflight::missing_tables(&mut connection).await?;
        if missing.is_empty() {
            break;
        }
        let reason = format!("database {database} has no {}", missing.join(", no "));
        if !is_logged {
            warn!(reason, "waiting for the followed tables: run `api --migrate`");
        }
        is_logged = true;
        part.not_ready(reason);
        tokio::time::sleep(TABLES_LOOK).await;
    }
    if !config.dry_run {
        make_topics(config, part).await?;
    }
    Ok(database)
}

/// Creates the missing topics. Waits for brokers that answer, but are too busy or too few to create one in time.
async fn make_topics(config: &Config, part: &Part) -> anyhow::Result<()> {
    let names = TopicNames::new(&config.topic_prefix);
    let mut backoff = Backoff::new(STAND_BY_MIN, STAND_BY_MAX);
    loop {
        match topic::ensure_topics(config.brokers(), &names, &config.layout()).await {
            Err(error @ TopicError::Create { .. }) if error.is_retriable() => {
                let reason = runtime::report(&error);
                runtime::seldom!("waiting for Kafka to create the topics", reason);
                part.not_ready(reason);
            }
            ended => return ended.context("topics"),
        }
        backoff.wait().await;
    }
}

/// Stands by, then leads until `stop` or until the leadership ends.
async fn serve(
    context: &LeaderContext<'_>,
    doubt: Doubt,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let config = context.config;
    let part = context.part;
    ::metrics::gauge!(metrics::LEADS.name).set(0.0);
    part.set_status(json!({ "role": "standby" }));
    let joining = Leadership::join(
        config.brokers(),
        &context.names,
        &context.database,
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
            if doubt == Doubt::None {
                part.not_ready("elected");
            }
            leading::lead(context, &leadership, doubt, stop).await
        }
        Some(failed) => failed,
    };
    leadership.leave().await;
    ended
}

/// Why a tailer stands by after a leadership, instead of ending. Each passes by itself, or once it is mended, and the
/// next leadership goes on.
enum Pause {
    /// Another one leads.
    Fenced,
    /// A topic refuses a message, or is gone, or is not what it was.
    Topics,
    /// MySQL was reachable at the start, so this is an outage between election and leadership.
    Mysql,
}

impl Pause {
    fn after(error: &anyhow::Error) -> Option<Self> {
        if error.downcast_ref::<GroupLeft>().is_some() {
            return Some(Self::Topics);
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<TopicError>()) {
            Some(error) if error.is_retriable() => Some(Self::Topics),
            Some(TopicError::Fenced { .. }) => Some(Self::Fenced),
            // The checkpoint writer has failed for good too: a new one requires an election.
            Some(
                TopicError::Transaction { .. }
                | TopicError::Rewound { .. }
                | TopicError::Produce { .. }
                | TopicError::MissingTopic { .. }
                | TopicError::Create { .. },
            ) => Some(Self::Topics),
            _ => is_unavailable(error).then_some(Self::Mysql),
        }
    }
}

/// Returns whether MySQL did not answer, or not completely.
pub(crate) fn is_unavailable(error: &anyhow::Error) -> bool {
    let unavailable = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().is_some_and(StoreError::is_unavailable)
            || cause
                .downcast_ref()
                .is_some_and(|error: &TailError| error.directive() == Directive::Reconnect)
    };
    error.chain().any(unavailable)
}

/// Returns the last checkpoint as JSON text; `None` if there is none. Does not disturb a running tailer.
pub async fn position(config: &Config) -> anyhow::Result<Option<String>> {
    let url = config.database_url.expose();
    let as_given = mysql_store::connect::database_of(url)?;
    // The name from the URL suffices while the server is unreachable.
    let database = match preflight::connect(url).await {
        Ok(mut connection) => settings::database(&mut connection).await.unwrap_or(as_given),
        Err(_) => as_given,
    };
    let names = TopicNames::new(&config.topic_prefix);
    match checkpoint::load(config.brokers(), &names, &database).await? {
        Some(checkpoint) => Ok(Some(serde_json::to_string_pretty(&checkpoint)?)),
        None => Ok(None),
    }
}
