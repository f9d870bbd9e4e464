//! A short kill campaign; `./dev soak claims` runs longer ones.

use devstack::{Flavor, OwnDatabase, if_installed};
use pipeline_tests::claim_campaign;

const ROUNDS: u32 = 5;

/// The first seed strikes the relay, the lander and an api, the second the gate's replica, the broker and the gate.
/// Other tests strike MySQL.
const SEEDS: [u64; 2] = [3, 6];

testkit::on_each_flavor! {
    every_promise_is_kept:
    whoever_is_killed_or_stopped_while_claims_are_in_flight_every_promise_is_kept,
    whoever_is_killed_or_stopped_beside_a_mysql_while_claims_are_in_flight_every_promise_is_kept,
}

#[expect(clippy::print_stdout, reason = "what happened, for a round that fails")]
async fn every_promise_is_kept(flavor: Flavor) {
    // A campaign starts servers, and this is how to learn whether they are installed.
    let probe = OwnDatabase::start(&format!("campaign-{}", flavor.name()), flavor, &[]).await;
    if if_installed(probe, "a kill campaign, on MySQL").is_none() {
        return;
    }
    let seed = if flavor == Flavor::Mariadb { SEEDS[0] } else { SEEDS[1] };
    let totals = claim_campaign::run(ROUNDS, seed, flavor, |line| println!("{line}")).await;
    assert_eq!(totals.counted, ROUNDS);
}
