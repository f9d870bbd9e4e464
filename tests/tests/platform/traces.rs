//! A claim's trace: every hop has the right parent, and claims that are not sampled are not exported.

use coupon::{TemplateId, UserId};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::json;
use shopper::{Claimed, NewTemplate};

use crate::support::collector::{Collector, Reported};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const UNSAMPLED: &str = "0af7651916cd43dd8448eb211c80319c";

/// Validity of a coupon: short, so that it expires within the test.
const BRIEF_MS: i64 = 1_000;

/// Hops of a coupon that is claimed and expires.
const HOPS: [&str; 8] = [
    "POST /v1/templates/{id}/claims",
    "cdc-tailer.publish",
    "cdc-tailer.publish",
    "claim.gate",
    "claim.land",
    "expiry-worker.flip",
    "sync-consumer.apply",
    "sync-consumer.apply",
];

async fn world(name: &str, collector: &str, share: &str) -> World {
    World::start_queued_with(name, |options| {
        let options = options.with_env("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
        let options = options.with_env("OTEL_TRACES_SAMPLER_ARG", share);
        // Export interval in milliseconds; the default of five seconds would slow the test down.
        options.with_env("OTEL_BSP_SCHEDULE_DELAY", "50")
    })
    .await
}

async fn claim(
    world: &World,
    user: i64,
    template: TemplateId,
    trace_parent: Option<String>,
) -> u16 {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let path = format!("/v1/templates/{template}/claims");
    let mut request = shopper.request(Method::POST, &path).json(&json!({ "quantity": 1 }));
    if let Some(parent) = trace_parent {
        request = request.header("traceparent", parent);
    }
    shopper.send(request).await.unwrap().status
}

fn names(reported: &[Reported]) -> Vec<&str> {
    let mut names: Vec<_> = reported.iter().map(|reported| reported.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn named<'a>(reported: &'a [Reported], name: &str) -> Vec<&'a Reported> {
    reported.iter().filter(|reported| reported.name == name).collect()
}

#[tokio::test]
async fn a_claims_trace_shows_every_hop_from_the_request_to_the_expiry() {
    let collector = Collector::start().await;
    let world = world("traces", &collector.url, "0").await;
    let template = world.template(10, |new| NewTemplate { valid_for_ms: BRIEF_MS, ..new }).await;
    for (user, trace, flags) in [(1, TRACE, "01"), (2, UNSAMPLED, "00")] {
        let parent = format!("00-{trace}-{CALLER}-{flags}");
        assert_eq!(claim(&world, user, template, Some(parent)).await, 201);
    }
    assert_eq!(claim(&world, 3, template, None).await, 201);
    world.until(template, |counts| counts.expired == 3).await;
    let reported =
        until(async || collector.of(TRACE), |reported| reported.len() >= HOPS.len()).await;
    assert_eq!(names(&reported), HOPS);

    let request = named(&reported, "POST /v1/templates/{id}/claims")[0];
    assert_eq!((request.service.as_str(), request.parent.as_str()), ("api", CALLER));
    assert_eq!(request.attributes["http.response.status_code"], "201");
    assert_eq!(request.attributes["coupon.template.id"], template.to_string());
    for (name, outcome) in [("claim.gate", "admitted"), ("claim.land", "landed")] {
        let hop = named(&reported, name)[0];
        assert_eq!((hop.parent.as_str(), hop.service.as_str()), (request.span.as_str(), "api"));
        assert_eq!(hop.attributes["coupon.outcome"], outcome);
        assert!(hop.began >= request.began && hop.ended <= request.ended, "{hop:?}");
    }
    let published = named(&reported, "cdc-tailer.publish");
    let applied = named(&reported, "sync-consumer.apply");
    for (publish, apply) in published.iter().zip(&applied) {
        assert_eq!(publish.parent, request.span);
        assert_eq!(apply.parent, publish.span, "the topic hands the publishing hop on");
        assert!(apply.ended >= publish.began);
    }
    let flip = named(&reported, "expiry-worker.flip")[0];
    assert_eq!(flip.parent, request.span);
    assert!(flip.began > request.ended && flip.ended >= flip.began);

    world.assert_sound(None).await;
    // The last spans are exported before the processes end.
    world.end().await;
    let others = collector.all();
    assert!(others.iter().all(|reported| reported.trace == TRACE), "{others:?}");
}

#[tokio::test]
async fn a_claim_without_a_trace_of_its_own_gets_one_by_the_configured_share() {
    let collector = Collector::start().await;
    let world = world("sampled", &collector.url, "1").await;
    let template = world.template(10, |new| new).await;
    assert_eq!(claim(&world, 1, template, None).await, 201);
    // Every other request has a trace too, with itself as the only hop.
    let hops = |reported: &Vec<Reported>| {
        reported.iter().filter(|reported| HOPS.contains(&reported.name.as_str())).count()
    };
    let reported = until(async || collector.all(), |reported| hops(reported) >= 5).await;
    let request = named(&reported, "POST /v1/templates/{id}/claims")[0];
    assert_eq!(request.parent, "");
    for other in &reported {
        let is_hop = HOPS.contains(&other.name.as_str());
        assert_eq!(other.trace == request.trace, is_hop, "{other:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn every_other_request_is_a_hop_of_its_callers_trace_too() {
    let collector = Collector::start().await;
    let world = world("request spans", &collector.url, "0").await;
    let at_a_till = |new| NewTemplate { self_redeem: true, ..new };
    let template = world.template(10, at_a_till).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    let parent = |trace: &str, flags: &str| format!("00-{trace}-{CALLER}-{flags}");
    let using = format!("/v1/me/coupons/{coupon}/use");
    let body = json!({ "order_ref": "an-order" });
    let using = shopper.request(Method::POST, &using).json(&body);
    let pause = format!("/v1/templates/{template}/pause");
    let pause = world.api().operator(Method::POST, &pause);
    for (request, status) in [(using, 200), (pause, 200)] {
        let request = request.header("traceparent", parent(TRACE, "01"));
        assert_eq!(shopper.send(request).await.unwrap().status, status);
    }
    for (path, trace, flags) in [("/v1/nothing", TRACE, "01"), ("/docs", UNSAMPLED, "00")] {
        let request = world.api().anonymous(Method::GET, path);
        shopper.send(request.header("traceparent", parent(trace, flags))).await.unwrap();
    }
    let reported = until(async || collector.of(TRACE), |reported| reported.len() >= 3).await;
    let wanted = [
        ("GET", "404"),
        ("POST /v1/me/coupons/{id}/use", "200"),
        ("POST /v1/templates/{id}/{verb}", "200"),
    ];
    assert_eq!(names(&reported), wanted.map(|(name, _)| name));
    for (name, status) in wanted {
        let hop = named(&reported, name)[0];
        assert_eq!((hop.parent.as_str(), hop.service.as_str()), (CALLER, "api"));
        assert_eq!(hop.attributes["http.response.status_code"], status);
    }
    world.end().await;
    assert!(collector.all().iter().all(|reported| reported.trace == TRACE));
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_no_claim() {
    // Port 9 (discard) has no listener.
    let world = world("no_collector", "http://127.0.0.1:9", "1").await;
    let template = world.template(10, |new| new).await;
    assert_eq!(claim(&world, 1, template, None).await, 201);
    world.until(template, |counts| counts.unused == 1).await;
    world.end().await;
}
