//! A view that cannot be read costs its user the view, and the log names the user.

use std::fs;

use coupon::UserId;
use pipeline_tests::{World, damage, until};

const DROPPED: &str = "the user's view cannot be read: view dropped";

#[tokio::test]
async fn the_log_names_the_user_whose_view_was_dropped_and_nobody_else() {
    const HURT: UserId = UserId(700);
    const OTHER: UserId = UserId(701);
    let world = World::start("damaged view").await;
    let template = world.template(10, |new| new).await;
    world.warm_views([HURT.0, OTHER.0]).await;
    damage::spoil_field(&world, HURT, "~token").await;
    let [hurt, other] = [HURT, OTHER].map(|user| world.api().shopper(user).unwrap());
    for shopper in [&hurt, &other] {
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    }
    let consumer = world.platform.sync_consumer.log();
    let dropped = async || {
        let log = fs::read_to_string(&consumer).unwrap();
        log.lines().filter(|line| line.contains(DROPPED)).map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = until(dropped, |lines| !lines.is_empty()).await;
    assert!(lines.iter().all(|line| line.contains("user.id=700 ")), "{lines:#?}");
    for shopper in [&hurt, &other] {
        until(async || shopper.all_coupons().await.unwrap().len(), |listed| *listed == 1).await;
    }
    world.assert_sound(None).await;
    world.end().await;
}
