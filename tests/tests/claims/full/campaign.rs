//! A short kill campaign; `./dev soak claims` runs longer ones.

use devstack::{Flavor, if_installed};
use pipeline_tests::claim_campaign::{self, Stack};

/// `kills` strikes each process once.
const ROUNDS: u32 = 1;

/// The seed with which the round on MariaDB strikes the relay.
const STRIKES_RELAY: u64 = 3;

/// The seed with which the round on MySQL strikes MySQL itself.
const STRIKES_MYSQL: u64 = 1;

#[tokio::test]
async fn whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept() {
    every_promise_is_kept(Flavor::Mariadb, STRIKES_RELAY).await;
}

#[tokio::test]
#[ignore = "two minutes; ./dev soak claims --flavor mysql"]
async fn whoever_is_killed_or_stopped_beside_a_mysql_while_claims_are_in_flight_every_promise_is_kept()
 {
    every_promise_is_kept(Flavor::Mysql, STRIKES_MYSQL).await;
}

#[expect(clippy::print_stdout, reason = "what happened, for a round that fails")]
async fn every_promise_is_kept(flavor: Flavor, seed: u64) {
    let stack = Stack::start(seed, flavor).await;
    let Some(stack) = if_installed(stack, "a kill campaign, on MySQL") else { return };
    let totals = claim_campaign::run_on(stack, ROUNDS, seed, |line| println!("{line}")).await;
    assert_eq!(totals.counted, ROUNDS);
}
