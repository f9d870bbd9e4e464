//! Movements that give back stock, numbers and lapses, from the topic to the gate.

use coupon::UserId;
use redis_gate::OpenFacts;
use topic::StockMovementRow;

use crate::movements::{EPOCH, GateHarness, TEMPLATE, facts, movement};

/// Holds the numbers 1, 2 and 3 at first.
const USER: UserId = UserId(70);

/// A return, or a lift: `returned` as MySQL stores it.
fn back(seq: i64, delta_stock: i64, returned: &str) -> StockMovementRow {
    let kind = if delta_stock > 0 { 1 } else { 2 };
    let returned = Some(returned.to_owned());
    StockMovementRow { kind, delta_stock: Some(delta_stock), returned, ..movement(seq, 0) }
}

/// Three returns of the user's coupons, of which the first and the last one lapsed.
fn three() -> [StockMovementRow; 3] {
    [back(2, 1, "70/1/1"), back(3, 1, "70/2/0"), back(4, 1, "70/3/1")]
}

impl GateHarness {
    /// A sale of held coupons, of which the user has three.
    async fn holding(name: &str) -> Self {
        let harness = Self::new(name).await;
        assert!(harness.gate.begin(TEMPLATE, EPOCH).await.unwrap());
        let users = [(USER, vec![1, 2, 3])];
        assert!(harness.gate.load(TEMPLATE, EPOCH, &users).await.unwrap());
        let facts = OpenFacts { limit: 3, stock: 7, lapses_allowed: 9, ..facts() };
        assert!(harness.gate.open(TEMPLATE, EPOCH, &facts).await.unwrap());
        harness
    }

    async fn send_rows(&self, rows: &[StockMovementRow]) {
        for row in rows {
            self.send_row(row.clone()).await;
        }
    }

    /// The gate's stock and last movement, and the user's numbers and lapses.
    async fn now(&self) -> ((i64, i64), Vec<u8>, u8) {
        let entry = self.gate.entry(TEMPLATE, EPOCH, USER).await.unwrap().unwrap();
        (self.stock().await, entry.taken, entry.lapses)
    }

    /// Writes a return into MySQL only.
    fn record_row(&self, row: &StockMovementRow) {
        let template = row.template_id;
        let seq = row.seq;
        let kind = row.kind;
        let stock = row.delta_stock.unwrap();
        let returned = row.returned.as_deref().unwrap();
        let text = format!(
            "insert into stock_movement (template_id, seq, delta, reason, actor, created_at, kind, delta_stock, returned) \
             values ({template}, {seq}, 0, 'why', 'who', utc_timestamp(3), {kind}, {stock}, '{returned}')"
        );
        testkit::sql(&self.test.scope.endpoints.database_url, &text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_takes_effect_once_however_often_and_in_whatever_order_it_comes() {
    let harness = GateHarness::holding("returns").await;
    let consumer = harness.test.start();
    harness.send_rows(&three()).await;
    for _ in 0..2 {
        let mut again = three();
        again.reverse();
        harness.send_rows(&again).await;
        harness.send_rows(&three()).await;
    }
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((10, 4), vec![], 2));
    // A lift is ordered with the lapses: a lapse that comes again after it no longer counts.
    harness.send_rows(&[back(5, 0, "70//lift"), back(4, 1, "70/3/1")]).await;
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((10, 5), vec![], 0));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_that_the_gate_lacks_are_fetched_from_mysql() {
    let harness = GateHarness::holding("return gap").await;
    let [first, second, last] = three();
    for row in [&first, &second] {
        harness.record_row(row);
    }
    let consumer = harness.test.start();
    // MySQL does not show the message's own movement yet.
    harness.send_row(last).await;
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((10, 4), vec![], 2));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_ahead_of_an_earlier_one_that_mysql_does_not_show_waits_for_it() {
    let harness = GateHarness::holding("return ahead").await;
    let [first, second, last] = three();
    let consumer = harness.test.start();
    harness.send_row(last.clone()).await;
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((7, 1), vec![1, 2, 3], 0), "nothing is passed over");
    for row in [&first, &second, &last] {
        harness.record_row(row);
    }
    // Any later message brings all of them along.
    harness.send_row(second).await;
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((10, 4), vec![], 2));
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_returns_that_cannot_be_read_is_passed_over_and_the_next_movement_brings_it_along()
 {
    let harness = GateHarness::holding("unreadable return").await;
    let [first, second, last] = three();
    for row in [&first, &second] {
        harness.record_row(row);
    }
    let consumer = harness.test.start();
    for garbage in ["70", "70/1", "x/1/1", "70/1/1,", "70/400/1"] {
        harness
            .send_row(StockMovementRow { returned: Some(garbage.to_owned()), ..first.clone() })
            .await;
    }
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((7, 1), vec![1, 2, 3], 0));
    harness.send_row(last).await;
    harness.caught_up().await;
    assert_eq!(harness.now().await, ((10, 4), vec![], 2));
    consumer.stop().await.unwrap();
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_consumer_that_dies_before_its_offset_is_stored_returns_nothing_twice() {
        let harness = GateHarness::holding("return repeated").await;
        let group = sync_consumer::movement_group(&harness.test.names);
        harness.send_rows(&three()).await;
        for _ in 0..3 {
            let consumer = harness.test.start();
            harness.caught_up().await;
            assert_eq!(harness.now().await, ((10, 4), vec![], 2));
            consumer.stop().await.unwrap();
            // The consumer starts as if no offset had been stored.
            harness.test.rewind_on(&group, harness.test.names.stock_movement()).await;
        }
    }
}
