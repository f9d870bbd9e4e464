//! Stock, epochs and movements.

use coupon::{Epoch, Open, RequestId, TemplateId, UserId};
use mysql_store::{
    MySqlConnection,
    landing::Attempt,
    stock::{self, Moved, Movement, NewMovement, Recorded, Stock},
    taken_numbers::{NumberPage, NumberPages, PAGE_ENTRIES},
};
use sqlx::Connection;
use testkit::{CouponRow, insert_coupons};

use crate::harness::{
    EPOCH, Store, TEMPLATE, USER, execute, id_of, landing, landing_of, now, waits_for_a_row,
};

const NOWHERE: TemplateId = TemplateId(99);

#[tokio::test]
async fn a_new_template_has_its_total_in_one_movement() {
    let mut store = Store::with_template("new stock", 10).await;
    let stock = stock::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    let queued_epoch = EPOCH;
    let open = Open::All;
    let new = Stock { total: 10, stock: 10, epoch: EPOCH, queued_epoch, open, movement: 1 };
    assert_eq!(stock, new);
    let movements = stock::movements_after(&mut store.connection, TEMPLATE, 0).await.unwrap();
    assert_eq!(movements.iter().map(|one| (one.seq, one.delta)).collect::<Vec<_>>(), [(1, 10)]);
    assert_eq!(stock::get(&mut store.connection, NOWHERE).await.unwrap(), None);
}

#[tokio::test]
async fn each_epoch_is_begun_by_one_caller_only() {
    let mut store = Store::with_template("epochs", 10).await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        let mut one = store.another().await;
        let mut other = store.another().await;
        let (one, other) = tokio::join!(
            stock::next_epoch(&mut one, TEMPLATE),
            stock::next_epoch(&mut other, TEMPLATE)
        );
        begun.extend([one.unwrap().unwrap(), other.unwrap().unwrap()]);
    }
    begun.sort_unstable();
    let first = Epoch::FIRST.0;
    assert_eq!(begun, (first..first + 10).map(Epoch).collect::<Vec<_>>());
    assert_eq!(stock::next_epoch(&mut store.connection, NOWHERE).await.unwrap(), None);
}

#[tokio::test]
async fn an_epoch_begins_after_every_landing_of_the_one_before() {
    let mut store = Store::with_template("epoch waits", 10).await;
    let mut lander = store.another().await;
    let mut rebuilder = store.another().await;
    let rebuilder_id = id_of(&mut rebuilder).await;
    let mut landing = lander.begin().await.unwrap();
    let guard = "update template_stock set stock = stock - 4 \
                 where template_id = 10 and epoch = 1 and open = 1 and stock >= 4";
    execute(&mut landing, guard).await;
    let rebuild = tokio::spawn(async move {
        let epoch = stock::next_epoch(&mut rebuilder, TEMPLATE).await.unwrap().unwrap();
        (epoch, stock::get(&mut rebuilder, TEMPLATE).await.unwrap().unwrap())
    });
    waits_for_a_row(&mut store.connection, rebuilder_id).await;
    landing.commit().await.unwrap();
    let (epoch, seen) = rebuild.await.unwrap();
    assert_eq!((epoch, seen.epoch, seen.stock), (Epoch(2), Epoch(2), 6));
    assert_eq!(store.land(&[crate::harness::landing("a", &[1])]).await, Attempt::GuardRefused);
}

#[tokio::test]
async fn taken_numbers_come_user_by_user() {
    let mut store = Store::with_template("taken numbers", 100).await;
    let other = TemplateId(11);
    store.publish(other, 10).await;
    let landings = [
        landing_of(TEMPLATE, UserId(9), "a", &[4]),
        landing_of(TEMPLATE, UserId(5), "a", &[3, 1]),
        landing_of(TEMPLATE, UserId(5), "b", &[5]),
        landing_of(other, UserId(5), "a", &[2]),
        landing("a", &[1]),
    ];
    assert_eq!(store.land(&landings).await, Attempt::Landed);
    let connection = &mut store.connection;
    // A returned coupon, and all that one user had.
    let beyond = format!(
        "update user_coupon set claim_no = id, version = version + 1 \
         where template_id = {TEMPLATE} and (user_id = 9 or (user_id = 5 and claim_no = 3))"
    );
    execute(connection, &beyond).await;
    let mut pages = NumberPages::of(TEMPLATE);
    let page = pages.next(connection).await.unwrap().unwrap();
    assert_eq!(page.taken, [(UserId(5), vec![1, 5]), (USER, vec![1])]);
    assert_eq!(page.returned, [UserId(9)]);
    assert_eq!(pages.next(connection).await.unwrap(), None);
    let nowhere = NumberPages::of(NOWHERE).next(connection).await.unwrap();
    assert_eq!(nowhere, Some(NumberPage::default()));
}

