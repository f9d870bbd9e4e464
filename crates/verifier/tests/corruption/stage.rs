//! A small platform at rest, set up by the stores' own functions without any process: three users of one template, with
//! one coupon unused, one used and one expired.

use std::{process::Stdio, time::Duration};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{
    Admission, ClaimId, ClaimMode, CouponId, Epoch, LandedClaim, LandingMode, MerchantId,
    RedemptionId, Template, TemplateId, TemplateState, UserId, Validity,
};
use devstack::{Flavor, OwnDatabase, Scope, TestServers, if_installed};
use mysql_store::{
    MySqlConnection, connect, expiry, landing, redemption, template,
    user_coupon::{self, Use, UserCoupon},
    verify, view_generation,
};
use redis_gate::{OpenFacts, QueueOptions, Verdict};
use redis_view::{Begun, Change, GenerationsFuture, ViewCoupon, ViewStore};
use runtime::Clock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    join,
    net::TcpStream,
    process::Command,
    time::timeout,
};
use topic::{
    Consumer, ConsumerOptions, Event, Op, Producer, ProducerOptions, Source, TemplateRow,
    TopicLayout, UserCouponRow, ensure_topics,
};
use verifier::{History, Outcome, Record, Report, Settings, Sources, Verdict as Found, verify};

use crate::events::{event, movement_event};

pub(crate) const TEMPLATE: TemplateId = TemplateId(7);
/// The template's epoch.
const EPOCH: Epoch = Epoch(1);
/// Has an unused coupon.
pub(crate) const HOLDER: UserId = UserId(1);
/// Has a used coupon.
pub(crate) const SPENDER: UserId = UserId(2);
/// Has an expired coupon.
pub(crate) const SLEEPER: UserId = UserId(3);

/// Longest wait for a consumer group on a loaded machine.
const BROKER_MAX: Duration = Duration::from_secs(60);

/// Coupons of one call that loads a view.
const LOADED_AT_ONCE: usize = 1_000;

pub(crate) struct Stage {
    pub(crate) scope: Scope,
    pub(crate) sources: Sources,
    pub(crate) history: History,
    pub(crate) settings: Settings,
    /// The view as a process of the platform uses it.
    view: ViewStore,
    producer: Producer,
    now: DateTime<Utc>,
}

impl Stage {
    /// Sets up the platform in a consistent state.
    pub(crate) async fn new(name: &str) -> Self {
        Self::on(TestServers::shared().scope(name)).await
    }

    /// Like [`Self::new`], with a MySQL or MariaDB of its own, as long as the second value lives. `None` if it is not
    /// installed here.
    pub(crate) async fn on_own(name: &str, flavor: Flavor) -> Option<(Self, OwnDatabase)> {
        let of_its_own = format!("verifier-{}-{}", name.replace(' ', "-"), flavor.name());
        let own = OwnDatabase::start(&of_its_own, flavor, &[]).await;
        let own = if_installed(own, &of_its_own)?;
        let mut scope = TestServers::shared().scope(name);
        scope.endpoints.database_url = own.url();
        scope.endpoints = scope.endpoints.with_database(&scope.database);
        Some((Self::on(scope).await, own))
    }

    /// Like [`Self::new`], on the servers that `scope` names.
    pub(crate) async fn on(scope: Scope) -> Self {
        verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
        let settings = Settings {
            database_url: scope.endpoints.database_url.parse().unwrap(),
            gate_redis_url: scope.endpoints.gate_redis_url.parse().unwrap(),
            view_redis_url: scope.endpoints.view_redis_url.parse().unwrap(),
            kafka_brokers: scope.endpoints.kafka_brokers.clone(),
            key_prefix: scope.key_prefix.clone(),
            topic_prefix: scope.topic_prefix.clone(),
        };
        let view = view(&settings).await;
        let sources = Sources::connect(&settings).await.unwrap();
        let now = Clock::system().now().trunc_subsecs(3);
        let producer =
            Producer::connect(&sources.brokers, ProducerOptions::default()).await.unwrap();
        let history = History::default();
        let mut stage = Self { scope, sources, history, settings, view, producer, now };
        stage.publish_template().await;
        for user in [HOLDER, SPENDER, SLEEPER] {
            stage.claim(user).await;
        }
        stage.end_coupons().await;
        stage.build_views().await;
        stage.publish_changes().await;
        stage
    }

