//! A small platform at rest, set up by the stores' own functions and without any process: three users
//! of one template, one coupon unused, one used, one expired.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{
    Admission, Claim, ClaimId, CouponId, Discount, DiscountKind, Epoch, LandedClaim, LandedCoupon,
    MerchantId, PayloadHash, RequestId, Template, TemplateId, TemplateState, UserId, Validity,
    Window,
};
use devstack::{Scope, TestServers};
use mysql_store::{
    MySqlConnection, connect, expiry, landing, migrate, snapshot, template,
    user_coupon::{self, UserCoupon},
    verify,
};
use redis_gate::{OpenFacts, Verdict};
use redis_view::{Begun, Change, ViewCoupon};
use runtime::Clock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use topic::{
    Consumer, ConsumerOptions, Event, Op, Producer, ProducerOptions, Source, TopicLayout,
    UserCouponRow, ensure_topics,
};
use verifier::{History, Outcome, Record, Report, Settings, Sources, Verdict as Found, verify};

/// The template.
pub(crate) const TEMPLATE: TemplateId = TemplateId(7);
/// Its epoch.
const EPOCH: Epoch = Epoch(1);
/// Holds an unused coupon.
pub(crate) const HOLDER: UserId = UserId(1);
/// Has used one.
pub(crate) const SPENDER: UserId = UserId(2);
/// Let one expire.
pub(crate) const SLEEPER: UserId = UserId(3);

/// Longest wait for a broker's group on a loaded machine.
const BROKER_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) scope: Scope,
    pub(crate) sources: Sources,
    pub(crate) history: History,
    now: DateTime<Utc>,
}

impl Stage {
    /// Everything in place and in agreement.
    pub(crate) async fn new(name: &str) -> Self {
        let scope = TestServers::shared().scope(name);
        migrate::run(&scope.endpoints.database_url).await.unwrap();
        let settings = Settings {
            database_url: scope.endpoints.database_url.parse().unwrap(),
            gate_redis_url: scope.endpoints.gate_redis_url.parse().unwrap(),
            view_redis_url: scope.endpoints.view_redis_url.parse().unwrap(),
            kafka_brokers: scope.endpoints.kafka_brokers.clone(),
            key_prefix: scope.key_prefix.clone(),
            topic_prefix: scope.topic_prefix.clone(),
        };
        let sources = Sources::connect(&settings).await.unwrap();
        let now = Clock::system().now().trunc_subsecs(3);
        let mut stage = Self { scope, sources, history: History::default(), now };
        stage.publish_template().await;
        for user in [HOLDER, SPENDER, SLEEPER] {
            stage.claim(user).await;
        }
        stage.end_coupons().await;
        stage.build_views().await;
        stage.publish_changes().await;
        stage
    }

    /// What the verifier says, with the clients' answers.
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

    /// Damages MySQL.
    pub(crate) async fn sql(&self, statement: &str) {
        let changed = verify::execute(&mut self.mysql().await, statement).await.unwrap();
        assert!(changed > 0, "no damage done by {statement}");
    }