#[tokio::test]
async fn no_user_is_cut_in_two_where_a_page_of_taken_numbers_ends() {
    /// Users hold 97 numbers, so a page ends within a user.
    const NUMBERS: u8 = 97;
    let mut store = Store::with_template("pages of numbers", 0).await;
    let users = 2 * PAGE_ENTRIES as i64 / i64::from(NUMBERS);
    let numbers = |user| (1..=i64::from(NUMBERS)).map(move |number| (user, number));
    let rows = (0..users).flat_map(numbers).map(|(user, claim_no)| CouponRow {
        claim_no,
        claim_id: 1,
        ..CouponRow::unused(user * 1_000 + claim_no, user)
    });
    let insert = insert_coupons(rows);
    execute(&mut store.connection, &insert).await;
    let mut found = Vec::new();
    let mut pages = NumberPages::of(TEMPLATE);
    let mut count = 0;
    while let Some(page) = pages.next(&mut store.connection).await.unwrap() {
        count += 1;
        found.extend(page.taken);
    }
    let all: Vec<u8> = (1..=NUMBERS).collect();
    let expected: Vec<_> = (0..users).map(|user| (UserId(user), all.clone())).collect();
    assert_eq!(found, expected);
    assert!(count > 1);
}

/// A page that counted only the numbers within the limit would read all of them at once.
#[tokio::test]
async fn a_user_with_more_returned_coupons_than_a_page_has_entries_is_read_page_by_page() {
    let mut store = Store::with_template("many returned", 0).await;
    let many = 2 * PAGE_ENTRIES as i64 + 7;
    let own = |user, number| CouponRow {
        claim_no: number,
        claim_id: 1,
        ..CouponRow::unused(user * 1_000_000 + number, user)
    };
    let rows = (1_000..1_000 + many).map(|number| own(7, number));
    let insert = insert_coupons(rows.chain([own(7, 3), own(8, 1), own(9, 5_000)]));
    execute(&mut store.connection, &insert).await;
    let mut pages = NumberPages::of(TEMPLATE);
    let mut read = Vec::new();
    while let Some(page) = pages.next(&mut store.connection).await.unwrap() {
        read.push(page);
    }
    assert_eq!(read.len(), 3);
    assert_eq!(read[..2], [NumberPage::default(), NumberPage::default()]);
    assert_eq!(read[2].taken, [(UserId(7), vec![3]), (UserId(8), vec![1])]);
    assert_eq!(read[2].returned, [UserId(9)]);
}

/// Requests a movement of [`TEMPLATE`].
async fn add(connection: &mut MySqlConnection, key: &str, delta: i64) -> Moved {
    add_to(connection, TEMPLATE, key, delta).await
}

async fn add_to(
    connection: &mut MySqlConnection,
    template: TemplateId,
    key: &str,
    delta: i64,
) -> Moved {
    let request_id = RequestId::from_client(key).unwrap();
    let new = NewMovement { request_id: &request_id, delta, reason: "why", actor: "who" };
    stock::add_movement(connection, template, &new, now()).await.unwrap()
}

