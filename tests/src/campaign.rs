//! The kill campaign: round after round of mixed claims from two api processes. In the middle of each an api, the gate
//! or MySQL is killed or stopped, or something else goes wrong (`troubles.rs`); every pending claim is polled meanwhile, and
//! what a poll says definitely must stay true. Then every promise is checked.
//!
//! Victim, way and moment follow from the seed and the round's number, so a round that breaks a promise
//! can be run again; what the machine makes of them in between is not repeatable.

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

use coupon::{TemplateId, UserId};
use devstack::{Flavor, Options, PlatformOptions, Process, Servers, TestServers, project_root};
use fastrand::Rng;
use shopper::{NewTemplate, Run, Wish};
use tokio::time::{sleep, timeout};
use verifier::{History, Sampler, Verdict};

use crate::{
    World,
    troubles::{self, Poller, Trouble},
};

/// Users of a round. With them the load lasts a second or two.
const USERS: i64 = 500;

/// Coupons of the template with limit 1: fewer than users, so the last ones are fought for.
const SCARCE: i64 = 300;

/// Coupons of the others: never sold out.
const PLENTY: i64 = 100_000;

/// Fresh users who come to the scarce template at the end: all of it must be sold then.
const LAST_WAVE: i64 = SCARCE;

/// The fault comes within this time from the round's first admission on.
const OFFSET_MAX_MS: u64 = 600;

/// How long a victim is stopped or dead: past the 5 s after which MySQL frees a stopped api's locks.
const DOWN_MAX_MS: u64 = 6_500;

/// How long an admission in flight is waited for. Without one the round does not count.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(2);

/// Rounds on one platform and database.
const LEG: u32 = 10;

/// Every so many rounds something else goes wrong than a process that dies.
const TROUBLE_EVERY: u64 = 2;

/// Draws of which none counted before the campaign gives up: the load never meets the faults.
const UNCOUNTED_MAX: u32 = 20;

/// Who is hit.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Api(usize),
    Gate,
    Database,
}

/// How.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// kill -9, and a start after a while.
    Kill,
    /// SIGSTOP, and SIGCONT after a while.
    Stop,
}

/// What a round does.
#[derive(Debug, Clone, Copy)]
struct Draw {
    victim: Victim,
    fault: Fault,
    offset: Duration,
    down: Duration,
    /// Instead of the fault.
    trouble: Option<Trouble>,
}

impl Draw {
    fn of(seed: u64, number: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ (number << 32));
        // Each in turn, so that few rounds meet all.
        let victim = match seed.wrapping_add(number) % 4 {
            0 => Victim::Gate,
            1 => Victim::Database,
            2 => Victim::Api(0),
            _ => Victim::Api(1),
        };
        let fault = if random.bool() { Fault::Kill } else { Fault::Stop };
        let offset = Duration::from_millis(random.u64(0..OFFSET_MAX_MS));
        // Mostly short: a second of silence is the rule, six the exception.
        let longest = if random.u8(0..4) == 0 { DOWN_MAX_MS } else { 1_000 };
        let down = Duration::from_millis(random.u64(0..longest));
        let trouble = number
            .is_multiple_of(TROUBLE_EVERY)
            .then(|| troubles::ALL[(number / TROUBLE_EVERY) as usize % troubles::ALL.len()]);
        Self { victim, fault, offset, down, trouble }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = match self.victim {
            Victim::Api(number) => format!("api {}", number + 1),
            Victim::Gate => "gate".to_owned(),
            Victim::Database => "MySQL".to_owned(),
        };
        let fault = match self.fault {
            Fault::Kill => "killed",
            Fault::Stop => "stopped",
        };
        let [offset, down] = [self.offset, self.down].map(|time| time.as_millis());
        if let Some(trouble) = self.trouble {
            return write!(f, "{trouble:?} after {offset} ms for {down} ms");
        }
        write!(f, "{victim} {fault} after {offset} ms for {down} ms")
    }
}

/// What a campaign counted.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Rounds in which an admission was in flight at the fault.
    pub counted: u32,
    /// Rounds in which none was.
    pub uncounted: u32,
    /// Claims that landed, of all rounds.
    pub landed: i64,
    /// Claims that a poll told of definitely while others were in flight, each rightly.
    pub polled: usize,
    /// The longest way from a round's last answer to rest.
    pub rest_max: Duration,
}

/// Runs until `rounds` rounds count, and says a line about each.
///
/// # Panics
/// A promise is broken, a process ended by itself, or the load never meets a fault.
pub async fn run(rounds: u32, seed: u64, flavor: Flavor, say: impl Fn(String)) -> Totals {
    let dir = project_root().join(format!(".dev/campaign-{}-{seed}", flavor.name()));
    drop(fs::remove_dir_all(&dir));
    let options = Options { flavor, ..Options::default() };
    let mut servers = Servers::start(&dir, &options).await.unwrap();
    troubles::let_read_only_bind(&servers.endpoints().database_url).await;
    let mut totals = Totals::default();
    while totals.counted < rounds {
        leg(&mut servers, rounds, seed, &say, &mut totals).await;
    }
    servers.stop().await.unwrap();
    fs::remove_dir_all(&dir).unwrap();
    totals
}

