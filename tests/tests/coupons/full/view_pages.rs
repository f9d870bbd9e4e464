//! An extremely long list is paged completely, each coupon once and in order, while its view is lost repeatedly.
//! (`./dev bench view` measures how long a page takes.)

use std::cmp::Reverse;

use coupon::{UserId, limit::QUANTITY_MAX};
use mysql_store::verify::topic_rows;
use pipeline_tests::{World, until};
use shopper::{CouponQuery, NewTemplate, Wish};

/// Coupons of one user.
const COUPONS: i64 = 10_000;
/// Coupons of a page: the largest limit.
const PAGE: u32 = 100;
/// Pages between losses of the view, so that most are served from it.
const LOSE_EVERY: usize = 9;
/// Coupons read from MySQL at once: all there are.
const ROWS: u32 = 20_000;
const USER: UserId = UserId(7);
/// Metric of views rebuilt completely.
const WHOLE: &str = "coupon_view_rebuilds_total{result=\"whole\"}";

#[tokio::test]
async fn ten_thousand_coupons_of_one_user_are_paged_whole_while_their_view_is_lost_again_and_again()
{
    let world = World::start("ten thousand").await;
    let many = |new| NewTemplate { per_user_limit: 0, max_per_claim: QUANTITY_MAX, ..new };
    let template = world.template(COUPONS, many).await;
    let wish = |number: i64| Wish {
        quantity: QUANTITY_MAX,
        ..Wish::one(template, USER).with_key(format!("key-{number}"))
    };
    let claims = COUPONS / i64::from(QUANTITY_MAX);
    let run = world.crowd().run((0..claims).map(wish).collect()).await.unwrap();
    assert_eq!((run.given_up, world.count(template).await.unused), (0, COUPONS));

    let shopper = world.api().shopper(USER).unwrap();
    let api = &world.platform.apis[0];
    let mut query = CouponQuery { limit: Some(PAGE), ..CouponQuery::default() };
    let mut listed = Vec::new();
    let mut losses = 0;
    for number in 0.. {
        if number % LOSE_EVERY == 0 {
            world.sources.view.drop_view(USER).await.unwrap();
            losses += 1;
        }
        // A cold list's page must be an answer too, not "try again".
        let page = shopper.coupons(&query).await.unwrap();
        listed.extend(page.data);
        // From here on, pages come from the view.
        until(async || api.metric(WHOLE).await.unwrap(), |whole| *whole >= f64::from(losses)).await;
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    let mut connection = world.mysql().await;
    let mut rows = topic_rows::coupons_from(&mut connection, 0, ROWS).await.unwrap().rows;
    // The list's order: latest claim first; within one millisecond by the bytes of the members.
    rows.sort_by_cached_key(|row| {
        Reverse((row.claimed_at, format!("{}_{}", row.template_id, row.id)))
    });
    let expected: Vec<_> = rows.iter().map(|row| (row.id, row.valid_until)).collect();
    let shown: Vec<_> = listed.iter().map(|coupon| (coupon.id, coupon.valid_until)).collect();
    assert_eq!(shown.len(), expected.len());
    assert!(shown == expected, "the pages are not MySQL's rows in their order");

    let from_mysql = api.metric("api_my_coupons_total{origin=\"truth\"}").await.unwrap();
    let from_view = api.metric("api_my_coupons_total{origin=\"view\"}").await.unwrap();
    // Pages of one kind only would prove nothing.
    assert!(from_mysql >= f64::from(losses) && from_view > from_mysql, "{from_mysql} {from_view}");
    drop(connection);
    world.assert_sound(Some(&run.history)).await;
    world.end().await;
}
