//! A separate database and gate for each test, processes on them, and helpers to damage both.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use coupon::{Claim, ClaimId, Epoch, LandedClaim, Template, TemplateId, TemplateState, UserId};
use devstack::{Endpoints, TestServers};
use landing::{
    claims::{Answer, Bounds, CLAIMS_MAX, Claims, Unavailable, fate::Asker},
    gates::{Gates, PRELOAD},
    ids::Ids,
    lander,
    queue::{ClaimQueue, NoQueue},
    rebuild::{Rebuilt, rebuild},
    resolver::{GRACE, Resolved, Resolver},
    settler::Settler,
};
use mysql_store::{
    MySqlConnection, MySqlPool, connect, stock, taken_numbers::NumberPages, template, verify,
};
use redis_gate::{Entry, Gate, GateRedis, Meta};
use runtime::{Clock, FailPoints};
use sqlx::Row;
use testkit::{MERCHANT, STATE_MAX, until_listed, until_true};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub(crate) const TEMPLATE: TemplateId = TemplateId(10);
pub(crate) const USER: UserId = UserId(70);
/// Who owns the templates.
pub(crate) const OPERATOR: Asker = Asker::Merchant(MERCHANT);

/// Interval between polls.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

const CONNECTIONS: u32 = 8;

/// Replicas that a claim accepted after them waits for.
const COPIES: u32 = 1;

pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) pool: MySqlPool,
    pub(crate) gate: Gate,
    /// What carries queued claims.
    pub(crate) queue: Arc<dyn ClaimQueue>,
    pub(crate) gate_url: String,
    pub(crate) prefix: String,
}

/// Row counts in MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    pub(crate) landed: i64,
    /// Fenced admissions.
    pub(crate) fences: i64,
    pub(crate) coupons: i64,
}

impl World {
    /// [`TEMPLATE`], published with `stock` coupons and this limit per user, its gate open.
    pub(crate) async fn open(name: &str, stock: i64, limit: u32) -> Self {
        let world = Self::without_gate(name, stock, limit).await;
        world.rebuild().await;
        world
    }

    pub(crate) async fn without_gate(name: &str, stock: i64, limit: u32) -> Self {
        let scope = TestServers::shared().scope(name);
        Self::on(scope.endpoints, &scope.key_prefix, stock, limit).await
    }

    /// [`TEMPLATE`], published on the given servers, without a gate.
    pub(crate) async fn on(servers: Endpoints, prefix: &str, stock: i64, limit: u32) -> Self {
        let url = servers.database_url;
        let gate_url = servers.gate_redis_url;
        verify::copy_schema(&url).await.unwrap();
        let pool = connect::pool(&url, CONNECTIONS).await.unwrap();
        let gate = Gate::new(GateRedis::connect(&gate_url).await.unwrap(), prefix);
        let queue = Arc::new(NoQueue);
        let prefix = prefix.to_owned();
        let world = Self { url, pool, gate, queue, gate_url, prefix };
        world.publish(TEMPLATE, stock, limit).await;
        world
    }

    pub(crate) async fn publish(&self, id: TemplateId, stock: i64, limit: u32) {
        let mut connection = self.connection().await;
        let template = Template { state: TemplateState::Draft, version: 1, ..template(id, limit) };
        template::create(&mut connection, &template, stock, "test", now()).await.unwrap();
        self.change_state(id, TemplateState::Published).await;
    }

    /// Changes the state in MySQL only.
    pub(crate) async fn change_state(&self, id: TemplateId, state: TemplateState) {
        let mut connection = self.connection().await;
        let current = template::get(&mut connection, id).await.unwrap().unwrap();
        assert!(template::change_state(&mut connection, &current, state, now()).await.unwrap());
    }

    pub(crate) async fn connection(&self) -> MySqlConnection {
        connect::single(&self.url).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        execute(&mut self.connection().await, sql).await;
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        number(&mut self.connection().await, sql).await
    }

    /// Stock left in MySQL.
    pub(crate) async fn left(&self) -> i64 {
        stock::get(&mut self.connection().await, TEMPLATE).await.unwrap().unwrap().stock
    }

    pub(crate) async fn meta(&self) -> Meta {
        self.gate.meta(TEMPLATE).await.unwrap().unwrap()
    }

