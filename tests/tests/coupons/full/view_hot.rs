//! Users with very long lists do not affect others, their views become whole, and until then MySQL's pages equal
//! the view's.

use std::{fs, time::Duration};

use coupon::{CouponId, TemplateId, UserId, limit::QUANTITY_MAX};
use devstack::PlatformOptions;
use futures::future::join_all;
use mysql_store::verify;
use pipeline_tests::{STATE_MAX, World, until};
use redis_view::{PageAnswer, PageRequest};
use serde_json::Value;
use shopper::{CouponPage, CouponQuery, NewTemplate, Shopper, Wish};
use tokio::time::timeout;

use crate::claims::faults::start_with;

/// Coupons of one of the eight hot lists, and of any list that counts as long.
const HOT: i64 = 20_000;
const LONG: i64 = 1_200;

/// Fail point where a rebuild of a long list is held or killed.
const BEFORE_PIECE: &str = "view.before_piece";

/// How long an impatient client waits: far less than a rebuild takes.
const IMPATIENT: Duration = Duration::from_millis(30);

fn first(limit: u32) -> CouponQuery {
    CouponQuery { limit: Some(limit), ..CouponQuery::default() }
}

/// Gives coupons to each user directly in MySQL, without binlog events.
pub(crate) async fn give(world: &World, users: std::ops::Range<i64>, coupons: i64) {
    let digits = "(select 0 d union all select 1 union all select 2 union all select 3 union all select 4 \
                  union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)";
    let mut connection = world.mysql().await;
    verify::execute(&mut connection, "set session sql_log_bin = 0").await.unwrap();
    for user in users {
        let sql = format!(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
             expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
             select {user} * 1000000000 + n, 1, {user}, n, n, 1, 0, 1, {user} % 64, \
             at + interval n * 1000 microsecond, at, at, at + interval 1 day \
             from (select a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as n, utc_timestamp(3) as at \
             from {digits} a, {digits} b, {digits} c, {digits} e, {digits} f) numbers where n < {coupons}"
        );
        verify::execute(&mut connection, &sql).await.unwrap();
    }
}

async fn rebuilt(world: &World, result: &str) -> f64 {
    let name = format!("coupon_view_rebuilds_total{{result=\"{result}\"}}");
    world.platform.apis[0].metric(&name).await.unwrap()
}

/// Whether readers trust the user's view.
async fn is_trusted(world: &World, user: UserId) -> bool {
    let request = PageRequest { limit: 1, cursor: None, after: None, now: world.clock.now() };
    matches!(world.sources.view.page(user, &request).await, Ok(PageAnswer::Page(_)))
}

/// Rebuilds of eight long lists must not occupy all eight read slots: then 26 of 40 other users were refused.
#[tokio::test]
async fn eight_cold_lists_of_twenty_thousand_refuse_nobody_and_are_whole_in_the_end() {
    let world = World::start("eight hot").await;
    let hot = 1..9;
    let others = 100..140;
    give(&world, hot.clone(), HOT).await;
    give(&world, others.clone(), 3).await;
    let api = world.api();
    let page = |user: i64| async move {
        let shopper = api.shopper(UserId(user)).unwrap();
        // A refusal is an error here.
        (user, shopper.coupons(&first(5)).await.unwrap())
    };
    let of_hot = join_all(hot.clone().map(page));
    let of_others = join_all(others.map(page));
    let (of_hot, of_others) = tokio::join!(of_hot, of_others);
    for (user, page) in of_hot {
        let ids: Vec<i64> = page.data.iter().map(|coupon| coupon.id.0).collect();
        let newest = user * 1_000_000_000 + HOT;
        assert_eq!(ids, (1..=5).map(|back| newest - back).collect::<Vec<_>>());
    }
    assert!(of_others.iter().all(|(_, page)| page.data.len() == 3));

    until(async || rebuilt(&world, "whole").await, |whole| *whole >= 48.0).await;
    for user in hot {
        assert!(is_trusted(&world, UserId(user)).await, "the view of {user}");
    }
    let all = world.api().shopper(UserId(8)).unwrap().all_coupons().await.unwrap();
    assert_eq!(all.len() as i64, HOT);
    // An impatient client retries repeatedly; still a single rebuild makes the list warm.
    let hot = world.api().shopper(UserId(1)).unwrap();
    world.sources.view.drop_view(UserId(1)).await.unwrap();
    let trusted = async || {
        drop(timeout(IMPATIENT, hot.coupons(&first(5))).await);
        is_trusted(&world, UserId(1)).await
    };
    until(trusted, |trusted| *trusted).await;
    until(async || rebuilt(&world, "whole").await, |whole| *whole >= 49.0).await;
    assert_eq!(rebuilt(&world, "whole").await as i64, 49);
    assert_eq!(rebuilt(&world, "overtaken").await + rebuilt(&world, "failed").await, 0.0);
    world.end().await;
}

