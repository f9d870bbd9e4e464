//! Expiry report for operators: what is overdue, how late flips were, what ends in the next day.

use axum::{Json, extract::State};
use chrono::{DateTime, TimeDelta, Utc};
use mysql_store::{
    MySqlConnection, StoreError, connect,
    expiry_report::{self, COUNT_MAX},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{instant::instant, schemas::Instant},
    problem::Problem,
    state::App,
};

/// Hours of the histogram.
const HOURS: i32 = 24;

/// A report on expiry.
#[derive(Serialize, ToSchema)]
#[schema(as = Expiry, examples(json!({
    "now": "2026-12-04T07:30:00.000Z",
    "overdue": { "coupons": 0, "more": false, "oldest_age_ms": null },
    "lateness": { "flips": 1800, "p50_ms": 14, "p99_ms": 96, "max_ms": 131 },
    "next_24_hours": [{ "from": "2026-12-04T07:30:00.000Z", "coupons": 100000, "more": true }]
})))]
pub(crate) struct ExpiryJson {
    /// When the report was made, by the api's clock.
    #[schema(value_type = Instant)]
    now: String,
    overdue: Overdue,
    lateness: Lateness,
    /// Deadlines of the next day, hour by hour from now.
    next_24_hours: Vec<Hour>,
}

/// Unused coupons whose deadline has passed. They already count as expired; only their rows are not updated yet.
#[derive(Serialize, ToSchema)]
struct Overdue {
    #[serde(flatten)]
    count: Count,
    /// Age of the oldest overdue deadline, in milliseconds. Null: nothing is overdue.
    #[schema(required = true)]
    oldest_age_ms: Option<i64>,
}

/// How late the latest flips were: at most a hundred of each shard, within a day.
#[derive(Serialize, ToSchema)]
struct Lateness {
    flips: usize,
    #[schema(required = true)]
    p50_ms: Option<i64>,
    #[schema(required = true)]
    p99_ms: Option<i64>,
    #[schema(required = true)]
    max_ms: Option<i64>,
}

/// The deadlines of one hour.
#[derive(Serialize, ToSchema)]
struct Hour {
    #[schema(value_type = Instant)]
    from: String,
    #[serde(flatten)]
    count: Count,
}

/// A number of coupons.
#[derive(Serialize, ToSchema)]
struct Count {
    coupons: u64,
    /// Whether there are more than `coupons`: counting stops at a hundred thousand.
    more: bool,
}

/// `GET /v1/expiry`: reports on the whole platform, so it is for the platform's key.
#[utoipa::path(
    get,
    path = "/v1/expiry",
    operation_id = "get_expiry",
    tag = "Operations",
    summary = "What is overdue, how late flips were, what ends in the next day",
    description = "On the whole platform, so for its own key only.",
    security(("operator_key" = [])),
    responses((status = 200, description = "The report.", body = ExpiryJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
) -> Result<Json<ExpiryJson>, Problem> {
    operator.needs_platform()?;
    let now = app.clock.now();
    let mut connection = connect::acquire(&app.pool).await?;
    let json = connect::within(look(&mut connection, now)).await?;
    Ok(Json(json))
}

async fn look(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<ExpiryJson, StoreError> {
    let earliest = expiry_report::earliest_deadline(connection).await?;
    let oldest = earliest.filter(|deadline| *deadline <= now);
    let overdue = match oldest {
        // A deadline at `now` is overdue too.
        Some(oldest) => {
            let until = now + TimeDelta::milliseconds(1);
            expiry_report::ending_between(connection, oldest, until).await?
        }
        None => 0,
    };
    let late = expiry_report::lateness(connection, now).await?;
    let mut next_24_hours = Vec::new();
    for hour in 0..HOURS {
        let from = now + TimeDelta::hours(1) * hour;
        let until = from + TimeDelta::hours(1);
        let count = expiry_report::ending_between(connection, from, until).await?;
        next_24_hours.push(Hour { from: instant(from), count: Count::of(count) });
    }
    Ok(ExpiryJson {
        now: instant(now),
        overdue: Overdue {
            count: Count::of(overdue),
            oldest_age_ms: oldest.map(|oldest| (now - oldest).num_milliseconds()),
        },
        lateness: Lateness {
            flips: late.len(),
            p50_ms: at(&late, 50),
            p99_ms: at(&late, 99),
            max_ms: at(&late, 100),
        },
        next_24_hours,
    })
}

impl Count {
    fn of(count: u64) -> Self {
        Self { coupons: count.min(COUNT_MAX), more: count > COUNT_MAX }
    }
}

/// Returns the smallest value that `percent` of all values do not exceed.
fn at(sorted: &[TimeDelta], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).map(TimeDelta::num_milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let sorted: Vec<_> = (1..=200).map(TimeDelta::milliseconds).collect();
        assert_eq!(
            [50, 99, 100].map(|percent| at(&sorted, percent)),
            [Some(100), Some(198), Some(200)]
        );
        assert_eq!(at(&sorted[..1], 50), Some(1));
        assert_eq!(at(&[], 50), None);
    }
}
