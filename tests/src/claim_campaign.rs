//! The kill campaign: rounds of mixed claims from two api processes, in every mode. In the middle of each round, an
//! api, the relay, the lander, the gate, its replica, the broker or MySQL is killed or stopped, or another trouble
//! strikes (`claim_faults.rs`). Meanwhile every pending claim is polled, and definite poll answers must stay true. Then
//! every invariant is checked, and every claim that was answered 202.
//!
//! Victim, kind of fault, moment and modes follow from the seed and the round's number, so a round that violates an
//! invariant can be repeated; the machine's scheduling cannot.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use coupon::{TemplateId, UserId};
use devstack::{
    Flavor, Options, OwnRedis, PlatformOptions, Process, Servers, TestServers, project_root,
};
use shopper::{Accepted, NewTemplate, Run, Wish};
use tokio::time::{sleep, timeout};
use verifier::{History, Sampler, Verdict};

use crate::{
    World,
    claim_faults::{self, ClaimFault, Poller, redis_cli},
    draw::{Draw, Fault, Mode, Victim},
    held_sale::{HeldSale, Told},
    promises::Promises,
    until,
};

/// Users of a round: enough for a load of one or two seconds.
const USERS: i64 = 500;

/// Coupons of the template with limit 1: fewer than users, so that users compete for the last ones.
const SCARCE: i64 = 300;

/// Coupons of the other templates: they never sell out.
const PLENTY: i64 = 100_000;

/// New users who claim from the scarce template at the end, so that it must sell out.
const LAST_WAVE: i64 = SCARCE;

/// Longest wait for an admission in flight. Without one the round does not count.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(2);

/// Rounds on one platform and database.
const LEG: u32 = 10;

/// The campaign fails if the rounds that do not count exceed those that count by more than this: the faults
/// miss the load.
const UNCOUNTED_MAX: u32 = 20;

/// Counters of a campaign.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Rounds in which an admission was in flight at the fault.
    pub counted: u32,
    /// Rounds in which none was.
    pub uncounted: u32,
    /// Claims that landed, over all rounds.
    pub landed: i64,
    /// Claims that were answered 202; each ended landed, or lost with a gate that alone had it.
    pub accepted: usize,
    /// Held coupons that were paid for, in sales of their own; of the others each was cancelled or lapsed.
    pub paid: usize,
    /// Claims that got a definite poll answer during the load; each was correct.
    pub polled: usize,
    /// Longest time from a round's last answer to rest.
    pub rest_max: Duration,
}

/// Starts servers, and runs until `rounds` rounds count, each reported through `say`.
///
/// # Panics
/// An invariant is violated, a process ended by itself, or the load never meets a fault.
pub async fn run(rounds: u32, seed: u64, flavor: Flavor, say: impl Fn(String)) -> Totals {
    run_on(Stack::start(seed, flavor).await.unwrap(), rounds, seed, say).await
}

/// Like [`run`], on servers that it stops in the end.
pub async fn run_on(mut stack: Stack, rounds: u32, seed: u64, say: impl Fn(String)) -> Totals {
    claim_faults::let_read_only_bind(&stack.servers.endpoints().database_url).await;
    let mut totals = Totals::default();
    while totals.counted < rounds {
        leg(&mut stack, rounds, seed, &say, &mut totals).await;
    }
    stack.servers.stop().await.unwrap();
    fs::remove_dir_all(&stack.dir).unwrap();
    totals
}

/// The servers of a campaign. The gate has one replica, which claims may wait for.
pub struct Stack {
    servers: Servers,
    replica: OwnRedis,
    dir: PathBuf,
}

impl Stack {
    /// Starts servers whose folder is named after the campaign's seed.
    ///
    /// # Errors
    /// A server is not installed, or does not start.
    pub async fn start(seed: u64, flavor: Flavor) -> Result<Self, devstack::Error> {
        let name = format!("campaign-{}-{seed}", flavor.name());
        let dir = project_root().join(".dev").join(&name);
        drop(fs::remove_dir_all(&dir));
        let servers = Servers::start(&dir, &Options { flavor, ..Options::default() }).await?;
        let replica = replica_of(&servers.gate, &format!("{name}-replica")).await;
        Ok(Self { servers, replica, dir })
    }
}

/// Starts a replica of the gate's server, and waits until it follows.
async fn replica_of(gate: &Process, name: &str) -> OwnRedis {
    let at = gate.address();
    let of_gate = format!("{} {}", at.ip(), at.port());
    let settings = ["--maxmemory-policy", "noeviction", "--replicaof", &of_gate];
    let replica = OwnRedis::view(name, &settings).await.unwrap();
    let follows = async || redis_cli(&replica.url(), &["info", "replication"]);
    until(follows, |said| said.contains("master_link_status:up")).await;
    replica
}

