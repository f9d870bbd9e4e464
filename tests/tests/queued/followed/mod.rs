//! A queued claim that its user follows to its end; the bounds of streams, and a receipt that has lapsed.

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod lapsed;
    pub(crate) mod streams;
}

use pipeline_tests::{
    World,
    promises::{Ends, Promises},
};
use shopper::{Events, Fate};

use super::{accepted, after_topic, assert_sold, shopper};

#[tokio::test]
async fn who_follows_a_queued_claim_reads_that_it_landed() {
    const STOCK: i64 = 2;
    let world = World::start_queued("followed").await;
    let template = world.template(STOCK, after_topic).await;
    let mut promises = Promises::default();
    for user in 1..=STOCK {
        let anna = shopper(&world, 0, user);
        let claim = accepted(&mut promises, &anna, template).await;
        landed(&mut anna.events(&claim, None).await.unwrap()).await;
        let look = anna.look(&claim).await.unwrap();
        assert_eq!(look.status, 200, "{look:?}");
    }
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(2));
    assert_sold(&world, template, STOCK).await;
    world.end().await;
}

/// Reads a stream to its end, which is that the claim landed.
pub(crate) async fn landed(events: &mut Events) {
    let mut last = None;
    while let Some(event) = events.next().await.unwrap() {
        last = event.fate().or(last);
    }
    assert!(matches!(last, Some(Fate::Succeeded { .. })), "{last:?}");
}
