//! The api's metrics. `landing::metric` has those of claims and gates.

use std::{sync::Arc, time::Duration};

use landing::claims::Claims;
use mysql_store::MySqlPool;
use redis_view::{DROPPED_VIEWS, Origin, REBUILDS};
use runtime::metric::{self, Kind, Label, Metric};
use tokio_util::sync::CancellationToken;

use crate::{
    connections::{
        Connections,
        metric::{CONNECTIONS, CONNECTIONS_ENDED, LARGEST_ADDRESS, REQUESTS_HELD},
    },
    queue::{
        Queue,
        metric::{APPENDS, EVENT_STREAMS},
    },
    stats::metric::CLAIM_STATS,
};

/// The metrics of this process, in the order of docs/metrics.md.
pub const METRICS: [&[Metric]; 2] = [&OWN, &landing::metric::METRICS];

/// All but those of claims and gates.
const OWN: [Metric; 19] = [
    REQUEST_SECONDS,
    OVERLOADED,
    CLAIM_STATS,
    HOLD_CALLS,
    APPENDS,
    EVENT_STREAMS,
    JOBS,
    JOB_ROWS,
    JOB_OLDEST,
    MY_COUPONS,
    REBUILDS,
    DROPPED_VIEWS,
    POOL_CONNECTIONS,
    CONNECTIONS,
    LARGEST_ADDRESS,
    CONNECTIONS_ENDED,
    REQUESTS_HELD,
    CLOCK_SKEW,
    LOST_CHANGES,
];

pub(crate) const REQUEST_SECONDS: Metric = Metric {
    name: "api_request_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[
        Label { name: "method", values: &[] },
        Label { name: "route", values: &[] },
        Label { name: "status", values: &[] },
    ],
    meaning: "from a request's head to its answer's head; `route` is the path's pattern, or `none`",
    worry: Some("p99 too long for users; 5xx"),
};

/// Counts the 503s that name no server: a limit was reached, because of a crowd or because something behind it is slow.
/// An alert about servers must not count them, and one about load must count nothing else.
pub(crate) const OVERLOADED: Metric = Metric {
    name: "api_overloaded_answers_total",
    kind: Kind::Counter,
    unit: "answers",
    labels: &[],
    meaning: "503 `OVERLOADED`: a limit was reached, by a crowd or because what is behind it is slow",
    worry: Some("2 % of all answers"),
};

/// Counts confirmations and cancellations by outcome.
pub(crate) const HOLD_CALLS: Metric = Metric {
    name: "api_hold_calls_total",
    kind: Kind::Counter,
    unit: "calls",
    labels: &[
        Label { name: "call", values: &["confirm", "cancel"] },
        Label { name: "outcome", values: &["done", "replayed", "late", "refused", "unsure"] },
    ],
    meaning: "confirmations and cancellations of claims that exist: `done`; `replayed`: done \
              before; `late`: the hold had lapsed; `refused` otherwise; `unsure`: retryable",
    worry: Some("many `late` confirmations"),
};

pub(crate) const JOBS: Metric = Metric {
    name: "api_jobs",
    kind: Kind::Gauge,
    unit: "jobs",
    labels: &[Label { name: "state", values: &["granting", "waiting", "cancelling"] }],
    meaning: "unfinished, of all merchants: `granting`; `waiting`, e.g. for a pause to end; \
              `cancelling`; take the maximum of all apis",
    worry: None,
};

pub(crate) const JOB_ROWS: Metric = Metric {
    name: "api_job_rows_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[Label {
        name: "outcome",
        values: &[
            "granted",
            "limit_reached",
            "banned",
            "sold_out",
            "insufficient_stock",
            "not_open",
            "closed",
            "ended",
            "cancelled",
        ],
    }],
    meaning: "by end: `granted`; refused like a claim: `limit_reached`, `banned`, `sold_out`, \
              `insufficient_stock`, `not_open`, `closed`, `ended`; `cancelled` with their job",
    worry: None,
};

pub(crate) const JOB_OLDEST: Metric = Metric {
    name: "api_job_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest unfinished job, 0 without one; take the maximum of all apis",
    worry: Some("above 1,800"),
};

pub(crate) const MY_COUPONS: Metric = Metric {
    name: "api_my_coupons_total",
    kind: Kind::Counter,
    unit: "lists",
    labels: &[Label {
        name: "origin",
        values: &[Origin::View.word(), Origin::Rebuild.word(), Origin::Truth.word()],
    }],
    meaning: "by source: `view`; `rebuild`: a view rebuilt from MySQL for this reader; `truth`: a \
              page of MySQL, e.g. during a long rebuild",
    worry: Some("`rebuild` is a fifth"),
};

const POOL_CONNECTIONS: Metric = Metric {
    name: "api_mysql_pool_connections",
    kind: Kind::Gauge,
    unit: "connections",
    labels: &[Label { name: "state", values: &["busy", "free"] }],
    meaning: "of the pool for all but landing: `busy`, and `free` to be taken",
    worry: Some("`free` stays 0"),
};

pub(crate) const CLOCK_SKEW: Metric = Metric {
    name: "api_clock_skew_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "the api's clock minus MySQL's",
    worry: Some("beyond ±0.25"),
};

pub(crate) const LOST_CHANGES: Metric = Metric {
    name: "api_lost_changes_total",
    kind: Kind::Counter,
    unit: "changes",
    labels: &[],
    meaning: "new coupons, uses, payments and others that were published and that a failover of MySQL lost; the log names the coupons",
    worry: Some("any"),
};

/// Interval between measurements. A scraper comes every few seconds.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Describes the metrics for `/metrics`.
pub(crate) fn describe() {
    for table in METRICS {
        metric::describe(table);
    }
}

/// Measures connections, streams, pool and queues until `stop` is cancelled.
pub(crate) async fn measure(
    claims: Claims,
    pool: MySqlPool,
    connections: Arc<Connections>,
    queue: Arc<Queue>,
    stop: CancellationToken,
) {
    let most = pool.options().get_max_connections();
    loop {
        claims.measure();
        connections.measure();
        queue.measure();
        let busy = pool.size().saturating_sub(u32::try_from(pool.num_idle()).unwrap_or(u32::MAX));
        metrics::gauge!(POOL_CONNECTIONS.name, "state" => "busy").set(f64::from(busy));
        let free = most.saturating_sub(busy);
        metrics::gauge!(POOL_CONNECTIONS.name, "state" => "free").set(f64::from(free));
        if stop.run_until_cancelled(tokio::time::sleep(MEASURE_EVERY)).await.is_none() {
            return;
        }
    }
}