    pub(crate) async fn rebuild(&self) -> Epoch {
        self.rebuild_gate_of(TEMPLATE).await
    }

    pub(crate) async fn rebuild_gate_of(&self, id: TemplateId) -> Epoch {
        let points = FailPoints::default();
        let rebuilt = rebuild(&self.pool, &self.gate, &*self.queue, id, "test", &points);
        match rebuilt.await.unwrap() {
            Rebuilt::Open(epoch) => epoch,
            other => panic!("{other:?}"),
        }
    }

    /// Removes every key of this gate, like a Redis that starts without its file.
    pub(crate) async fn lose_gate(&self) {
        let client = redis::Client::open(self.gate_url.as_str()).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        let pattern = format!("{}*", self.prefix);
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.unwrap();
        assert!(!keys.is_empty());
        let _: i64 = redis::cmd("DEL").arg(keys).query_async(&mut redis).await.unwrap();
    }

    /// Overwrites a user's entry with garbage.
    pub(crate) async fn damage_entry(&self, user: UserId) {
        self.damage("HSET", "users", &[&user.0.to_string(), "garbage"]).await;
    }

    /// Adds a member that is the oldest in flight.
    pub(crate) async fn damage_in_flight(&self, member: &str) {
        self.damage("ZADD", "inflight", &["1", member]).await;
    }

    pub(crate) async fn replace_in_flight(&self) {
        self.damage("SET", "inflight", &["x"]).await;
    }

    pub(crate) async fn replace_queued(&self) {
        self.damage("SET", "queued", &["x"]).await;
    }

    pub(crate) async fn replace_outbox(&self) {
        self.damage_key("SET", "outbox", &["x"]).await;
    }

    /// Adds an entry to the outbox that no relay of the test takes.
    pub(crate) async fn keep_outbox(&self) {
        self.damage_key("XADD", "outbox", &["*", "a", "b"]).await;
    }

    /// Makes the key of one part of the gate a text.
    pub(crate) async fn replace(&self, part: &str) {
        self.damage_key("SET", part, &["x"]).await;
    }

    /// Changes a field of meta, as no script would.
    pub(crate) async fn set_meta(&self, field: &str, value: &str) {
        self.damage_key("HSET", "meta", &[field, value]).await;
    }

    async fn damage(&self, command: &str, part: &str, arguments: &[&str]) {
        let epoch = self.meta().await.epoch;
        self.damage_key(command, &format!("{part}:{epoch}"), arguments).await;
    }

    async fn damage_key(&self, command: &str, part: &str, arguments: &[&str]) {
        let key = format!("{}gate:1:{{{TEMPLATE}:0}}:{part}", self.prefix);
        let client = redis::Client::open(self.gate_url.as_str()).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(command).arg(key).arg(arguments).exec_async(&mut redis).await.unwrap();
    }

    pub(crate) async fn rows(&self) -> Rows {
        Rows {
            landed: self.number("select count(*) from claim where state = 1").await,
            fences: self.number("select count(*) from claim where state = 2").await,
            coupons: self.number("select count(*) from user_coupon").await,
        }
    }

    /// The user's entry in the gate; empty if there is none.
    pub(crate) async fn entry(&self, user: UserId) -> Entry {
        let epoch = self.meta().await.epoch;
        self.gate.entry(TEMPLATE, epoch, user).await.unwrap().unwrap_or_default()
    }

    /// Runs one scan of a resolver without grace.
    pub(crate) async fn resolve(&self) -> Resolved {
        self.resolver().look(now()).await.unwrap()
    }

    pub(crate) fn resolver(&self) -> Resolver {
        Resolver {
            pool: self.pool.clone(),
            gate: self.gate.clone(),
            queue: Arc::clone(&self.queue),
            grace: Duration::ZERO,
            points: FailPoints::default(),
        }
    }

    /// The same gate at another address.
    pub(crate) async fn gate_at(&self, url: &str) -> Gate {
        Gate::new(GateRedis::connect(url).await.unwrap(), &self.prefix)
    }

    pub(crate) async fn settled(&self) {
        let settled = async || {
            let epoch = self.meta().await.epoch;
            self.gate.in_flight_count(TEMPLATE, epoch).await.unwrap() == 0
        };
        until_true(settled).await;
    }

