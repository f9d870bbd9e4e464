//! The failover campaign: a primary of MySQL ends under claims, asynchronously or semi-synchronously replicated, and its
//! replica takes over. Each round has servers of its own.
//!
//! Kept means: a 201 has its row. If replication was asynchronous, it may instead be recorded as lost, and its unit is
//! sold again. A 202 with `topic` that was given behind the failover lands. Nothing is oversold.

use std::{collections::BTreeSet, fmt, time::Duration};

use coupon::{ClaimId, TemplateId, UserId};
use devstack::{Flavor, PlatformOptions, Replication};
use reqwest::Method;
use testkit::{sql, until, until_within};
use verifier::verify;

use crate::{
    REST_MAX, World,
    failover::{
        DatabasePair,
        rush::{Promised, RUSH_KEY, Rush},
    },
    promises::Promises,
};

/// Coupons of the template that is sold out in each round: more than a fast machine sells before the failover.
const SCARCE: i64 = 5_000;

/// Coupons of the template that is not.
const PLENTY: i64 = 1_000_000;

/// Claims of each part of a round.
const PART: usize = 40;

/// How long a platform may take to sell again behind a failover.
const SELLS_WITHIN: Duration = Duration::from_secs(60);

/// How long the search for lost claims may take: it begins 15 s behind the failover.
const NAMED_WITHIN: Duration = Duration::from_secs(90);

/// What happens in the time that the replica does not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upheaval {
    None,
    /// Both gates get new epochs.
    Rebuilds,
    /// The templates are paused and published again.
    Pause,
}

/// A round, chosen by its seed.
#[derive(Debug, Clone, Copy)]
struct Draw {
    replication: Replication,
    upheaval: Upheaval,
}

impl Draw {
    fn of(seed: u64, number: u32) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ (u64::from(number) << 32));
        let is_semi_synchronous = random.u8(..3) == 0;
        let replication = match is_semi_synchronous {
            true => Replication::SemiSynchronous,
            false => Replication::Asynchronous,
        };
        let all = [Upheaval::None, Upheaval::Rebuilds, Upheaval::Pause];
        // Without a replica nothing commits, so nothing can happen there.
        let upheaval = if is_semi_synchronous { Upheaval::None } else { all[random.usize(..3)] };
        Self { replication, upheaval }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.replication, self.upheaval)
    }
}

/// What all rounds counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub rounds: u32,
    /// Answers with 201.
    pub answered: usize,
    /// Answers with 202.
    pub accepted: usize,
    /// 201 whose row is gone, each of which was named.
    pub lost: usize,
}

/// Runs the campaign.
///
/// # Panics
/// A promise is broken.
pub async fn run(rounds: u32, seed: u64, flavor: Flavor, say: impl Fn(String)) -> Totals {
    let mut totals = Totals::default();
    for number in 1..=rounds {
        let draw = Draw::of(seed, number);
        say(format!("round {number:>3}  {draw}"));
        let Some(lost) = round(number, draw, flavor, &mut totals).await else { return totals };
        say(format!("           {lost} lost and named"));
        totals.rounds += 1;
    }
    totals
}

async fn round(number: u32, draw: Draw, flavor: Flavor, totals: &mut Totals) -> Option<usize> {
    let name = format!("failover-campaign-{number}");
    let mut pair = DatabasePair::start(&name, flavor, draw.replication).await?;
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let world = pair.world_with(&name, two_apis, |_| ()).await;
    let scarce = world.template(SCARCE, |new| new).await;
    let queued = world.template(PLENTY, |new| new.in_mode("queued", "topic")).await;
    pair.until_replicated();
    let rush = Rush::start(&world, &[scarce, queued], 1);
    until_sold(&world, scarce, PART).await;
    if draw.replication == Replication::Asynchronous {
        pair.cut_replication();
        until_sold(&world, scarce, 2 * PART).await;
        upset(&world, draw.upheaval, [scarce, queued]).await;
        let before = world.count(scarce).await.all();
        until_sold(&world, scarce, usize::try_from(before).unwrap() + PART).await;
    }
    pair.fail_over();
    rush.behind();
    let before = world.until(scarce, |_| true).await.all();
    let more = before + i64::try_from(PART).unwrap();
    until_within(SELLS_WITHIN, async || world.count(scarce).await.all(), |all| *all >= more).await;
    let promised = rush.end().await;
    let lost = check(&world, &pair, draw, &promised, [scarce, queued]).await;
    totals.answered += promised.iter().filter(|one| one.accepted.is_none()).count();
    totals.accepted += promised.iter().filter(|one| one.accepted.is_some()).count();
    totals.lost += lost;
    world.end().await;
    Some(lost)
}

