//! Polls of claims that were not answered: a definite poll answer stays true.

use std::{collections::BTreeSet, fs};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{OwnRedis, PlatformOptions, TestServers};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::Value;
use shopper::{Answer, Claimed, NewTemplate, Shopper};

use crate::claims::faults::{insist, start_with};

const KEY: &str = "the-key";

fn outcome(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

async fn poll(shopper: &Shopper, url: &str) -> Answer {
    shopper.send(shopper.request(Method::GET, url)).await.unwrap()
}

/// Polls until the limit of lookups allows an answer.
async fn allowed(shopper: &Shopper, url: &str) -> (u16, Option<String>) {
    until(async || outcome(&poll(shopper, url).await), |outcome| outcome.0 != 429).await
}

/// Starts a claim that the second api holds between gate and landing; returns the user and the poll URL.
async fn held_claim(world: &World, template: TemplateId, user: i64) -> (Shopper, String) {
    let shopper = world.apis[1].shopper(UserId(user)).unwrap();
    tokio::spawn(async move { shopper.claim(template, Some(KEY), 1).await });
    let gate = &world.sources.gate;
    let pending = async || {
        let epoch = gate.meta(template).await.unwrap()?.epoch;
        let entry = gate.entry(template, epoch, UserId(user)).await.unwrap()?;
        Some(entry.requests.first()?.id)
    };
    let id = until(pending, Option::is_some).await.unwrap();
    let url = format!("/v1/claims/{id}?template={template}");
    (world.apis[0].shopper(UserId(user)).unwrap(), url)
}

#[tokio::test]
async fn an_id_that_no_claim_can_have_is_not_found_and_makes_no_row() {
    let world = World::start("impossible ids").await;
    let template = world.template(10, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let lost = (404, Some("CLAIM_NOT_FOUND".to_owned()));
    let next_year = (template.0 >> 22) + 366 * 86_400_000;
    let long_ago = (template.0 >> 22) - 2 * 86_400_000;
    for id in [1, long_ago << 22, next_year << 22, i64::MAX] {
        let url = format!("/v1/claims/{id}?template={template}");
        assert_eq!(outcome(&poll(&anna, &url).await), lost, "{id}");
    }
    for id in [1, next_year << 22] {
        assert_eq!(outcome(&poll(&anna, &format!("/v1/claims/{id}")).await), lost, "{id}");
    }
    let nowhere = format!("/v1/claims/{}?template={}", template.0 + 1, template.0 + 1);
    assert_eq!(outcome(&poll(&anna, &nowhere).await), lost);
    let mut connection = world.mysql().await;
    let all = "update claim set quantity = quantity";
    let rows = mysql_store::verify::execute(&mut connection, all).await.unwrap();
    assert_eq!(rows, 0, "an id that cannot be is not fenced");
    drop(connection);
    world.end().await;
}

/// The fence of a lookup is nobody's, so each look at the claim counts against the limit of fences.
#[tokio::test]
async fn a_claim_that_was_called_lost_is_never_on_its_way_again_however_often_it_is_looked_up() {
    let world = World::start("looked up often").await;
    let template = world.template(10, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let a_minute_ago = ((template.0 >> 22) - 60_000) << 22;
    let url = format!("/v1/claims/{a_minute_ago}?template={template}");
    let mut seen = BTreeSet::new();
    let refused = async || {
        let answer = poll(&anna, &url).await;
        seen.insert(outcome(&answer));
        answer
    };
    let refused = until(refused, |answer| answer.status != 404).await;
    assert_eq!(refused.code().as_deref(), Some("TOO_MANY_LOOKUPS"));
    assert!(refused.retry_after.is_some());
    let lost = (404, Some("CLAIM_NOT_FOUND".to_owned()));
    assert_eq!(allowed(&anna, &url).await, lost);
    seen.remove(&outcome(&refused));
    assert_eq!(seen, BTreeSet::from([lost]));
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_claim_of_a_template_that_was_a_draft_a_moment_ago_is_found_by_every_api() {
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("published just now", two_apis).await;
        let here = &world.apis[0];
        let there = &world.apis[1];
        let new = NewTemplate::simple("A draft", 10, world.clock.now(), TimeDelta::hours(1));
        let template = here.create(&new).await.unwrap().id;
        let anna = there.shopper(UserId(1)).unwrap();
        // The other api caches that the template is not visible to shoppers.
        let claimed = anna.claim(template, None, 1).await.unwrap();
        assert_eq!(claimed.code().as_deref(), Some("TEMPLATE_NOT_FOUND"));
        here.turn(template, "publish").await.unwrap();
        let claimed = insist(&here.shopper(UserId(1)).unwrap(), template).await;
        let claimed: Claimed = claimed.json().unwrap();
        let url = format!("/v1/claims/{}?template={template}", claimed.id);
        let found = poll(&anna, &url).await;
        assert_eq!(found.status, 200, "{found:?}");
        world.end().await;
    }

    #[tokio::test]
    async fn a_claim_whose_gate_stops_or_is_rebuilt_is_called_lost_only_where_it_can_never_land() {
        let mut gate = OwnRedis::gate("claim-poll").await.unwrap();
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let shared = TestServers::shared().with_gate(&gate.url());
        let mut world = World::start_on(&shared, "claim poll", two_apis).await;
        let several = |new| NewTemplate { per_user_limit: 2, ..new };
        let template = world.template(10, several).await;
        let hold = world.platform.options.dir.join("hold");
        let armed = format!("claims.after_gate=hold:{}", hold.display());
        let processing = (202, None);
        let unavailable = (503, Some("GATE_UNAVAILABLE".to_owned()));
        let needed = (422, Some("TEMPLATE_NEEDED".to_owned()));
        let lost = (404, Some("CLAIM_NOT_FOUND".to_owned()));

        // The gate stops, then resumes; the claim is still in flight, and lands.
        fs::write(&hold, "").unwrap();
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &armed).await;
        let (anna, url) = held_claim(&world, template, 1).await;
        let (without, _) = url.split_once('?').unwrap();
        assert_eq!(outcome(&poll(&anna, &url).await), processing);
        assert_eq!(outcome(&poll(&anna, without).await), needed);
        gate.server.pause().unwrap();
        assert_eq!(outcome(&poll(&anna, &url).await), unavailable);
        gate.server.resume().unwrap();
        let again =
            until(async || outcome(&poll(&anna, &url).await), |outcome| outcome.0 != 503).await;
        assert_eq!(again, processing);
        fs::remove_file(&hold).unwrap();
        let found = until(async || poll(&anna, &url).await, |answer| answer.status != 202).await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(poll(&anna, without).await.body, found.body);
        let stranger = world.apis[0].shopper(UserId(9)).unwrap();
        // Not his: like an id that no claim has, which is lost once it is old enough.
        let strange = outcome(&poll(&stranger, &url).await);
        assert!([&processing, &lost].contains(&&strange), "{strange:?}");

        // The gate loses its memory and is rebuilt, so no in-flight entry leads to the claim any more. A poll after the
        // resolver's grace fences it, and a claim reported lost never lands.
        fs::write(&hold, "").unwrap();
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &armed).await;
        let (bert, url) = held_claim(&world, template, 2).await;
        gate.server.kill().unwrap();
        gate.server.start().await.unwrap();
        let mut seen = Vec::new();
        let ended = async || {
            let answer = outcome(&poll(&bert, &url).await);
            seen.push(answer.clone());
            answer
        };
        assert_eq!(until(ended, |outcome| !matches!(outcome.0, 202 | 429 | 503)).await, lost);
        assert!(seen.contains(&processing), "{seen:?}");
        fs::remove_file(&hold).unwrap();
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", "").await;
        assert_eq!(allowed(&bert, &url).await, lost);
        assert_eq!(world.count(template).await.all(), 1);
        let retried = insist(&bert, template).await;
        assert_eq!((retried.status, retried.replayed), (201, false), "{retried:?}");
        let retried: Claimed = retried.json().unwrap();
        assert!(!url.contains(&retried.id.to_string()), "another claim");
        assert_eq!(allowed(&bert, &url).await, lost);
        assert_eq!(world.count(template).await.all(), 2);
        world.assert_sound(None).await;
        world.end().await;
    }

    /// The second request joins the first one at this api, and its own id never reaches the gate.
    #[tokio::test]
    async fn a_key_that_is_sent_again_leads_to_the_admission_that_it_waits_for() {
        let mut world = World::start("sent again").await;
        let hold = world.platform.options.dir.join("hold");
        let armed = format!("claims.after_gate=hold:{}", hold.display());
        start_with(&mut world.platform.apis[0], "FAIL_POINTS", &armed).await;
        let template = world.template(10, |new| NewTemplate { per_user_limit: 2, ..new }).await;
        fs::write(&hold, "").unwrap();
        let anna = world.api().shopper(UserId(1)).unwrap();
        let first = anna.clone();
        let first = tokio::spawn(async move { first.claim(template, Some(KEY), 1).await });
        let gate = &world.sources.gate;
        let admitted = async || {
            let epoch = gate.meta(template).await.unwrap()?.epoch;
            let entry = gate.entry(template, epoch, UserId(1)).await.unwrap()?;
            Some(entry.requests.first()?.id)
        };
        let id = until(admitted, Option::is_some).await.unwrap();
        first.abort();
        let again = anna.claim(template, Some(KEY), 1).await.unwrap();
        assert_eq!(outcome(&again), (503, Some("CLAIM_PENDING".to_owned())), "{again:?}");
        let url = again.json::<Value>().unwrap()["poll"].as_str().unwrap().to_owned();
        assert_eq!(url, format!("/v1/claims/{id}?template={template}"));
        fs::remove_file(&hold).unwrap();
        let found = until(async || poll(&anna, &url).await, |answer| answer.status != 202).await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(world.count(template).await.all(), 1);
        world.assert_sound(None).await;
        world.end().await;
    }
}
