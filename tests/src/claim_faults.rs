//! Troubles of the kill campaign other than dead processes: locked rows, full memory, a read-only server,
//! operators at work, gates with another history, a wrong clock. And the polls whose definite answers must stay true.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coupon::{ClaimId, ClaimState, TemplateId, UserId};
use devstack::FakeClock;
use mysql_store::{claim, connect, verify};
use reqwest::Method;
use serde_json::json;
use shopper::{Api, Fate};
use tokio::{task::JoinHandle, time::sleep};

use crate::{STATE_MAX, World, until};

/// Interval between a poller's rounds.
const POLL_EVERY: Duration = Duration::from_millis(30);

/// Admissions that are read per template, and polled, in each round.
const POLLED: usize = 20;

/// Copies all keys of a template's gate.
const SAVE: &str = "for _, key in ipairs(redis.call('keys', ARGV[1])) do \
                    redis.call('copy', key, 'saved:' .. key, 'replace') end";

/// Gives a template's gate the state of those copies.
const REWIND: &str = "for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', key) end \
                      for _, saved in ipairs(redis.call('keys', 'saved:' .. ARGV[1])) do \
                      redis.call('copy', saved, string.sub(saved, 7), 'replace') \
                      redis.call('del', saved) end";

/// Removes a template's gate.
const LOSE: &str =
    "for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', key) end";

/// Puts a template's gate far ahead of MySQL's epoch.
const ESTRANGE: &str = "for _, key in ipairs(redis.call('keys', ARGV[1] .. ':meta')) do \
                        redis.call('hincrby', key, 'epoch', 1000) end";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimFault {
    /// The second api stops inside a movement, a pause, an edit or the beginning of a rebuild.
    HungOperator(&'static str),
    /// The gate's Redis has only a little memory left.
    FullGate,
    /// MySQL is read-only.
    ReadOnly,
    /// Another session holds the stock row of one template locked.
    HeldRow,
    /// Cuts and top-ups come from both apis at once.
    CutsAndTopUps,
    /// The tailer is stopped while the end of the claim window moves.
    MovedWindow,
    /// A gate goes back to an earlier state, as behind a failover of Redis.
    RewoundGate,
    /// A gate has an epoch that MySQL never gave.
    ForeignGate,
    /// A gate is lost, and again while it is being rebuilt.
    LostGates,
    /// The second api's clock is wrong by so many milliseconds.
    WrongClock(i64),
}

/// Every trouble, in the order in which a campaign uses them.
pub(crate) const ALL: [ClaimFault; 14] = [
    ClaimFault::HungOperator("stock-movements"),
    ClaimFault::FullGate,
    ClaimFault::RewoundGate,
    ClaimFault::ReadOnly,
    ClaimFault::HungOperator("pause"),
    ClaimFault::LostGates,
    ClaimFault::HeldRow,
    ClaimFault::WrongClock(90_000),
    ClaimFault::CutsAndTopUps,
    ClaimFault::ForeignGate,
    ClaimFault::HungOperator("edit"),
    ClaimFault::MovedWindow,
    ClaimFault::WrongClock(-90_000),
    ClaimFault::HungOperator("gate-rebuild"),
];

/// Asks an api to change a template, and ignores the response.
async fn ask(api: &Api, template: TemplateId, what: &str, key: &str, delta: i64) {
    let path = format!("/v1/templates/{template}");
    let request = match what {
        "stock-movements" => api
            .operator(Method::POST, &format!("{path}/{what}"))
            .header("Idempotency-Key", key)
            .header("If-Match", "*")
            .json(&json!({ "delta": delta, "reason": "a campaign" })),
        "edit" => api
            .operator(Method::PATCH, &path)
            .header("If-Match", "*")
            .json(&json!({ "claim_ends_at": format!("2035-01-01T00:00:{:02}Z", delta % 60) })),
        verb => api.operator(Method::POST, &format!("{path}/{verb}")),
    };
    drop(api.send(request).await);
}

impl ClaimFault {
    /// The fail point at which the second api's whole process stops, inside a transaction that holds a stock row.
    pub(crate) fn fail_point(self) -> Option<&'static str> {
        match self {
            Self::HungOperator("gate-rebuild") => Some("rebuild.before_epoch=stop"),
            Self::HungOperator(_) => Some("api.before_commit=stop"),
            _ => None,
        }
    }

    /// Whether a gate may accept more than there is, because it has forgotten what it gave out.
    pub(crate) fn forgets(self) -> bool {
        self == Self::RewoundGate
    }

    /// Makes trouble for `down`, then ends it. `template` is affected; `key` is unique to the round.
    pub(crate) async fn strike(
        self,
        world: &mut World,
        template: TemplateId,
        key: &str,
        down: Duration,
    ) {
        match self {
            Self::HungOperator(what) => hang(world, template, what, key, down).await,
            Self::FullGate => {
                let used = memory(world);
                limit_memory(world, used + 64 * 1024);
                sleep(down).await;
                limit_memory(world, 0);
            }
            Self::ReadOnly => {
                let url = &world.scope.endpoints.database_url;
                read_only(url, 1).await;
                sleep(down).await;
                read_only(url, 0).await;
            }
            Self::HeldRow => {
                let mut holder = world.mysql().await;
                let hold = format!(
                    "update template_stock set stock = stock where template_id = {template}"
                );
                verify::execute(&mut holder, "set autocommit = 0").await.unwrap();
                verify::execute(&mut holder, &hold).await.unwrap();
                sleep(down).await;
                // Dropping the connection rolls back.
                drop(holder);
            }
            Self::CutsAndTopUps => {
                let apis = [world.apis[0].clone(), world.apis[1].clone()];
                let moves = (0..20).map(|number| {
                    let api = &apis[number % 2];
                    let delta = if number % 4 < 2 { -200 } else { 200 };
                    let key = format!("{key}-{number}");
                    async move { ask(api, template, "stock-movements", &key, delta).await }
                });
                futures::future::join_all(moves).await;
            }
            Self::MovedWindow => {
                world.platform.cdc_tailer.pause().unwrap();
                let seconds = i64::try_from(key.len()).unwrap_or(1) + fastrand::i64(1..50);
                ask(&world.apis[0], template, "edit", key, seconds).await;
                sleep(down).await;
                world.platform.cdc_tailer.resume().unwrap();
            }
            Self::RewoundGate => {
                change_gate(world, template, SAVE);
                sleep(down).await;
                change_gate(world, template, REWIND);
            }
            Self::ForeignGate => change_gate(world, template, ESTRANGE),
            Self::LostGates => {
                for _ in 0..2 {
                    change_gate(world, template, LOSE);
                    sleep(down / 2).await;
                }
            }
            Self::WrongClock(millis) => {
                let file = world.platform.options.dir.join("wrong-clock");
                let clock = FakeClock::new(&file).unwrap();
                let api = &mut world.platform.apis[1];
                clock.give(api);
                api.restart().await.unwrap();
                clock.set_millis(millis).unwrap();
                sleep(down).await;
                clock.set(0).unwrap();
            }
        }
    }
}

