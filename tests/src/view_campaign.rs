//! The campaign against views: rounds of claims, uses and returns, while each process in turn is killed or
//! stopped, views are damaged at random, lists are read all the time, and the topic is delivered again,
//! shuffled. Then it is delivered once more, doubled and shuffled, every list is read, and every invariant is
//! checked.
//!
//! Victim, kind of fault, moments and damages follow from the seed and the round's number; the machine's
//! scheduling is not repeatable.

use std::{
    fmt, fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use coupon::{TemplateId, UserId, limit::QUANTITY_MAX};
use devstack::{Flavor, Options, PlatformOptions, Process, Servers, TestServers, project_root};
use fastrand::Rng;
use shopper::{NewTemplate, Wish};
use tokio::time::{Instant, sleep};
use verifier::{History, at_rest};

use crate::{REST_MAX, World, damage, replay, view_load};

/// Users of a campaign, each with a view that stays from round to round.
const USERS: i64 = 60;

/// Users whose list is so long that it is rebuilt in pieces.
const LONG_USERS: i64 = 2;

/// Extra coupons of these users.
const LONG: i64 = 1_000;

/// Coupons of a template: they never sell out.
const PLENTY: i64 = 1_000_000;

/// Validity of the coupons of a round's brief template: they expire during the round.
const BRIEF_MS: i64 = 1_500;

/// Claims per user and round.
const CLAIMS: u32 = 4;

/// Attempts per round to damage a view.
const DAMAGES: u32 = 60;

/// Longest pause between two of them; together they last as long as the load.
const DAMAGE_EVERY_MAX_MS: u64 = 50;

/// Longest time from the round's start to the fault.
const OFFSET_MAX_MS: u64 = 1_000;

/// Longest time a victim is stopped or dead.
const DOWN_MAX_MS: u64 = 2_500;

/// Rounds on one platform and database: otherwise each verification would take longer than the last.
const LEG: u32 = 9;

/// Lists that are read concurrently, throughout the round.
const READERS: usize = 4;

/// Victims, in turn.
const VICTIMS: [Victim; 9] = [
    Victim::Consumer,
    Victim::View,
    Victim::Api(0),
    Victim::Tailer,
    Victim::Kafka,
    Victim::Worker,
    Victim::Database,
    Victim::Api(1),
    Victim::Gate,
];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Api(usize),
    Tailer,
    Consumer,
    Worker,
    Gate,
    View,
    Kafka,
    Database,
}

/// The plan of a round.
#[derive(Debug, Clone, Copy)]
struct Draw {
    victim: Victim,
    /// true: kill -9 and a later start; false: SIGSTOP and a later SIGCONT.
    kills: bool,
    offset: Duration,
    down: Duration,
}

impl Draw {
    fn of(seed: u64, round: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ (round << 32));
        let turn = usize::try_from(seed.wrapping_add(round) % VICTIMS.len() as u64).unwrap();
        Self {
            victim: VICTIMS[turn],
            kills: random.u8(0..3) > 0,
            offset: Duration::from_millis(random.u64(0..OFFSET_MAX_MS)),
            down: Duration::from_millis(random.u64(0..DOWN_MAX_MS)),
        }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.kills { "killed" } else { "stopped" };
        let [offset, down] = [self.offset, self.down].map(|time| time.as_millis());
        write!(f, "{:?} {how} after {offset} ms for {down} ms", self.victim)
    }
}

/// Counters of a campaign.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Faults of processes.
    pub faults: u32,
    /// Faults that ended the tailer, which was then restarted.
    pub restarts: u32,
    /// Damages that took effect.
    pub damages: u32,
    /// These damages by kind.
    pub kinds: [u32; damage::KINDS],
    /// Messages that were delivered again.
    pub replayed: usize,
    /// Claims that landed.
    pub landed: usize,
    /// Uses and returns that were answered 200.
    pub uses: u64,
    /// Lists that readers got during the rounds.
    pub lists: u64,
}

