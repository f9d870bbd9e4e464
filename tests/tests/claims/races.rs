//! Many concurrent requests, and what the database holds afterwards.

use std::collections::BTreeSet;

use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use pipeline_tests::{World, histories};
use shopper::{NewTemplate, Tally, Wish};
use verifier::{Sampler, Verdict};

/// Two apis, so that no lock within a process can be what enforces the limits.
fn two_apis(options: PlatformOptions) -> PlatformOptions {
    PlatformOptions { apis: 2, ..options }
}

#[tokio::test]
async fn a_hundred_coupons_go_to_exactly_a_hundred_of_2000_users() {
    let world = World::start_with("a hundred", two_apis).await;
    let template = world.template(100, |new| new).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let wish = |user| Wish { again: user % 10 == 0, ..Wish::one(template, UserId(user)) };
    let run = world.crowd().run((1..=2_000).map(wish).collect()).await.unwrap();
    assert_eq!((world.count(template).await.all(), run.given_up), (100, 0));
    assert_eq!(Tally::of(&run.history).over_limit, 0, "nobody asked for a second one");
    world.assert_sound(Some(&run.history)).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn one_user_with_500_keys_gets_one_coupon_twenty_times_over() {
        let world = World::start_with("five hundred keys", two_apis).await;
        let mut runs = Vec::new();
        for _ in 0..20 {
            let template = world.template(10, |new| new).await;
            let wish = |key| Wish::one(template, UserId(1)).with_key(format!("key-{key}"));
            runs.push(world.crowd().run((0..500).map(wish).collect()).await.unwrap());
            assert_eq!(world.count(template).await.all(), 1);
        }
        assert!(runs.iter().all(|run| run.given_up == 0));
        world.assert_sound(Some(&histories(runs))).await;
        world.end().await;
    }

    #[tokio::test]
    async fn one_key_sent_500_times_is_one_row_and_one_body() {
        let world = World::start_with("one key", two_apis).await;
        let template = world.template(10, |new| NewTemplate { per_user_limit: 3, ..new }).await;
        let wish = Wish { copies: 500, ..Wish::one(template, UserId(1)).with_key("the-one") };
        let run = world.crowd().run(vec![wish]).await.unwrap();
        assert_eq!((world.count(template).await.all(), run.given_up), (1, 0));
        let landed = run.history.records.iter().filter(|record| record.is_landed());
        let bodies: Vec<_> = landed.map(|record| record.body.clone()).collect();
        assert_eq!(bodies.len(), 500, "each copy is answered in the end");
        assert_eq!(bodies.iter().collect::<BTreeSet<_>>().len(), 1);
        world.assert_sound(Some(&run.history)).await;
        world.end().await;
    }

    #[tokio::test]
    async fn limits_and_quantities_hold_across_templates_and_the_last_coupon_is_sold() {
        let world = World::start_with("quantities", two_apis).await;
        let several = |new| NewTemplate { per_user_limit: 5, max_per_claim: 3, ..new };
        let unlimited = |new| NewTemplate { per_user_limit: 0, max_per_claim: 2, ..new };
        let limited = world.template(400, several).await;
        let open = world.template(300, unlimited).await;
        let wishes = |template: TemplateId, most: u32| {
            (0..900).map(move |number| Wish {
                quantity: 1 + number % most,
                copies: 1 + number % 7 / 6,
                ..Wish::one(template, UserId(i64::from(number % 180)))
                    .with_key(format!("wish-{number}"))
            })
        };
        let mixed = wishes(limited, 3).chain(wishes(open, 2)).collect();
        let first = world.crowd().run(mixed).await.unwrap();
        // Claims for more than was left may have left a remainder: new users take one each.
        let fresh = |template| move |user| Wish::one(template, UserId(user)).with_key("last wave");
        let last =
            (1_000..1_400).map(fresh(limited)).chain((1_000..1_300).map(fresh(open))).collect();
        let last = world.crowd().run(last).await.unwrap();
        assert_eq!(world.count(limited).await.all(), 400);
        assert_eq!(world.count(open).await.all(), 300);
        world.assert_sound(Some(&histories(vec![first, last]))).await;
        world.end().await;
    }
}
