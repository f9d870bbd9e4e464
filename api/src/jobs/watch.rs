//! Watches the jobs of all merchants: gauges, and a line in the log for one that does not end.

use std::time::Duration;

use mysql_store::{
    MySqlPool, StoreError, connect,
    job_watch::{self, OldestJob, OpenJobs},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::{JOB_OLDEST, JOBS};

/// Interval between looks. Each reads a few rows, since a merchant has few open jobs.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Age from which the log names a job: longer than one of most rows takes, and well before the alert.
const LONG_MICROS: i64 = 10 * 60 * MICROS;

const MICROS: i64 = 1_000_000;

/// Watches until `stop` is cancelled.
pub(super) async fn watch(pool: MySqlPool, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        match look(&pool).await {
            Ok(open) => show(&open),
            Err(error) => {
                show_nothing();
                let error = runtime::report(&error);
                runtime::seldom!("jobs cannot be counted", error);
            }
        }
        if stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return Ok(());
        }
    }
}

async fn look(pool: &MySqlPool) -> Result<OpenJobs, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        job_watch::open(&mut connection).await
    })
    .await
}

fn show(open: &OpenJobs) {
    let states =
        [("granting", open.granting), ("waiting", open.waiting), ("cancelling", open.cancelling)];
    for (state, count) in states {
        metrics::gauge!(JOBS.name, "state" => state).set(count as f64);
    }
    let age = open.oldest.as_ref().map_or(0, |oldest| oldest.age_micros.max(0));
    metrics::gauge!(JOB_OLDEST.name).set(age as f64 / MICROS as f64);
    if let Some(oldest) = open.oldest.as_ref().filter(|oldest| oldest.age_micros >= LONG_MICROS) {
        let line = line(oldest);
        runtime::seldom!("a job does not end", line);
    }
}

/// Shows that the numbers of jobs are unknown.
fn show_nothing() {
    for state in ["granting", "waiting", "cancelling"] {
        metrics::gauge!(JOBS.name, "state" => state).set(f64::NAN);
    }
    metrics::gauge!(JOB_OLDEST.name).set(f64::NAN);
}

fn line(oldest: &OldestJob) -> String {
    let OldestJob { id, waits_for, age_micros } = oldest;
    let seconds = age_micros / MICROS;
    match waits_for {
        Some(code) => format!("job {id} is {seconds} s old and waits for {code} to pass"),
        None => format!("job {id} is {seconds} s old"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use coupon::{JobId, RowOutcome};

    use super::*;
    use crate::metrics::JOB_ROWS;

    #[test]
    fn an_old_job_is_named_with_what_it_waits_for() {
        let mut oldest = OldestJob {
            id: JobId(7),
            waits_for: Some("PAUSED".to_owned()),
            age_micros: LONG_MICROS,
        };
        assert_eq!(line(&oldest), "job 7 is 600 s old and waits for PAUSED to pass");
        oldest.waits_for = None;
        assert_eq!(line(&oldest), "job 7 is 600 s old");
    }

    #[test]
    fn each_outcome_that_a_job_decides_is_counted() {
        // The others are known when the job is created.
        let not_decided = [RowOutcome::Pending, RowOutcome::Duplicate, RowOutcome::InvalidUserId];
        let decided = RowOutcome::ALL.into_iter().filter(|one| !not_decided.contains(one));
        let counted: BTreeSet<&str> = JOB_ROWS.labels[0].values.iter().copied().collect();
        assert_eq!(counted, decided.map(RowOutcome::word).collect());
    }
}
