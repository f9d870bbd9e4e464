//! Tests of failovers of MySQL that lose commits.

use model::{
    Bug,
    claim::settings::failover::{self as configurations, PLANTED, SMALL},
};

use crate::searched::{assert_bounds_hold, assert_claims_caught};

fn holds(name: &str) {
    assert_bounds_hold(name, SMALL);
}

fn is_caught(bug: Bug) {
    assert_claims_caught(bug, PLANTED);
}

holds! {
    two_users_a_rebuild_hold: "two users, a rebuild"
    the_same_key_twice_a_rebuild_hold: "the same key twice, a rebuild"
    redis_forgets_a_user_two_rebuilds_hold: "Redis forgets, a user, two rebuilds"
    two_primaries_two_users_hold: "two primaries, two users"
    two_primaries_a_user_two_rebuilders_hold: "two primaries, a user, two rebuilders"
    queued_two_users_a_rebuild_hold: "queued: two users, a rebuild"
    queued_after_the_gate_the_same_key_twice_a_crash_a_rebuild_hold: "queued: after the gate, the same key twice, a crash, a rebuild"
    queued_two_primaries_two_users_a_rebuild_hold: "queued: two primaries, two users, a rebuild"
    holds_a_lapse_two_users_a_rebuild_hold: "holds: a lapse, two users, a rebuild"
}

is_caught! {
    a_raise_without_the_gates_epoch_is_caught: EpochNotAboveTheGates
    a_gate_above_mysql_accepted_is_caught: GateAboveAccepted
    a_raise_at_another_server_without_a_leap_is_caught: RaiseWithoutLeap
    a_master_that_answers_beside_its_successor_is_caught: OldMasterAnswers
    a_higher_queued_epoch_called_too_late_is_caught: HigherQueuedEpochTooLate;

    full:
    a_landing_that_mysql_lost_accepted_is_caught: LostLandingAccepted
    an_epoch_that_two_servers_share_is_caught: ServersShareAnEpoch
}
