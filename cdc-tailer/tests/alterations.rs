//! A definition that may change values is followed by its table read anew, whatever the tailer meets meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{collections::BTreeSet, ops::RangeInclusive};

use serde_json::Value;
use testkit::insert_coupons;
use topic::{HEADER_RESTATED, Message};

use crate::harness::{Harness, coupon, coupon_row};

/// A message about a coupon.
#[derive(Debug, PartialEq)]
struct Seen {
    op: String,
    id: i64,
    order: Option<String>,
    is_restated: bool,
}

impl Seen {
    fn of(message: &Message) -> Self {
        let event: Value = serde_json::from_slice(message.payload.as_ref().unwrap()).unwrap();
        Self {
            op: event["op"].as_str().unwrap().to_owned(),
            id: event["after"]["id"].as_i64().unwrap(),
            order: event["after"]["order_ref"].as_str().map(str::to_owned),
            is_restated: message.header(HEADER_RESTATED).is_some(),
        }
    }
}

/// Gives each coupon this order, without an event of any.
fn alter(test: &Harness, order: &str) {
    test.sql(&format!(
        "alter table user_coupon drop column order_ref, \
         add column order_ref varchar(64) null default '{order}' after used_at"
    ));
}

/// Returns all messages about coupons, up to the insertion of coupon `id`.
async fn seen_until(test: &Harness, id: i64) -> Vec<Seen> {
    let is_it = |message: &Message| {
        let seen = Seen::of(message);
        (seen.op.as_str(), seen.id) == ("c", id)
    };
    let topic = test.names.user_coupon();
    let messages = test.messages_until(&topic, |messages| messages.iter().any(is_it)).await;
    messages.iter().map(Seen::of).collect()
}

fn insert(test: &Harness, ids: RangeInclusive<i64>) {
    test.sql(&insert_coupons(ids.map(|id| coupon_row(id, id))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_changes_values_is_followed_by_its_table_read_anew() {
    let test = Harness::new("altered").await;
    let running = test.start().await;
    insert(&test, 1..=2);
    test.sql("alter table user_coupon add key ix_another (order_ref), comment 'drop column'");
    alter(&test, "o-9");
    test.sql(&coupon(3, 3));
    let seen = seen_until(&test, 3).await;
    let created = |id| Seen { op: "c".to_owned(), id, order: None, is_restated: false };
    let read = |id| {
        let order = Some("o-9".to_owned());
        Seen { op: "r".to_owned(), order, is_restated: true, ..created(id) }
    };
    assert_eq!(seen[..4], [created(1), created(2), read(1), read(2)]);
    assert_eq!(seen.last().unwrap(), &created(3));
    running.until_ready().await;
    running.stop().await.unwrap();
    assert!(test.checkpoint().await.contains(r#""snapshot":null"#));
}

mod full {
    use super::*;

    /// Rows of the altered table.
    const COUPONS: i64 = 3_000;

    /// Longest time in milliseconds before a tailer is dropped: it may not have met the definition yet, or have read
    /// the table.
    const DROPPED_WITHIN_MS: u64 = 120;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tailer_dropped_anywhere_behind_such_a_definition_leaves_no_row_as_it_was() {
        for test in Harness::on_all("altered and dropped").await {
            insert(&test, 1..=COUPONS);
            for round in 1..=3 {
                let running = test.start().await;
                let order = format!("o-{round}");
                alter(&test, &order);
                let lives = fastrand::u64(..DROPPED_WITHIN_MS);
                tokio::time::sleep(std::time::Duration::from_millis(lives)).await;
                running.abort();
                let running = test.start().await;
                let last = COUPONS + round;
                test.sql(&coupon(last, last));
                let seen = seen_until(&test, last).await;
                let restated = seen.iter().filter(|seen| seen.order.as_ref() == Some(&order));
                let restated: BTreeSet<i64> = restated.map(|seen| seen.id).collect();
                // The last one may have been there already.
                assert!(
                    restated.range(..last).eq(&(1..last).collect::<BTreeSet<_>>()),
                    "{lives} ms"
                );
                running.stop().await.unwrap();
            }
        }
    }
}
