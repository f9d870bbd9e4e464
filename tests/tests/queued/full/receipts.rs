//! What the holder of a receipt sees while the claim waits, and after it.

use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use shopper::{Accepted, Events, Fate, Shopper};
use testkit::until_true;
use topic::{PartitionProgress, TableReader};

use crate::queued::{KEY, accepted, after_gate, after_topic, assert_sold, shopper, two_apis};

/// Claims in the queue.
const CLAIMS: i64 = 30;

/// Reads events until the claim has ended, or `most` of them. Returns what they say, and the last id.
async fn read(events: &mut Events, most: usize) -> (Vec<Fate>, Option<String>) {
    let mut seen = Vec::new();
    let mut last = None;
    while seen.len() < most {
        let Some(event) = events.next().await.unwrap() else { break };
        last = event.id.clone().or(last);
        let Some(fate) = event.fate() else { continue };
        let is_end = fate.is_end();
        seen.push(fate);
        if is_end {
            break;
        }
    }
    (seen, last)
}

/// The positions that events tell, in their order.
fn positions(fates: &[Fate]) -> Vec<u64> {
    let position = |fate: &Fate| match fate {
        Fate::Processing { position, .. } => *position,
        _ => None,
    };
    fates.iter().filter_map(position).collect()
}

async fn look(shopper: &Shopper, accepted: &Accepted) -> Option<Fate> {
    shopper.look(accepted).await.ok().and_then(|answer| answer.fate())
}

async fn has_reported(world: &World) -> bool {
    let brokers = &world.sources.brokers;
    let topic = world.sources.topics.claim_progress();
    let reports =
        TableReader::open_to_end(brokers, &topic).await.unwrap().read_to_end().await.unwrap();
    let reports = reports.iter().filter_map(|report| report.payload.as_deref());
    reports
        .map(|report| PartitionProgress::decode(report).unwrap())
        .any(|report| report.committed > 0)
}

#[tokio::test]
async fn a_position_only_falls_and_ends_with_what_the_key_is_answered() {
    let mut world = World::start_queued_with("positions", two_apis).await;
    let template = world.template(100, after_topic).await;
    let mut promises = Promises::default();
    // Positions are counted from what the lander has reported, so it must not stop before its first report.
    accepted(&mut promises, &shopper(&world, 0, 1_000), template).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    until_true(async || has_reported(&world).await).await;
    world.platform.lander.pause().unwrap();
    for user in 1..=CLAIMS {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    let last = promises.claims.last().unwrap().clone();
    let [one, other] = [0, 1].map(|api| shopper(&world, api, CLAIMS));
    for shopper in [&one, &other] {
        let waits = |fate: &Option<Fate>| {
            matches!(fate, Some(Fate::Processing { position: Some(before), .. })
                if (1..=CLAIMS.unsigned_abs()).contains(before))
        };
        until(async || look(shopper, &last).await, waits).await;
    }
    let mut first = one.events(&last, None).await.unwrap();
    let (before, id) = read(&mut first, 1).await;
    drop(first);
    // Another api continues the stream.
    let mut second = other.events(&last, id.as_deref()).await.unwrap();
    world.platform.lander.resume().unwrap();
    let (after, _) = read(&mut second, usize::MAX).await;
    let all = [positions(&before), positions(&after)].concat();
    assert!(all.is_sorted_by(|earlier, later| later <= earlier), "{all:?}");
    let Some(Fate::Succeeded { body }) = after.last() else { panic!("{after:?}") };
    let again = one.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!((again.status, &again.body), (201, body));
    assert_eq!(look(&other, &last).await, after.last().cloned());
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_sold(&world, template, CLAIMS + 1).await;
    world.end().await;
}

#[tokio::test]
async fn a_claim_is_never_called_absent_and_its_receipt_is_its_users_alone() {
    let mut world = World::start_queued_with("receipts", two_apis).await;
    let template = world.template(100, after_gate).await;
    let mut promises = Promises::default();
    world.platform.relay.pause().unwrap();
    world.platform.lander.pause().unwrap();
    let held = accepted(&mut promises, &shopper(&world, 0, 1), template).await;
    let [anna, stranger] = [1, 2].map(|user| shopper(&world, 1, user));
    // The claim is in the outbox, then in the topic, then landed.
    for resumed in [None, Some("relay"), Some("lander")] {
        match resumed {
            Some("relay") => world.platform.relay.resume().unwrap(),
            Some(_) => world.platform.lander.resume().unwrap(),
            None => {}
        }
        let answer = anna.look(&held).await.unwrap();
        assert!(answer.fate().is_some(), "{resumed:?}: {answer:?}");
    }
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));

    let refused = stranger.look(&held).await.unwrap();
    assert_eq!((refused.status, refused.code().as_deref()), (422, Some("RECEIPT_INVALID")));
    let (place, receipt) = held.location.split_once("receipt=").unwrap();
    let forged: String = receipt
        .chars()
        .enumerate()
        .map(|(at, c)| {
            if at == 20 && c != 'A' {
                'A'
            } else if at == 20 {
                'B'
            } else {
                c
            }
        })
        .collect();
    for path in [format!("{place}receipt={forged}"), format!("{place}receipt=")] {
        let refused = anna.send(anna.request(Method::GET, &path)).await.unwrap();
        assert_eq!((refused.status, refused.code().as_deref()), (422, Some("RECEIPT_INVALID")));
    }
    assert_sold(&world, template, 1).await;
    world.end().await;
}
