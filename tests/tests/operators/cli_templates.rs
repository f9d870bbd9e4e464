//! Lists, copies, deletions and exports of templates from the command line, and what it asks before an end or a cut.

use std::fs;

use coupon::UserId;
use pipeline_tests::World;
use serde_json::{Value, json};

use crate::operators::cli::Cli;

#[tokio::test]
async fn a_campaign_is_found_copied_exported_and_cleared_away_from_the_command_line() {
    let world = World::start("cli templates").await;
    let cli = Cli::of(&world);
    let template = world.template(10, |new| new).await;
    for user in 1..=3 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    }
    let listed = cli.json("templates list --state published --q sale --stock").await;
    assert_eq!(listed["data"][0]["stock"]["landed"], 3);
    assert_eq!(cli.json("templates list --state draft --sort ends_at").await["data"], json!([]));
    let text = cli.run("templates list --stock --merchant all").await;
    assert!(text.code == 0 && text.out.contains("STOCK.LEFT"), "{text:?}");

    // What is shown is what is created.
    let shown = cli.json(&format!("template show {template}")).await;
    let file = world.platform.options.dir.join("shown.json");
    fs::write(&file, shown.to_string()).unwrap();
    let twin = cli.json(&format!("template create {}", file.display())).await;
    let twin = cli.json(&format!("template show {}", twin["id"].as_str().unwrap())).await;
    let fields = |template: &Value| {
        let mut fields = template.as_object().unwrap().clone();
        fields.retain(|name, _| !["id", "state", "version"].contains(&name.as_str()));
        fields
    };
    assert_eq!(fields(&twin), fields(&shown));

    let copy = format!("template clone {template} --name Copy --total-stock 4");
    let copy = cli.json(&copy).await;
    assert_eq!((&copy["name"], &copy["state"]), (&json!("Copy"), &json!("draft")));
    let copy = copy["id"].as_str().unwrap();

    for (list, rows) in [("movements", 1), ("claims", 3), ("coupons", 3)] {
        let page = cli.json(&format!("template {list} {template} --limit 2")).await;
        assert_eq!(page["data"].as_array().unwrap().len(), rows.min(2), "{list}");
        let text = cli.run(&format!("template {list} {template}")).await;
        assert_eq!((text.code, text.out.lines().count()), (0, rows + 1), "{text:?}");
        let csv = cli.run(&format!("template export {template} --list {list}")).await;
        assert_eq!((csv.code, csv.out.lines().count()), (0, rows + 1), "{csv:?}");
    }
    assert_eq!(
        cli.json(&format!("template coupons {template} --user 2")).await["data"][0]["user_id"],
        "2"
    );
    let out = world.platform.options.dir.join("used.ndjson");
    let export = format!(
        "template export {template} --format ndjson --status unused --out {}",
        out.display()
    );
    let ran = cli.run(&export).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 3);
    let wrong = cli.run(&format!("template export {template} --list claims --status used")).await;
    assert!(wrong.code == 1 && wrong.err.contains("(MALFORMED_QUERY)"), "{wrong:?}");
    assert!(wrong.err.contains("state, user_id"), "the known ones are named: {wrong:?}");

    // A script cannot be asked.
    for command in [
        format!("template end {template}"),
        format!("template delete {copy}"),
        format!("stock cut {template} 1 --reason less"),
    ] {
        let ran = cli.run(&command).await;
        assert!(ran.code == 2 && ran.err.contains("`--yes`"), "{command}: {ran:?}");
    }
    assert_eq!(world.api().template(template).await.unwrap().state, "published");
    let kept = cli.run(&format!("template delete {template} --yes")).await;
    assert!(kept.code == 1 && kept.err.contains("(INVALID_TRANSITION)"), "{kept:?}");
    assert_eq!(cli.run(&format!("template delete {copy} --yes")).await.code, 0);
    let gone = cli.run(&format!("template show {copy}")).await;
    assert!(gone.code == 1 && gone.err.contains("(TEMPLATE_NOT_FOUND)"), "{gone:?}");
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use chrono::TimeDelta;
    use devstack::{OwnRedis, TestServers};
    use pipeline_tests::until;
    use shopper::NewTemplate;

    use super::*;

    #[tokio::test]
    async fn a_publish_while_the_gate_is_away_says_that_it_is_made_and_not_that_nobody_knows() {
        let mut gate = OwnRedis::gate("publish-gate").await.unwrap();
        let shared = TestServers::shared().with_gate(&gate.url());
        let world = World::start_on(&shared, "publish without gate", |options| options).await;
        let cli = Cli::of(&world);
        let new = NewTemplate::simple("A draft", 5, world.clock.now(), TimeDelta::hours(1));
        let draft = world.api().create(&new).await.unwrap().id;
        gate.server.kill().unwrap();
        let said = cli.run(&format!("template publish {draft}")).await;
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.starts_with("coupon: The change is made"), "{said:?}");
        assert!(!said.err.contains("unknown"), "{said:?}");
        let said = cli.run(&format!("template publish {draft} --json")).await;
        let said: Value = serde_json::from_str(&said.err).unwrap();
        let told = (&said["outcome"], &said["code"]);
        assert_eq!(told, (&json!("made"), &json!("GATE_LOADING")), "{said}");
        assert_eq!(world.api().template(draft).await.unwrap().state, "published");
        gate.server.start().await.unwrap();
        let anna = world.api().shopper(UserId(1)).unwrap();
        let claim = async || anna.claim(draft, None, 1).await.unwrap();
        until(claim, |answer| answer.status == 201).await;
        assert_eq!(world.count(draft).await.all(), 1);
        world.assert_sound(None).await;
        world.end().await;
    }
}
