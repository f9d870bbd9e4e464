//! Changes of a template's validity: nothing lands with the old one, and issued coupons follow
//! once.

use std::{future::ready, io};

use chrono::TimeDelta;
use coupon::{CouponId, MoveState, Template, TemplateId, TemplateState, UserId, Validity};
use mysql_store::{
    MySqlConnection, connect,
    desk::{self, Change},
    landing::{self, Attempt, Landing},
    template,
    template_edit::{self, Edited},
    validity_move::{self, CHUNK, CHUNK_SQL, Step},
};
use sqlx::{AssertSqlSafe, Connection, Row};
use testkit::sql_time;

use crate::{
    coupons::returns::{confirm_some, held, holding, ids},
    harness::{MERCHANT, Store, TEMPLATE, draft, execute, landing, landing_of, now, number},
};

fn until(hours: i64) -> Validity {
    Validity::Absolute { from: now() - TimeDelta::hours(1), until: now() + TimeDelta::hours(hours) }
}

async fn current(connection: &mut MySqlConnection) -> Template {
    template::get(connection, TEMPLATE).await.unwrap().unwrap()
}

/// Edits the current version of the template.
async fn change(connection: &mut MySqlConnection, to: &Validity, follow: bool) -> Edited {
    let template = current(connection).await;
    change_of(connection, &template, to, follow).await
}

async fn change_of(
    connection: &mut MySqlConnection,
    template: &Template,
    to: &Validity,
    follow: bool,
) -> Edited {
    let edited = Template { validity: *to, ..template.clone() };
    template_edit::edit(connection, template, &edited, follow, now()).await.unwrap()
}

async fn step(connection: &mut MySqlConnection) -> Option<Step> {
    step_after(connection, &mut None).await
}

async fn step_after(
    connection: &mut MySqlConnection,
    last: &mut Option<TemplateId>,
) -> Option<Step> {
    validity_move::step(connection, last, now(), || ready(Ok(()))).await.unwrap()
}

/// Runs all steps and returns the number of coupons processed and moved.
async fn move_all(connection: &mut MySqlConnection) -> (usize, u64) {
    let mut looked_at = 0;
    let mut moved = 0;
    while let Some(step) = step(connection).await {
        (looked_at, moved) = (looked_at + step.looked_at, moved + step.moved);
    }
    (looked_at, moved)
}

/// Counts the coupons of this version that end in so many hours.
async fn ending(connection: &mut MySqlConnection, hours: i64, version: i64) -> i64 {
    let until = (now() + TimeDelta::hours(hours)).format("%Y-%m-%d %H:%M:%S%.3f");
    let sql = format!(
        "select count(*) from user_coupon where valid_until = '{until}' and version = {version}"
    );
    number(connection, &sql).await
}

#[tokio::test]
async fn after_a_change_nothing_lands_with_the_old_validity_and_all_with_the_new() {
    let mut store = Store::with_template("new terms", 10).await;
    // The version right after the template was published.
    let version = current(&mut store.connection).await.version;
    let old = |key: &str| Landing { terms: version, ..landing(key, &[1]) };
    assert_eq!(store.land(&[old("a")]).await, Attempt::Landed);
    assert_eq!(change(&mut store.connection, &until(2), false).await, Edited::Done);
    let mut late = vec![
        Landing { terms: version, ..landing("b", &[2]) },
        Landing { terms: version + 1, ..landing_of(TEMPLATE, UserId(71), "b", &[1]) },
    ];
    assert_eq!(store.land(&late).await, Attempt::GuardRefused, "one of them is of older terms");
    assert_eq!(store.counts().await, (1, 1));
    assert!(landing::renew(&mut store.connection, late.iter_mut().collect()).await.unwrap());
    assert!(!landing::renew(&mut store.connection, late.iter_mut().collect()).await.unwrap());
    assert_eq!(store.land(&late).await, Attempt::Landed);
    // A change of state does not change the terms.
    let template = current(&mut store.connection).await;
    for state in [TemplateState::Paused, TemplateState::Published] {
        let template = current(&mut store.connection).await;
        let changed = template::change_state(&mut store.connection, &template, state, now());
        assert!(changed.await.unwrap());
    }
    let third = Landing { terms: template.version, ..landing("c", &[3]) };
    assert_eq!(store.land(&[third]).await, Attempt::Landed);
    let ends = &mut store.connection;
    // The harness gives landings of newer terms a day; they are stored as given.
    assert_eq!((ending(ends, 24, 1).await, ending(ends, 2, 1).await), (3, 1));
}

