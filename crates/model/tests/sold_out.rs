//! Tests of refusals from memory.

use model::{
    Bug,
    claim::settings::sold_out::{PLANTED, SMALL},
};

use crate::searched::{assert_bounds_hold, assert_claims_caught};

/// It takes seconds to search.
mod full {
    use super::*;

    #[test]
    fn refusals_from_memory_keep_their_promises_in_every_small_configuration() {
        for (name, _) in SMALL {
            assert_bounds_hold(name, SMALL);
        }
    }
}

fn is_caught(bug: Bug) {
    assert_claims_caught(bug, PLANTED);
}

is_caught! {
    a_scan_that_is_not_proved_complete_is_caught: ScanNotProved
    a_lease_that_begins_with_the_looks_end_is_caught: LeaseFromTheLooksEnd
    a_look_that_does_not_compare_the_epoch_is_caught: LookWithoutEpoch
    a_look_that_does_not_compare_the_run_is_caught: LookWithoutRun
    an_answer_before_the_end_of_refusals_is_caught: AnswerBeforeRefusalsEnd
    a_stored_answer_before_the_end_of_refusals_is_caught: StoredAnswerBeforeRefusalsEnd
    a_rebuild_that_notes_nothing_is_caught: RebuildNotesNothing
}
