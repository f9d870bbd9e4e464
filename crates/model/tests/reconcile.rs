//! Tests of the reconciler.

use model::{
    Bug,
    reconcile::{Bounds, PLANTED, Reconcile, SMALL},
};

use crate::searched::{assert_breaks, assert_holds};

#[test]
fn the_reconciler_keeps_its_promises_in_every_small_configuration() {
    for (name, bounds) in SMALL {
        assert_holds(name, bounds, &Reconcile::new(*bounds));
    }
}

fn is_caught(bug: Bug) {
    let (_, promise, bounds) = PLANTED.iter().find(|(planted, ..)| *planted == bug).unwrap();
    assert_breaks(bug, *promise, &Reconcile::new(Bounds { bug: Some(bug), ..*bounds }));
    assert_holds(&format!("without {bug:?}"), bounds, &Reconcile::new(*bounds));
}

is_caught! {
    a_look_that_reads_mysql_first_is_caught: LookReadsMySqlFirst
    a_look_that_reads_the_gate_once_is_caught: LookReadsGateOnce
    a_look_that_ignores_movements_is_caught: LookIgnoresMovements
    a_look_that_ignores_what_is_pending_is_caught: LookIgnoresPending
    a_look_that_judges_a_movement_it_cannot_read_is_caught: LookJudgesTheUnseen
    a_look_that_ignores_the_run_of_redis_is_caught: LookIgnoresRun
    what_is_in_flight_read_apart_is_caught: InFlightReadApart
    a_pending_request_that_is_trusted_is_caught: PendingTrusted
    an_unconditional_raise_is_caught: RaiseUnconditional
    a_reconciler_that_fences_a_queued_claim_is_caught: ReconcilerFencesQueued
    an_absolute_repair_is_caught: RepairAbsolute
    a_repair_that_is_made_twice_is_caught: RepairTwice
}