#[tokio::test]
async fn movements_change_total_and_stock_and_are_numbered_without_gaps() {
    let mut store = Store::with_template("movements", 10).await;
    store.land(&[landing("a", &[1])]).await;
    for (key, delta, total, stock, seq) in [("up", 5, 15, 14, 2), ("down", -14, 1, 0, 3)] {
        let moved = add(&mut store.connection, key, delta).await;
        assert_eq!(moved, Moved::Recorded(Recorded { seq, total, stock }));
    }
    let found = stock::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    let queued_epoch = EPOCH;
    let open = Open::All;
    let left = Stock { total: 1, stock: 0, epoch: EPOCH, queued_epoch, open, movement: 3 };
    assert_eq!(found, left);
    let too_much = add(&mut store.connection, "too-much", -1).await;
    assert_eq!(too_much, Moved::TooLittleLeft { stock: 0 });
    // A refused movement leaves no lock, and its key is free.
    let mut other = store.another().await;
    let recorded = Recorded { seq: 4, total: 3, stock: 2 };
    assert_eq!(add(&mut other, "too-much", 2).await, Moved::Recorded(recorded));
    let nowhere = add_to(&mut store.connection, NOWHERE, "nowhere", 1).await;
    assert_eq!(nowhere, Moved::NoTemplate);

    let reason = "why".to_owned();
    let actor = "who".to_owned();
    let movements = stock::movements_after(&mut store.connection, TEMPLATE, 2).await.unwrap();
    let moved = |seq, delta| Movement {
        seq,
        kind: stock::Kind::Total,
        delta,
        delta_stock: delta,
        returned: Vec::new(),
        reason: reason.clone(),
        actor: actor.clone(),
    };
    assert_eq!(movements, [moved(3, -14), moved(4, 2)]);
}

#[tokio::test]
async fn a_key_moves_the_stock_once_and_answers_alike_ever_after() {
    let mut store = Store::with_template("movement keys", 10).await;
    let first = Recorded { seq: 2, total: 3, stock: 3 };
    assert_eq!(add(&mut store.connection, "cut", -7).await, Moved::Recorded(first));
    assert_eq!(add(&mut store.connection, "more", 1).await, {
        Moved::Recorded(Recorded { seq: 3, total: 4, stock: 4 })
    });
    store.land(&[landing("a", &[1, 2, 3])]).await;
    // Too little is left for it by now; the answer stays the same.
    assert_eq!(add(&mut store.connection, "cut", -7).await, Moved::Replayed(first));
    assert_eq!(add(&mut store.connection, "cut", -6).await, Moved::KeyReused);
    assert_eq!(add(&mut store.connection, "CUT", -1).await, {
        Moved::Recorded(Recorded { seq: 4, total: 3, stock: 0 })
    });
    store.publish(TemplateId(11), 10).await;
    assert_eq!(add_to(&mut store.connection, TemplateId(11), "cut", -7).await, {
        Moved::Recorded(first)
    });
}

#[tokio::test]
async fn a_total_stays_within_what_the_gate_can_count() {
    let mut store = Store::with_template("movement bounds", 10).await;
    let most = coupon::limit::STOCK_MAX;
    assert_eq!(add(&mut store.connection, "a", most).await, Moved::TooMuch { total: 10 });
    let full = Recorded { seq: 2, total: most, stock: most };
    assert_eq!(add(&mut store.connection, "b", most - 10).await, Moved::Recorded(full));
    assert_eq!(add(&mut store.connection, "c", 1).await, Moved::TooMuch { total: most });
}

#[tokio::test]
async fn one_key_sent_many_times_at_once_moves_once() {
    let mut store = Store::with_template("movement key at once", 8).await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let mut connection = store.another().await;
        tasks.push(tokio::spawn(async move { add(&mut connection, "same", -8).await }));
    }
    let recorded = Recorded { seq: 2, total: 0, stock: 0 };
    let mut moved = Vec::new();
    for task in tasks {
        moved.push(task.await.unwrap());
    }
    assert_eq!(moved.iter().filter(|one| **one == Moved::Recorded(recorded)).count(), 1);
    assert_eq!(moved.iter().filter(|one| **one == Moved::Replayed(recorded)).count(), 7);
    assert_eq!(store.left(TEMPLATE).await, 0);
}

#[tokio::test]
async fn movements_at_the_same_time_lose_nothing() {
    let mut store = Store::with_template("movements at once", 0).await;
    let mut tasks = Vec::new();
    for task in 0..8 {
        let mut connection = store.another().await;
        let key = format!("key-{task}");
        tasks.push(tokio::spawn(async move { add(&mut connection, &key, 3).await }));
    }
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Moved::Recorded(_)));
    }
    let stock = stock::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((stock.total, stock.stock, stock.movement), (24, 24, 9));
    let movements = stock::movements_after(&mut store.connection, TEMPLATE, 0).await.unwrap();
    assert!((1..=9).eq(movements.iter().map(|movement| movement.seq)));
}
