//! Queued claims: accepted with 202, landed behind a queue. One suite for every mode and policy, then faults of each
//! process and server on their way.
//!
//! A test keeps its own list of the claims that were answered 202 ([`Promises`]); neither Redis nor MySQL can lose it.

pub(crate) mod followed;
pub(crate) mod lander_faults;
pub(crate) mod modes;
pub(crate) mod relay_faults;
pub(crate) mod sales;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod api_faults;
    pub(crate) mod brokers;
    pub(crate) mod conformance;
    pub(crate) mod duplicates;
    pub(crate) mod ended_drains;
    pub(crate) mod endings;
    pub(crate) mod full_outbox;
    pub(crate) mod lost_claims;
    pub(crate) mod lost_gates;
    pub(crate) mod lying_gate;
    pub(crate) mod outages;
    pub(crate) mod paused_at_gate;
    pub(crate) mod poison;
    pub(crate) mod receipts;
    pub(crate) mod replicas;
}

use std::net::SocketAddr;

use chrono::TimeDelta;
use coupon::{ClaimState, TemplateId, UserId};
use devstack::{PlatformOptions, Process};
use mysql_store::verify;
use pipeline_tests::{World, promises::Promises, until};
use reqwest::Method;
use serde_json::json;
use shopper::{Accepted, Answer, NewTemplate, Shopper};
use testkit::server_of;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::claims::faults::start_with;

/// Idempotency key of a user's only claim.
pub(crate) const KEY: &str = "the-key";

/// Two apis: what one process knows must not be what keeps a promise.
pub(crate) fn two_apis(options: PlatformOptions) -> PlatformOptions {
    PlatformOptions { apis: 2, ..options }
}

/// A template whose claims are answered 202 after the topic has them.
pub(crate) fn after_topic(new: NewTemplate) -> NewTemplate {
    new.in_mode("queued", "topic")
}

/// A template whose claims are answered 202 after the gate has them.
pub(crate) fn after_gate(new: NewTemplate) -> NewTemplate {
    new.in_mode("queued", "gate")
}

/// What a template's policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    OnePerUser,
    /// Up to [`LIMIT`] coupons, up to [`MOST`] per claim.
    Several,
    /// Only each key claims once.
    Unlimited,
    /// As [`Policy::Several`], held until they are paid for.
    Held,
}

/// Cumulative limit of [`Policy::Several`].
pub(crate) const LIMIT: u32 = 5;

/// Hold of [`Policy::Held`]: none lapses while a test runs.
const HELD_FOR: TimeDelta = TimeDelta::minutes(20);

/// Most coupons of a claim, except with one per user.
pub(crate) const MOST: u32 = 3;

impl Policy {
    pub(crate) const ALL: [Self; 4] =
        [Self::OnePerUser, Self::Several, Self::Unlimited, Self::Held];

    pub(crate) fn of(self, new: NewTemplate) -> NewTemplate {
        match self {
            Self::OnePerUser => new,
            Self::Several => NewTemplate { per_user_limit: LIMIT, max_per_claim: MOST, ..new },
            Self::Unlimited => NewTemplate { per_user_limit: 0, max_per_claim: MOST, ..new },
            Self::Held => Self::Several.of(new).held_for(HELD_FOR),
        }
    }
}

/// A user of one of the apis.
pub(crate) fn shopper(world: &World, api: usize, user: i64) -> Shopper {
    world.apis[api].shopper(UserId(user)).unwrap()
}

/// Claims one coupon until the answer is 202, which the list notes.
pub(crate) async fn accepted(
    promises: &mut Promises,
    shopper: &Shopper,
    template: TemplateId,
) -> Accepted {
    let claim = async || shopper.claim(template, Some(KEY), 1).await;
    let is_heard =
        |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if !answer.is_passing());
    let answer = until(claim, is_heard).await.unwrap();
    let accepted = Accepted::read(&answer, template, shopper.user(), Some(KEY), 1);
    let accepted = accepted.unwrap_or_else(|| panic!("it is not accepted: {answer:?}"));
    promises.claims.push(accepted.clone());
    accepted
}

/// Restarts a process with these fail points, or none.
pub(crate) async fn arm(process: &mut Process, points: &str) {
    start_with(process, "FAIL_POINTS", points).await;
}

/// Like [`arm`], but does not wait: a fault may strike before the process is ready.
pub(crate) fn arm_at_once(process: &mut Process, points: &str) {
    process.set_env("FAIL_POINTS", points);
    if process.is_running() {
        process.kill().unwrap();
    }
    process.spawn().unwrap();
}

/// The name of a key of a template's gate.
pub(crate) fn gate_key(world: &World, template: TemplateId, part: &str) -> String {
    format!("{}gate:1:{{{template}:0}}:{part}", world.scope.key_prefix)
}

/// Sends a command to a Redis, and returns the beginning of its answer.
pub(crate) async fn said(redis: SocketAddr, words: &[&str]) -> String {
    let mut redis = TcpStream::connect(redis).await.unwrap();
    let words_of = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(words_of).collect();
    let command = format!("*{}\r\n{command}", words.len());
    redis.write_all(command.as_bytes()).await.unwrap();
    let mut answer = vec![0; 16_384];
    let length = redis.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(!answer.starts_with('-'), "{words:?}: {answer}");
    answer
}

/// Sends a command to the gate's Redis.
pub(crate) async fn gate_command(world: &World, words: &[&str]) -> String {
    said(server_of(&world.scope.endpoints.gate_redis_url), words).await
}

/// Waits until a template's outbox has no entry, so that a fault that is armed next cannot strike at an older one.
pub(crate) async fn outbox_is_empty(world: &World, template: TemplateId) {
    let outbox = gate_key(world, template, "outbox");
    let length = async || gate_command(world, &["XLEN", &outbox]).await;
    until(length, |length| length.trim() == ":0").await;
}

/// Asserts that MySQL holds this many coupons of a template, and that every invariant holds.
pub(crate) async fn assert_sold(world: &World, template: TemplateId, coupons: i64) {
    assert_eq!(world.count(template).await.all(), coupons);
    world.assert_sound(None).await;
}

/// Takes this many coupons from a template's stock.
pub(crate) async fn cut(world: &World, template: TemplateId, coupons: i64) {
    let path = format!("/v1/templates/{template}/stock-movements");
    let cut = world.api().operator(Method::POST, &path).header("idempotency-key", "a-cut");
    let cut = cut.header("if-match", "*").json(&json!({ "delta": -coupons, "reason": "a test" }));
    let answer = world.api().send(cut).await.unwrap();
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

/// Counts the claims of a template that landed, and those that were rejected for good, in MySQL.
pub(crate) async fn decided(world: &World, template: TemplateId) -> (i64, i64) {
    let mut connection = world.mysql().await;
    let [landed, rejected] = [ClaimState::Landed, ClaimState::Rejected].map(ClaimState::code);
    let mut count = async |state| {
        let sql = format!(
            "select count(*) from claim where template_id = {template} and state = {state}"
        );
        verify::number(&mut connection, &sql).await.unwrap()
    };
    (count(landed).await, count(rejected).await)
}
