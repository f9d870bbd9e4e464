//! Tests of refusals from memory.

use model::{
    Bug,
    sold_out::{Bounds, PLANTED, SMALL, SoldOut},
};

use crate::searched::{assert_caught, assert_holds};

#[test]
fn refusals_from_memory_keep_their_promises_in_every_small_configuration() {
    for (name, bounds) in SMALL {
        assert_holds(name, &SoldOut::new(*bounds));
    }
}

fn is_caught(bug: Bug) {
    let (_, promise, bounds) = PLANTED.iter().find(|(planted, ..)| *planted == bug).unwrap();
    let mistaken = SoldOut::new(Bounds { bug: Some(bug), ..*bounds });
    assert_caught(bug, *promise, &mistaken, &SoldOut::new(*bounds));
}

is_caught! {
    a_scan_that_is_not_proved_complete_is_caught: ScanNotProved
    a_lease_that_begins_with_the_looks_end_is_caught: LeaseFromTheLooksEnd
    a_look_that_does_not_compare_the_epoch_is_caught: LookWithoutEpoch
    a_look_that_does_not_compare_the_run_is_caught: LookWithoutRun
    an_answer_before_the_end_of_refusals_is_caught: AnswerBeforeRefusalsEnd
    a_rebuild_that_notes_nothing_is_caught: RebuildNotesNothing
}
