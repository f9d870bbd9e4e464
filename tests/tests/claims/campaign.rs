//! A short kill campaign; `./dev soak claims` runs longer ones.

use devstack::Flavor;
use pipeline_tests::campaign;

const ROUNDS: u32 = 5;

/// With it the relay, the lander and an api have their turns; other tests strike gate and MySQL.
const SEED: u64 = 3;

#[tokio::test]
async fn whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept() {
    let totals = campaign::run(ROUNDS, SEED, Flavor::Mariadb, |line| println!("{line}")).await;
    assert_eq!(totals.counted, ROUNDS);
}
