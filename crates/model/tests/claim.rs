//! Tests of direct claims.

use model::{
    Bug,
    claim::settings::{
        direct::{self as configurations, SMALL},
        direct_planted::PLANTED,
    },
};

use crate::searched::{assert_bounds_hold, assert_claims_caught};

fn holds(name: &str) {
    assert_bounds_hold(name, SMALL);
}

fn is_caught(bug: Bug) {
    assert_claims_caught(bug, PLANTED);
}

holds! {
    three_claims_of_two_keys_two_resolvers_a_crash_hold: "three claims of two keys, two resolvers, a crash"
    redis_forgets_a_crash_a_rebuild_hold: "Redis forgets, a crash, a rebuild"
    redis_forgets_a_crash_two_rebuilders_hold: "Redis forgets, a crash, two rebuilders"
    pause_resume_pause_redis_forgets_a_rebuild_hold: "pause, resume, pause; Redis forgets, a rebuild"
    pause_resume_the_reread_in_steps_a_rebuild_hold: "pause, resume; the reread in steps, a rebuild"
    a_late_claim_settle_or_release_a_rebuild_hold: "a late claim, settle or release; a rebuild"
    a_late_landing_or_state_pause_resume_a_rebuild_hold: "a late landing or state; pause, resume, a rebuild"
    quantities_2_2_1_redis_forgets_a_crash_a_rebuild_hold: "quantities 2, 2, 1; Redis forgets, a crash, a rebuild"
    the_same_key_asks_for_less_a_crash_a_rebuild_hold: "the same key asks for less; a crash, a rebuild"
    two_keys_of_one_user_and_another_user_a_rebuild_hold: "two keys of one user and another user, a rebuild"
    redis_goes_back_in_time_a_crash_a_rebuild_hold: "Redis goes back in time, a crash, a rebuild"
    the_gate_lies_about_stock_or_numbers_a_rebuild_hold: "the gate lies about stock or numbers, a rebuild"
    a_top_up_and_a_cut_a_crash_a_rebuild_hold: "a top-up and a cut, a crash, a rebuild"
    two_cuts_and_a_top_up_a_late_movement_redis_forgets_a_rebuild_hold: "two cuts and a top-up, a late movement, Redis forgets, a rebuild"
    a_pause_and_a_top_up_redis_goes_back_in_time_a_rebuild_hold: "a pause and a top-up, Redis goes back in time, a rebuild"
    the_end_the_gate_goes_a_crash_a_late_claim_a_rebuild_hold: "the end, the gate goes; a crash, a late claim, a rebuild"
    a_top_up_a_cut_the_keeper_looks_twice_a_crash_a_rebuild_hold: "a top-up, a cut, the keeper looks twice; a crash, a rebuild"
    validity_pause_resume_validity_a_late_landing_the_reread_in_steps_hold: "validity, pause, resume, validity; a late landing, the reread in steps"
    no_limit_two_keys_of_one_user_redis_forgets_a_crash_a_rebuild_hold: "no limit: two keys of one user, Redis forgets, a crash, a rebuild"
    no_limit_three_keys_of_one_user_none_but_one_remembered_hold: "no limit: three keys of one user, none but one remembered"
    no_limit_two_keys_of_one_user_a_late_claim_hold: "no limit: two keys of one user, a late claim"
}

is_caught! {
    a_fence_on_the_clients_key_is_caught: FenceOnClientsKey
    a_refusal_without_a_look_in_mysql_is_caught: RefusalWithoutLook
    a_limitless_refusal_without_a_look_is_caught: LimitlessRefusalWithoutLook
    a_rebuild_that_does_not_compare_mysqls_epoch_is_caught: RebuildWithoutEpochCheck
    a_rebuild_without_begin_is_caught: RebuildWithoutBegin
    an_open_from_any_loading_is_caught: OpenFromAnyLoading
    a_keeper_that_ignores_the_epoch_is_caught: KeeperIgnoresEpoch
    a_claim_script_without_epoch_is_caught: ClaimWithoutEpoch
    an_open_that_overwrites_a_pause_is_caught: OpenOverwritesState
    a_state_lost_while_loading_is_caught: StateLostWhileLoading
    a_state_without_version_is_caught: StateWithoutVersion
    a_keeper_that_ignores_the_version_is_caught: KeeperIgnoresVersion
    a_run_that_is_not_compared_is_caught: RunNotCompared
    a_reread_that_begins_with_the_claim_rows_is_caught: ClaimRowsReadFirst
    a_pipelined_commit_is_caught: PipelinedCommit
    a_resolver_that_decides_by_select_is_caught: ResolverDecidesBySelect
    a_guard_without_epoch_is_caught: GuardWithoutEpoch
    a_guard_that_ignores_a_change_of_validity_is_caught: GuardWithoutTerms
    a_landing_that_runs_again_with_its_old_validity_is_caught: NotRenewed
    a_count_instead_of_numbers_is_caught: CountInsteadOfNumbers
    a_release_that_is_not_idempotent_is_caught: ReleaseNotIdempotent
    a_refusal_before_the_replay_check_is_caught: RefusalBeforeReplay
    a_pending_request_dropped_is_caught: PendingDropped
    a_dropped_request_admitted_again_is_caught: DroppedAdmittedAgain
    an_ended_template_without_gate_and_answer_is_caught: EndedWithoutGateUnanswered
    a_movement_applied_twice_is_caught: MovementTwice
    a_gap_between_movements_ignored_is_caught: MovementGapIgnored
    a_movement_lost_while_loading_is_caught: MovementLostWhileLoading
    a_keeper_that_ignores_movements_is_caught: KeeperIgnoresMovement
    a_keeper_that_compares_stocks_of_other_movements_is_caught: KeeperIgnoresMovementsInStock
    stock_and_movement_read_apart_is_caught: StockAndMovementApart
    a_cut_clamped_at_zero_is_caught: CutClampedAtZero
    a_cut_taken_for_drift_is_caught: CutTakenForDrift
}