/// Plays some rounds on a platform and database of their own: otherwise each verification would take longer
/// than the last.
async fn leg(
    stack: &mut Stack,
    rounds: u32,
    seed: u64,
    say: &impl Fn(String),
    totals: &mut Totals,
) {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world =
        World::start_on(&TestServers::private(&stack.servers), "campaign", two_apis).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let mut history = History { records: Vec::new() };
    for _ in 0..LEG {
        if totals.counted == rounds {
            break;
        }
        let number = u64::from(totals.counted + totals.uncounted) + 1;
        let draw = Draw::of(seed, number);
        say(format!("round {number:>3}  {draw}"));
        let fail_point = draw.trouble.and_then(ClaimFault::fail_point);
        if let Some(fail_point) = fail_point {
            arm(&mut world, fail_point).await;
        }
        let round = Round::begin(&world, number, draw.modes).await;
        let poller = Poller::start(&world, vec![round.scarce, round.several, round.unlimited]);
        let mut promises = Promises::default();
        let (in_flight, told) =
            round.play(&mut world, stack, draw, &mut history, &mut promises).await;
        let paid = round.held.check(&world, &told).await;
        promises.claims.extend(told.promises.claims);
        totals.paid += paid;
        let quiet = Instant::now();
        totals.accepted += promises.claims.len();
        let ends = promises.kept(&world).await;
        let forgets = draw.trouble.is_some_and(ClaimFault::forgets);
        let is_kept_whole = forgets || ends.rejected.is_empty();
        assert!(is_kept_whole, "nothing was cut or paused for good: {ends:?}");
        let is_kept = |claim: &Accepted| draw.modes[round.at(claim.template)].1 == "topic";
        let ends = promises.only(is_kept).kept(&world).await;
        assert_eq!(ends.lost, 0, "after the topic: {ends:?}");
        world.assert_sound(Some(&history)).await;
        totals.polled += poller.check(&world).await;
        if fail_point.is_some() {
            arm(&mut world, "").await;
        }
        assert_eq!(world.count(round.scarce).await.all(), SCARCE, "all of it is sold");
        let rest = quiet.elapsed();
        let seconds = rest.as_secs_f64();
        say(format!(
            "           {in_flight} were in flight; {paid} held ones paid for; sound after {seconds:.1} s"
        ));
        totals.rest_max = totals.rest_max.max(rest);
        if in_flight > 0 {
            totals.counted += 1;
        } else {
            totals.uncounted += 1;
        }
        assert!(totals.uncounted <= UNCOUNTED_MAX + totals.counted, "no fault meets the load");
    }
    totals.landed +=
        history.records.iter().map(|record| i64::from(record.is_landed())).sum::<i64>();
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

/// One round: templates of its own, so that one round's trouble does not affect another.
struct Round {
    number: i64,
    /// Limit 1, fewer coupons than users, claims without keys.
    scarce: TemplateId,
    /// Limit 3, one or two coupons per claim.
    several: TemplateId,
    /// No limit.
    unlimited: TemplateId,
    /// Coupons that are held until they are paid for.
    held: HeldSale,
}

impl Round {
    async fn begin(world: &World, number: u64, modes: [Mode; 4]) -> Self {
        let of = |new: NewTemplate, (mode, after): Mode| new.in_mode(mode, after);
        let several = |new| NewTemplate { per_user_limit: 3, max_per_claim: 2, ..new };
        let unlimited = |new| NewTemplate { per_user_limit: 0, max_per_claim: 2, ..new };
        let number = i64::try_from(number).unwrap();
        let buyers = number * USERS * 10 + USERS + LAST_WAVE;
        Self {
            number,
            scarce: world.template(SCARCE, |new| of(new, modes[0])).await,
            several: world.template(PLENTY, |new| of(several(new), modes[1])).await,
            unlimited: world.template(PLENTY, |new| of(unlimited(new), modes[2])).await,
            held: HeldSale::begin(world, modes[3], buyers).await,
        }
    }

    /// The place of a template among a round's.
    fn at(&self, template: TemplateId) -> usize {
        let templates = [self.scarce, self.several, self.unlimited, self.held.template];
        templates.iter().position(|one| *one == template).unwrap()
    }

    /// Runs the load and the sale of held coupons with their fault, then the last wave. Returns how many admissions
    /// were in flight at the fault, and what the sale's users were told.
    async fn play(
        &self,
        world: &mut World,
        stack: &mut Stack,
        draw: Draw,
        history: &mut History,
        promises: &mut Promises,
    ) -> (u64, Told) {
        let sale = self.held.run(world);
        let crowd = world.crowd();
        let wishes = self.wishes();
        let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        let fault = async {
            match draw.trouble {
                None => self.strike(world, stack, draw).await,
                Some(trouble) => self.suffer(world, trouble, draw).await,
            }
        };
        let (in_flight, told) = tokio::join!(fault, sale);
        let run = load.await.unwrap();
        for process in world.platform.processes() {
            assert!(process.is_running(), "{} ended by itself", process.name());
        }
        let first = self.number * USERS * 10 + USERS;
        let fresh = (first..first + LAST_WAVE).map(|user| Wish::one(self.scarce, UserId(user)));
        let last = world.crowd().run(fresh.collect()).await.unwrap();
        for Run { history: of_run, given_up, accepted, .. } in [run, last] {
            assert_eq!(given_up, 0, "every user has a final answer");
            history.records.extend(of_run.records);
            promises.claims.extend(accepted);
        }
        (in_flight, told)
    }

    /// Each user claims a scarce coupon, some with parallel or repeated requests, and coupons of the other
    /// templates with idempotency keys.
    fn wishes(&self) -> Vec<Wish> {
        let first = self.number * USERS * 10;
        let of_user = |user: i64| {
            let copies = if user % 7 == 0 { 2 } else { 1 };
            let again = user % 11 == 0;
            let scarce = Wish { copies, again, ..Wish::one(self.scarce, UserId(user)) };
            let quantity = if user % 2 == 0 { 2 } else { 1 };
            let keyed = |template, key: &str| Wish {
                quantity,
                copies,
                ..Wish::one(template, UserId(user)).with_key(key)
            };
            let mut wishes = vec![scarce, keyed(self.several, "a"), keyed(self.unlimited, "a")];
            if user % 3 == 0 {
                wishes.extend([keyed(self.several, "b"), keyed(self.unlimited, "b")]);
            }
            wishes
        };
        (first..first + USERS).flat_map(of_user).collect()
    }

    /// Hits the victim while an admission is in flight, if one comes in time, and brings it back. Returns how
    /// many were in flight.
    async fn strike(&self, world: &mut World, stack: &mut Stack, draw: Draw) -> u64 {
        self.await_in_flight(world).await;
        sleep(draw.offset).await;
        let before = self.await_in_flight(world).await;
        {
            let victim = victim(world, stack, draw.victim);
            match draw.fault {
                Fault::Kill => victim.kill().unwrap(),
                Fault::Stop => victim.pause().unwrap(),
            }
        }
        // A dead gate cannot be asked, so its last answer counts.
        let after = match draw.victim {
            Victim::Gate => before,
            Victim::Api(_)
            | Victim::Relay
            | Victim::Lander
            | Victim::Replica
            | Victim::Broker
            | Victim::Database => self.in_flight(world).await,
        };
        sleep(draw.down).await;
        let victim = victim(world, stack, draw.victim);
        match draw.fault {
            Fault::Kill => victim.start().await.unwrap(),
            Fault::Stop => victim.resume().unwrap(),
        }
        before.min(after)
    }

    /// Starts the trouble while an admission is in flight, if one comes in time.
    async fn suffer(&self, world: &mut World, trouble: ClaimFault, draw: Draw) -> u64 {
        self.await_in_flight(world).await;
        sleep(draw.offset).await;
        let before = self.await_in_flight(world).await;
        let key = format!("round-{}", self.number);
        trouble.strike(world, self.several, &key, draw.down).await;
        before
    }

    /// Waits for an admission in flight, for a limited time.
    async fn await_in_flight(&self, world: &World) -> u64 {
        let seen = async {
            loop {
                let count = self.in_flight(world).await;
                if count > 0 {
                    return count;
                }
            }
        };
        timeout(IN_FLIGHT_WAIT, seen).await.unwrap_or(0)
    }

    async fn in_flight(&self, world: &World) -> u64 {
        let gate = &world.sources.gate;
        let mut count = 0;
        for template in [self.scarce, self.several, self.unlimited] {
            if let Ok(Some(meta)) = gate.meta(template).await {
                count += gate.in_flight_count(template, meta.epoch).await.unwrap_or(0);
                count += gate.queued_count(template, meta.epoch).await.unwrap_or(0);
            }
        }
        count
    }
}

/// Restarts the second api with these fail points.
async fn arm(world: &mut World, points: &str) {
    let api = &mut world.platform.apis[1];
    api.set_env("FAIL_POINTS", points);
    api.restart().await.unwrap();
}

fn victim<'a>(world: &'a mut World, stack: &'a mut Stack, victim: Victim) -> &'a mut Process {
    let Stack { servers, replica, .. } = stack;
    match victim {
        Victim::Api(number) => &mut world.platform.apis[number],
        Victim::Relay => &mut world.platform.relay,
        Victim::Lander => &mut world.platform.lander,
        Victim::Gate => &mut servers.gate,
        Victim::Replica => &mut replica.server,
        Victim::Broker => &mut servers.kafka,
        Victim::Database => &mut servers.database,
    }
}
