//! Whether the servers of the api answer, for `/readyz`, and how its clock differs from MySQL's.
//!
//! Claims need MySQL and the gate. Without the view lists come from MySQL, and without Kafka templates are read from
//! MySQL when they are asked for: an api that lost one of these is degraded, not unready. If it were unready, a load
//! balancer would remove all apis at once, and no claim would get through.

mod kafka_gaps;
pub(crate) mod lost_claims;
pub(crate) mod sale_clock;

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use landing::lander::LandingWait;
use metrics::gauge;
use mysql_store::{MySqlPool, StoreError, connect, settings, view_generation};
use redis_gate::Gate;
use redis_view::ViewStore;
use runtime::{Context, Health, Part};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topic::{BrokerProbe, TopicNames};
use tracing::warn;

use self::sale_clock::SaleClock;
use crate::{config::Config, metrics::CLOCK_SKEW};

/// Interval between checks of MySQL and of the generations of the views.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval between checks of the settings of MySQL and Kafka: another server may have taken over, or somebody changed
/// them. Each finding is a line in the log.
const SETTINGS_EVERY: Duration = Duration::from_mins(10);

/// How long MySQL may leave claims unlanded: longer than a wait for a locked row, after which a lander goes on.
const LANDS_WITHIN: Duration = Duration::from_secs(5);

/// Clock difference to MySQL above which a warning is logged. Clocks kept by NTP are within a few milliseconds.
const SKEW_MAX: TimeDelta = TimeDelta::milliseconds(250);

/// The servers, each with its handle.
pub(crate) struct ServerHealth {
    mysql: Part,
    gate: Part,
    view: Part,
    kafka: Part,
}

/// What is asked whether the servers are well.
pub(crate) struct Watched {
    pub(crate) sales: SaleClock,
    pub(crate) pool: MySqlPool,
    pub(crate) landing: LandingWait,
    pub(crate) gate: Gate,
    pub(crate) views: ViewStore,
}

impl ServerHealth {
    /// Adds the servers to `health`. None is up yet.
    pub(crate) fn of(config: &Config, health: &Health) -> Self {
        let needed = |name, url: &str| health.server(name, &runtime::address(url));
        let spare = |name, url: &str| health.spare_server(name, &runtime::address(url));
        Self {
            mysql: needed("mysql", config.database_url.expose()),
            gate: needed("gate", config.gate_redis_url.expose()),
            view: spare("view", config.view_redis_url.expose()),
            kafka: spare("kafka", &config.kafka_brokers),
        }
    }

    /// Returns a task that asks each server every few seconds. It ends when the process stops.
    pub(crate) fn watch(
        self,
        config: &Config,
        context: &Context,
        watched: Watched,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
        let names = TopicNames::new(&config.topic_prefix);
        let topics =
            [names.template(), names.claims(), names.claim_progress(), names.claim_stats()];
        let brokers = config.kafka_brokers.clone();
        let probe = BrokerProbe::new(&brokers, topics);
        let stop = context.stop_token();
        async move {
            // While a master of the gate's cluster is away, the others' templates are served.
            let ask_gate = || watched.gate.redis().check();
            let with_mysql = watch_mysql(&self.mysql, &watched, &stop);
            tokio::join!(
                with_mysql,
                runtime::watch(self.gate, stop.clone(), ask_gate),
                runtime::watch(self.view, stop.clone(), || watched.views.check_fit()),
                runtime::watch(self.kafka, stop.clone(), || probe.check()),
                kafka_gaps::tell(&brokers, &names, &stop),
            );
            Ok(())
        }
    }
}

