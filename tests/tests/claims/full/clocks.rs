//! Apis whose clocks are wrong sell in the window that MySQL's clock says, as all others do.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{FakeClock, PlatformOptions};
use pipeline_tests::{World, until};
use serde_json::Value;
use shopper::{Answer, NewTemplate};

/// How far a wrong clock is ahead or behind, in seconds: beyond the windows of the test.
const WRONG: i64 = 120;

/// An api whose clock is right, one that is ahead, and one that is behind.
async fn start() -> (World, [FakeClock; 2]) {
    let three_apis = |options| PlatformOptions { apis: 3, ..options };
    let mut world = World::start_with("sale clocks", three_apis).await;
    let clocks =
        ["ahead", "behind"].map(|name| FakeClock::new(&world.platform.options.dir.join(name)));
    let clocks = clocks.map(Result::unwrap);
    for (clock, api) in clocks.iter().zip(&mut world.platform.apis[1..]) {
        clock.give(api);
        api.restart().await.unwrap();
    }
    (world, clocks)
}

async fn template(world: &World, opens: TimeDelta, closes: TimeDelta) -> TemplateId {
    let now = world.clock.now();
    let new = NewTemplate {
        claim_starts_at: now + opens,
        claim_ends_at: now + closes,
        ..NewTemplate::simple("Clocks", 100, now, TimeDelta::hours(1))
    };
    world.api().publish_new(&new).await.unwrap().id
}

/// Claims as the user at an api; a gate that is loading is asked again.
async fn claim(world: &World, api: usize, user: i64, template: TemplateId) -> Answer {
    let anna = world.apis[api].shopper(UserId(user)).unwrap();
    let key = format!("{user}");
    let claimed = async || anna.claim(template, Some(&key), 1).await.unwrap();
    until(claimed, |answer| answer.status != 503).await
}

fn code(answer: &Answer) -> String {
    let problem: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    problem["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_api_whose_clock_is_minutes_wrong_opens_and_closes_a_sale_when_the_others_do() {
    let (world, clocks) = start().await;
    let minute = TimeDelta::minutes(1);
    let open = template(&world, -minute, minute).await;
    let upcoming = template(&world, minute, minute * 5).await;
    let short = template(&world, -minute, TimeDelta::seconds(4)).await;
    clocks[0].set(WRONG).unwrap();
    clocks[1].set(-WRONG).unwrap();
    for (api, user) in [0, 1, 2].into_iter().zip(1..) {
        let answer = claim(&world, api, user, open).await;
        assert_eq!(answer.status, 201, "api {api} sells in the window: {}", answer.body);
        let again = claim(&world, (api + 1) % 3, user, open).await;
        assert_eq!(again.status, 201, "a replay elsewhere: {}", again.body);
        let early = claim(&world, api, user, upcoming).await;
        assert_eq!(code(&early), "NOT_OPEN", "api {api}: {}", early.body);
    }
    let mut users = 100..;
    let mut over = async || {
        let user = users.next().unwrap();
        code(&claim(&world, 0, user, short).await) == "CLOSED"
    };
    until(&mut over, |over| *over).await;
    for (api, user) in [1, 2].into_iter().zip(11..) {
        let late = claim(&world, api, user, short).await;
        assert_eq!(code(&late), "CLOSED", "api {api}: {}", late.body);
    }
    assert_eq!(world.count(open).await.all(), 3);
    assert_eq!(world.count(upcoming).await.all(), 0);
    clocks.iter().for_each(|clock| clock.set(0).unwrap());
    world.assert_sound(None).await;
    world.end().await;
}