/// Some rounds on a platform and a database of their own: what is verified would grow without end.
async fn leg(
    servers: &mut Servers,
    rounds: u32,
    seed: u64,
    say: &impl Fn(String),
    totals: &mut Totals,
) {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_on(&TestServers::private(servers), "campaign", two_apis).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let mut history = History { records: Vec::new() };
    for _ in 0..LEG {
        if totals.counted == rounds {
            break;
        }
        let number = u64::from(totals.counted + totals.uncounted) + 1;
        let draw = Draw::of(seed, number);
        say(format!("round {number:>3}  {draw}"));
        let fail_point = draw.trouble.and_then(Trouble::fail_point);
        if let Some(fail_point) = fail_point {
            arm(&mut world, fail_point).await;
        }
        let round = Round::begin(&world, number).await;
        let poller = Poller::start(&world, vec![round.scarce, round.several, round.unlimited]);
        let in_flight = round.play(&mut world, servers, draw, &mut history).await;
        let quiet = Instant::now();
        world.assert_sound(Some(&history)).await;
        totals.polled += poller.check(&world).await;
        if fail_point.is_some() {
            arm(&mut world, "").await;
        }
        assert_eq!(world.count(round.scarce).await.all(), SCARCE, "all of it is sold");
        let rest = quiet.elapsed();
        let seconds = rest.as_secs_f64();
        say(format!("           {in_flight} were in flight; sound after {seconds:.1} s"));
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

/// One round: three templates, so that one round's trouble is not another's.
struct Round {
    number: i64,
    /// Limit 1, fewer coupons than users, no keys.
    scarce: TemplateId,
    /// Limit 3, one or two at a time.
    several: TemplateId,
    /// No limit.
    unlimited: TemplateId,
}

impl Round {
    async fn begin(world: &World, number: u64) -> Self {
        let several = |new| NewTemplate { per_user_limit: 3, max_per_claim: 2, ..new };
        let unlimited = |new| NewTemplate { per_user_limit: 0, max_per_claim: 2, ..new };
        Self {
            number: i64::try_from(number).unwrap(),
            scarce: world.template(SCARCE, |new| new).await,
            several: world.template(PLENTY, several).await,
            unlimited: world.template(PLENTY, unlimited).await,
        }
    }

    /// The load with its fault, then the last wave. Returns how many admissions the fault met.
    async fn play(
        &self,
        world: &mut World,
        servers: &mut Servers,
        draw: Draw,
        history: &mut History,
    ) -> u64 {
        let (crowd, wishes) = (world.crowd(), self.wishes());
        let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        let in_flight = match draw.trouble {
            None => self.strike(world, servers, draw).await,
            Some(trouble) => self.suffer(world, trouble, draw).await,
        };
        let run = load.await.unwrap();
        for process in world.platform.processes() {
            assert!(process.is_running(), "{} ended by itself", process.name());
        }
        let first = self.number * USERS * 10 + USERS;
        let fresh = (first..first + LAST_WAVE).map(|user| Wish::one(self.scarce, UserId(user)));
        let last = world.crowd().run(fresh.collect()).await.unwrap();
        for Run { history: of_run, given_up, .. } in [run, last] {
            assert_eq!(given_up, 0, "every user has a final answer");
            history.records.extend(of_run.records);
        }
        in_flight
    }

    /// Everybody wants one of the scarce ones, some impatiently, and some of the others under keys.
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

    /// Hits the victim while an admission is in flight, if one comes in time, and helps it up.
    async fn strike(&self, world: &mut World, servers: &mut Servers, draw: Draw) -> u64 {
        self.await_in_flight(world).await;
        sleep(draw.offset).await;
        let before = self.await_in_flight(world).await;
        {
            let victim = victim(world, servers, draw.victim);
            match draw.fault {
                Fault::Kill => victim.kill().unwrap(),
                Fault::Stop => victim.pause().unwrap(),
            }
        }
        // A dead gate cannot be asked; what it said a moment before has to do.
        let after = match draw.victim {
            Victim::Gate => before,
            Victim::Api(_) | Victim::Database => self.in_flight(world).await,
        };
        sleep(draw.down).await;
        let victim = victim(world, servers, draw.victim);
        match draw.fault {
            Fault::Kill => victim.start().await.unwrap(),
            Fault::Stop => victim.resume().unwrap(),
        }
        before.min(after)
    }

    /// Lets something go wrong while an admission is in flight, if one comes in time.
    async fn suffer(&self, world: &mut World, trouble: Trouble, draw: Draw) -> u64 {
        self.await_in_flight(world).await;
        sleep(draw.offset).await;
        let before = self.await_in_flight(world).await;
        let key = format!("round-{}", self.number);
        trouble.strike(world, self.several, (&key, draw.down)).await;
        before
    }

    /// Waits for an admission in flight, but not for ever.
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
            }
        }
        count
    }
}

/// Starts the second api anew with these fail points.
async fn arm(world: &mut World, points: &str) {
    let api = &mut world.platform.apis[1];
    api.set_env("FAIL_POINTS", points);
    api.restart().await.unwrap();
}

fn victim<'a>(world: &'a mut World, servers: &'a mut Servers, victim: Victim) -> &'a mut Process {
    match victim {
        Victim::Api(number) => &mut world.platform.apis[number],
        Victim::Gate => &mut servers.gate,
        Victim::Database => &mut servers.database,
    }
}
