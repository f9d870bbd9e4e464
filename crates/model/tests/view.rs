//! Tests of a user's view.

use model::{
    Bug,
    search::{End, Explored, explore},
    view::{Bounds, PLANTED, Promise, SMALL, View},
};

/// Memory limit of one search; two run at a time.
const BYTES_MAX: usize = 512 << 20;

fn explored(bounds: Bounds) -> Explored<Promise> {
    explore(&View::new(bounds), BYTES_MAX, |_, _| {})
}

#[test]
fn the_view_keeps_its_promises_in_every_small_configuration() {
    for (name, bounds) in SMALL {
        match explored(*bounds).end {
            End::Holds => {}
            End::TooLarge => panic!("{name}: more than {BYTES_MAX} bytes"),
            End::Broken { promise, trace } => panic!("{name}: {promise}\n{trace}"),
        }
    }
}

/// Asserts that the mistake breaks its promise, and that without it the same bounds hold.
fn is_caught(bug: Bug) {
    let (_, promise, bounds) = PLANTED.iter().find(|(planted, ..)| *planted == bug).unwrap();
    let broken = explored(Bounds { bug: Some(bug), ..*bounds });
    assert_eq!(broken.promise(), Some(*promise), "{bug:?}");
    assert_eq!(explored(*bounds).end, End::Holds, "{bug:?}");
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
}
