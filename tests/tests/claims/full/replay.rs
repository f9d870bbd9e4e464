//! An answered claim is always answered the same: by every api, after restarts of all of them, after the gate lost
//! its memory, and years later from MySQL alone.

use std::fs;

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{FakeClock, PlatformOptions};
use mysql_store::verify;
use pipeline_tests::{World, assert_no_panic, until};
use redis_gate::{Meta, Unloaded};
use reqwest::Method;
use shopper::{Answer, Api, NewTemplate, Shopper};

use crate::claims::full::epochs::lose_gate;

/// Idempotency key of every claim.
const KEY: &str = "the-key";

/// How much later an old client returns: by then all windows are over, and no gate is loaded.
const YEARS: TimeDelta = TimeDelta::days(3 * 365);

/// Validity of tokens, which the api checks by its own clock.
const TOKEN_LIFE: TimeDelta = TimeDelta::days(4 * 365);

/// A claim that was answered 201.
struct Promise {
    template: TemplateId,
    user: UserId,
    first: Answer,
}

impl Promise {
    async fn make(world: &World, template: TemplateId, user: UserId) -> Self {
        let answer = shopper(world.api(), user).claim(template, Some(KEY), 1).await.unwrap();
        assert_eq!((answer.status, answer.replayed), (201, false), "{answer:?}");
        Self { template, user, first: answer }
    }

    /// Asserts that each api repeats the first answer byte by byte, and rejects the key with another payload.
    async fn assert_kept(&self, world: &World, when: &str) {
        for api in &world.apis {
            let shopper = shopper(api, self.user);
            let again = shopper.claim(self.template, Some(KEY), 1).await.unwrap();
            assert_eq!((again.status, again.replayed), (201, true), "{when}: {again:?}");
            assert_eq!(again.body, self.first.body, "{when}");
            assert_eq!(again.location, self.first.location, "{when}");
            assert_refused(&shopper, self.template, KEY, 2, 422, "IDEMPOTENCY_KEY_REUSED").await;
        }
    }
}

/// A user whose token is valid for years.
fn shopper(api: &Api, user: UserId) -> Shopper {
    api.shopper_until(user, TOKEN_LIFE).unwrap()
}

async fn assert_refused(
    shopper: &Shopper,
    template: TemplateId,
    key: &str,
    quantity: u32,
    status: u16,
    code: &str,
) {
    let answer = shopper.claim(template, Some(key), quantity).await.unwrap();
    let said = answer.code().unwrap_or_default();
    assert_eq!((answer.status, said.as_str()), (status, code), "{answer:?}");
}

/// Waits until a template's gate is open.
async fn until_open(world: &World, template: TemplateId) {
    let look = async || world.sources.gate.meta(template).await.ok().flatten();
    until(look, |meta| meta.as_ref().is_some_and(Meta::is_open)).await;
}

/// Restarts every api with its clock years ahead, while MySQL's stays right. By MySQL's the windows are over too, as they
/// are moved to the past here. Then removes the gates; no api loads them again.
async fn years_later(world: &mut World, clock: &FakeClock, promises: &[Promise]) {
    clock.set(YEARS.num_seconds()).unwrap();
    let over = "update coupon_template set claim_starts_at = claim_starts_at - interval 1 day, \
                claim_ends_at = claim_ends_at - interval 1 day, version = version + 1";
    verify::execute(&mut world.mysql().await, over).await.unwrap();
    for api in &mut world.platform.apis {
        clock.give(api);
        api.restart().await.unwrap();
    }
    let now = world.clock.now() + YEARS;
    for promise in promises {
        let gate = &world.sources.gate;
        // A keeper may already have removed the gate of the ended template.
        let Some(meta) = gate.meta(promise.template).await.unwrap() else { continue };
        let unload = async || gate.unload(promise.template, meta.epoch, now).await.unwrap();
        // A keeper may still intervene.
        until(unload, |unloaded| matches!(unloaded, Unloaded::Gone | Unloaded::OtherEpoch)).await;
    }
}

#[tokio::test]
async fn a_claim_is_answered_byte_by_byte_the_same_after_restarts_a_lost_gate_and_three_years() {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("replay", two_apis).await;
    let limited = |new| NewTemplate { per_user_limit: 3, max_per_claim: 2, ..new };
    let unlimited = |new| NewTemplate { per_user_limit: 0, max_per_claim: 2, ..new };
    let limited = world.template(10, limited).await;
    let unlimited = world.template(10, unlimited).await;
    let promises = [
        Promise::make(&world, limited, UserId(1)).await,
        Promise::make(&world, unlimited, UserId(2)).await,
    ];
    let assert_kept = async |world: &World, when: &str| {
        for promise in &promises {
            promise.assert_kept(world, when).await;
        }
    };
    assert_kept(&world, "at once").await;

    for api in &mut world.platform.apis {
        api.restart().await.unwrap();
    }
    assert_kept(&world, "after a restart").await;

    for promise in &promises {
        // Without its metadata, nothing in the gate is read again.
        lose_gate(&world, promise.template).await;
        until_open(&world, promise.template).await;
    }
    assert_kept(&world, "after a rebuild").await;

    world.api().turn(limited, "end").await.unwrap();
    assert_kept(&world, "after the end of one").await;

    let clock = FakeClock::new(&world.platform.options.dir.join("api-clock")).unwrap();
    years_later(&mut world, &clock, &promises).await;
    assert_kept(&world, "years later").await;
    for (promise, code) in promises.iter().zip(["ENDED", "CLOSED"]) {
        let shopper = shopper(world.api(), promise.user);
        assert_refused(&shopper, promise.template, "a-new-key", 1, 409, code).await;
        let place = promise.first.location.as_deref().unwrap();
        let found = shopper.send(shopper.request(Method::GET, place)).await.unwrap();
        assert_eq!(found.status, 200, "{found:?}");
        assert!(found.body.contains(&promise.first.body), "{found:?}");
        let gate = world.sources.gate.meta(promise.template).await.unwrap();
        assert_eq!(gate, None, "only MySQL was asked");
        assert_eq!(world.count(promise.template).await.all(), 1);
    }
    world.assert_sound(None).await;
    // Under a faked clock the Kafka client's waits do not end in order.
    for mut api in world.platform.apis.drain(..) {
        api.kill().unwrap();
        assert_no_panic(&fs::read_to_string(api.log()).unwrap());
    }
    world.end().await;
}