async fn until_sold(world: &World, template: TemplateId, count: usize) {
    let count = i64::try_from(count).unwrap();
    world.until(template, |coupons| coupons.all() >= count).await;
}

async fn upset(world: &World, upheaval: Upheaval, templates: [TemplateId; 2]) {
    for template in templates {
        match upheaval {
            Upheaval::None => {}
            Upheaval::Rebuilds => {
                let api = world.api();
                let path = format!("/v1/templates/{template}/gate-rebuild");
                let answer = api.send(api.operator(Method::POST, &path)).await.unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            Upheaval::Pause => {
                world.api().turn(template, "pause").await.unwrap();
                world.api().turn(template, "resume").await.unwrap();
            }
        }
    }
}

/// Checks what was promised, and returns how many 201s are lost.
async fn check(
    world: &World,
    pair: &DatabasePair,
    draw: Draw,
    promised: &[Promised],
    [scarce, queued]: [TemplateId; 2],
) -> usize {
    let url = pair.on_replica(&world.scope.endpoints.database_url);
    let ids = |query: &str| -> BTreeSet<ClaimId> {
        sql(&url, query).lines().map(|line| ClaimId(line.trim().parse().unwrap())).collect()
    };
    let answered: BTreeSet<ClaimId> =
        promised.iter().filter(|one| one.accepted.is_none()).map(|one| one.id).collect();
    let rows = ids("select id from claim where state = 1");
    let missing = &answered - &rows;
    let behind: BTreeSet<ClaimId> =
        promised.iter().filter(|one| one.is_behind).map(|one| one.id).collect();
    assert!(missing.is_disjoint(&behind), "a 201 behind the failover is lost: {missing:?}");
    if draw.replication == Replication::SemiSynchronous {
        assert!(missing.is_empty(), "a 201 is lost in spite of its replica: {missing:?}");
    }
    let named = async || ids("select claim_id from lost_claim");
    until_within(NAMED_WITHIN, named, |named| missing.is_subset(named)).await;
    let wrongly = &ids("select claim_id from lost_claim") & &rows;
    assert!(wrongly.is_empty(), "claims that are there are called lost: {wrongly:?}");
    assert_kept(world, draw, promised, queued).await;
    // Whose coupon is lost claims again by the same key, and all units are sold.
    let lost_users = promised.iter().filter(|one| missing.contains(&one.id)).map(|one| one.user);
    sell_out(world, scarce, lost_users.take(5).collect()).await;
    if draw.replication == Replication::SemiSynchronous {
        world.assert_sound(None).await;
        return missing.len();
    }
    // The topic still has what MySQL lost.
    let broken = async || {
        let report = verify(&world.sources, None, world.clock.now()).await.unwrap();
        let broken = report.violated().filter(|one| one.invariant != "I10");
        broken.map(ToString::to_string).collect::<Vec<_>>()
    };
    until_within(REST_MAX, broken, Vec::is_empty).await;
    missing.len()
}

/// Each 202 has its end; those that no failover can have lost have landed.
async fn assert_kept(world: &World, draw: Draw, promised: &[Promised], queued: TemplateId) {
    let is_safe = |one: &&Promised| {
        one.template == queued
            && (one.is_behind || draw.replication == Replication::SemiSynchronous)
    };
    let safe: Vec<_> =
        promised.iter().filter(is_safe).filter_map(|one| one.accepted.clone()).collect();
    let count = safe.len();
    let ends = Promises { claims: safe }.kept(world).await;
    assert_eq!(ends.succeeded, count, "{ends:?}");
    let all = promised.iter().filter_map(|one| one.accepted.clone()).collect();
    let ends = Promises { claims: all }.kept(world).await;
    assert!(ends.rejected.is_empty(), "{ends:?}");
}

async fn sell_out(world: &World, template: TemplateId, first: Vec<UserId>) {
    const LAST_USERS: i64 = 10_000_000;
    for user in first {
        let shopper = world.api().shopper(user).unwrap();
        let claim = async || shopper.claim(template, Some(RUSH_KEY), 1).await;
        let is_won = |answer: &Result<shopper::Answer, _>| matches!(answer, Ok(answer) if answer.status == 201 || answer.code().as_deref() == Some("SOLD_OUT"));
        until(claim, is_won).await.unwrap();
    }
    let rest = Rush::start(world, &[template], LAST_USERS);
    let sold = async || world.count(template).await.all();
    until_within(SELLS_WITHIN, sold, |sold| *sold == SCARCE).await;
    rest.end().await;
    assert_eq!(world.count(template).await.all(), SCARCE, "all of it is sold, and no more");
}
