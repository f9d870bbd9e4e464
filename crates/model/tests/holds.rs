//! Tests of holds.

use model::{
    Bug,
    claim::settings::{
        held::{self as configurations, SMALL},
        held_planted::PLANTED,
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
    a_payment_twice_a_lapse_both_cancellations_a_crash_hold: "a payment twice, a lapse, both cancellations, a crash"
    two_coupons_a_payment_of_one_and_of_both_one_cancelled_a_lapse_a_claim_again_hold: "two coupons: a payment of one and of both, one cancelled, a lapse, a claim again"
    two_lapses_three_claims_redis_forgets_a_crash_a_rebuild_hold: "two lapses, three claims; Redis forgets, a crash, a rebuild"
    a_lapse_two_users_redis_forgets_a_crash_a_rebuild_hold: "a lapse, two users; Redis forgets, a crash, a rebuild"
    a_lapse_and_a_cancellation_a_late_movement_hidden_commits_a_rebuild_hold: "a lapse and a cancellation, a late movement, hidden commits, a rebuild"
    a_lapse_the_number_claimed_again_a_late_claim_settle_or_release_a_rebuild_hold: "a lapse, the number claimed again, a late claim, settle or release; a rebuild"
    a_lapse_the_number_claimed_again_a_late_landing_a_rebuild_hold: "a lapse, the number claimed again, a late landing; a rebuild"
    two_lapses_redis_goes_back_in_time_a_rebuild_hold: "two lapses, Redis goes back in time, a rebuild"
    a_lapse_redis_forgets_two_rebuilders_hold: "a lapse, Redis forgets, two rebuilders"
    the_same_key_again_after_its_lapse_another_user_redis_forgets_a_crash_a_rebuild_hold: "the same key again after its lapse, another user; Redis forgets, a crash, a rebuild"
    two_lapses_requests_dropped_the_same_key_again_a_late_claim_hold: "two lapses, requests dropped, the same key again, a late claim"
    a_ban_after_two_lapses_a_lift_redis_forgets_a_rebuild_hold: "a ban after two lapses, a lift; Redis forgets, a rebuild"
    a_ban_after_a_lapse_a_lift_hidden_commits_redis_forgets_a_rebuild_hold: "a ban after a lapse, a lift, hidden commits; Redis forgets, a rebuild"
    a_ban_after_a_lapse_a_lift_the_same_key_again_a_crash_a_rebuild_hold: "a ban after a lapse, a lift, the same key again, a crash, a rebuild"
    a_lapse_and_a_cancellation_that_retire_a_payment_redis_forgets_a_crash_a_rebuild_hold: "a lapse and a cancellation that retire, a payment; Redis forgets, a crash, a rebuild"
    a_lapse_a_top_up_and_a_cut_hidden_commits_a_rebuild_hold: "a lapse, a top-up and a cut, hidden commits, a rebuild"
    two_lapses_and_a_cancellation_hidden_commits_the_keeper_looks_twice_hold: "two lapses and a cancellation, hidden commits, the keeper looks twice"
    a_lapse_and_a_cancellation_the_gate_lies_the_keeper_looks_hold: "a lapse and a cancellation, the gate lies, the keeper looks"
    a_lapse_hidden_commits_a_landing_rolled_back_with_its_batch_a_crash_a_rebuild_hold: "a lapse, hidden commits, a landing rolled back with its batch, a crash, a rebuild"
    no_limit_two_lapses_two_users_redis_forgets_a_crash_a_rebuild_hold: "no limit: two lapses, two users; Redis forgets, a crash, a rebuild"
    no_limit_a_ban_after_a_lapse_a_lift_redis_forgets_a_rebuild_hold: "no limit: a ban after a lapse, a lift; Redis forgets, a rebuild"
    two_workers_that_lapse_hidden_commits_a_payment_a_cancellation_a_crash_hold: "two workers that lapse, hidden commits, a payment, a cancellation, a crash"
}

is_caught! {
    numbers_read_after_the_stock_is_caught: NumbersReadAfterStock
    numbers_that_came_back_while_loading_and_stay_is_caught: NumbersNotFreedWhileLoading
    a_first_movement_read_before_the_epoch_is_caught: FirstMovementReadEarly
    lapses_that_do_not_fit_the_last_movement_is_caught: LapsesAsRead
    lapses_counted_again_is_caught: LapsesCountedAgain
    a_rebuild_without_users_whose_coupons_came_back_is_caught: ReturnedUsersNotLoaded
    a_limitless_rebuild_without_users_who_lapsed_is_caught: LapsedUsersNotLoaded
    a_return_applied_twice_is_caught: MovementTwice
    a_gap_before_a_return_ignored_is_caught: MovementGapIgnored
    numbers_freed_again_by_an_old_movement_is_caught: NumbersFreedAgain
    a_return_that_removes_the_request_is_caught: ReturnRemovesRequest
    lapses_of_a_user_without_an_entry_is_caught: LapsesNeedAnEntry
    requests_dropped_under_a_limit_without_floor_is_caught: LimitedTrimWithoutFloor
    a_ban_before_the_replay_check_is_caught: BanBeforeReplay
    a_ban_without_a_look_is_caught: BanWithoutLook
    a_message_dropped_after_a_gap_is_caught: OwnMessageDropped
    a_return_without_compare_is_caught: ReturnWithoutCompare
    a_stock_that_counts_what_was_read_is_caught: StockCountsWhatWasRead
    a_confirmation_without_compare_is_caught: ConfirmWithoutCompare
    a_confirmation_after_the_deadline_is_caught: ConfirmAfterDeadline
    a_cancellation_after_the_deadline_is_caught: CancelAfterDeadline
    a_lapse_by_the_workers_clock_alone_is_caught: LapsedByOwnClock
    a_payment_refused_by_the_apis_clock_alone_is_caught: RefusedByOwnClock
    a_payment_taken_in_part_is_caught: PaymentInPart
    a_reread_that_proves_a_number_taken_is_caught: RereadProvesNumberTaken
    a_unique_key_over_returned_numbers_is_caught: UniqueOverReturned
    a_keeper_that_ignores_returns_between_its_reads_is_caught: KeeperIgnoresMovementsInStock
    an_audit_that_ignores_returns_between_its_reads_is_caught: AuditIgnoresReturns
    a_keeper_that_judges_what_it_cannot_see_is_caught: KeeperJudgesTheUnseen
    a_keeper_that_leaves_movements_is_caught: KeeperIgnoresMovement
    a_lift_without_a_number_is_caught: LiftWithoutSeq
}