#[tokio::test]
async fn coupons_that_can_be_used_are_moved_once_and_no_others() {
    let mut store = Store::with_template("move", 2_000).await;
    // One user has more than a chunk, so that chunks end within a user.
    let many: Vec<Landing> = (0..CHUNK as i64 + 100).map(|_| unlimited(UserId(5))).collect();
    for some in many.chunks(250) {
        assert_eq!(store.land(some).await, Attempt::Landed);
    }
    let few: Vec<Landing> =
        (1..=4).map(|user| landing_of(TEMPLATE, UserId(user), "a", &[1])).collect();
    assert_eq!(store.land(&few).await, Attempt::Landed);
    let others = CHUNK as i64 + 100;
    let connection = &mut store.connection;
    for (user, what) in [(1, "status = 1"), (2, "status = 2"), (3, "valid_until = valid_from")] {
        let sql =
            format!("update user_coupon set {what}, version = version + 1 where user_id = {user}");
        execute(connection, &sql).await;
    }
    assert_eq!(change(connection, &until(2), true).await, Edited::Done);
    let asked = validity_move::last(connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!(
        (asked.total, asked.state, asked.started_at),
        (others + 4, MoveState::UnderWay, None)
    );
    let first = step(connection).await.unwrap();
    assert_eq!((first.looked_at, first.moved, first.finished), (CHUNK, CHUNK as u64 - 3, false));
    assert_eq!(move_all(connection).await, (104, 104));
    assert_eq!(ending(connection, 2, 2).await, others + 1);
    let done = validity_move::last(connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!(
        (done.state, done.looked_at, done.moved),
        (MoveState::Finished, others + 4, others + 1)
    );
    assert_eq!((done.started_at, done.ended_at), (Some(now()), Some(now())));
    // The same end once more: nothing is left to do.
    assert_eq!(change(connection, &until(2), true).await, Edited::Done);
    assert_eq!(move_all(connection).await, (others as usize + 4, 0));
    // A period counted from each claim.
    let week = Validity::Relative { valid_for: TimeDelta::days(7) };
    assert_eq!(change(connection, &week, true).await, Edited::Done);
    assert_eq!(move_all(connection).await.1, others as u64 + 1);
    assert_eq!(ending(connection, 7 * 24, 3).await, others + 1);
}

#[tokio::test]
async fn a_period_counts_from_the_confirmation_of_a_coupon_that_was_held() {
    let mut store = holding("move confirmed", 9).await;
    let hold_ends = now() + TimeDelta::minutes(5);
    let mut all = [held("a", &[1, 2], hold_ends), held("b", &[3], hold_ends), landing("c", &[4])];
    for landing in &mut all {
        landing.landed.claimed_at = now() - TimeDelta::minutes(2);
    }
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let [paid, open, plain] = &all;
    // Two payments of one claim: each counts for its own coupons.
    confirm_some(&store, "first", paid, &ids(paid)[..1]).await;
    confirm_some(&store, "second", paid, &ids(paid)[1..]).await;
    let connection = &mut store.connection;
    // With fixed times the row does not say when it was confirmed.
    assert_eq!(change(connection, &until(2), true).await, Edited::Done);
    assert_eq!(move_all(connection).await, (4, 3));
    let week = Validity::Relative { valid_for: TimeDelta::days(7) };
    assert_eq!(change(connection, &week, true).await, Edited::Done);
    assert_eq!(move_all(connection).await, (4, 3));
    let since = async |connection: &mut MySqlConnection, of: &Landing, minutes: i64| {
        let from = (now() - TimeDelta::minutes(minutes)).format("%Y-%m-%d %H:%M:%S%.3f");
        let sql = format!(
            "select count(*) from user_coupon where claim_id = {} and valid_from = '{from}' \
             and valid_until = '{from}' + interval 7 day",
            of.landed.id
        );
        number(connection, &sql).await
    };
    assert_eq!(since(connection, paid, 0).await, 2);
    assert_eq!(since(connection, plain, 2).await, 1);
    let at = hold_ends.format("%Y-%m-%d %H:%M:%S%.3f");
    let sql = format!(
        "select count(*) from user_coupon where claim_id = {} and valid_until = '{at}'",
        open.landed.id
    );
    assert_eq!(number(connection, &sql).await, 1, "a held one keeps its deadline");
    assert_eq!(move_all(connection).await, (0, 0));
}

#[tokio::test]
async fn a_period_counts_from_the_confirmation_for_the_replacements_of_a_coupon_too() {
    let mut store = holding("move replaced", 9).await;
    let mut all = [held("a", &[1], now() + TimeDelta::minutes(5)), landing("b", &[2])];
    for landing in &mut all {
        landing.landed.claimed_at = now() - TimeDelta::minutes(2);
    }
    assert_eq!(store.land(&all).await, Attempt::Landed);
    confirm_some(&store, "p", &all[0], &ids(&all[0])).await;
    let connection = &mut store.connection;
    // Each is replaced twice: the second replacement knows its confirmation from the first.
    for (first, new) in all.iter().map(ids).zip([9_001, 9_003]) {
        replace(connection, first[0], CouponId(new)).await;
        replace(connection, CouponId(new), CouponId(new + 1)).await;
    }
    let week = Validity::Relative { valid_for: TimeDelta::days(7) };
    assert_eq!(change(connection, &week, true).await, Edited::Done);
    assert_eq!(move_all(connection).await.1, 2);
    for (id, minutes) in [(9_002, 0), (9_004, 2)] {
        let from = sql_time(now() - TimeDelta::minutes(minutes));
        let sql = format!(
            "select count(*) from user_coupon where id = {id} and valid_from = {from} \
             and valid_until = {from} + interval 7 day"
        );
        assert_eq!(number(connection, &sql).await, 1, "{id}");
    }
}

async fn replace(connection: &mut MySqlConnection, id: CouponId, new: CouponId) {
    let mut transaction = connection.begin().await.unwrap();
    let old = desk::hold(&mut transaction, MERCHANT, id).await.unwrap().unwrap();
    let replaced = desk::replace(&mut transaction, &old, new, now()).await.unwrap();
    assert!(matches!(replaced.change, Change::Done(_)), "{replaced:?}");
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_later_change_takes_over_where_it_is_followed_and_waits_where_it_is_not() {
    let mut store = Store::with_template("supersede", 2_000).await;
    let landings: Vec<Landing> = (0..600).map(|_| unlimited(UserId(5))).collect();
    for some in landings.chunks(250) {
        assert_eq!(store.land(some).await, Attempt::Landed);
    }
    let connection = &mut store.connection;
    let stale = current(connection).await;
    assert_eq!(change(connection, &until(2), true).await, Edited::Done);
    let again = change_of(connection, &stale, &until(3), true).await;
    assert_eq!(again, Edited::Meanwhile);
    let foreign =
        Template { merchant_id: coupon::MerchantId(MERCHANT.0 + 1), ..current(connection).await };
    let theirs = change_of(connection, &foreign, &until(3), true).await;
    assert_eq!(theirs, Edited::Meanwhile);
    assert!(step(connection).await.is_some());
    assert_eq!(change(connection, &until(3), false).await, Edited::MoveUnderWay);
    assert_eq!(ending(connection, 2, 2).await, CHUNK as i64, "the refused change changed nothing");
    assert_eq!(change(connection, &until(4), true).await, Edited::Done);
    assert_eq!(move_all(connection).await, (600, 600));
    let moved = (ending(connection, 4, 3).await, ending(connection, 4, 2).await);
    assert_eq!(moved, (CHUNK as i64, 600 - CHUNK as i64));
    let states = "select count(distinct state) from validity_move where state > 0";
    assert_eq!(number(connection, states).await, 2, "one superseded, one finished");
}

#[tokio::test]
async fn a_chunk_that_is_cut_short_leaves_nothing_and_one_under_way_is_nobody_elses() {
    let mut store = Store::with_template("cut short", 10).await;
    assert_eq!(store.land(&[landing("a", &[1, 2])]).await, Attempt::Landed);
    assert_eq!(change(&mut store.connection, &until(2), true).await, Edited::Done);
    let mut other = store.another().await;
    let mut last = None;
    let cut = validity_move::step(&mut store.connection, &mut last, now(), async || {
        assert_eq!(step(&mut other).await, None, "somebody is at it");
        Err(io::Error::other("cut"))
    });
    assert!(cut.await.unwrap_err().is_unavailable());
    store.connection.ping().await.unwrap();
    assert_eq!(ending(&mut other, 2, 2).await, 0);
    assert_eq!(move_all(&mut other).await, (2, 2));
    assert_eq!(ending(&mut other, 2, 2).await, 2);
}

/// Otherwise the coupons of the other template would expire by their old deadline.
#[tokio::test]
async fn a_long_move_keeps_no_other_waiting_also_if_its_coupons_are_locked() {
    let mut store = Store::with_template("turns", 2_000).await;
    let small = TemplateId(TEMPLATE.0 + 1);
    let connection = &mut store.connection;
    template::create(connection, &draft(small), 5, "test", now()).await.unwrap();
    let created = template::get(connection, small).await.unwrap().unwrap();
    template::change_state(connection, &created, TemplateState::Published, now()).await.unwrap();
    let many: Vec<Landing> = (0..CHUNK as i64 + 100).map(|_| unlimited(UserId(5))).collect();
    for some in many.chunks(250) {
        assert_eq!(store.land(some).await, Attempt::Landed);
    }
    let one = Landing { terms: 2, ..landing_of(small, UserId(1), "a", &[1]) };
    assert_eq!(store.land(&[one]).await, Attempt::Landed);
    let connection = &mut store.connection;
    for id in [TEMPLATE, small] {
        let template = template::get(connection, id).await.unwrap().unwrap();
        assert_eq!(change_of(connection, &template, &until(2), true).await, Edited::Done);
    }
    let mut last = None;
    let mut turns = Vec::new();
    while let Some(step) = step_after(connection, &mut last).await {
        turns.push((step.template_id, step.finished));
    }
    assert_eq!(turns, [(TEMPLATE, false), (small, true), (TEMPLATE, true)]);

    for id in [TEMPLATE, small] {
        let template = template::get(connection, id).await.unwrap().unwrap();
        assert_eq!(change_of(connection, &template, &until(3), true).await, Edited::Done);
    }
    let mut locker = store.another().await;
    let mut locked = locker.begin().await.unwrap();
    let lock = format!("select id from user_coupon where template_id = {TEMPLATE} for update");
    execute(&mut locked, &lock).await;
    let mut impatient = connect::lander(&store.url).await.unwrap();
    let mut last = None;
    let refused = validity_move::step(&mut impatient, &mut last, now(), || ready(Ok(()))).await;
    assert!(refused.unwrap_err().is_lock_wait());
    let next = step_after(&mut impatient, &mut last).await.unwrap();
    assert_eq!((next.template_id, next.finished), (small, true));
}

#[tokio::test]
async fn a_chunk_is_read_by_the_numbers_index_in_its_order() {
    let mut store = Store::with_template("chunk plan", 2_000).await;
    let landings: Vec<Landing> =
        (0..1_000).map(|user| landing_of(TEMPLATE, UserId(user), "a", &[1])).collect();
    assert_eq!(store.land(&landings).await, Attempt::Landed);
    execute(&mut store.connection, "analyze table user_coupon").await;
    let sql = format!("explain format=traditional {CHUNK_SQL}");
    let explain = sqlx::query(AssertSqlSafe(sql));
    let explain = [10, 500, 0, 512].iter().fold(explain, |explain, value| explain.bind(*value));
    let explain = [10, 500, 512].iter().fold(explain, |explain, value| explain.bind(*value));
    let plan = explain.fetch_all(&mut store.connection).await.unwrap();
    for row in &plan[..2] {
        let text = |column| row.try_get_unchecked::<Option<String>, _>(column).unwrap();
        assert_eq!(text("key").as_deref(), Some("uq_number"));
        let extra = text("Extra").unwrap_or_default();
        assert!(!extra.contains("filesort"), "{extra}");
    }
}

/// A coupon of a user without a limit.
fn unlimited(user: UserId) -> Landing {
    let mut landing = landing_of(TEMPLATE, user, "x", &[1]);
    let id = landing.landed.id;
    landing.admission.claim.request_id = coupon::RequestId::from_client(&id.to_string()).unwrap();
    landing.admission.numbers.clear();
    landing.landed.coupons[0].claim_no = id.0;
    landing
}
