//! Lists with a row that cannot be read: it is named in its place, and hides no other.

use std::fmt::Debug;

use coupon::{CouponStatus, MerchantId, TemplateId};
use mysql_store::{
    Listed, api_key, audit,
    list::{self, Order},
    look_up,
    merchant::{self, Merchant},
    search::{self, Along},
    user_view::{self, Walk},
};

use crate::harness::{MERCHANT, Store, TEMPLATE, USER, execute, landing, now};

/// Asserts that a list has these rows in this order, and names the damaged one.
fn assert_named<T: Debug, P: Debug + Copy>(
    whole: &[Listed<T, P>],
    id: impl Fn(&T) -> i64,
    named: impl Fn(P) -> i64,
    damaged: i64,
    ids: &[i64],
) {
    let found: Vec<i64> = whole
        .iter()
        .map(|one| match one {
            Listed::Row(row) => id(row),
            Listed::Unreadable(position) => named(*position),
        })
        .collect();
    assert_eq!(found, ids);
    let unread: Vec<i64> = whole
        .iter()
        .filter_map(|one| match one {
            Listed::Row(_) => None,
            Listed::Unreadable(position) => Some(named(*position)),
        })
        .collect();
    assert_eq!(unread, [damaged]);
}

/// As a dump that was loaded in a lax mode leaves them.
async fn zero(store: &mut Store, table: &str, column: &str, id: i64) {
    let lax = "set session sql_mode = ''";
    execute(&mut store.connection, lax).await;
    let version = if table == "user_coupon" { ", version = version + 1" } else { "" };
    let set =
        format!("update {table} set {column} = '0000-00-00 00:00:00'{version} where id = {id}");
    execute(&mut store.connection, &set).await;
}

#[tokio::test]
async fn a_damaged_row_of_an_operators_list_is_named_and_hides_no_other() {
    let mut store = Store::new("damaged operators").await;
    for id in [7, 8, 9] {
        let shop = Merchant { id: MerchantId(id), name: "A shop".to_owned(), created_at: now() };
        merchant::create(&mut store.connection, &shop).await.unwrap();
        let row = format!(
            "insert into api_key (id, merchant_id, name, digest, scopes, created_at) \
             values ({id}, 1, 'k', repeat('{id}', 32), 1, utc_timestamp(3)); \
             insert into audit_entry (id, merchant_id, action, target, created_at) \
             values ({id}, 1, 'a.b', 'c', utc_timestamp(3))"
        );
        execute(&mut store.connection, &row).await;
    }
    zero(&mut store, "merchant", "created_at", 8).await;
    zero(&mut store, "api_key", "expires_at", 8).await;
    zero(&mut store, "audit_entry", "created_at", 8).await;
    let connection = &mut store.connection;
    let merchants = merchant::page(connection, None, 10).await.unwrap();
    assert_named(&merchants, |one| one.id.0, |id| id.0, 8, &[9, 8, 7, 1]);
    // A key that is not accepted comes behind those that are.
    let keys = api_key::list(connection, MerchantId(1), now(), 10).await.unwrap();
    assert_named(&keys, |key| key.id.0, |id| id.0, 8, &[9, 7, 8]);
    let page = audit::page(connection, &audit::Filter::of(MerchantId(1)), None, 10).await.unwrap();
    assert_named(&page.lines, |line| line.entry.id.0, |id| id.0, 8, &[9, 8, 7]);
}

#[tokio::test]
async fn a_damaged_row_of_a_list_of_templates_is_named_in_its_place() {
    let mut store = Store::new("damaged templates").await;
    for id in [11, 12, 13] {
        store.publish(TemplateId(id), 5).await;
    }
    execute(&mut store.connection, "update coupon_template set discount_kind = 99 where id = 12")
        .await;
    let connection = &mut store.connection;
    for (order, ids) in
        [(Order::Newest, [13, 12, 11]), (Order::Starts, [11, 12, 13]), (Order::Ends, [11, 12, 13])]
    {
        let all = list::chunk(connection, Some(MERCHANT), order, None, 10).await.unwrap();
        assert_named(&all, |one| one.id.0, |behind| behind.id.0, 12, &ids);
        // One at a time.
        let mut behind = None;
        let mut walked = Vec::new();
        while let [one] =
            &list::chunk(connection, Some(MERCHANT), order, behind, 1).await.unwrap()[..]
        {
            let position = one.position(|template| list::Behind::of(template, order));
            walked.push(position.id.0);
            behind = Some(position);
        }
        assert_eq!(walked, ids);
    }
}

#[tokio::test]
async fn a_damaged_coupon_is_named_in_every_list_of_its_user_and_left_out_of_the_view() {
    let mut store = Store::with_template("damaged coupons", 10).await;
    let landings: Vec<_> =
        [("a", 1), ("b", 2), ("c", 3)].map(|(key, number)| landing(key, &[number])).into();
    let mut ids: Vec<i64> = landings.iter().map(|one| one.landed.coupons[0].id.0).collect();
    for landing in landings {
        store.land(&[landing]).await;
    }
    ids.reverse();
    let damaged = ids[1];
    zero(&mut store, "user_coupon", "valid_from", damaged).await;
    let connection = &mut store.connection;
    let looked = look_up::coupons_of(connection, MERCHANT, USER, None, 10).await.unwrap();
    assert_named(&looked, |row| row.id.0, |id| id.0, damaged, &ids);
    for along in [Along::User(USER), Along::Template(TEMPLATE, None)] {
        let found = search::page(connection, MERCHANT, along, None, 10).await.unwrap();
        let mut found: Vec<i64> =
            found.iter().map(|one| one.position(search::Position::of).id.0).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, ids, "{along:?}");
    }
    let unused = CouponStatus::Unused;
    let page = user_view::page(connection, USER, unused, None, 10).await.unwrap();
    assert_named(&page, |row| row.id.0, |position| position.id.0, damaged, &ids);
    let few = user_view::rows_of_few(connection, USER, now(), 10).await.unwrap();
    assert_eq!(few, None, "they are walked through");
    let pool = mysql_store::connect::pool(&store.url, 2).await.unwrap();
    let mut walk = Walk::begin(&pool, USER, now()).await.unwrap();
    let mut walked = Vec::new();
    let mut left_out = Vec::new();
    while let Some(piece) = walk.next(1).await.unwrap() {
        walked.extend(piece.iter().map(|row| row.id.0));
        left_out.extend(walk.unreadable().iter().map(|id| id.0));
    }
    assert_eq!((walked, left_out), (vec![ids[0], ids[2]], vec![damaged]));
}
