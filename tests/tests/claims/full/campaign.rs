//! A short kill campaign; `./dev soak claims` runs longer ones.

use devstack::{Flavor, if_installed};
use pipeline_tests::claim_campaign::{self, Stack};

/// One round on MariaDB, and a seed with which it strikes the relay. `kills` strikes each process once.
const ON_MARIADB: (u32, u64) = (1, 3);

/// One round on MySQL, and a seed with which it strikes MySQL itself.
const ON_MYSQL: (u32, u64) = (1, 1);

#[tokio::test]
async fn whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept() {
    every_promise_is_kept(Flavor::Mariadb).await;
}

#[tokio::test]
#[ignore = "two minutes; ./dev soak claims --flavor mysql"]
async fn whoever_is_killed_or_stopped_beside_a_mysql_while_claims_are_in_flight_every_promise_is_kept()
 {
    every_promise_is_kept(Flavor::Mysql).await;
}

#[expect(clippy::print_stdout, reason = "what happened, for a round that fails")]
async fn every_promise_is_kept(flavor: Flavor) {
    let (rounds, seed) = if flavor == Flavor::Mariadb { ON_MARIADB } else { ON_MYSQL };
    let stack = Stack::start(seed, flavor).await;
    let Some(stack) = if_installed(stack, "a kill campaign, on MySQL") else { return };
    let totals = claim_campaign::run_on(stack, rounds, seed, |line| println!("{line}")).await;
    assert_eq!(totals.counted, rounds);
}