    /// The verifier's report, with the clients' answers.
    pub(crate) async fn report(&self) -> Report {
        verify(&self.sources, Some(&self.history), self.now).await.unwrap()
    }

    /// The numbers of the invariants that are violated now.
    pub(crate) async fn broken(&self) -> Vec<&'static str> {
        self.report().await.violated().map(|outcome| outcome.invariant).collect()
    }

    /// The outcome of one invariant now.
    pub(crate) async fn outcome(&self, invariant: &str) -> Outcome {
        let outcomes = self.report().await.outcomes;
        outcomes.into_iter().find(|outcome| outcome.invariant == invariant).unwrap()
    }

    /// The program `verify`, ready to be started on this platform.
    pub(crate) fn program(&self) -> Command {
        let settings = &self.settings;
        let mut verify = Command::new(env!("CARGO_BIN_EXE_verify"));
        verify
            .env("DATABASE_URL", settings.database_url.expose())
            .env("GATE_REDIS_URL", settings.gate_redis_url.expose())
            .env("VIEW_REDIS_URL", settings.view_redis_url.expose())
            .env("KAFKA_BROKERS", &settings.kafka_brokers)
            .env("KEY_PREFIX", &settings.key_prefix)
            .env("TOPIC_PREFIX", &settings.topic_prefix)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        verify
    }

    /// Damages MySQL.
    pub(crate) async fn sql(&self, statement: &str) {
        let changed = verify::execute(&mut self.mysql().await, statement).await.unwrap();
        assert!(changed > 0, "no damage done by {statement}");
    }

    /// Damages a Redis: `command` as in redis-cli, with `{p}` for the key prefix.
    pub(crate) async fn redis(&self, url: &str, command: &str) {
        let mut stream = TcpStream::connect(url.strip_prefix("redis://").unwrap()).await.unwrap();
        let command = command.replace("{p}", &self.scope.key_prefix);
        stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with(':') || answer.starts_with('+'), "{command}: {answer}");
    }

    /// Sends one more change to the coupons' topic; if `commit`, the consumer's group commits it.
    pub(crate) async fn send(&self, event: &Event<UserCouponRow>, commit: bool) {
        let user = event.after.as_ref().unwrap().user_id.to_string();
        let payload = serde_json::to_vec(event).unwrap();
        self.produce(&self.sources.topics.user_coupon(), None, &user, &payload).await;
        if commit {
            self.consume(1).await;
        }
    }

    /// Sends anything to any topic.
    pub(crate) async fn produce(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: &str,
        payload: &[u8],
    ) {
        self.producer.send(topic, partition, key.as_bytes(), payload, &[]).await.unwrap();
    }

    /// The template's event as the tailer publishes it.
    pub(crate) async fn template_event(&self) -> Event<TemplateRow> {
        let rows =
            verify::topic_rows::templates_from(&mut self.mysql().await, 0, 1).await.unwrap().rows;
        let template = &rows[0].template;
        let millis = |at: DateTime<Utc>| at.timestamp_millis();
        let row = TemplateRow {
            id: template.id.0,
            merchant_id: template.merchant_id.0,
            name: template.name.clone(),
            discount_kind: template.discount.kind.code(),
            discount_value: template.discount.value,
            discount_cap: template.discount.cap,
            minimum_spend: template.discount.minimum_spend,
            currency: template.discount.currency.clone(),
            per_user_limit: template.per_user_limit.cast_signed(),
            max_per_claim: template.max_per_claim.cast_signed(),
            claim_starts_at: millis(template.window.starts_at),
            claim_ends_at: millis(template.window.ends_at),
            valid_from: None,
            valid_until: None,
            valid_for_ms: Some(TimeDelta::hours(1).num_milliseconds()),
            self_redeem: template.self_redeem.into(),
            stackable: template.stackable.into(),
            claim_mode: template.claim_mode.code(),
            accept_after: template.accept_after.code(),
            hold_ms: template.hold.hold.map_or(0, |hold| hold.num_milliseconds()),
            lapses_allowed: template.hold.lapses_allowed.cast_signed(),
            returned_stock: template.hold.returned_stock.code(),
            state: template.state.code(),
            version: template.version,
            created_at: millis(rows[0].created_at),
            changed_at: millis(rows[0].changed_at),
        };
        let source = Source::default();
        Event { before: None, after: Some(row), op: Op::Update, source, ts_ms: 0 }
    }

    /// A user's current row.
    pub(crate) async fn row(&self, user: UserId) -> UserCoupon {
        let mut connection = self.mysql().await;
        let page = verify::topic_rows::coupons_from(&mut connection, 0, 10).await.unwrap();
        page.rows.into_iter().find(|row| row.user_id == user).unwrap()
    }

    pub(crate) async fn mysql(&self) -> MySqlConnection {
        connect::single(&self.scope.endpoints.database_url).await.unwrap()
    }

    async fn publish_template(&self) {
        let mut connection = self.mysql().await;
        let draft = Template {
            per_user_limit: 2,
            max_per_claim: 2,
            validity: Validity::Relative { valid_for: TimeDelta::hours(1) },
            ..testkit::draft(TEMPLATE, self.now)
        };
        template::create(&mut connection, &draft, 10, "test", self.now).await.unwrap();
        let next = TemplateState::Published;
        assert!(template::change_state(&mut connection, &draft, next, self.now).await.unwrap());
        let facts = OpenFacts {
            version: 2,
            state: next,
            mode: ClaimMode::Direct,
            starts_at: draft.window.starts_at,
            ends_at: draft.window.ends_at,
            limit: 2,
            stock: 10,
            movement: 1,
            lapses_allowed: 0,
        };
        assert!(self.sources.gate.begin(TEMPLATE, EPOCH).await.unwrap());
        assert!(self.sources.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    }

    /// Claims by gate, landing and settling, and records the client's answer.
    async fn claim(&mut self, user: UserId) {
        let id = ClaimId(100 + user.0);
        let key = format!("key-{user}");
        let claimed_at = self.now - TimeDelta::minutes(30);
        let claim = testkit::claim(id, TEMPLATE, user, &key, 1, claimed_at);
        let admitted = self
            .sources
            .gate
            .claim(&claim, EPOCH, claim.claimed_at, QueueOptions::direct())
            .await
            .unwrap();
        let Verdict::Admitted { numbers, .. } = admitted else { panic!("{admitted:?}") };
        let life = if user == SLEEPER { TimeDelta::minutes(1) } else { TimeDelta::hours(1) };
        let landed = LandedClaim {
            valid_until: claimed_at + life,
            ..testkit::landed(&claim, [(CouponId(1000 + user.0), 1)])
        };
        self.history.records.push(Record {
            template: TEMPLATE,
            user,
            key: Some(claim.request_id.to_string()),
            quantity: 1,
            sent_at_ms: claim.claimed_at.timestamp_millis(),
            status: Some(201),
            code: None,
            replayed: false,
            body: Some(format!(
                r#"{{"id":"{}","coupons":[{{"id":"{}"}}]}}"#,
                landed.id, landed.coupons[0].id
            )),
        });
        let admission = Admission { claim, epoch: EPOCH, numbers };
        let settled = (user, landed.id);
        let landing = landing::Landing {
            admission,
            merchant_id: MerchantId(1),
            terms: 1,
            landed,
            admitted_at: None,
            left_after: None,
        };
        let attempt =
            landing::land(&mut self.mysql().await, LandingMode::Direct, &[landing]).await.unwrap();
        assert_eq!(attempt, landing::Attempt::Landed);
        self.sources.gate.settle(TEMPLATE, EPOCH, &[settled]).await.unwrap();
    }

    async fn end_coupons(&self) {
        let mut connection = self.mysql().await;
        let id = CouponId(1000 + SPENDER.0);
        let used = user_coupon::use_for_order(&mut connection, SPENDER, id, "order", self.now);
        let Use::Used(coupon) = used.await.unwrap() else { panic!("it is used") };
        let new = redemption::New {
            id: RedemptionId(501),
            coupon: &coupon,
            order_ref: "order",
            money: None,
            actor: "platform",
            at: self.now,
        };
        redemption::add(&mut connection, new).await.unwrap();
        let id = CouponId(1000 + SLEEPER.0);
        assert_eq!(expiry::flip(&mut connection, &[id], self.now).await.unwrap(), 1);
    }

    async fn build_views(&self) {
        for user in [HOLDER, SPENDER, SLEEPER] {
            self.build_view(user).await;
        }
    }

    /// Builds a user's view of all coupons in MySQL.
    pub(crate) async fn build_view(&self, user: UserId) {
        let view = &self.view;
        let Begun::Begun(nonce) = view.begin(user, self.now).await.unwrap() else { panic!() };
        let rows = verify::coupons_of_users(&mut self.mysql().await, &[user]).await.unwrap();
        let changes: Vec<Change> = rows[&user].rows.iter().map(change).collect();
        for some in changes.chunks(LOADED_AT_ONCE) {
            assert!(view.load(user, nonce, some, self.now).await.unwrap());
        }
        assert!(view.complete(user, nonce).await.unwrap());
    }

    /// Fills the topics as the tailer does, and lets consumers catch up.
    async fn publish_changes(&self) {
        let layout = TopicLayout { partitions: 2, replication: 1 };
        ensure_topics(&self.sources.brokers, &self.sources.topics, &layout).await.unwrap();
        let topics = &self.sources.topics;
        let template = serde_json::to_vec(&self.template_event().await).unwrap();
        self.produce(&topics.template(), None, "7", &template).await;
        let movement =
            verify::topic_rows::movements_from(&mut self.mysql().await, 0, 0, 1).await.unwrap();
        let movement = serde_json::to_vec(&movement_event(&movement.rows[0])).unwrap();
        self.produce(&topics.stock_movement(), None, "7", &movement).await;
        let mut sent = 0;
        for user in [HOLDER, SPENDER, SLEEPER] {
            let row = self.row(user).await;
            for version in 1..=row.version {
                self.send(&event(&row, version), false).await;
                sent += 1;
            }
        }
        let movements = self.sources.topics.stock_movement();
        let movements = self.consume_as("sync-consumer.movements", movements, 1);
        join!(self.consume(sent), movements);
    }

    pub(crate) async fn consume(&self, messages: usize) {
        let changes = || self.sources.topics.user_coupon();
        let views = self.consume_as("sync-consumer", changes(), messages);
        let wake_ups = self.consume_as("sync-consumer.wake-ups", changes(), messages);
        join!(views, wake_ups);
    }

    async fn consume_as(&self, process: &str, topic: String, messages: usize) {
        let topics = [topic];
        let group = format!("{}.{process}", self.scope.topic_prefix);
        let options = ConsumerOptions::default();
        let consumer =
            Consumer::join(&self.sources.brokers, &group, &topics, options).await.unwrap();
        let mut consumed = 0;
        while consumed < messages {
            let batch = timeout(BROKER_MAX, consumer.next_batch(16)).await.unwrap().unwrap();
            consumed += batch.len();
            batch.iter().for_each(|message| consumer.store(message));
        }
        consumer.close().await.unwrap();
    }
}

/// The view as a process of the platform uses it: it raises the generation of an unknown server.
async fn view(settings: &Settings) -> ViewStore {
    let pool = connect::pool(settings.database_url.expose(), 1).await.unwrap();
    let generations_of = Box::new(move |served: Vec<_>| -> GenerationsFuture {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = connect::acquire(&pool).await?;
            Ok(view_generation::generations_of(&mut connection, &served).await?)
        })
    });
    let url = settings.view_redis_url.expose();
    ViewStore::connect(url, settings.key_prefix.clone(), generations_of).await.unwrap()
}

/// Whether the outcome is a violation that mentions `text`.
pub(crate) fn blames(outcome: &Outcome, text: &str) -> bool {
    matches!(&outcome.verdict, Found::Violated { examples, .. }
        if examples.iter().any(|example| example.contains(text)))
}

fn change(row: &UserCoupon) -> Change {
    Change {
        coupon: ViewCoupon {
            id: row.id,
            template_id: row.template_id,
            claim_no: row.claim_no,
            claim_id: row.claim_id,
            claimed_at: row.claimed_at,
            valid_from: row.valid_from,
            valid_until: row.valid_until,
        },
        status: row.status,
        version: row.version,
    }
}