    /// Asserts that the open gate agrees with MySQL and that nothing is in flight.
    pub(crate) async fn assert_gate_equals_mysql(&self) {
        let meta = self.meta().await;
        assert!(meta.of_this_run);
        assert_eq!(self.gate.in_flight_count(TEMPLATE, meta.epoch).await.unwrap(), 0);
        let mut connection = self.connection().await;
        let stock = stock::get(&mut connection, TEMPLATE).await.unwrap().unwrap();
        assert_eq!((meta.stock, meta.epoch), (stock.stock, stock.epoch));
        let mut taken = Vec::new();
        let mut pages = NumberPages::of(TEMPLATE);
        while let Some(page) = pages.next(&mut connection).await.unwrap() {
            taken.extend(page.taken);
        }
        let entries = self.gate.entries(TEMPLATE, meta.epoch).await.unwrap();
        let mut held: Vec<_> = entries
            .into_iter()
            .filter(|(_, entry)| !entry.taken.is_empty())
            .map(|(user, entry)| (user, entry.taken))
            .collect();
        held.sort_unstable();
        let differs = held.iter().zip(&taken).find(|(gate, mysql)| gate != mysql);
        assert_eq!((differs, held.len()), (None, taken.len()));
    }
}

/// The parts of one api process that belong to this crate, running.
pub(crate) struct Process {
    pub(crate) claims: Claims,
    pub(crate) gates: Gates,
    pub(crate) template: Arc<Template>,
    /// For holding and failing the process.
    pub(crate) points: FailPoints,
    /// The clock for timestamps and decisions.
    pub(crate) clock: Clock,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// Settings that may differ between processes.
pub(crate) struct Setup {
    /// Its name in leases.
    pub(crate) holder: &'static str,
    /// Whether it runs a keeper.
    pub(crate) keeps: bool,
    /// The database address of its landers.
    pub(crate) database_url: String,
    pub(crate) gate: Gate,
    /// How long to keep calling a gate that may have admitted a claim.
    pub(crate) ask_for: Duration,
    /// Most claims under way at once.
    pub(crate) under_way: usize,
}

impl Process {
    /// Starts a process with a keeper.
    pub(crate) async fn start(world: &World, holder: &'static str) -> Self {
        Self::start_with(world, |setup| setup.holder = holder).await
    }

    /// Starts a process that knows no gate and checks none.
    pub(crate) async fn without_keeper(world: &World, holder: &'static str) -> Self {
        let change = |setup: &mut Setup| (setup.holder, setup.keeps) = (holder, false);
        Self::start_with(world, change).await
    }

    pub(crate) async fn start_with(world: &World, change: impl FnOnce(&mut Setup)) -> Self {
        let database_url = world.url.clone();
        let gate = world.gate.clone();
        let ask_for = GRACE;
        let under_way = CLAIMS_MAX;
        let mut setup = Setup { holder: "a", keeps: true, database_url, gate, ask_for, under_way };
        change(&mut setup);
        let Setup { holder, keeps, database_url, gate, ask_for, under_way } = setup;
        let points = FailPoints::default();
        let clock = Clock::manual(now());
        let mut tasks = Vec::new();
        let mut spawn =
            |task: tokio::task::JoinHandle<()>| tasks.push(AbortOnDropHandle::new(task));
        let pool = connect::pool(&world.url, CONNECTIONS).await.unwrap();
        let ids = Arc::new(Ids::lease(pool.clone(), holder).await.unwrap());
        let (landers, workers) =
            lander::landers(lander::LANDERS, CLAIMS_MAX, &database_url, &ids, &points);
        for worker in workers {
            spawn(tokio::spawn(worker.run()));
        }
        let (gates, keeper) = Gates::new(
            pool,
            gate.clone(),
            Arc::clone(&world.queue),
            holder,
            PRELOAD,
            points.clone(),
        );
        if keeps {
            spawn(tokio::spawn(keeper.run(now, CancellationToken::new())));
        }
        let (settler, settling) = Settler::new(gate, points.clone());
        spawn(tokio::spawn(settling));
        let template =
            template::get(&mut world.connection().await, TEMPLATE).await.unwrap().unwrap();
        let own = clock.clone();
        let at = points.clone();
        let now = move || own.now();
        let bounds = Bounds { under_way, ask_max: ask_for, copies: COPIES };
        let claims = Claims::new(gates.clone(), landers, settler, now, bounds, at);
        Self { claims, gates, template: Arc::new(template), points, clock, _tasks: tasks }
    }

