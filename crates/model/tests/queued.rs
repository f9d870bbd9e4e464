//! Tests of queued claims.

use model::{
    Bug,
    claim::settings::{
        queued::{self as configurations, SMALL},
        queued_planted::PLANTED,
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
    redis_forgets_a_crash_a_rebuild_hold: "Redis forgets, a crash, a rebuild"
    the_same_key_twice_redis_forgets_a_crash_a_rebuild_hold: "the same key twice; Redis forgets, a crash, a rebuild"
    redis_goes_back_in_time_two_relays_a_rebuild_hold: "Redis goes back in time, two relays, a rebuild"
    redis_forgets_two_rebuilders_a_crash_hold: "Redis forgets, two rebuilders, a crash"
    two_landers_the_gate_is_deaf_a_crash_a_rebuild_hold: "two landers, the gate is deaf, a crash, a rebuild"
    a_cut_and_a_top_up_the_same_key_twice_two_landers_a_rebuild_hold: "a cut and a top-up, the same key twice, two landers, a rebuild"
    a_cut_and_a_top_up_redis_forgets_a_crash_a_rebuild_hold: "a cut and a top-up, Redis forgets, a crash, a rebuild"
    a_cut_redis_goes_back_in_time_a_rebuild_hold: "a cut, Redis goes back in time, a rebuild"
    direct_queued_direct_the_same_key_twice_and_another_user_a_crash_a_rebuild_hold: "direct, queued, direct; the same key twice and another user, a crash, a rebuild"
    spill_the_same_key_twice_and_another_user_a_crash_redis_forgets_a_rebuild_hold: "spill, the same key twice and another user; a crash, Redis forgets, a rebuild"
    spill_two_keys_of_one_user_the_gate_lies_a_rebuild_hold: "spill, two keys of one user; the gate lies, a rebuild"
    two_keys_of_one_user_limit_1_redis_forgets_a_crash_a_rebuild_hold: "two keys of one user, limit 1; Redis forgets, a crash, a rebuild"
    pause_resume_redis_forgets_a_crash_a_rebuild_hold: "pause, resume; Redis forgets, a crash, a rebuild"
    a_pause_that_rejects_resume_two_landers_the_same_key_twice_a_rebuild_hold: "a pause that rejects, resume; two landers, the same key twice, a rebuild"
    the_end_redis_forgets_a_crash_a_rebuild_hold: "the end; Redis forgets, a crash, a rebuild"
    the_end_that_rejects_redis_goes_back_in_time_a_rebuild_hold: "the end that rejects; Redis goes back in time, a rebuild"
    the_client_looks_twice_redis_forgets_a_crash_a_rebuild_hold: "the client looks twice; Redis forgets, a crash, a rebuild"
    lookups_under_another_template_a_cut_the_same_key_twice_a_crash_a_rebuild_hold: "lookups under another template; a cut, the same key twice, a crash, a rebuild"
    spill_lookups_under_another_template_redis_forgets_a_crash_a_rebuild_hold: "spill; lookups under another template, Redis forgets, a crash, a rebuild"
    an_entry_that_the_broker_refuses_a_queued_request_that_nobody_carries_a_rebuild_hold: "an entry that the broker refuses; a queued request that nobody carries, a rebuild"
    after_the_gate_two_relays_two_crashes_a_rebuild_an_orphan_hold: "after the gate: two relays, two crashes, a rebuild, an orphan"
    after_the_gate_the_broker_refuses_redis_forgets_an_orphan_a_rebuild_hold: "after the gate: the broker refuses, Redis forgets, an orphan, a rebuild"
    after_the_gate_redis_goes_back_in_time_two_relays_a_rebuild_hold: "after the gate: Redis goes back in time, two relays, a rebuild"
    after_a_replica_it_takes_over_a_crash_a_rebuild_hold: "after a replica: it takes over, a crash, a rebuild"
    after_a_replica_the_same_key_twice_two_take_over_two_rebuilds_hold: "after a replica: the same key twice, two take over, two rebuilds"
}

is_caught! {
    an_offset_before_the_commit_is_caught: OffsetBeforeCommit
    an_entry_deleted_before_the_ack_is_caught: TrimBeforeAck
    an_entry_deleted_in_another_run_is_caught: TrimWithoutRun
    leftovers_that_nobody_reads_is_caught: LeftoversNotRead
    a_group_that_begins_at_the_end_is_caught: GroupFromNow
    a_relay_that_rejects_is_caught: RelayRejects
    a_202_without_published_lua_is_caught: NotConfirmed
    a_replay_that_is_accepted_at_once_is_caught: ReplayAccepted
    a_wait_on_another_connection_is_caught: WaitOnAnotherConnection
    a_replay_that_waits_and_wrote_nothing_is_caught: ReplayWithoutWrite
    a_coupon_taken_before_the_look_is_caught: QueuedBeforeLook
    a_rebuild_without_rejected_keys_is_caught: RejectedKeysNotLoaded
    a_rebuild_without_landed_keys_is_caught: LandedKeysNotLoaded
    an_epoch_begun_again_after_the_read_is_caught: BegunAgainAfterRead
    an_epoch_that_is_not_above_the_gates_is_caught: EpochNotAboveTheGates
    an_outbox_that_is_not_emptied_is_caught: OutboxNotEmptied
    an_end_noted_before_begin_is_caught: EndNotedBeforeBegin
    a_read_before_queued_epoch_is_caught: ReadBeforeQueuedEpoch
    never_queued_asked_too_early_is_caught: NeverQueuedAskedAtRaise
    one_epoch_for_both_guards_is_caught: QueuedGuardHasDirectEpoch
    a_late_row_on_the_clients_key_is_caught: LateRowOnKey
    a_rejection_without_the_lock_is_caught: RejectedWithoutLock
    a_rejection_without_the_epoch_is_caught: RejectedWithoutEpoch
    a_rejection_for_a_taken_number_is_caught: NumberTakenRejected
    a_fence_of_another_template_that_binds_is_caught: ForeignFenceBinds
    a_fence_without_epoch_is_caught: FenceWithoutEpoch
    a_rejection_unknown_to_the_direct_door_is_caught: RejectionUnknownToDirect
    a_resolver_that_ignores_queued_requests_is_caught: ResolverIgnoresQueued
    a_resolver_that_fences_queued_requests_is_caught: ResolverFencesQueued
    a_resolver_that_notes_the_end_first_is_caught: EndNotedBeforeOutbox
    a_row_read_before_the_epoch_is_caught: RowReadBeforeEpoch
    an_end_told_before_the_queue_is_closed_is_caught: EndedBeforeTheQueueIsClosed
    a_close_without_begin_is_caught: ClosedWithoutBegin
    a_refusing_template_taken_for_closed_is_caught: RefusingTakenForClosed;

    full:
    a_202_without_a_look_is_caught: QueuedWithoutLook
    an_admission_answered_elsewhere_without_fence_is_caught: ElsewhereWithoutFence
}
