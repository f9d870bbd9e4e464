//! MySQL hangs under a sale in mode spill: its connections stay, and answer nothing. What was in the landers' hands is
//! unknown; what comes after that is queued, and all of it lands once.

use std::{collections::BTreeMap, time::Duration};

use coupon::TemplateId;
use devstack::{Endpoints, Flavor, OwnDatabase, TestServers};
use futures::future::join_all;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use shopper::{Accepted, Answer, Fate};
use tokio::time::timeout;

use crate::queued::{KEY, assert_sold, decided, shopper, two_apis};

/// Users whose claims are with the landers when MySQL stops answering, half of them at each api; and those who come
/// when both apis know.
const FIRST: i64 = 20;
const LATER: i64 = 20;

/// Longest wait for an answer whose outcome is unknown: five seconds, on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Claims as these users, at both apis, all at once.
async fn wave(
    world: &World,
    template: TemplateId,
    users: impl Iterator<Item = i64>,
) -> Vec<(i64, Answer)> {
    let claims = users.map(|user| {
        let anna = shopper(world, usize::from(user % 2 == 0), user);
        async move {
            let claim = anna.claim(template, Some(KEY), 1);
            (user, timeout(ANSWERED_WITHIN, claim).await.unwrap().unwrap())
        }
    });
    join_all(claims).await
}

/// Notes the 202s of answers, and returns how many of each status and code there are.
fn noted(
    promises: &mut Promises,
    world: &World,
    template: TemplateId,
    answers: &[(i64, Answer)],
) -> BTreeMap<(u16, Option<String>), usize> {
    let mut told = BTreeMap::new();
    for (user, answer) in answers {
        let user = shopper(world, 0, *user).user();
        promises.claims.extend(Accepted::read(answer, template, user, Some(KEY), 1));
        *told.entry((answer.status, answer.code())).or_default() += 1;
    }
    told
}

#[tokio::test]
async fn while_mysql_hangs_a_spilling_sale_says_unknown_then_queues_and_each_claim_lands_once() {
    let mut own = OwnDatabase::start("spilled-hung", Flavor::Mariadb, &[]).await.unwrap();
    let endpoints =
        Endpoints { database_url: own.url(), ..TestServers::shared().endpoints().clone() };
    let world = World::start_on(&TestServers::at(endpoints), "spilled hung", two_apis).await;
    let template = world.template(1_000, |new| new.in_mode("spill", "topic")).await;
    let mut promises = Promises::default();
    let landed = shopper(&world, 0, 1).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(landed.status, 201, "{landed:?}");
    own.server.pause().unwrap();

    // Each learns within seconds that its claim is queued, or that it is unknown and where to look.
    let first = wave(&world, template, 2..2 + FIRST).await;
    let told = noted(&mut promises, &world, template, &first);
    let unknown = (503, Some("CLAIM_PENDING".to_owned()));
    let is_known = |(said, _): (&(u16, Option<String>), &usize)| *said == unknown || said.0 == 202;
    assert!(told.iter().all(is_known), "{told:?}");
    assert!(told.contains_key(&unknown), "none was with a lander: {told:?}");
    for (_, answer) in first.iter().filter(|(_, answer)| answer.status == 503) {
        assert!(answer.retry_after.is_some() && answer.body.contains("/v1/claims/"), "{answer:?}");
    }
    // From its first 202 on an api has no other answer to a new claim.
    let later = 2 + FIRST..2 + FIRST + LATER;
    let later = wave(&world, template, later).await;
    let told = noted(&mut promises, &world, template, &later);
    assert_eq!(told, BTreeMap::from([((202, None), LATER.unsigned_abs() as usize)]));
    let accepted = promises.claims.clone();
    for claim in &accepted {
        for api in 0..2 {
            let anna = world.apis[api].shopper(claim.user).unwrap();
            let again = anna.claim(template, Some(KEY), 1).await.unwrap();
            let again = Accepted::read(&again, template, claim.user, Some(KEY), 1).unwrap();
            assert_eq!((again.id, again.replayed), (claim.id, true), "{again:?}");
        }
    }
    ask_without_mysql(&world, template, &accepted[0]).await;

    own.server.resume().unwrap();
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    let all = 1 + FIRST + LATER;
    let mut again = Promises::default();
    for user in 1..=all {
        let answer = again.insist(&shopper(&world, 0, user), template, Some(KEY), 1).await;
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
    }
    assert_eq!(decided(&world, template).await, (all, 0));
    assert_sold(&world, template, all).await;
    let direct = async || {
        let answer = shopper(&world, 0, all + 1).claim(template, Some("direct"), 1).await.unwrap();
        (answer.status, answer.code())
    };
    until(direct, |(status, _)| *status == 201).await;
    world.end().await;
}

/// What only MySQL knows stays unknown: no refusal and no end is invented.
async fn ask_without_mysql(world: &World, template: TemplateId, waits: &Accepted) {
    let landed = shopper(world, 1, 1).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(landed.status, 503, "the 201 is in MySQL: {landed:?}");
    assert!(landed.retry_after.is_some(), "{landed:?}");
    let look = world.apis[1].shopper(waits.user).unwrap().look(waits).await.unwrap();
    let is_waiting = matches!(look.fate(), Some(Fate::Processing { .. }));
    assert!(is_waiting || look.status == 503, "{look:?}");
}