/// Runs rounds, and reports each through `say`.
///
/// # Panics
/// An invariant is violated, or a process ended by itself.
pub async fn run(rounds: u32, seed: u64, flavor: Flavor, say: impl Fn(String)) -> Totals {
    let dir = project_root().join(format!(".dev/views-{}-{seed}", flavor.name()));
    drop(fs::remove_dir_all(&dir));
    let options = Options { flavor, ..Options::default() };
    let mut servers = Servers::start(&dir, &options).await.unwrap();
    let totals = run_on(&mut servers, rounds, seed, say).await;
    servers.stop().await.unwrap();
    fs::remove_dir_all(&dir).unwrap();
    totals
}

/// Like [`run`], on servers that no other test uses.
///
/// # Panics
/// As [`run`].
pub async fn run_on(servers: &mut Servers, rounds: u32, seed: u64, say: impl Fn(String)) -> Totals {
    let mut totals = Totals::default();
    let mut played = 0;
    while played < rounds {
        let mut leg = Leg::begin(servers).await;
        for _ in 0..LEG.min(rounds - played) {
            played += 1;
            let draw = Draw::of(seed, u64::from(played));
            say(format!("round {played:>3}  {draw}"));
            let begun = Instant::now();
            let before = totals;
            leg.round(servers, draw, seed ^ u64::from(played), &mut totals).await;
            say(format!(
                "           {} damages, {} messages again, {} lists; sound after {:.1} s",
                totals.damages - before.damages,
                totals.replayed - before.replayed,
                totals.lists - before.lists,
                begun.elapsed().as_secs_f64()
            ));
        }
        totals.landed += leg.history.records.iter().filter(|record| record.is_landed()).count();
        leg.world.end().await;
    }
    totals
}

/// Some rounds on one platform.
struct Leg {
    world: World,
    lasting: TemplateId,
    history: History,
    number: u32,
}

impl Leg {
    async fn begin(servers: &Servers) -> Self {
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_on(&TestServers::private(servers), "views", two_apis).await;
        let lasting = world.template(PLENTY, many).await;
        let wish = |number: i64| Wish {
            quantity: QUANTITY_MAX,
            ..Wish::one(lasting, UserId(number % LONG_USERS + 1)).with_key(format!("long-{number}"))
        };
        let claims = LONG_USERS * LONG / i64::from(QUANTITY_MAX);
        let run = world.crowd().run((0..claims).map(wish).collect()).await.unwrap();
        assert_eq!(run.given_up, 0);
        Self { world, lasting, history: run.history, number: 0 }
    }

