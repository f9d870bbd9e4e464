//! Every policy in every mode keeps the same promises: the same crowd, the same checks, on MariaDB and MySQL. The suite
//! tries each policy in each mode, with one of the things that a 202 may wait for; `./dev soak mysql` with all of them.

use std::time::Duration;

use coupon::{TemplateId, UserId};
use devstack::{Endpoints, Flavor, OwnDatabase, OwnPair, TestServers, if_installed};
use futures::future::join_all;
use pipeline_tests::{
    MODES, Mode, World, histories,
    promises::{Ends, Promises},
};
use shopper::{Answer, Wish};
use tokio::time::sleep;
use verifier::{Sampler, Verdict};

use crate::queued::{LIMIT, MOST, Policy, shopper, two_apis};

/// Coupons of each template.
const STOCK: i64 = 60;

/// Users of each template's crowd.
const USERS: i64 = 80;

/// Users who take their turns one request after the other have ids from here on.
const FIRST_IN_TURN: i64 = 10_000;

/// Users who claim in mode spill while MySQL hangs have ids from here on, and those of two templates this distance.
const FIRST_SPILLED: i64 = 20_000;
const APART: i64 = 5_000;

/// Claims of each template in mode spill that are answered 202.
const SPILLED: usize = 4;

/// Most users who claim until [`SPILLED`] are answered 202: the first, whose claims the landers had, are told that
/// they are unknown.
const MOST_SPILLED: i64 = 20;

#[tokio::test]
async fn every_policy_keeps_its_promises_in_every_mode() {
    let sales = ["direct", "queued", "spill"].map(|name| {
        let modes: Vec<Mode> = MODES.into_iter().filter(|mode| mode.0 == name).collect();
        Policy::ALL.into_iter().zip(modes.into_iter().cycle()).collect::<Vec<_>>()
    });
    conforms(Flavor::Mariadb, sales.concat()).await;
}

#[tokio::test]
#[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
async fn every_policy_keeps_its_promises_in_every_mode_on_mysql() {
    let every = MODES.map(|mode| Policy::ALL.map(|policy| (policy, mode)));
    conforms(Flavor::Mysql, every.concat()).await;
}

/// A template with its policy and mode.
#[derive(Debug, Clone, Copy)]
struct Sale {
    template: TemplateId,
    policy: Policy,
    mode: Mode,
}

