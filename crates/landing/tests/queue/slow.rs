//! Transactions that are too large for a slow MySQL, or wait for a lock.

use std::time::Duration;

use coupon::RejectReason;
use landing::queued::QueuedEnd;
use sqlx::Connection as _;
use tokio::time::timeout;

use super::lander::{Bench, fresh};
use crate::harness::execute;

/// Time for two waits of a lander for an answer, and for the landings after them.
const PATIENCE: Duration = Duration::from_secs(60);

/// A statement takes longer than a lander waits if it inserts more than this many claims.
const ROWS_MAX: usize = 2;

/// Makes a statement sleep after it has inserted [`ROWS_MAX`] rows of this state into `claim`. All rows of a statement
/// have the same time.
async fn slow_down(bench: &Bench, state: &str) {
    let slow = format!(
        "create trigger slow_claims before insert on claim for each row begin \
         set @rows = if(@at = now(6), @rows + 1, 1); set @at = now(6); \
         if new.state = {state} and @rows = {ROWS_MAX} + 1 then do sleep(10.3); end if; end"
    );
    bench.world.execute(&slow).await;
}

/// A lander's attempt gives up a locked row after a second, and another attempt follows.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_locked_row_takes_nothing_of_a_hold() {
    let bench = Bench::new("queued hold behind a lock", 10).await;
    bench.world.execute("update coupon_template set hold_ms = 60000").await;
    let mut holder = bench.world.connection().await;
    let mut holding = holder.begin().await.unwrap();
    execute(&mut holding, "update template_stock set stock = stock").await;
    let mut waited = bench.points.hold("queued.locked");
    let batch = [fresh(1)];
    let (ends, ()) = tokio::join!(bench.land(&batch), async {
        waited.reached(1).await;
        holding.rollback().await.unwrap();
        waited.let_go();
    });
    assert_eq!(ends, [QueuedEnd::Landed]);
    // The clock of these tests stands still, so a hold is longer by as much as its landing was late.
    let longer = "select timestampdiff(microsecond, claimed_at, valid_until) div 1000 - 60000 \
                  from user_coupon where status = 4";
    assert!(bench.world.number(longer).await > 0);
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_landing_that_is_too_slow_as_a_whole_is_made_in_parts() {
        let bench = Bench::new("queued slow", 10).await;
        slow_down(&bench, "1").await;
        let batch: Vec<_> = (1..=4).map(fresh).collect();
        let ends = timeout(PATIENCE, bench.land(&batch)).await.expect("it ends");
        // What MySQL was still executing when the lander gave up may have landed.
        let is_landed =
            |end: &QueuedEnd| matches!(end, QueuedEnd::Landed | QueuedEnd::LandedBefore);
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
}
