//! Transactions that are too large for a slow MySQL.

use std::time::Duration;

use coupon::RejectReason;
use landing::queued::QueuedEnd;
use tokio::time::timeout;

use super::lander::{Bench, fresh};

/// Two silences of a lander, and the landings behind them.
const PATIENCE: Duration = Duration::from_secs(60);

/// A statement takes longer than a lander waits if it inserts more than this many claims.
const ROWS_MAX: usize = 2;

/// Has a statement sleep once it has inserted [`ROWS_MAX`] rows of this state into `claim`. All its rows see one time.
async fn slow_down(bench: &Bench, state: &str) {
    let slow = format!(
        "create trigger slow_claims before insert on claim for each row begin \
         set @rows = if(@at = now(6), @rows + 1, 1); set @at = now(6); \
         if new.state = {state} and @rows = {ROWS_MAX} + 1 then do sleep(10.3); end if; end"
    );
    bench.world.execute(&slow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_landing_that_is_too_slow_as_a_whole_is_made_in_parts() {
    let bench = Bench::new("queued slow", 10).await;
    slow_down(&bench, "1").await;
    let batch: Vec<_> = (1..=4).map(fresh).collect();
    let ends = timeout(PATIENCE, bench.land(&batch)).await.expect("it ends");
    // What MySQL was still at when the lander gave up may have landed.
    let is_landed = |end: &QueuedEnd| matches!(end, QueuedEnd::Landed | QueuedEnd::LandedBefore);
    assert!(ends.iter().all(is_landed), "{ends:?}");
    assert_eq!(bench.counts().await, (4, 0, 0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_that_are_too_slow_together_are_written_in_parts() {
    let bench = Bench::new("queued slow rejections", 1).await;
    slow_down(&bench, "3").await;
    let batch: Vec<_> = (1..=5).map(fresh).collect();
    let ends = timeout(PATIENCE, bench.land(&batch)).await.expect("it ends");
    let rejected = QueuedEnd::Rejected(RejectReason::SoldOut);
    assert_eq!(ends[0], QueuedEnd::Landed);
    assert!(
        ends[1..].iter().all(|end| [rejected, QueuedEnd::RejectedBefore].contains(end)),
        "{ends:?}"
    );
    assert_eq!(bench.counts().await, (1, 0, 4, 1));
}