    /// Damages a Redis: `command` as redis-cli takes it, `{p}` standing for the key prefix.
    pub(crate) async fn redis(&self, url: &str, command: &str) {
        let mut stream = TcpStream::connect(url.strip_prefix("redis://").unwrap()).await.unwrap();
        let command = command.replace("{p}", &self.scope.key_prefix);
        stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with(':') || answer.starts_with('+'), "{command}: {answer}");
    }

    /// Sends one more change to the topic of coupons and lets the consumer's group commit it.
    pub(crate) async fn send(&self, event: &Event<UserCouponRow>, commit: bool) {
        let producer =
            Producer::connect(&self.sources.brokers, ProducerOptions::default()).await.unwrap();
        let user = event.after.as_ref().unwrap().user_id.to_string();
        let payload = serde_json::to_vec(event).unwrap();
        let topic = self.sources.topics.user_coupon();
        producer.send(&topic, None, user.as_bytes(), &payload, &[]).await.unwrap();
        if commit {
            self.consume(1).await;
        }
    }

    /// A user's row as it stands.
    pub(crate) async fn row(&self, user: UserId) -> UserCoupon {
        let rows = snapshot::user_coupon_after(&mut self.mysql().await, 0, 10).await.unwrap();
        rows.into_iter().find(|row| row.user_id == user).unwrap()
    }

    async fn mysql(&self) -> MySqlConnection {
        connect::single(&self.scope.endpoints.database_url).await.unwrap()
    }

    async fn publish_template(&self) {
        let mut connection = self.mysql().await;
        let window = Window {
            starts_at: self.now - TimeDelta::hours(1),
            ends_at: self.now + TimeDelta::hours(1),
        };
        let draft = Template {
            id: TEMPLATE,
            merchant_id: MerchantId(1),
            name: "A sale".to_owned(),
            discount: Discount {
                kind: DiscountKind::AmountOff,
                value: 500,
                cap: None,
                minimum_spend: 0,
                currency: "EUR".to_owned(),
            },
            per_user_limit: 2,
            max_per_claim: 2,
            window,
            validity: Validity::Relative { valid_for: TimeDelta::hours(1) },
            self_redeem: false,
            state: TemplateState::Draft,
            version: 1,
        };
        template::create(&mut connection, &draft, 10, "test", self.now).await.unwrap();
        let next = TemplateState::Published;
        assert!(template::change_state(&mut connection, &draft, next, self.now).await.unwrap());
        let facts = OpenFacts {
            version: 2,
            state: next,
            starts_at: window.starts_at,
            ends_at: window.ends_at,
            limit: 2,
            stock: 10,
            movement: 1,
        };
        assert!(self.sources.gate.begin(TEMPLATE, EPOCH).await.unwrap());
        assert!(self.sources.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
    }

    /// Gate, landing, settle; and the answer that the client got.
    async fn claim(&mut self, user: UserId) {
        let claim = Claim {
            id: ClaimId(100 + user.0),
            template_id: TEMPLATE,
            user_id: user,
            request_id: RequestId::from_client(&format!("key-{user}")).unwrap(),
            payload_hash: PayloadHash::of_quantity(1),
            quantity: 1,
            claimed_at: self.now - TimeDelta::minutes(30),
            trace_parent: None,
        };
        let admitted = self.sources.gate.claim(&claim, EPOCH, claim.claimed_at).await.unwrap();
        let Verdict::Admitted { numbers, .. } = admitted else { panic!("{admitted:?}") };
        let life = if user == SLEEPER { TimeDelta::minutes(1) } else { TimeDelta::hours(1) };
        let landed = LandedClaim {
            id: claim.id,
            template_id: TEMPLATE,
            user_id: user,
            payload_hash: claim.payload_hash,
            claimed_at: claim.claimed_at,
            valid_from: claim.claimed_at,
            valid_until: claim.claimed_at + life,
            coupons: vec![LandedCoupon { id: CouponId(1000 + user.0), claim_no: 1 }],
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
        let landing = landing::Landing { admission, merchant_id: MerchantId(1), terms: 1, landed };
        let attempt = landing::land(&mut self.mysql().await, &[landing]).await.unwrap();
        assert_eq!(attempt, landing::Attempt::Landed);
        self.sources.gate.settle(TEMPLATE, EPOCH, &[settled]).await.unwrap();
    }

    async fn end_coupons(&self) {
        let mut connection = self.mysql().await;
        let id = CouponId(1000 + SPENDER.0);
        user_coupon::use_for_order(&mut connection, SPENDER, id, "order", self.now).await.unwrap();
        let id = CouponId(1000 + SLEEPER.0);
        assert_eq!(expiry::flip(&mut connection, &[id], self.now).await.unwrap(), 1);
    }

    async fn build_views(&self) {
        for user in [HOLDER, SPENDER, SLEEPER] {
            let view = &self.sources.view;
            let Begun::Begun(nonce) = view.begin(user, self.now).await.unwrap() else { panic!() };
            let change = change(&self.row(user).await);
            assert!(view.load(user, nonce, &[change]).await.unwrap());
            assert!(view.complete(user, nonce).await.unwrap());
        }
    }

    /// The topic as the tailer would have filled it, and a consumer that has kept up.
    async fn publish_changes(&self) {
        let layout = TopicLayout { partitions: 1, replication: 1 };
        ensure_topics(&self.sources.brokers, &self.sources.topics, &layout).await.unwrap();
        let mut sent = 0;
        for user in [HOLDER, SPENDER, SLEEPER] {
            let row = self.row(user).await;
            for version in 1..=row.version {
                self.send(&event(&row, version), false).await;
                sent += 1;
            }
        }
        self.consume(sent).await;
    }

    async fn consume(&self, messages: usize) {
        let topics = [self.sources.topics.user_coupon()];
        let group = format!("{}.sync-consumer", self.scope.topic_prefix);
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

/// The event of one version of a row.
pub(crate) fn event(row: &UserCoupon, version: i64) -> Event<UserCouponRow> {
    let after = UserCouponRow {
        id: row.id.0,
        template_id: row.template_id.0,
        user_id: row.user_id.0,
        claim_no: row.claim_no,
        claim_id: row.claim_id.0,
        merchant_id: row.merchant_id.0,
        status: if version == 1 { 0 } else { row.status.code() },
        version,
        expiry_shard: row.expiry_shard,
        claimed_at: row.claimed_at.timestamp_millis(),
        changed_at: row.changed_at.timestamp_millis(),
        valid_from: row.valid_from.timestamp_millis(),
        valid_until: row.valid_until.timestamp_millis(),
        used_at: None,
        order_ref: None,
        trace_parent: None,
    };
    let op = if version == 1 { Op::Create } else { Op::Update };
    Event { before: None, after: Some(after), op, source: Source::default(), ts_ms: 0 }
}

/// Whether the outcome is a violation that mentions `text`.
pub(crate) fn blames(outcome: &Outcome, text: &str) -> bool {
    matches!(&outcome.verdict, Found::Violated { examples }
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
