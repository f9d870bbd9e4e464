//! The api's metrics. `landing::metric` has those of claims and gates.

use std::{sync::Arc, time::Duration};

use landing::claims::Claims;
use mysql_store::MySqlPool;
use redis_view::{DROP_REASONS, DROPPED_VIEWS, Origin, REBUILD_RESULTS, REBUILDS};
use tokio_util::sync::CancellationToken;

use crate::connections::{self, Connections};

/// Histogram by `method`, `route` and `status`: time from the head of a request to the head of its answer.
pub(crate) const REQUEST_SECONDS: &str = "api_request_seconds";
/// Counter by `origin`: lists of coupons, by what answered them.
pub(crate) const MY_COUPONS: &str = "api_my_coupons_total";
/// Gauge: how far our clock is ahead of MySQL's.
pub(crate) const CLOCK_SKEW: &str = "api_clock_skew_seconds";
/// Gauge by `state`: connections of the read pool that are `busy`, and that may still be had (`free`).
const POOL_CONNECTIONS: &str = "api_mysql_pool_connections";

/// Interval between measurements. A scraper comes every few seconds.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Describes the metrics for `/metrics`, and starts counters at 0.
pub(crate) fn describe() {
    landing::describe_metrics();
    metrics::describe_histogram!(REQUEST_SECONDS, "requests, from head to answer");
    metrics::describe_counter!(MY_COUPONS, "lists of coupons, by what answered them");
    metrics::describe_gauge!(CLOCK_SKEW, "how far our clock is ahead of MySQL's");
    metrics::describe_gauge!(POOL_CONNECTIONS, "connections of the read pool to MySQL");
    connections::metric::describe();
    metrics::describe_counter!(DROPPED_VIEWS, "views that a reader could not read");
    metrics::describe_counter!(REBUILDS, "rebuilds of views that are over");
    for result in REBUILD_RESULTS {
        metrics::counter!(REBUILDS, "result" => result).absolute(0);
    }
    for reason in DROP_REASONS {
        metrics::counter!(DROPPED_VIEWS, "reason" => reason).absolute(0);
    }
    for origin in [Origin::View, Origin::Rebuild, Origin::Truth] {
        metrics::counter!(MY_COUPONS, "origin" => origin.word()).absolute(0);
    }
}

/// Measures connections, pool and queues until `stop` is cancelled.
pub(crate) async fn measure(
    claims: Claims,
    pool: MySqlPool,
    connections: Arc<Connections>,
    stop: CancellationToken,
) {
    let most = pool.options().get_max_connections();
    loop {
        claims.measure();
        connections.measure();
        let busy = pool.size().saturating_sub(u32::try_from(pool.num_idle()).unwrap_or(u32::MAX));
        metrics::gauge!(POOL_CONNECTIONS, "state" => "busy").set(f64::from(busy));
        let free = most.saturating_sub(busy);
        metrics::gauge!(POOL_CONNECTIONS, "state" => "free").set(f64::from(free));
        if stop.run_until_cancelled(tokio::time::sleep(MEASURE_EVERY)).await.is_none() {
            return;
        }
    }
}
