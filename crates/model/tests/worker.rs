//! Tests of worker numbers.

use model::{
    Bug,
    worker::{Bounds, PLANTED, SMALL, Worker},
};

use crate::searched::{assert_breaks, assert_holds};

/// It takes seconds to search.
mod full {
    use super::*;

    #[test]
    fn no_id_is_made_twice_in_any_small_configuration() {
        for (name, bounds) in SMALL {
            assert_holds(name, bounds, &Worker::new(*bounds));
        }
    }
}

fn is_caught(bug: Bug) {
    let (_, promise, bounds) = PLANTED.iter().find(|(planted, ..)| *planted == bug).unwrap();
    assert_breaks(bug, *promise, &Worker::new(Bounds { bug: Some(bug), ..*bounds }));
    assert_holds(&format!("without {bug:?}"), bounds, &Worker::new(*bounds));
}

is_caught! {
    a_number_whose_last_id_is_not_waited_for_is_caught: LastIdNotWaitedFor
    a_range_that_is_not_recorded_is_caught: RangeNotRecorded
    a_range_that_a_failover_may_lose_and_that_is_used_is_caught: YoungRangeUsed
    a_clock_that_is_corrected_beyond_its_range_is_caught: CorrectedBeyondTheRange
    a_number_that_is_given_back_in_use_is_caught: NumberGivenBackInUse
    a_taking_that_a_failover_forgets_is_caught: TakingLost
}
