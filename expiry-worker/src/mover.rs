//! Moves issued coupons to their template's new validity, when a change of the template asks for it.
//!
//! A row in MySQL holds the target and the progress (`mysql_store::validity_move`), so any worker can resume where
//! another was killed. Only MySQL's clock counts. Moved coupons come back through the binlog, including a wake-up for
//! the new deadline, so the mover publishes nothing itself.
//!
//! A chunk locks the rows of its coupons across several statements. It therefore uses its own connection, which the
//! server closes soon after the process stops, so that uses of these coupons do not wait long.

use std::{convert::Infallible, time::Duration};

use anyhow::Context as _;
use coupon::TemplateId;
use metrics::counter;
use mysql_store::{MySqlConnection, StoreError, connect, settings, validity_move};
use runtime::{Backoff, FailPoints, Secret};
use tokio::time::Instant;
use tracing::info;

use crate::{
    metrics::{MOVED, RETRIES},
    pace::Pace,
};

/// Polling interval: an operator's change can wait a second, and an empty poll is one seek. It also keeps the
/// connection alive.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest rest after a chunk, so that the connection stays alive.
const REST_MAX: Duration = Duration::from_secs(2);

/// First and longest wait before reconnecting.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Writing statements per chunk: of the coupons and of the progress.
const WRITES: u64 = 2;

pub(crate) struct Mover {
    pub(crate) database_url: Secret,
    /// `validity_move.before_commit` and `validity_move.after_commit`, once per chunk.
    pub(crate) points: FailPoints,
    pace: Pace,
    /// The template whose coupons were moved last. The next one has the next turn.
    last: Option<TemplateId>,
    /// When the server's writes were last counted.
    counted: Option<Instant>,
}

impl Mover {
    pub(crate) fn new(database_url: Secret, points: FailPoints) -> Self {
        Self { database_url, points, pace: Pace::default(), last: None, counted: None }
    }

    /// Moves coupons until dropped.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        loop {
            let Err(failure) = self.work(&mut backoff).await;
            counter!(RETRIES.name).increment(1);
            let error = runtime::report(failure.as_ref());
            runtime::seldom!("coupons not moved, it is tried again", error);
            backoff.wait().await;
        }
    }

    /// Moves until a connection fails.
    async fn work(&mut self, backoff: &mut Backoff) -> anyhow::Result<Infallible> {
        let connecting = connect::lander(self.database_url.expose());
        let mut connection = connect::within(connecting).await.context("MySQL")?;
        loop {
            let rest = match connect::within(self.step(&mut connection)).await {
                Ok(Some(rest)) => {
                    self.points.reach("validity_move.after_commit").await?;
                    rest
                }
                Ok(None) => LOOK_EVERY,
                // One of the coupons was locked. The same chunk is tried again in its next turn.
                Err(error) if error.is_conflict() => LOOK_EVERY,
                Err(error) => return Err(error.into()),
            };
            backoff.reset();
            tokio::time::sleep(rest).await;
        }
    }

    /// Moves a chunk and returns how long to rest afterwards; `None` if there was none, or another worker is moving it.
    async fn step(
        &mut self,
        connection: &mut MySqlConnection,
    ) -> Result<Option<Duration>, StoreError> {
        if validity_move::under_way(connection).await? == 0 {
            return Ok(None);
        }
        if self.counted.is_none_or(|counted| counted.elapsed() >= LOOK_EVERY) {
            let at = Instant::now();
            self.pace.count_writes(settings::writes(connection).await?, at);
            self.counted = Some(at);
        }
        let now = settings::server_time(connection).await?;
        let began = Instant::now();
        let reach = || self.points.reach("validity_move.before_commit");
        let step = validity_move::step(connection, &mut self.last, now, reach).await?;
        let Some(step) = step else {
            return Ok(None);
        };
        counter!(MOVED.name).increment(step.moved);
        if step.finished {
            info!(template.id = %step.template_id, "issued coupons have followed their template");
        }
        let coupons = usize::try_from(step.moved).unwrap_or(usize::MAX);
        self.pace.wrote(WRITES);
        Ok(Some(self.pace.rest_after(coupons, began.elapsed()).min(REST_MAX)))
    }
}
