//! Stock movements from the topic to the gate.

use chrono::{DateTime, Utc};
use coupon::{ClaimMode, Epoch, RequestId, TemplateId, TemplateState, UserId};
use mysql_store::{
    connect,
    stock::{self, Moved, NewMovement},
    template,
};
use redis_gate::{Gate, GateRedis, Meta, OpenFacts};
use topic::{Event, Op, Source, StockMovementRow};

use crate::harness::{Harness, row};

pub(crate) const TEMPLATE: TemplateId = TemplateId(10);
pub(crate) const EPOCH: Epoch = Epoch(7);

/// A template of ten coupons whose gate includes its first movement.
pub(crate) struct GateHarness {
    pub(crate) test: Harness,
    pub(crate) gate: Gate,
}

impl GateHarness {
    pub(crate) async fn new(name: &str) -> Self {
        let test = Harness::new(name).await;
        let redis = GateRedis::connect(&test.scope.endpoints.gate_redis_url).await.unwrap();
        let gate = Gate::new(redis, &test.scope.key_prefix);
        let url = &test.scope.endpoints.database_url;
        let mut connection = connect::single(url).await.unwrap();
        let draft = testkit::draft(TEMPLATE, now());
        template::create(&mut connection, &draft, 10, "test", now()).await.unwrap();
        Self { test, gate }
    }

    async fn open(&self, epoch: Epoch) {
        assert!(self.gate.begin(TEMPLATE, epoch).await.unwrap());
        assert!(self.gate.open(TEMPLATE, epoch, &facts()).await.unwrap());
    }

    /// Records a movement in MySQL only.
    async fn record(&self, delta: i64) -> i64 {
        let mut connection =
            connect::single(&self.test.scope.endpoints.database_url).await.unwrap();
        let request_id = RequestId::from_client(&format!("by{delta}")).unwrap();
        let new = NewMovement { request_id: &request_id, delta, reason: "why", actor: "who" };
        match stock::add_movement(&mut connection, TEMPLATE, &new, now()).await.unwrap() {
            Moved::Recorded(recorded) => recorded.seq,
            other => panic!("{other:?}"),
        }
    }

    async fn send(&self, seq: i64, delta: i64) {
        self.send_row(movement(seq, delta)).await;
    }

    pub(crate) async fn send_row(&self, row: StockMovementRow) {
        let source = Source::default();
        let event = Event { before: None, after: Some(row), op: Op::Create, source, ts_ms: 1_000 };
        self.send_raw(&serde_json::to_vec(&event).unwrap()).await;
    }

    async fn send_raw(&self, payload: &[u8]) {
        let topic = self.test.names.stock_movement();
        self.test.send_to(&topic, &TEMPLATE.to_string(), payload).await;
    }

    pub(crate) async fn caught_up(&self) {
        let names = &self.test.names;
        let group = sync_consumer::movement_group(names);
        self.test.caught_up_on(&group, &names.stock_movement()).await;
    }

    async fn meta(&self) -> Option<Meta> {
        self.gate.meta(TEMPLATE).await.unwrap()
    }

    /// The gate's stock, and the number of its last movement.
    pub(crate) async fn stock(&self) -> (i64, i64) {
        let meta = self.meta().await.unwrap();
        (meta.stock, meta.movement)
    }
}

/// A change of the total.
pub(crate) fn movement(seq: i64, delta: i64) -> StockMovementRow {
    StockMovementRow {
        template_id: TEMPLATE.0,
        seq,
        delta,
        reason: "why".to_owned(),
        actor: "who".to_owned(),
        created_at: 1_000,
        request_id: None,
        total_after: None,
        stock_after: None,
        kind: 0,
        delta_stock: None,
        returned: None,
    }
}