async fn conforms(flavor: Flavor, sold: Vec<(Policy, Mode)>) {
    let Some((mut servers, world)) = start("conformance", flavor).await else { return };
    let sampler = Sampler::start(world.sources.pool.clone());
    let mut sales = Vec::new();
    for (policy, mode) in sold {
        let of_mode = |new| policy.of(new).in_mode(mode.0, mode.1);
        let template = world.template(STOCK, of_mode).await;
        sales.push(Sale { template, policy, mode });
    }
    let mut promises = Promises::default();
    for (sale, user) in sales.iter().zip(FIRST_IN_TURN..) {
        in_turn(&world, &mut promises, *sale, user).await;
    }
    spill(&world, &mut servers.database, &sales).await;
    let wishes = sales.iter().flat_map(Sale::crowd).collect();
    let run = world.crowd().run(wishes).await.unwrap();
    // Claims for more than was left may have left a remainder: new users take one each.
    let last = sales.iter().flat_map(Sale::last_wave).collect();
    let last = world.crowd().run(last).await.unwrap();
    assert_eq!((run.given_up, last.given_up), (0, 0));
    for sale in &sales {
        assert_eq!(world.count(sale.template).await.all(), STOCK, "{sale:?}");
    }

    let mut of_crowds = Promises::of([&run, &last]);
    for Sale { template, mode, .. } in &sales {
        let of_sale = of_crowds.only(|claim| claim.template == *template).claims.len();
        match mode.0 {
            "direct" => assert_eq!(of_sale, 0, "{mode:?}"),
            "queued" => assert!(of_sale > 0, "{mode:?}"),
            // As long as MySQL keeps up, claims land at once; `spill` has seen to the others.
            _ => {}
        }
    }
    let count = of_crowds.claims.len();
    assert_eq!(of_crowds.kept(&world).await, Ends::all_succeeded(count));
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    // The history does not have the claims of users who took turns, so I4 is checked without it.
    world.assert_sound(None).await;
    assert_one_answer_each(&world, &histories(vec![run, last])).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

/// Servers that only one test uses: a gate with a replica, and a database that may hang.
pub(crate) struct OwnServers {
    database: OwnDatabase,
    _gate: OwnPair,
}

/// Starts a platform of two apis on a database of this kind and a gate with a replica.
pub(crate) async fn start(name: &str, flavor: Flavor) -> Option<(OwnServers, World)> {
    let name = format!("{name}-{}", flavor.name());
    let database = OwnDatabase::start(&name, flavor, &[]).await;
    let database = if_installed(database, "the modes of claims on MySQL")?;
    let gate = OwnPair::start(&name, &["--maxmemory-policy", "noeviction"]).await.unwrap();
    let shared = TestServers::shared();
    let endpoints = Endpoints {
        database_url: database.url(),
        gate_redis_url: gate.url(),
        ..shared.endpoints().clone()
    };
    let servers = TestServers::at(endpoints);
    let world = World::start_on(&servers, &name.replace('-', " "), two_apis).await;
    Some((OwnServers { database, _gate: gate }, world))
}

/// Claims from every spilling sale while MySQL hangs, until enough are answered 202, and checks how all of them end.
async fn spill(world: &World, database: &mut OwnDatabase, sales: &[Sale]) {
    let spilling = sales.iter().filter(|sale| sale.mode.0 == "spill");
    let spilling: Vec<_> = spilling.zip((FIRST_SPILLED..).step_by(APART as usize)).collect();
    database.server.pause().unwrap();
    let lists = spilling.iter().map(|(sale, first)| sale.spilled(world, *first));
    let lists = join_all(lists).await;
    database.server.resume().unwrap();
    for ((sale, first), (mut promises, last)) in spilling.into_iter().zip(lists) {
        let accepted = promises.claims.len();
        assert_eq!(accepted, 2 * SPILLED, "{sale:?}");
        assert_eq!(promises.kept(world).await, Ends::all_succeeded(accepted), "{sale:?}");
        // Users who were told "unknown" send their keys once more, and so does one whose limit is reached.
        for user in first..=last {
            let anna = shopper(world, 0, user);
            let again = promises.insist(&anna, sale.template, Some("a"), 1).await;
            assert_eq!(again.status, 201, "{sale:?}: {again:?}");
        }
        let more = shopper(world, 1, last);
        let more = promises.insist(&more, sale.template, Some("b"), sale.most()).await;
        let is_refused = sale.policy == Policy::OnePerUser;
        assert_eq!(more.status, if is_refused { 409 } else { 201 }, "{sale:?}: {more:?}");
    }
}

/// One user's requests, one after the other: the cumulative limit, replays, a key used twice, a missing key.
async fn in_turn(world: &World, promises: &mut Promises, sale: Sale, user: i64) {
    let [one, other] = [0, 1].map(|api| shopper(world, api, user));
    let template = sale.template;
    let outcome = |answer: &Answer| (answer.status, answer.code().unwrap_or_default());
    let refused = |status: u16, code: &str| (status, code.to_owned());
    let landed = refused(201, "");
    let quantity = if sale.policy == Policy::OnePerUser { 1 } else { 2 };
    let first = promises.insist(&one, template, Some("a"), quantity).await;
    assert_eq!(outcome(&first), landed, "{sale:?}: {first:?}");
    for shopper in [&one, &other] {
        let again = promises.insist(shopper, template, Some("a"), quantity).await;
        assert_eq!((again.status, again.replayed), (201, true), "{sale:?}: {again:?}");
        assert_eq!(again.body, first.body, "{sale:?}");
    }
    if sale.policy == Policy::OnePerUser {
        let second = promises.insist(&other, template, Some("b"), 1).await;
        assert_eq!(outcome(&second), refused(409, "LIMIT_REACHED"), "{sale:?}");
        return;
    }
    let reused = promises.insist(&other, template, Some("a"), 1).await;
    assert_eq!(outcome(&reused), refused(422, "IDEMPOTENCY_KEY_REUSED"), "{sale:?}");
    let keyless = promises.insist(&one, template, None, 1).await;
    assert_eq!(keyless.status, 400, "{sale:?}: {keyless:?}");
    let second = promises.insist(&other, template, Some("b"), 2).await;
    assert_eq!(outcome(&second), landed, "{sale:?}: {second:?}");
    let too_many = promises.insist(&one, template, Some("c"), 2).await;
    if sale.policy == Policy::Unlimited {
        assert_eq!(outcome(&too_many), landed, "{sale:?}: {too_many:?}");
        return;
    }
    assert_eq!(outcome(&too_many), refused(409, "LIMIT_REACHED"), "{sale:?}");
    // A refusal is not stored: the same key may ask for less.
    let rest = promises.insist(&one, template, Some("c"), LIMIT - 4).await;
    assert_eq!(outcome(&rest), landed, "{sale:?}: {rest:?}");
}

impl Sale {
    /// Most coupons of a claim.
    fn most(&self) -> u32 {
        if self.policy == Policy::OnePerUser { 1 } else { MOST }
    }

    /// New users claim, one after the other, until enough are answered 202; each key is asked again at the other api.
    /// Returns the 202s and the last user.
    async fn spilled(&self, world: &World, first: i64) -> (Promises, i64) {
        let mut promises = Promises::default();
        let mut user = first;
        loop {
            let told = promises.claim(&shopper(world, 0, user), self.template, Some("a"), 1).await;
            assert!(matches!(told.status, 202 | 503), "{self:?}: {told:?}");
            if told.status == 202 {
                let other = shopper(world, 1, user);
                let again = promises.claim(&other, self.template, Some("a"), 1).await;
                assert_eq!((again.status, again.replayed), (202, true), "{self:?}: {again:?}");
                let [.., one, same] = promises.claims.as_slice() else { unreachable!() };
                assert_eq!(one.id, same.id, "{self:?}");
            } else {
                // An api that cannot publish for a while refuses at once, so the next user waits for the time that this
                // one was told.
                sleep(Duration::from_secs(told.retry_after.unwrap())).await;
            }
            if promises.claims.len() >= 2 * SPILLED {
                return (promises, user);
            }
            user += 1;
            let goes_on = user < first + MOST_SPILLED;
            assert!(goes_on, "{self:?}: the landers do not say that they wait: {told:?}");
        }
    }

    /// Each user claims with one or two keys; some send a request twice at once, some again after its answer.
    fn crowd(&self) -> Vec<Wish> {
        let Self { template, policy, .. } = *self;
        let of_user = |user: i64| {
            let copies = if user % 7 == 0 { 2 } else { 1 };
            let again = user % 11 == 0;
            let one = Wish { copies, again, ..Wish::one(template, UserId(user)) };
            if policy == Policy::OnePerUser {
                return vec![one];
            }
            let keyed = |key: &str, quantity| Wish { quantity, ..one.clone() }.with_key(key);
            let quantity = 1 + user.unsigned_abs() as u32 % MOST;
            match user % 3 {
                0 => vec![keyed("a", quantity), keyed("b", MOST)],
                _ => vec![keyed("a", quantity)],
            }
        };
        (1..=USERS).flat_map(of_user).collect()
    }

    fn last_wave(&self) -> Vec<Wish> {
        let fresh = 1_000..1_000 + STOCK;
        fresh.map(|user| Wish::one(self.template, UserId(user)).with_key("last")).collect()
    }
}

/// Asserts that no key got two different bodies.
async fn assert_one_answer_each(world: &World, history: &verifier::History) {
    let report = verifier::verify(&world.sources, Some(history), world.clock.now()).await.unwrap();
    let replays = report.outcomes.iter().find(|outcome| outcome.invariant == "I5").unwrap();
    assert!(matches!(replays.verdict, Verdict::Holds { .. }), "{replays}");
}
