//! The support desk and the checkout from the command line: single coupons, jobs, single uses, filters of the record.

use std::fs;

use coupon::UserId;
use pipeline_tests::World;
use serde_json::json;
use shopper::Claimed;

use crate::operators::cli::Cli;

#[tokio::test]
async fn a_coupon_is_used_shown_extended_and_replaced_and_the_record_filtered_from_the_command_line()
 {
    let world = World::start("cli desk").await;
    let cli = Cli::of(&world);
    let template = world.template(9, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, None, 1).await.unwrap().json().unwrap();
    let (id, until) = (claimed.coupons[0].id, claimed.valid_until);
    let used = cli.json(&format!("use {id} shop/1 --user 1")).await;
    assert_eq!((&used["status"], &used["order_ref"]), (&json!("used"), &json!("shop/1")));
    let back = cli.json(&format!("unuse {id} shop/1 --user 1")).await;
    assert_eq!(back["status"], "unused");
    let late = cli.run(&format!("use {id} shop/1 --user 1")).await;
    assert!(late.code == 1 && late.err.contains("(ORDER_CANCELLED)"), "{late:?}");
    let nobody = cli.run(&format!("use {id} shop/2")).await;
    assert!(nobody.code == 2 && nobody.err.contains("--user"), "{nobody:?}");

    let shown = cli.json(&format!("coupons show {id}")).await;
    assert_eq!((&shown["user_id"], &shown["version"]), (&json!("1"), &json!(3)));
    let later = (until + chrono::TimeDelta::days(1)).to_rfc3339();
    let later = later.replace("+00:00", "Z");
    let begun = world.clock.now();
    let extended = cli.json(&format!("coupons extend {id} --valid-until {later} --reason t")).await;
    assert_eq!(extended["version"], 4, "{extended}");
    let replaced = cli.json(&format!("coupons replace {id} --reason t")).await;
    let instead = replaced["replacement"]["id"].as_str().unwrap();
    assert_eq!(cli.json(&format!("coupons show {instead}")).await["replaces"], json!(id));

    let lines = async |filters: &str| {
        let page = cli.json(&format!("audit --target coupons/{id} {filters}")).await;
        let lines = page["data"].as_array().unwrap().iter();
        lines.map(|line| line["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let begun = begun.to_rfc3339().replace("+00:00", "Z");
    assert_eq!(lines(&format!("--from {begun}")).await, ["coupon.replace", "coupon.extend"]);
    assert_eq!(lines(&format!("--to {begun}")).await, ["coupon.unuse", "coupon.use"]);
    assert_eq!(lines("--key platform").await.len(), 4);
    assert_eq!(lines("--key 1").await.len(), 0);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_job_that_adds_its_coupons_is_shown_awaited_and_cancelled_from_the_command_line() {
    let world = World::start("cli jobs").await;
    let cli = Cli::of(&world);
    let template = world.template(1, |new| new).await;
    let file = world.platform.options.dir.join("users.txt");
    fs::write(&file, "1\n2\n3\n").unwrap();
    let grants = format!("grants {template} {} --reason t --add-stock --no-wait", file.display());
    let job = cli.json(&grants).await;
    assert_eq!((&job["from_stock"], &job["rows"]), (&json!(false), &json!(3)));
    let id = job["id"].as_str().unwrap();
    let ended = cli.json(&format!("jobs wait {id}")).await;
    assert_eq!(
        (&ended["state"], &ended["outcomes"]),
        (&json!("finished"), &json!({ "granted": 3 }))
    );
    assert_eq!(cli.json(&format!("jobs show {id}")).await, ended);
    let stock = world.api().stock(template).await.unwrap();
    assert_eq!((stock.total, stock.landed), (4, 3), "three were added");

    world.api().turn(template, "pause").await.unwrap();
    let waits =
        cli.json(&format!("grants {template} {} --reason t --no-wait", file.display())).await;
    let id = waits["id"].as_str().unwrap();
    cli.json(&format!("jobs cancel {id} --reason t")).await;
    let ended = cli.json(&format!("jobs wait {id}")).await;
    let cancelled = json!({ "cancelled": 3 });
    assert_eq!((&ended["state"], &ended["outcomes"]), (&json!("cancelled"), &cancelled));
    let finished = cli.run("jobs show 1").await;
    assert!(finished.code == 1 && finished.err.contains("(JOB_NOT_FOUND)"), "{finished:?}");
    world.assert_sound(None).await;
    world.end().await;
}
