//! The books of a queued sale with faults. Clients note every 202; MySQL has a row for each, landed or rejected, and no
//! row that no client knows of.

use std::collections::BTreeSet;

use coupon::{ClaimId, ClaimState, TemplateId, UserId};
use mysql_store::claim_states;
use pipeline_tests::{
    STATE_MAX, World, histories,
    promises::{Ends, Promises},
    until,
};
use shopper::{Claimed, Run, Wish};
use verifier::{Record, Sampler, Verdict};

use crate::queued::{Policy, after_topic, arm, arm_at_once, cut, decided, two_apis};

/// Users, each with a claim of either template; coupons of the one that is cut, and how many the cut takes of those
/// that are accepted.
const USERS: i64 = 300;
const STOCK: i64 = 200;
const CUT: i64 = 50;

/// Coupons of the other template.
const PLENTY: i64 = 100_000;

/// Coupons of it that land between two faults.
const SOME: i64 = 20;

#[tokio::test]
async fn each_202_of_a_sale_with_faults_has_one_row_landed_or_rejected_and_no_row_is_unheard_of() {
    let mut world = World::start_queued_with("queued books", two_apis).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let cut_short = world.template(STOCK, after_topic).await;
    let several = world.template(PLENTY, |new| after_topic(Policy::Several.of(new))).await;
    world.platform.lander.pause().unwrap();
    let wishes = (1..=USERS).flat_map(|user| of_user(user, cut_short, several)).collect();
    let crowd = world.crowd();
    let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
    // All of it is accepted and none has landed: the cut takes coupons of claims that were answered 202.
    let left = async || world.sources.gate.meta(cut_short).await.unwrap().unwrap().stock;
    until(left, |left| *left == 0).await;
    cut(&world, cut_short, CUT).await;
    strike(&mut world, several).await;
    let run = load.await.unwrap();
    assert_eq!(run.given_up, 0, "every claim ends within a minute of the last fault");

    let mut promises = Promises::of([&run]);
    let ends = promises.kept(&world).await;
    assert_eq!(ends.lost, 0, "after the topic: {ends:?}");
    for template in [cut_short, several] {
        assert_balanced(&world, template, &run).await;
    }
    assert_eq!(decided(&world, cut_short).await, (STOCK - CUT, CUT));
    assert_eq!(world.count(cut_short).await.all(), STOCK - CUT);
    assert_refused_by_the_cut(&ends);
    world.assert_sound(Some(&histories(vec![run]))).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

fn of_user(user: i64, cut_short: TemplateId, several: TemplateId) -> Vec<Wish> {
    let copies = if user % 9 == 0 { 2 } else { 1 };
    let again = user % 7 == 0;
    let quantity = if user % 2 == 0 { 2 } else { 1 };
    let one = |template| Wish { copies, again, ..Wish::one(template, UserId(user)) };
    vec![one(cut_short), Wish { quantity, ..one(several) }.with_key("a")]
}

/// Each process on a claim's way dies or stops, the lander first: inside the landing of what was accepted before the
/// cut, and again when it knows what the cut took.
async fn strike(world: &mut World, several: TemplateId) {
    for point in ["queued.before_commit", "queued.before_end"] {
        arm_at_once(&mut world.platform.lander, &format!("{point}=kill"));
        let ended = world.platform.lander.wait_exit(STATE_MAX).await;
        ended.unwrap_or_else(|error| panic!("{point}: {error}"));
    }
    arm(&mut world.platform.lander, "").await;
    let sold = world.count(several).await.all();
    world.until(several, |counts| counts.all() >= sold.max(SOME)).await;
    world.platform.apis[1].kill().unwrap();
    world.platform.relay.kill().unwrap();
    world.platform.apis[1].start().await.unwrap();
    world.platform.lander.pause().unwrap();
    world.platform.relay.start().await.unwrap();
    world.platform.lander.resume().unwrap();
}

fn assert_refused_by_the_cut(ends: &Ends) {
    let rejected: usize = ends.rejected.values().sum();
    assert_eq!(ends.rejected.get("SOLD_OUT").copied(), Some(rejected), "{ends:?}");
}

/// Asserts that accepted = landed + rejected: the claims that were answered 202 have a row each, and every other row is
/// of a key whose client heard nothing definite before its end.
async fn assert_balanced(world: &World, template: TemplateId, run: &Run) {
    let of_template = run.accepted.iter().filter(|claim| claim.template == template);
    let accepted: BTreeSet<ClaimId> = of_template.map(|claim| claim.id).collect();
    let ids: Vec<ClaimId> = accepted.iter().copied().collect();
    let states = claim_states::of_ids(&mut world.mysql().await, template, &ids).await.unwrap();
    let of = |state| states.values().filter(|its| **its == Ok(state)).count();
    let landed = of(ClaimState::Landed);
    let rejected = of(ClaimState::Rejected);
    assert!(!accepted.is_empty());
    assert_eq!(accepted.len(), landed + rejected, "{template}: {states:?}");

    let records = run.history.records.iter().filter(|record| record.template == template);
    let records: Vec<&Record> = records.collect();
    let claimed = |record: &&Record| {
        let body = record.body.as_deref()?;
        Some(serde_json::from_str::<Claimed>(body).unwrap().id)
    };
    let answered: BTreeSet<ClaimId> = records.iter().filter_map(claimed).collect();
    let is_unknown = |record: &&&Record| matches!(record.status, None | Some(503));
    let key = |record: &&Record| (record.user, record.key.clone());
    let unknown: BTreeSet<_> = records.iter().filter(is_unknown).map(key).collect();
    let (all_landed, all_rejected) = decided(world, template).await;
    let without_202 = answered.difference(&accepted).count();
    assert_eq!(usize::try_from(all_landed).unwrap(), landed + without_202, "{template}");
    assert!(without_202 <= unknown.len(), "{template}: {without_202} were only answered 201");
    let unheard = usize::try_from(all_rejected).unwrap() - rejected;
    assert!(unheard <= unknown.len(), "{template}: {unheard} rejections are of no client");
}
