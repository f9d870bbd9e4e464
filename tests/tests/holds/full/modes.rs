//! Held coupons in every mode of claims.

use devstack::Flavor;
use futures::future::join_all;
use pipeline_tests::{MODES, held_sale::HeldSale, promises::Ends};

use crate::queued::full::conformance::start;

/// Distance between the user ids of two sales.
const APART: i64 = 1_000;

#[tokio::test]
async fn in_every_mode_held_coupons_are_paid_for_cancelled_or_lapse_as_each_was_told() {
    sold_in_each_mode(Flavor::Mariadb).await;
}

#[tokio::test]
#[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
async fn in_every_mode_on_mysql_held_coupons_are_paid_for_cancelled_or_lapse_as_each_was_told() {
    sold_in_each_mode(Flavor::Mysql).await;
}

/// All sales at once. More users come than there are coupons, so units that come back are sold again.
async fn sold_in_each_mode(flavor: Flavor) {
    let Some((_servers, world)) = start("held-modes", flavor).await else { return };
    let mut sales = Vec::new();
    for (mode, first) in MODES.into_iter().zip((APART..).step_by(APART as usize)) {
        sales.push((mode, HeldSale::begin(&world, mode, first).await));
    }
    let told = join_all(sales.iter().map(|(_, sale)| sale.run(&world))).await;
    for ((mode, sale), mut told) in sales.into_iter().zip(told) {
        assert!(sale.check(&world, &told).await > 0, "{mode:?}: nobody paid");
        let queued = told.promises.claims.len();
        // As long as MySQL keeps up, claims in mode spill land at once.
        if mode.0 != "spill" {
            assert_eq!(queued > 0, mode.0 == "queued", "{mode:?}: {queued}");
        }
        assert_eq!(told.promises.kept(&world).await, Ends::all_succeeded(queued), "{mode:?}");
    }
    world.assert_sound(None).await;
    world.end().await;
}