    async fn round(&mut self, servers: &mut Servers, draw: Draw, seed: u64, totals: &mut Totals) {
        self.number += 1;
        let world = &self.world;
        let brief = |new| many(NewTemplate { valid_for_ms: BRIEF_MS, ..new });
        let templates = [self.lasting, world.template(PLENTY, brief).await];
        world.warm_views(1..=USERS).await;
        let brokers = world.sources.brokers.clone();
        let topic = world.sources.topics.user_coupon();
        let mut published = replay::published(&brokers, &topic).await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let lists = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                view_load::read(
                    world.apis.clone(),
                    number,
                    USERS,
                    Arc::clone(&is_over),
                    Arc::clone(&lists),
                )
            })
            .collect();
        let crowd = world.crowd();
        let wishes = self.wishes(templates);
        let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        let uses = view_load::spend(world, USERS, self.number);
        let mut rng = Rng::with_seed(seed);
        rng.shuffle(&mut published);
        let again = published.len();
        let replayed = tokio::spawn({
            let brokers = brokers.clone();
            // Deliveries fail while the broker is down; all messages are delivered again at the end.
            async move { replay::deliver(&brokers, &published).await.map_or(0, |()| again) }
        });
        let world = &mut self.world;
        let fault = async {
            sleep(draw.offset).await;
            draw.strike(world, servers).await;
        };
        fault.await;
        let world = &self.world;
        for _ in 0..DAMAGES {
            let users = [rng.i64(1..=USERS), rng.i64(1..=USERS)].map(UserId);
            if let Some(kind) = damage::damage(world, &mut rng, users[0], users[1]).await {
                totals.damages += 1;
                totals.kinds[kind] += 1;
            }
            sleep(Duration::from_millis(rng.u64(0..DAMAGE_EVERY_MAX_MS))).await;
        }
        totals.faults += 1;
        let run = load.await.unwrap();
        assert_eq!(run.given_up, 0, "every user has a final answer");
        self.history.records.extend(run.history.records);
        totals.uses += uses.await.unwrap();
        totals.replayed += replayed.await.unwrap();
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.await.unwrap();
        }
        totals.lists += lists.load(Ordering::Relaxed);
        self.settle(draw.victim, totals).await;
        for process in self.world.platform.processes() {
            assert!(process.is_running(), "{} ended by itself", process.name());
        }
        totals.replayed += self.end_round(&mut rng).await;
    }

    /// Waits for rest. A broker that dies during a checkpoint's commit may reject queries about it afterwards,
    /// which ends the tailer; this restarts it, as a supervisor would.
    async fn settle(&mut self, victim: Victim, totals: &mut Totals) {
        let world = &mut self.world;
        let Err(unrest) = at_rest(&world.sources, &world.clock, REST_MAX).await else { return };
        let tailer = &mut world.platform.cdc_tailer;
        assert!(matches!(victim, Victim::Kafka) && !tailer.is_running(), "{unrest}");
        tailer.start().await.unwrap();
        totals.restarts += 1;
        at_rest(&world.sources, &world.clock, REST_MAX).await.unwrap();
    }

    /// Delivers everything again, reads every list and checks every invariant. Returns how many messages were
    /// delivered.
    async fn end_round(&self, rng: &mut Rng) -> usize {
        let world = &self.world;
        let brokers = &world.sources.brokers;
        let topic = world.sources.topics.user_coupon();
        let published = replay::published(brokers, &topic).await.unwrap();
        let mut doubled = [published.clone(), published].concat();
        rng.shuffle(&mut doubled);
        replay::deliver(brokers, &doubled).await.unwrap();
        at_rest(&world.sources, &world.clock, REST_MAX).await.unwrap();
        world.warm_views(1..=USERS).await;
        world.assert_sound(Some(&self.history)).await;
        doubled.len()
    }

    fn wishes(&self, templates: [TemplateId; 2]) -> Vec<Wish> {
        let of_user = |user: i64| {
            (0..CLAIMS).map(move |number| {
                let template = templates[number as usize % templates.len()];
                let key = format!("{}-{number}", self.number);
                Wish { quantity: 2, ..Wish::one(template, UserId(user)).with_key(key) }
            })
        };
        (1..=USERS).flat_map(of_user).collect()
    }
}

impl Draw {
    async fn strike(self, world: &mut World, servers: &mut Servers) {
        let victim = victim(world, servers, self.victim);
        if self.kills {
            victim.kill().unwrap();
        } else {
            victim.pause().unwrap();
        }
        sleep(self.down).await;
        if self.kills { victim.start().await.unwrap() } else { victim.resume().unwrap() }
    }
}

fn victim<'a>(world: &'a mut World, servers: &'a mut Servers, victim: Victim) -> &'a mut Process {
    match victim {
        Victim::Api(number) => &mut world.platform.apis[number],
        Victim::Tailer => &mut world.platform.cdc_tailer,
        Victim::Consumer => &mut world.platform.sync_consumer,
        Victim::Worker => &mut world.platform.expiry_worker,
        Victim::Gate => &mut servers.gate,
        Victim::View => &mut servers.view,
        Victim::Kafka => &mut servers.kafka,
        Victim::Database => &mut servers.database,
    }
}

fn many(new: NewTemplate) -> NewTemplate {
    NewTemplate { per_user_limit: 0, max_per_claim: QUANTITY_MAX, ..new }
}
