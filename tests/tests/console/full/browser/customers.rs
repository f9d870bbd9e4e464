//! What is done for one customer, for a list of them, and about a finding.

use pipeline_tests::World;

use super::{Console, claimed, found, times_done, until_found};

/// A finding as the reconciler writes it: user 42 has more of a template than is allowed (kind 3), and it is open (0).
const FINDING: i64 = 7_000_000;

#[tokio::test]
async fn a_coupon_is_found_extended_replaced_and_revoked() {
    let world = World::start("browser coupon").await;
    let template = world.template(20, |new| new).await;
    let first = claimed(&world, template, 42).await;
    let mut console = Console::of_platform(&world).await;
    console.go("#/customer").await;
    console.fill("#find", &first).await;
    console.click("Find").await;
    console.until(&format!("location.hash === '#/customer/coupon/{first}'")).await;
    console.click("Extend…").await;
    console.fill("#until", "2035-12-24T18:00:00").await;
    console.fill("#reason", "a birthday").await;
    console.click_twice("Extend").await;
    let valid = format!("SELECT valid_until FROM user_coupon WHERE id = {first}");
    until_found(&world, &valid, "2035-12-24 18:00:00.000").await;
    console.until_closed().await;
    console.until_says("Extend coupon").await;
    assert_eq!(times_done(&world, "coupon.extend"), "1");

    console.click("Replace…").await;
    console.fill("#reason", "it was lost").await;
    console.click_twice("Replace").await;
    console.until(&format!("!location.hash.endsWith('/{first}')")).await;
    let second = format!("SELECT replacement_id FROM coupon_replacement WHERE coupon_id = {first}");
    let second = found(&world, &second);
    console.until(&format!("location.hash.endsWith('/{second}')")).await;
    assert_eq!(found(&world, "SELECT COUNT(*) FROM coupon_replacement"), "1");

    console.click("Revoke…").await;
    console.fill("#reason", "fraud").await;
    console.click_twice("Revoke for good").await;
    console.until_closed().await;
    console.until_says("Revoke coupon").await;
    console.until_says("Cancelled").await;
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.cancelled), (0, 2));
    assert_eq!(times_done(&world, "coupon.revoke"), "1");
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_file_of_users_is_looked_at_and_each_gets_what_the_rows_say() {
    let world = World::start("browser grants").await;
    let template = world.template(20, |new| new).await;
    let mut console = Console::of_platform(&world).await;
    console.go("#/grants").await;
    console.fill("#users", "user_id;note\n41;a\n42;b\n42;b\nsomeone;c\n").await;
    console.until_says("4 rows, 1 of them no number").await;
    console.fill("#grant-template", &template.to_string()).await;
    console.fill("#grant-reason", "winners of the draw").await;
    console.click_twice("Grant 2 coupons").await;
    console.until_says("4 of 4 rows").await;
    console.until_says("Invalid user id").await;
    assert_eq!(found(&world, "SELECT COUNT(*) FROM job"), "1");
    let users = "SELECT GROUP_CONCAT(user_id ORDER BY user_id) FROM user_coupon";
    assert_eq!(found(&world, users), "41,42");
    console.end().await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_finding_is_accepted_with_a_reason() {
    let world = World::start("browser finding").await;
    let template = world.template(20, |new| new).await;
    let insert = format!(
        "INSERT INTO finding (id, merchant_id, kind, state, template_id, about, about_id, ended, expected, seen, coupons, money,
            line, looks, first_seen, last_seen)
         SELECT {FINDING}, merchant_id, 3, 0, id, 1, 42, 0, '1 coupon', '2 coupons', 1, 500,
            'user 42 has one too many', 3, created_at, created_at FROM coupon_template WHERE id = {template}"
    );
    assert_eq!(found(&world, &insert), "");
    let mut console = Console::of_platform(&world).await;
    console.go("#/findings").await;
    console.click("A user has more than the limit").await;
    console.until_says("€5.00").await;
    console.click("Accept…").await;
    console.fill("#reason", "it was refunded").await;
    console.click_twice("Accept").await;
    let decided = format!("SELECT state, reason FROM finding WHERE id = {FINDING}");
    until_found(&world, &decided, "3\tit was refunded").await;
    console.until_closed().await;
    console.until_says("Accept finding").await;
    assert_eq!(times_done(&world, "finding.accept"), "1");
    console.end().await;
    world.end().await;
}
