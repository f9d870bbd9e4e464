//! The gate loses its memory in the middle of a sale, or comes back with an older one, with claims in every stage of
//! the queue: nothing is oversold, every 202 ends, and none that waited for the topic ends otherwise than landed.

use coupon::{TemplateId, UserId};
use pipeline_tests::{
    STATE_MAX, World, histories,
    promises::{Ends, Promises},
    until,
};
use shopper::{Crowd, NewTemplate, Run, Wish};
use tokio::task::JoinHandle;
use verifier::{Sampler, Verdict};

use crate::{
    claims::{
        faults::is_stopped,
        full::epochs::{
            copy_of_gate_file, flush, lose_gate, open_again, restore, world_with_own_gate,
        },
    },
    queued::{KEY, Policy, accepted, after_gate, after_topic, arm, assert_sold, shopper, two_apis},
};

/// Users of a wave, and coupons of the template that sells out.
const WAVE: i64 = 120;
const SCARCE: i64 = 280;

/// Coupons of the templates that do not.
const PLENTY: i64 = 100_000;

/// Coupons that have landed when the fault comes.
const SOME: i64 = 40;

/// Templates of every kind whose sale a fault interrupts. All of the first two's claims wait for the topic.
pub(crate) struct Sale {
    scarce: TemplateId,
    several: TemplateId,
    gate: TemplateId,
    direct: TemplateId,
    sampler: Sampler,
    runs: Vec<Run>,
    /// The first user of the next wave.
    next: i64,
}

impl Sale {
    pub(crate) async fn open(world: &World) -> Self {
        let several = |new| after_topic(Policy::Several.of(new));
        Self {
            scarce: world.template(SCARCE, after_topic).await,
            several: world.template(PLENTY, several).await,
            gate: world.template(PLENTY, after_gate).await,
            direct: world.template(PLENTY, |new: NewTemplate| new).await,
            sampler: Sampler::start(world.sources.pool.clone()),
            runs: Vec::new(),
            next: 1,
        }
    }

    /// Begins a wave of claims of new users, and waits until some have landed since.
    pub(crate) async fn begin(&mut self, world: &World) -> JoinHandle<Run> {
        let users = self.next..self.next + WAVE;
        self.next += WAVE;
        let wishes = users.flat_map(|user| self.of_user(user)).collect();
        let before = world.count(self.several).await.all();
        let crowd = world.crowd();
        let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        world.until(self.several, |counts| counts.all() >= before + SOME).await;
        load
    }

    fn of_user(&self, user: i64) -> Vec<Wish> {
        let copies = if user % 9 == 0 { 2 } else { 1 };
        let again = user % 7 == 0;
        let quantity = if user % 2 == 0 { 2 } else { 1 };
        let one = |template| Wish { copies, again, ..Wish::one(template, UserId(user)) };
        let several = Wish { quantity, ..one(self.several) };
        vec![one(self.scarce), several.with_key("a"), one(self.gate), one(self.direct)]
    }

    /// Ends a wave: every user has a final answer.
    pub(crate) async fn ended(&mut self, load: JoinHandle<Run>) {
        let run = load.await.unwrap();
        assert_eq!(run.given_up, 0, "every claim ends within a minute of the last fault");
        self.runs.push(run);
    }

    /// Sells the rest of what is scarce, and checks every promise.
    pub(crate) async fn close(mut self, world: &World, crowd: Crowd) {
        let fresh = self.next..self.next + SCARCE;
        let last = fresh.map(|user| Wish::one(self.scarce, UserId(user))).collect();
        let last = crowd.run(last).await.unwrap();
        assert_eq!(last.given_up, 0);
        self.runs.push(last);
        let waves = self.next - 1;
        assert_eq!(world.count(self.scarce).await.all(), SCARCE);
        assert_eq!(world.count(self.gate).await.all(), waves);
        assert_eq!(world.count(self.direct).await.all(), waves);

        let accepted = Promises::of(&self.runs);
        let [scarce, several] = [self.scarce, self.several];
        let is_of_topic = |template| template == scarce || template == several;
        let mut of_topic = accepted.only(|claim| is_of_topic(claim.template));
        let count = of_topic.claims.len();
        assert!(count > 0);
        assert_eq!(of_topic.kept(world).await, Ends::all_succeeded(count), "after the topic");
        // Claims that waited for the gate only may be lost with it, and are then made again.
        let mut of_gate = accepted.only(|claim| claim.template == self.gate);
        let ends = of_gate.kept(world).await;
        assert!(ends.rejected.is_empty() && ends.succeeded > 0, "{ends:?}");
        world.assert_sound(Some(&histories(self.runs))).await;
        let sampled = self.sampler.stop().await;
        assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    }
}

#[tokio::test]
async fn a_gate_flushed_in_the_middle_of_a_queued_sale_loses_no_202_of_the_topic() {
    let (gate, world) = world_with_own_gate("queued-flushed").await;
    let mut sale = Sale::open(&world).await;
    for _ in 0..2 {
        let load = sale.begin(&world).await;
        flush(&gate).await;
        sale.ended(load).await;
    }
    let crowd = world.crowd();
    sale.close(&world, crowd).await;
    world.end().await;
}