/// A sale of ten coupons with their first movement.
pub(crate) fn facts() -> OpenFacts {
    OpenFacts {
        version: 2,
        state: TemplateState::Published,
        mode: ClaimMode::Direct,
        starts_at: now(),
        ends_at: now(),
        limit: 1,
        stock: 10,
        movement: 1,
        lapses_allowed: 0,
    }
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn movements_reach_the_gate_once_each_however_often_they_come() {
    let harness = GateHarness::new("movements").await;
    harness.open(EPOCH).await;
    let consumer = harness.test.start();
    for _ in 0..3 {
        for (seq, delta) in [(1, 10), (2, 5), (3, -15)] {
            harness.send(seq, delta).await;
        }
    }
    harness.caught_up().await;
    assert_eq!(harness.stock().await, (0, 3));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn movements_that_the_gate_lacks_are_fetched_from_mysql() {
    let harness = GateHarness::new("movement gap").await;
    harness.open(EPOCH).await;
    for delta in [5, -3] {
        harness.record(delta).await;
    }
    let last = harness.record(20).await;
    let consumer = harness.test.start();
    harness.send(last, 20).await;
    harness.caught_up().await;
    assert_eq!(harness.stock().await, (32, last));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_absent_or_loading_keeps_no_movement_waiting() {
    let harness = GateHarness::new("movement without gate").await;
    let consumer = harness.test.start();
    harness.send(2, 5).await;
    harness.caught_up().await;
    assert_eq!(harness.meta().await, None);
    assert!(harness.gate.begin(TEMPLATE, EPOCH).await.unwrap());
    harness.send(3, 5).await;
    harness.caught_up().await;
    harness.open(Epoch(8)).await;
    harness.send(2, 5).await;
    harness.caught_up().await;
    assert_eq!(harness.stock().await, (15, 2));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_movement_is_passed_over_and_the_next_one_brings_it_along() {
    let harness = GateHarness::new("unreadable movement").await;
    harness.open(EPOCH).await;
    for delta in [5, 6] {
        harness.record(delta).await;
    }
    let consumer = harness.test.start();
    harness.send_raw(b"{\"after\":").await;
    harness.send_raw(b"").await;
    harness.send(3, 6).await;
    harness.caught_up().await;
    assert_eq!(harness.stock().await, (21, 3));
    consumer.stop().await.unwrap();
}

/// A downgrade or a manual change may leave such a row. The keeper begins a new epoch, which needs no movements.
#[tokio::test(flavor = "multi_thread")]
async fn a_movement_in_mysql_that_cannot_be_read_keeps_no_other_waiting() {
    let harness = GateHarness::new("unreadable in mysql").await;
    harness.open(EPOCH).await;
    for delta in [5, 6] {
        harness.record(delta).await;
    }
    let url = &harness.test.scope.endpoints.database_url;
    let mut connection = connect::single(url).await.unwrap();
    let newer = "update stock_movement set kind = 99 where seq = 2";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    let consumer = harness.test.start();
    harness.send(3, 6).await;
    harness.caught_up().await;
    assert_eq!(harness.stock().await, (10, 1), "the gate lacks it and what follows");
    consumer.stop().await.unwrap();
}

/// The script reads such a number, and we do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_last_movement_is_no_whole_number_keeps_no_other_waiting() {
    let harness = GateHarness::new("movement of a half").await;
    harness.open(EPOCH).await;
    let scope = &harness.test.scope;
    let redis = redis::Client::open(scope.endpoints.gate_redis_url.as_str()).unwrap();
    let mut redis = redis.get_multiplexed_async_connection().await.unwrap();
    let metas = format!("{}*meta", scope.key_prefix);
    let metas: Vec<String> = redis::cmd("KEYS").arg(metas).query_async(&mut redis).await.unwrap();
    assert_eq!(metas.len(), 1);
    let mut write = redis::cmd("HSET");
    write.arg(&metas[0]).arg("movement").arg("1.5").exec_async(&mut redis).await.unwrap();
    let consumer = harness.test.start();
    harness.send(4, 5).await;
    harness.send(i64::MAX, i64::MIN).await;
    harness.caught_up().await;
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_do_not_wait_for_a_gate_that_is_away() {
    let test = Harness::new("gate away").await;
    test.warm(UserId(70)).await;
    let away = |config: &mut sync_consumer::Config| {
        config.gate_redis_url = "redis://127.0.0.1:1".parse().unwrap();
    };
    let consumer = test.start_changed(away);
    test.send(&row(1, 70)).await;
    test.caught_up().await;
    assert_eq!(test.listed(UserId(70)).await, ["1_1"]);
    consumer.stop().await.unwrap();
}