/// Runs a script over all keys of a template's gate.
fn change_gate(world: &World, template: TemplateId, script: &str) {
    let keys = format!("{}*{{{template}:0}}", world.scope.key_prefix);
    let keys = if script == ESTRANGE { keys } else { format!("{keys}*") };
    let said = gate(world, &["eval", script, "0", &keys]);
    assert!(!said.contains("ERR"), "{said}");
}

/// Stops the second api inside a transaction. MySQL frees its locks within seconds; the api resumes after `down`.
async fn hang(
    world: &mut World,
    template: TemplateId,
    what: &'static str,
    key: &str,
    down: Duration,
) {
    let api = world.apis[1].clone();
    let key = key.to_owned();
    let asked: JoinHandle<()> =
        tokio::spawn(async move { ask(&api, template, what, &key, 7).await });
    let stopped = async || {
        let pid = world.platform.apis[1].pid().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") T ") || asked.is_finished()
    };
    until(stopped, |stopped| *stopped).await;
    sleep(down).await;
    world.platform.apis[1].resume().unwrap();
    drop(tokio::time::timeout(STATE_MAX, asked).await);
    if what == "pause" {
        let resumed = async || {
            ask(&world.apis[0], template, "resume", "", 0).await;
            world.apis[0].template(template).await.map(|template| template.state)
        };
        let is_published = |state: &Result<String, _>| state.as_deref().ok() == Some("published");
        drop(until(resumed, is_published).await);
    }
}

async fn execute(url: &str, sql: &str) {
    let mut connection = connect::single(url).await.unwrap();
    verify::execute(&mut connection, sql).await.unwrap();
}

