//! Tests of a user's view.

use model::{
    Bug,
    view::{Bounds, PLANTED, SMALL, View},
};

use crate::searched::{assert_breaks, assert_holds};

#[test]
fn the_view_keeps_its_promises_in_every_small_configuration() {
    for (name, bounds) in SMALL {
        assert_holds(name, bounds, &View::new(*bounds));
    }
}

fn is_caught(bug: Bug) {
    let (_, promise, bounds) = PLANTED.iter().find(|(planted, ..)| *planted == bug).unwrap();
    assert_breaks(bug, *promise, &View::new(Bounds { bug: Some(bug), ..*bounds }));
    assert_holds(&format!("without {bug:?}"), bounds, &View::new(*bounds));
}

is_caught! {
    a_rebuild_that_reads_only_unused_coupons_is_caught: RebuildReadsUnusedOnly
    a_rebuild_in_pieces_of_different_moments_is_caught: PiecesOfDifferentMoments
    an_unconditional_write_again_is_caught: WriteAgainUnconditional
    a_nonce_in_the_hash_only_is_caught: NonceInHashOnly
    a_begin_that_keeps_the_keys_is_caught: BeginKeepsKeys
    a_missing_tombstone_is_caught: NoTombstone
    a_completion_without_nonce_is_caught: CompleteWithoutNonce
    a_consumer_that_skips_a_loading_view_is_caught: LoadingSkipped
    a_generation_given_twice_is_caught: GenerationGivenTwice
}
