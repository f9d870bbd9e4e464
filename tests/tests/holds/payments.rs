//! Many payments at once share transactions, and none affects the others.

use coupon::{ClaimId, TemplateId};
use devstack::Flavor;
use futures::future::join_all;
use pipeline_tests::World;
use shopper::Answer;

use crate::{
    desk::refusal,
    holds::{LONG, claimed, ids, number, stock},
};

/// Plain payments that are sent at once, each twice.
const PAYMENTS: i64 = 40;

async fn claim(world: &World, template: TemplateId, user: i64) -> ClaimId {
    claimed(world, template, user, "a", 1).await.1.id
}

#[tokio::test]
async fn many_payments_at_once_share_transactions_and_one_that_does_not_fit_costs_no_other() {
    crowded(Flavor::Mariadb).await;
}

async fn crowded(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "crowded payments", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let stock_of = 2 * PAYMENTS;
    let template = world.template(stock_of, |new| new.held_for(LONG)).await;
    let mut plain = Vec::new();
    for user in 1..=PAYMENTS {
        plain.push(claim(&world, template, user).await);
    }
    // Each of the others fails for a reason of its own.
    let given_up = claim(&world, template, 101).await;
    let paid = claim(&world, template, 102).await;
    let (_, other) = claimed(&world, template, 103, "a", 1).await;
    let (_, mixed) = claimed(&world, template, 104, "a", 1).await;
    assert_eq!(api.cancel(given_up, "not wanted", None).await.unwrap().status, 200);
    assert_eq!(api.confirm(paid, "paid", None).await.unwrap().status, 200);

    let twice = plain.iter().flat_map(|claim| [claim, claim]);
    let good = join_all(twice.map(|claim| async move {
        api.confirm(*claim, &format!("pay-{claim}"), None).await.unwrap()
    }));
    let named = ids(&mixed);
    let odd = join_all(
        [
            (given_up, "odd-1", None, "COUPON_CANCELLED"),
            (paid, "odd-2", None, "ALREADY_CONFIRMED"),
            (other.id, "paid", None, "PAYMENT_REF_REUSED"),
            (other.id, "odd-3", Some(&named[..]), "COUPON_NOT_FOUND"),
            (ClaimId(1), "odd-4", None, "CLAIM_NOT_FOUND"),
        ]
        .map(|(claim, payment_ref, coupons, code)| async move {
            (api.confirm(claim, payment_ref, coupons).await.unwrap(), code)
        }),
    );
    let (good, odd) = tokio::join!(good, odd);
    assert!(good.iter().all(|answer| answer.status == 200), "{good:?}");
    let odd: Vec<(String, &str)> =
        odd.iter().map(|(answer, code)| (refusal(answer).1, *code)).collect();
    assert!(odd.iter().all(|(got, code)| got == code), "{odd:?}");
    for pair in good.chunks(2) {
        assert_eq!(pair[0].body, pair[1].body, "equal requests, equal bytes");
    }

    let payments = "select count(*) from coupon_payment";
    assert_eq!(number(&world, payments).await, PAYMENTS + 1, "each payment once");
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.held, counts.cancelled), (PAYMENTS + 1, 2, 1));
    assert_eq!(stock(&world, template).await.1, stock_of - (PAYMENTS + 3));
    let together = "select count(*) from (select confirmed_at from coupon_payment \
                    group by confirmed_at having count(*) > 1) shared";
    assert!(number(&world, together).await > 0, "no transaction had several payments");
    // Repeated, they get the stored bytes.
    for (claim, first) in plain.iter().zip(good.chunks(2)) {
        let again: Answer = api.confirm(*claim, &format!("pay-{claim}"), None).await.unwrap();
        assert_eq!(again.body, first[0].body);
    }
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn many_payments_at_once_on_mysql_share_transactions_and_one_that_does_not_fit_costs_no_other()
     {
        crowded(Flavor::Mysql).await;
    }
}
