//! The kill campaign in short; `./dev soak claims` runs it for as long as wanted.

use devstack::Flavor;
use pipeline_tests::campaign;

/// Rounds of the test.
const ROUNDS: u32 = 5;

/// Its seed: any would do; each victim has its turn.
const SEED: u64 = 1;

#[tokio::test]
async fn whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept() {
    let totals = campaign::run(ROUNDS, SEED, Flavor::Mariadb, |line| println!("{line}")).await;
    assert_eq!(totals.counted, ROUNDS);
}
