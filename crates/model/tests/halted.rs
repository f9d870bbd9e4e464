//! Tests of pauses at the gate.

use model::{
    Bug,
    claim::settings::halted::{PLANTED, SMALL},
};

use crate::searched::{assert_bounds_hold, assert_claims_caught};

#[test]
fn pauses_at_the_gate_keep_their_promises_in_every_small_configuration() {
    for (name, _) in SMALL {
        assert_bounds_hold(name, SMALL);
    }
}

fn is_caught(bug: Bug) {
    assert_claims_caught(bug, PLANTED);
}

is_caught! {
    a_new_epoch_that_forgets_a_pause_is_caught: BeginForgetsHalt
    a_pause_that_is_lifted_before_mysql_has_it_is_caught: HaltLiftedBeforeItsRecord
    a_pause_that_is_lifted_before_the_gate_knows_mysqls_state_is_caught: HaltLiftedUntold
    a_pause_that_is_recorded_twice_is_caught: HaltRecordedTwice
    a_resume_that_passes_a_pause_is_caught: ResumeBeforeHalt
}