/// The rewound stream has entries again that were published, and lacks some that were not.
#[tokio::test]
async fn a_gate_restarted_from_an_old_file_in_a_queued_sale_loses_no_202_of_the_topic() {
    let (mut gate, world) = world_with_own_gate("queued-rewound").await;
    let mut sale = Sale::open(&world).await;
    let load = sale.begin(&world).await;
    sale.ended(load).await;
    let copy = copy_of_gate_file(&mut gate).await;
    let load = sale.begin(&world).await;
    gate.server.kill().unwrap();
    restore(&copy, &gate);
    gate.server.start().await.unwrap();
    sale.ended(load).await;
    let crowd = world.crowd();
    sale.close(&world, crowd).await;
    world.end().await;
}

/// The rebuild waits for what was queued, however long it takes; other templates' claims go on meanwhile.
#[tokio::test]
async fn a_gate_is_loaded_only_after_what_was_queued_under_it_has_landed() {
    let (gate, mut world) = world_with_own_gate("queued-drain").await;
    let queued = world.template(20, after_topic).await;
    let other = world.template(20, |new: NewTemplate| new).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    for user in 1..=10 {
        let anna = shopper(&world, 0, user);
        accepted(&mut promises, &anna, queued).await;
    }
    flush(&gate).await;
    // The direct template's gate is back while the queued one's waits.
    open_again(&world, other, 0).await;
    let anna = shopper(&world, 1, 1);
    let refused = anna.claim(queued, Some("another"), 1).await.unwrap();
    assert_eq!(refused.code().as_deref(), Some("GATE_LOADING"), "{refused:?}");
    let direct = anna.claim(other, None, 1).await.unwrap();
    assert_eq!(direct.status, 201, "{direct:?}");
    world.platform.lander.resume().unwrap();
    open_again(&world, queued, 10).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(10));
    for user in 1..=10 {
        let anna = shopper(&world, 1, user);
        let again = promises.insist(&anna, queued, Some(KEY), 1).await;
        assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
    }
    assert_sold(&world, queued, 10).await;
    world.end().await;
}

/// The steps of a rebuild. At the first two the gate is not loading yet, at the first three what was queued has not
/// landed.
const REBUILDING: [&str; 6] = [
    "rebuild.before_epoch",
    "rebuild.before_begin",
    "rebuild.before_drain",
    "rebuild.before_queued_epoch",
    "rebuild.before_read",
    "rebuild.before_open",
];

#[tokio::test]
async fn a_rebuild_killed_at_each_of_its_steps_behind_the_queue_is_taken_over_by_another() {
    rebuilder_fails("queued rebuilders killed", "kill").await;
}

#[tokio::test]
async fn a_rebuild_stopped_at_each_of_its_steps_behind_the_queue_wakes_and_gives_up_nothing() {
    rebuilder_fails("queued rebuilders stopped", "stop").await;
}

/// The process that rebuilds dies or stops. One that stopped wakes after another process has opened a newer gate.
async fn rebuilder_fails(name: &str, action: &str) {
    let mut world = World::start_queued_with(name, two_apis).await;
    let template = world.template(50, after_topic).await;
    let mut promises = Promises::default();
    let mut users = 0;
    for point in REBUILDING {
        let fault = format!("{point}={action}");
        world.platform.lander.pause().unwrap();
        for _ in 0..3 {
            users += 1;
            accepted(&mut promises, &shopper(&world, 0, users), template).await;
        }
        let before = world.sources.gate.meta(template).await.unwrap().unwrap();
        arm(&mut world.platform.apis[1], &fault).await;
        // Only the api that will fall may notice that the gate was lost.
        world.platform.apis[0].pause().unwrap();
        lose_gate(&world, template).await;
        let has_drained = REBUILDING[3..].contains(&point);
        if has_drained {
            world.platform.lander.resume().unwrap();
        }
        if action == "stop" {
            until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
        } else {
            world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
        }
        let loading = world.sources.gate.meta(template).await.unwrap();
        let has_begun = REBUILDING[2..].contains(&point);
        assert_eq!(loading.is_some(), has_begun, "{fault}: {loading:?}");
        assert!(loading.as_ref().is_none_or(|meta| !meta.is_open()), "{fault}: {loading:?}");
        let reached = loading.map_or(before.epoch, |meta| meta.epoch);
        world.platform.apis[0].resume().unwrap();
        if !has_drained {
            let landed = world.count(template).await.all();
            assert_eq!(landed, users - 3, "{fault}: there is nothing to wait for");
            world.platform.lander.resume().unwrap();
        }
        open_again(&world, template, users).await;
        let newer = world.sources.gate.meta(template).await.unwrap().unwrap();
        assert!(newer.epoch > reached, "{fault}: {newer:?}");
        if action == "stop" {
            world.platform.apis[1].resume().unwrap();
        }
        // The one that wakes opens nothing and gives up nothing.
        users += 1;
        accepted(&mut promises, &shopper(&world, 0, users), template).await;
        arm(&mut world.platform.apis[1], "").await;
        let count = promises.claims.len();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{fault}");
    }
    assert_sold(&world, template, users).await;
    world.end().await;
}