    /// Sends a claim without waiting for its answer.
    pub(crate) fn begin(&self, claim: &Claim) -> AbortOnDropHandle<Answer> {
        let claims = self.claims.clone();
        let template = Arc::clone(&self.template);
        let claim = claim.clone();
        let answer = async move { claims.claim(template, claim).await };
        AbortOnDropHandle::new(tokio::spawn(answer))
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Answer {
        self.claims.claim(Arc::clone(&self.template), claim.clone()).await
    }

    /// Ends a pause in MySQL and at the gate, as an operator's call does. A keeper that still tells the gate of the
    /// pause comes too late after it.
    pub(crate) async fn publish(&self, world: &World) {
        world.change_state(TEMPLATE, TemplateState::Published).await;
        let published =
            template::get(&mut world.connection().await, TEMPLATE).await.unwrap().unwrap();
        assert!(self.gates.show(&published).await.unwrap());
    }

    /// Claims, and returns the claim, which must have landed, now or earlier.
    pub(crate) async fn land(&self, claim: &Claim) -> LandedClaim {
        match self.claim(claim).await {
            Answer::Landed { claim, .. } => claim,
            other => panic!("{other:?}"),
        }
    }

    /// Repeats a request, each time as another admission, until the answer is definite.
    pub(crate) async fn retry(&self, claim: &Claim) -> Answer {
        let answer = async {
            loop {
                match self.claim(&again(claim)).await {
                    Answer::Unavailable(Unavailable::GateLoading | Unavailable::Gate)
                    | Answer::InProgress => {
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    answer => return answer,
                }
            }
        };
        tokio::time::timeout(STATE_MAX, answer).await.unwrap()
    }
}

pub(crate) async fn execute(connection: &mut MySqlConnection, sql: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

/// Returns the number that a statement selects.
pub(crate) async fn number(connection: &mut MySqlConnection, sql: &str) -> i64 {
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await.unwrap();
    row.try_get_unchecked(0).unwrap()
}

/// Waits until the connection with this id waits for a row lock.
pub(crate) async fn waits_for_a_row(world: &World, id: i64) {
    let mut connection = world.connection().await;
    let thread = format!("thread id {id},");
    until_true(async || {
        let status = sqlx::raw_sql("show engine innodb status");
        let row = status.fetch_one(&mut connection).await.unwrap();
        let text: String = row.try_get_unchecked("Status").unwrap();
        let mut transactions = text.split("---TRANSACTION");
        transactions.any(|one| one.contains(&thread) && one.contains("LOCK WAIT"))
    })
    .await;
}

/// Waits until a connection waits for a locked table of this database.
pub(crate) async fn somebody_waits_for_a_table(world: &World) {
    let mut connection = world.connection().await;
    until_session(&mut connection, "db = database() and state = 'Waiting for table metadata lock'")
        .await;
}

/// Waits until there is a session for which `condition` holds, and returns its id.
pub(crate) async fn until_session(connection: &mut MySqlConnection, condition: &str) -> i64 {
    until_listed(async || verify::sessions(connection, condition).await.unwrap()).await
}

/// The time at which all tests run.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(4_000_000_000_123).unwrap()
}

/// A published template, claimable from an hour before [`now`] to an hour after.
pub(crate) fn template(id: TemplateId, limit: u32) -> Template {
    Template {
        per_user_limit: limit,
        max_per_claim: 5,
        state: TemplateState::Published,
        version: 2,
        ..testkit::draft(id, now())
    }
}

/// A claim of `user` under `key`, with a unique id.
pub(crate) fn claim(user: UserId, key: &str, quantity: u32) -> Claim {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let id = ClaimId(NEXT.fetch_add(1, Ordering::Relaxed));
    testkit::claim(id, TEMPLATE, user, key, quantity, now())
}

/// The same request as another admission.
pub(crate) fn again(first: &Claim) -> Claim {
    claim(first.user_id, first.request_id.as_str(), first.quantity)
}
