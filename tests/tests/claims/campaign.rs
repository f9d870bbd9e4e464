//! A short kill campaign; `./dev soak claims` runs longer ones.

use devstack::Flavor;
use pipeline_tests::campaign;

const ROUNDS: u32 = 5;

/// Arbitrary: each victim has its turn with any seed.
const SEED: u64 = 1;

#[tokio::test]
async fn whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept() {
    let totals = campaign::run(ROUNDS, SEED, Flavor::Mariadb, |line| println!("{line}")).await;
    assert_eq!(totals.counted, ROUNDS);
}
