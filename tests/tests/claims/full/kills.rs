//! kill -9 of each process once, under load; then, at rest, every invariant holds.

use coupon::{TemplateId, UserId};
use devstack::{Platform, PlatformOptions, Process};
use pipeline_tests::{World, histories};
use shopper::{Claimed, NewTemplate, Run, Wish};
use verifier::{Sampler, Verdict};

/// Users of one wave: enough that a process dies in the middle of it.
const WAVE: i64 = 300;

type Victim = fn(&mut Platform) -> &mut Process;

#[tokio::test]
async fn each_process_is_killed_under_load_and_every_promise_is_kept() {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("kills", two_apis).await;
    let victims: [Victim; 4] = [
        |platform| &mut platform.apis[1],
        |platform| &mut platform.cdc_tailer,
        |platform| &mut platform.sync_consumer,
        |platform| &mut platform.expiry_worker,
    ];
    let stock = WAVE * i64::try_from(victims.len()).unwrap();
    let lasting = world.template(stock, |new| new).await;
    let brief = world.template(stock, |new| NewTemplate { valid_for_ms: 1_000, ..new }).await;
    world.warm_views((1..=stock).step_by(10)).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let mut runs = Vec::new();
    for (number, victim) in (0..).zip(victims) {
        runs.push(wave_with_a_kill(&mut world, [lasting, brief], number, victim).await);
    }
    // A last wave of new users finds nothing: exactly the total was sold, no coupon was lost.
    let fresh = (stock + 1..=stock + 50).map(|user| Wish::one(lasting, UserId(user)));
    runs.push(world.crowd().run(fresh.collect()).await.unwrap());
    assert_eq!(world.count(lasting).await.all(), stock);
    assert_eq!(world.until(brief, |counts| counts.unused == 0).await.expired, stock);
    assert!(runs.iter().all(|run| run.given_up == 0));
    world.warm_views(1..=stock + 50).await;
    let report = world.assert_sound(Some(&histories(runs))).await;
    println!("{report}");
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

/// Runs a wave of claims, and uses of the coupons; the victim is killed and restarted in the middle.
async fn wave_with_a_kill(
    world: &mut World,
    [lasting, brief]: [TemplateId; 2],
    number: i64,
    victim: Victim,
) -> Run {
    let users = number * WAVE + 1..=(number + 1) * WAVE;
    let wishes = users.flat_map(move |user| {
        let copies = if user % 20 == 0 { 2 } else { 1 };
        [lasting, brief].map(|template| Wish { copies, ..Wish::one(template, UserId(user)) })
    });
    let crowd = world.crowd();
    let wave = tokio::spawn(async move { crowd.run(wishes.collect()).await.unwrap() });
    let before = number * WAVE;
    world.until(lasting, |counts| counts.all() > before + WAVE / 4).await;
    victim(&mut world.platform).kill().unwrap();
    assert!(!wave.is_finished(), "the process should have died under load");
    victim(&mut world.platform).start().await.unwrap();
    let run = wave.await.unwrap();
    for record in run.history.records.iter().filter(|record| record.is_landed()) {
        let claimed: Claimed = serde_json::from_str(record.body.as_ref().unwrap()).unwrap();
        if record.template == lasting && claimed.user_id.0 % 5 == 0 {
            let shopper = world.api().shopper(claimed.user_id).unwrap();
            let used = shopper.use_coupon(claimed.coupons[0].id, "order").await.unwrap();
            assert_eq!(used.status, 200, "{}", used.body);
        }
    }
    run
}