/// Watches MySQL and what is compared with it. A clock that differs from MySQL's is only logged: if MySQL's own is
/// wrong, all apis would become unready. What clocks decide is checked by both (a use) or goes by MySQL's alone (a
/// window).
///
/// Like [`runtime::watch`], it drops no statement at `stop`.
async fn watch_mysql(part: &Part, watched: &Watched, stop: &CancellationToken) {
    let Watched { sales, pool, views, landing, .. } = watched;
    let mut agreed = true;
    let mut is_known = true;
    let mut settings_read: Option<Instant> = None;
    loop {
        match look(pool, sales, views, is_known).await {
            Ok(seen) => {
                // It answers reads. A full disk or a lock of all tables stops writes alone.
                let waits = landing.lasts();
                if waits < LANDS_WITHIN {
                    part.ready();
                } else {
                    let seconds = waits.as_secs();
                    part.not_ready(format!("it has not taken claims for {seconds} s"));
                }
                is_known = seen.view_is_known;
                let seconds = seen.ahead.as_seconds_f64();
                gauge!(CLOCK_SKEW.name).set(seconds);
                part.set_status(
                    json!({ "clock_skew_seconds": seconds, "read_only": seen.is_read_only }),
                );
                let agrees = seen.ahead.abs() <= SKEW_MAX;
                if agreed && !agrees {
                    let ms = seen.ahead.num_milliseconds();
                    warn!(clock.skew_ms = ms, "our clock is not MySQL's: set the clocks right");
                }
                agreed = agrees;
                if settings_read.is_none_or(|at| at.elapsed() >= SETTINGS_EVERY) {
                    tell_semi_sync_gaps(pool).await;
                    settings_read = Some(Instant::now());
                }
            }
            Err(error) => {
                part.not_ready(runtime::report(&error));
                // What was true of it may have changed meanwhile.
                part.set_status(json!({ "clock_skew_seconds": null, "read_only": null }));
            }
        }
        if stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return;
        }
    }
}

/// What a look at MySQL shows.
struct Seen {
    /// How far our clock is ahead.
    ahead: TimeDelta,
    is_read_only: bool,
    /// Whether MySQL knows the same servers of the view as we do.
    view_is_known: bool,
}

/// Looks at MySQL once. It ends at the first wait in vain, which takes three seconds if MySQL was killed: several would
/// show that too late.
async fn look(
    pool: &MySqlPool,
    sales: &SaleClock,
    views: &ViewStore,
    view_was_known: bool,
) -> Result<Seen, StoreError> {
    let ahead = sales.compare(pool).await?;
    let read_only = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        settings::is_read_only(&mut connection).await
    });
    let is_read_only = read_only.await?;
    let view_is_known = match learn_generations(pool, views, view_was_known).await {
        // Learning may write. What only reads goes on, so the api stays ready.
        Err(error) if error.is_unavailable() && !is_read_only => return Err(error),
        learned => learned.unwrap_or(view_was_known),
    };
    Ok(Seen { ahead, is_read_only, view_is_known })
}

/// Logs what would let a failover of MySQL lose answered claims in spite of semi-synchronous replication.
async fn tell_semi_sync_gaps(pool: &MySqlPool) {
    let gaps = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        settings::semi_sync_gaps(&mut connection).await
    });
    // If MySQL is away, the check of the clock reports it.
    for gap in gaps.await.unwrap_or_default() {
        warn!(gap, "a failover of MySQL may lose answered claims");
    }
}

/// Learns generations of views that other processes have raised. Our own connection may last for weeks; without this,
/// each change would drop a view built under the old generation. Returns whether MySQL knows the same servers of the
/// view as we do.
///
/// # Errors
/// MySQL does not answer.
async fn learn_generations(
    pool: &MySqlPool,
    views: &ViewStore,
    was_known: bool,
) -> Result<bool, StoreError> {
    let Some(served) = views.served() else { return Ok(was_known) };
    let known = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        view_generation::renumber(&mut connection).await?;
        view_generation::known_generations(&mut connection, &served).await
    });
    match known.await {
        Ok(Some(generations)) => {
            views.learn(&generations);
            Ok(true)
        }
        // Another process met another server of the view: it is misconfigured, or we are.
        Ok(None) => {
            if was_known {
                warn!("another process met another Redis as the view's: compare VIEW_REDIS_URL");
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
