//! Editing a template from the command line, and error messages that say what to do.

use std::fs;

use chrono::TimeDelta;
use coupon::UserId;
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use shopper::NewTemplate;

use crate::operators::cli::Cli;

/// Writes a file for the command line; returns its path.
fn file(world: &World, name: &str, text: &str) -> String {
    let path = world.platform.options.dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_template_is_edited_by_its_version_and_the_same_command_again_is_the_same_answer() {
    let world = World::start("operator edit").await;
    let cli = Cli::of(&world);
    let template = world.template(10, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    assert_eq!(anna.claim(template, None, 1).await.unwrap().status, 201);
    let version = cli.json(&format!("template show {template}")).await["version"].clone();
    let week =
        file(&world, "week.toml", "valid_for_ms = 604_800_000\nissued_coupons = \"follow\"\n");
    let edit = format!("template edit {template} {week}");

    let ran = cli.run(&edit).await;
    assert!(ran.code == 1 && ran.err.contains("(PRECONDITION_REQUIRED)"), "{ran:?}");
    assert!(ran.err.contains("\nSay which version you have seen, `--if-version N`"), "{ran:?}");
    let ran = cli.run(&format!("{edit} --if-version 77")).await;
    assert!(ran.code == 1 && ran.err.contains("(CHANGED_MEANWHILE)"), "{ran:?}");
    assert!(ran.err.contains("\n`coupon template show ID`"), "{ran:?}");

    let edit = format!("{edit} --if-version {version}");
    let edited = cli.json(&edit).await;
    assert_eq!(
        (&edited["valid_for_ms"], &edited["issued_coupons"]["follow"]),
        (&json!(604_800_000), &json!(true))
    );
    assert_eq!(cli.json(&edit).await["version"], edited["version"], "once");
    let progress = format!("template validity-move {template}");
    let moved =
        until(async || cli.json(&progress).await, |progress| progress["state"] == "finished").await;
    assert_eq!(moved["moved"], 1);

    // The version may be in the file, and the file may be JSON.
    let name = json!({ "version": edited["version"], "name": "Renamed" }).to_string();
    let name = file(&world, "name.json", &name);
    let renamed = cli.json(&format!("template edit {template} {name}")).await;
    assert_eq!(renamed["name"], "Renamed");
    let shown = cli.run(&format!("template show {template}")).await;
    assert!(shown.code == 0 && shown.out.contains("Renamed"), "{shown:?}");
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_refusal_says_what_is_wrong_and_below_it_what_to_do() {
        let world = World::start("ways out").await;
        let cli = Cli::of(&world);
        let new = NewTemplate::simple("A draft", 10, world.clock.now(), TimeDelta::hours(1));
        let template = world.api().create(&new).await.unwrap().id;
        for (command, code, way) in [
            ("template show 1".to_owned(), "TEMPLATE_NOT_FOUND", "`coupon template list`"),
            ("claim show 1".to_owned(), "CLAIM_NOT_FOUND", "`coupon user show USER`"),
            (
                format!("template pause {template}"),
                "INVALID_TRANSITION",
                "`coupon template show ID`",
            ),
            (
                format!("stock cut {template} 11 --reason less --yes"),
                "INSUFFICIENT_STOCK",
                "`coupon stock show ID`",
            ),
            ("key revoke 1".to_owned(), "KEY_NOT_FOUND", "`coupon key list`"),
            ("template list --cursor x".to_owned(), "INVALID_CURSOR", "`--cursor`"),
            ("template list --operator-key x".to_owned(), "UNAUTHENTICATED", "OPERATOR_KEY"),
        ] {
            let ran = cli.run(&command).await;
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command}: {ran:?}");
            let lines: Vec<&str> = ran.err.lines().collect();
            let [wrong, to_do, ..] = lines[..] else { panic!("{command}: {ran:?}") };
            assert!(
                wrong.ends_with(&format!("({code})")) && to_do.contains(way),
                "{command}: {ran:?}"
            );
            let ran = cli.run(&format!("{command} --json")).await;
            let printed: Value = serde_json::from_str(&ran.err).unwrap();
            assert_eq!(
                (&printed["advice"], &printed["code"]),
                (&json!(to_do), &json!(code)),
                "{command}"
            );
        }
        let nobody = cli.run("template list --api-url http://127.0.0.1:1").await;
        assert!(nobody.code == 3 && nobody.err.contains("\nIs API_URL right"), "{nobody:?}");
        let unset = cli.run("template list --api-url ").await;
        assert!(unset.code == 2 && unset.err.contains("`--api-url`"), "{unset:?}");
        world.end().await;
    }
}