/// Claims for a user, with the largest quantity per claim.
async fn claim(world: &World, template: TemplateId, user: UserId, coupons: i64) {
    let wish = |number: i64| Wish {
        quantity: QUANTITY_MAX,
        ..Wish::one(template, user).with_key(format!("{template}-{number}"))
    };
    let claims = coupons / i64::from(QUANTITY_MAX);
    let run = world.crowd().run((0..claims).map(wish).collect()).await.unwrap();
    assert_eq!(run.given_up, 0);
}

fn many(new: NewTemplate) -> NewTemplate {
    NewTemplate { per_user_limit: 0, max_per_claim: QUANTITY_MAX, ..new }
}

/// Returns all pages of a list, as the api sends them.
async fn pages(shopper: &Shopper, status: &'static str, limit: u32) -> Vec<CouponPage> {
    let mut query = CouponQuery { status: Some(status), ..first(limit) };
    let mut pages = Vec::new();
    loop {
        let page = shopper.coupons(&query).await.unwrap();
        query.cursor.clone_from(&page.next_cursor);
        pages.push(page);
        if query.cursor.is_none() {
            return pages;
        }
    }
}

fn ids(pages: &[CouponPage]) -> Vec<CouponId> {
    pages.iter().flat_map(|page| page.data.iter().map(|coupon| coupon.id)).collect()
}

/// True of every list, whatever source it is read from; a cursor from one source works in the other, even while
/// coupons are flipped.
#[tokio::test]
async fn the_pages_of_mysql_are_the_pages_of_the_view() {
    let mut world = World::start("same pages").await;
    let hold = world.platform.options.dir.join("hold");
    fs::write(&hold, "").unwrap();
    let held = format!("{BEFORE_PIECE}=hold:{}", hold.display());
    start_with(&mut world.platform.apis[0], "FAIL_POINTS", &held).await;
    let user = UserId(7);
    let one = world.template(LONG, many).await;
    let other = world.template(LONG, many).await;
    let brief = world.template(LONG, |new| many(NewTemplate { valid_for_ms: 500, ..new })).await;
    // Ended coupons are not flipped: more in a row than a page reads.
    world.platform.expiry_worker.pause().unwrap();
    tokio::join!(claim(&world, one, user, LONG / 2), claim(&world, other, user, LONG / 2));
    claim(&world, brief, user, LONG / 2).await;
    claim(&world, one, user, LONG / 2).await;
    let shopper = world.api().shopper(user).unwrap();
    let ended = async || ids(&pages(&shopper, "expired", 100).await).len() as i64;
    until(ended, |ended| *ended == LONG / 2).await;
    for coupon in ids(&pages(&shopper, "unused", 100).await).iter().step_by(50) {
        assert_eq!(shopper.use_coupon(*coupon, "order").await.unwrap().status, 200);
    }

    let lists = [("unused", 7), ("unused", 100), ("used", 5), ("expired", 99)];
    let mut of_mysql = Vec::new();
    for (status, limit) in lists {
        of_mysql.push(pages(&shopper, status, limit).await);
    }
    let api = &world.platform.apis[0];
    let from_view = async || api.metric("api_my_coupons_total{origin=\"view\"}").await.unwrap();
    assert_eq!(from_view().await, 0.0);
    let short = of_mysql[1].iter().filter(|page| page.data.len() < 100);
    assert!(short.count() > 1, "no page met more ended coupons than it looks at");
    assert_eq!(ids(&of_mysql[0]), ids(&of_mysql[1]));

    fs::remove_file(hold).unwrap();
    let asked = async || {
        shopper.coupons(&first(1)).await.unwrap();
        rebuilt(&world, "whole").await
    };
    until(asked, |whole| *whole > 0.0).await;
    for ((status, limit), of_mysql) in lists.into_iter().zip(&of_mysql) {
        assert_eq!(&pages(&shopper, status, limit).await, of_mysql, "{status}, {limit} a page");
    }
    assert!(from_view().await > 2.0);
    // Half of the pages are read before the flips, half after them.
    let expired = &of_mysql[3];
    let cursor = expired[2].next_cursor.clone();
    world.platform.expiry_worker.resume().unwrap();
    world.until(brief, |counts| counts.unused == 0).await;
    let query = CouponQuery { status: Some("expired"), cursor, ..first(99) };
    assert_eq!(shopper.coupons(&query).await.unwrap(), expired[3]);
    world.assert_sound(None).await;
    world.end().await;
}