/// Revokes the platform user's right to write on a read-only server, which other users lack anyway.
pub(crate) async fn let_read_only_bind(url: &str) {
    let mut connection = connect::single(url).await.unwrap();
    for statement in [
        "drop user if exists switch",
        "create user switch identified by 'switch'",
        "grant all on *.* to switch",
    ] {
        verify::execute(&mut connection, statement).await.unwrap();
    }
    let revoke = "revoke read only admin on *.* from current_user()";
    // MySQL knows neither that syntax nor that privilege: there `super_read_only` binds every user.
    drop(verify::execute(&mut connection, revoke).await);
}

/// `1`: the server is read-only; `0`: it is writable.
async fn read_only(url: &str, on: u8) {
    let (_, server) = url.split_once('@').unwrap();
    let url = &format!("mysql://switch:switch@{server}");
    let mut connection = connect::single(url).await.unwrap();
    let strict = format!("set global super_read_only = {on}");
    if verify::execute(&mut connection, &strict).await.is_err() || on == 0 {
        execute(url, &format!("set global read_only = {on}")).await;
    }
}

/// Runs `redis-cli` on the gate; returns its output.
fn gate(world: &World, words: &[&str]) -> String {
    redis_cli(&world.scope.endpoints.gate_redis_url, words)
}

/// Runs `redis-cli` on a server; returns its output.
pub(crate) fn redis_cli(url: &str, words: &[&str]) -> String {
    let said = std::process::Command::new("redis-cli").args(["-u", url]).args(words).output();
    String::from_utf8_lossy(&said.unwrap().stdout).into_owned()
}

fn memory(world: &World) -> u64 {
    let info = gate(world, &["info", "memory"]);
    let field = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    field.unwrap().trim().parse().unwrap()
}

fn limit_memory(world: &World, bytes: u64) {
    let said = gate(world, &["config", "set", "maxmemory", &bytes.to_string()]);
    assert_eq!(said.trim(), "OK");
}

/// Polls claims that are or were in flight, at random apis, until it is stopped.
pub(crate) struct Poller {
    stop: Arc<AtomicBool>,
    task: JoinHandle<BTreeMap<ClaimId, BTreeSet<u16>>>,
}

impl Poller {
    pub(crate) fn start(world: &World, templates: Vec<TemplateId>) -> Self {
        let gate = world.sources.gate.clone();
        let apis = world.apis.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let now = world.clock.clone();
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut answered: BTreeMap<ClaimId, BTreeSet<u16>> = BTreeMap::new();
            let mut owners: BTreeMap<ClaimId, (TemplateId, UserId)> = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                for template in &templates {
                    let Ok(Some(meta)) = gate.meta(*template).await else { continue };
                    let flying = gate.in_flight(*template, meta.epoch, now.now(), 0, POLLED).await;
                    for one in flying.unwrap_or_default().admissions {
                        owners.insert(one.id, (*template, one.user));
                    }
                }
                // Claims of earlier rounds too: they may have been decided since, or lost by their gate.
                let known: Vec<_> = owners.iter().collect();
                for (id, (template, user)) in fastrand::choose_multiple(known, POLLED) {
                    let api = &apis[fastrand::usize(..apis.len())];
                    let Ok(shopper) = api.shopper(*user) else { continue };
                    if let Ok(answer) = shopper.poll(*id, *template).await {
                        // A rejection is as definite as 404.
                        let status = match answer.fate() {
                            Some(Fate::Rejected { .. } | Fate::Lost) => 404,
                            _ => answer.status,
                        };
                        answered.entry(*id).or_default().insert(status);
                    }
                }
                sleep(POLL_EVERY).await;
            }
            answered
        });
        Self { stop, task }
    }

    /// Stops polling and compares every definite answer with MySQL. Returns how many claims had one.
    ///
    /// # Panics
    /// A claim got both definite answers, or MySQL differs.
    pub(crate) async fn check(self, world: &World) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.task.await.unwrap();
        let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
        let mut definite = 0;
        for (id, statuses) in answered {
            let landed = statuses.contains(&200);
            let lost = statuses.contains(&404);
            assert!(!(landed && lost), "claim {id} was called landed and lost: {statuses:?}");
            if landed || lost {
                definite += 1;
                let state = claim::state_of(&mut connection, id).await.unwrap();
                let stands = (state == Some(ClaimState::Landed)) == landed;
                assert!(stands, "claim {id} was answered {statuses:?}, and MySQL has {state:?}");
            }
        }
        definite
    }
}
