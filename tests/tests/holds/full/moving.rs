//! Holds of a template whose validity changes all the while: a landing, a payment, a cancellation, a lapse and the move
//! of issued coupons meet at the same rows.

use chrono::TimeDelta;
use coupon::TemplateId;
use devstack::Flavor;
use futures::future::join;
use mysql_store::verify;
use pipeline_tests::{World, held_sale::HeldSale, promises::Ends, until};
use serde_json::json;

use crate::{holds::number, queued::full::conformance::start, templates::validity::change};

const FIRST_USER: i64 = 1_000;

/// All transactions lock rows in one order, so eight runs had none; with another order there are dozens.
const DEADLOCKS_MAX: i64 = 3;

testkit::on_each_flavor! {
    moved_while_sold:
    what_is_paid_for_while_the_validity_moves_is_valid_as_the_last_change_says,
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    what_is_paid_for_on_mysql_while_the_validity_moves_is_valid_as_the_last_change_says,
}

async fn moved_while_sold(flavor: Flavor) {
    let Some((_servers, world)) = start("held-moving", flavor).await else { return };
    let direct = HeldSale::begin(&world, ("direct", "gate"), FIRST_USER).await;
    let queued = HeldSale::begin(&world, ("queued", "gate"), 2 * FIRST_USER).await;
    let templates = [direct.template, queued.template];
    // It lasts until the last hold has lapsed.
    let sold = async {
        let (told, queued_told) = join(direct.run(&world), queued.run(&world)).await;
        let paid = join(direct.check(&world, &told), queued.check(&world, &queued_told)).await;
        (paid, queued_told)
    };
    let (changes, (paid, mut queued_told)) = while_changing(&world, templates, sold).await;
    assert!(changes > 10 && paid.0 > 0 && paid.1 > 0, "{changes} changes, {paid:?} paid");
    let claims = queued_told.promises.claims.len();
    assert_eq!(queued_told.promises.kept(&world).await, Ends::all_succeeded(claims));
    let under_way = "select count(*) from validity_move where state = 0";
    until(async || number(&world, under_way).await, |moves| *moves == 0).await;
    let amiss = "select count(*) from user_coupon coupon \
        join coupon_template template on template.id = coupon.template_id \
        join coupon_payment payment on payment.claim_id = coupon.claim_id where coupon.status = 0 and \
        (coupon.valid_from <> payment.confirmed_at or coupon.valid_until <> payment.confirmed_at \
         + interval template.valid_for_ms * 1000 microsecond)";
    assert_eq!(number(&world, amiss).await, 0);
    let moved = number(&world, "select cast(sum(moved) as signed) from validity_move").await;
    let deadlocks = deadlocks(&world).await;
    assert!(moved > 0 && deadlocks <= DEADLOCKS_MAX, "{moved} moved, {deadlocks} deadlocks");
    world.assert_sound(None).await;
    world.end().await;
}

/// Changes the validity of both templates again and again until `sold` is over. Returns the number of changes.
async fn while_changing<T>(
    world: &World,
    templates: [TemplateId; 2],
    sold: impl Future<Output = T>,
) -> (i64, T) {
    let mut sold = Box::pin(sold);
    let mut changes = 0;
    loop {
        let life = TimeDelta::days(1 + changes % 9).num_milliseconds();
        let changed = async {
            for template in templates {
                let body = json!({ "valid_for_ms": life, "issued_coupons": "follow" });
                change(world, template, body).await;
            }
        };
        // Both go on together; the sale's end does not cut a change short.
        let mut changed = Box::pin(changed);
        let mut over = None;
        tokio::select! {
            told = &mut sold => over = Some(told),
            () = &mut changed => {}
        }
        changes += 1;
        if let Some(told) = over {
            changed.await;
            return (changes, told);
        }
    }
}

/// Deadlocks that the server has counted.
async fn deadlocks(world: &World) -> i64 {
    let sql = "select cast(count as signed) from information_schema.innodb_metrics where name = 'lock_deadlocks'";
    verify::number(&mut world.mysql().await, sql).await.unwrap()
}