/// A partial rebuild is never trusted; the other process answers at once and makes the list whole.
#[tokio::test]
async fn an_api_killed_between_two_pieces_leaves_nothing_that_is_served_as_whole() {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("killed between pieces", two_apis).await;
    let user = UserId(7);
    let template = world.template(LONG, many).await;
    claim(&world, template, user, LONG).await;
    // The fail point's first hit is before anything is read from MySQL, the second before anything is loaded.
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", &format!("{BEFORE_PIECE}=kill#4")).await;
    drop(world.apis[1].shopper(user).unwrap().coupons(&first(5)).await);
    world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
    let left = world.sources.view.contents(user).await.unwrap();
    assert!(!left.trusted && (1..LONG).contains(&(left.list.len() as i64)), "{}", left.list.len());

    let shopper = world.apis[0].shopper(user).unwrap();
    assert_eq!(shopper.all_coupons().await.unwrap().len() as i64, LONG);
    let look = async || {
        shopper.coupons(&first(5)).await.unwrap();
        world.sources.view.contents(user).await.unwrap()
    };
    let view = until(look, |view| view.trusted).await;
    assert_eq!(view.list.len() as i64, LONG);
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", "").await;
    world.assert_sound(None).await;
    world.end().await;
}

/// Claims, uses and flips land while the view is rebuilt in pieces, repeatedly.
#[tokio::test]
async fn what_changes_while_a_long_list_is_rebuilt_is_in_the_list_afterwards() {
    let world = World::start("changed while rebuilt").await;
    let user = UserId(7);
    let lasting = world.template(10 * LONG, many).await;
    let brief =
        world.template(10 * LONG, |new| many(NewTemplate { valid_for_ms: 300, ..new })).await;
    claim(&world, lasting, user, LONG).await;
    let shopper = world.api().shopper(user).unwrap();
    let mut shown = shopper.all_coupons().await.unwrap();
    for round in 0..8 {
        let before = rebuilt(&world, "whole").await;
        world.sources.view.drop_view(user).await.unwrap();
        let rebuild = async {
            let asked = async || {
                shopper.coupons(&first(1)).await.unwrap();
                rebuilt(&world, "whole").await
            };
            until(asked, |whole| *whole > before).await;
        };
        let change = async {
            let mut new = Vec::new();
            for (number, template) in [lasting, brief, lasting].into_iter().enumerate() {
                let used = shown.pop().unwrap();
                let answer = shopper.use_coupon(used.id, "order").await.unwrap();
                assert_eq!(answer.status, 200, "{}", answer.body);
                let key = format!("{round}-{number}");
                let answer = shopper.claim(template, Some(&key), 10).await.unwrap();
                assert_eq!(answer.status, 201, "{}", answer.body);
                let body: Value = answer.json().unwrap();
                new.push(body["coupons"][0]["id"].as_str().unwrap().parse::<CouponId>().unwrap());
            }
            new
        };
        let ((), new) = tokio::join!(rebuild, change);
        let after = CouponQuery { after: Some(new[2]), ..first(100) };
        let ids = ids(&[shopper.coupons(&after).await.unwrap()]);
        assert!(
            ids.contains(&new[0]) && ids.contains(&new[2]),
            "round {round}: {new:?} in {ids:?}"
        );
    }
    world.assert_sound(None).await;
    assert!(world.sources.view.contents(user).await.unwrap().trusted);
    world.end().await;
}
