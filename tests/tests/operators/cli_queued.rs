//! Queued claims from the command line: how a template answers them, and what becomes of those that were accepted.

use pipeline_tests::World;
use serde_json::json;

use crate::operators::cli::Cli;

#[tokio::test]
async fn how_a_template_answers_is_created_changed_and_shown_from_the_command_line() {
    let world = World::start_queued("cli queued").await;
    let cli = Cli::of(&world);
    let file = world.platform.options.dir.join("sale.toml");
    std::fs::write(&file, cli.run("template create --example").await.out).unwrap();
    let create = format!("template create {} --claim-mode queued", file.display());
    let draft = cli.json(&create).await;
    assert_eq!((&draft["claim_mode"], &draft["accept_after"]), (&json!("queued"), &json!("topic")));
    let id = draft["id"].as_str().unwrap();
    let published = cli.json(&format!("template publish {id}")).await;

    // A flag alone is a change, and so is one beside a file.
    let version = &published["version"];
    let spill = format!("template edit {id} --claim-mode spill --if-version {version}");
    let spilling = cli.json(&spill).await;
    assert_eq!(spilling["claim_mode"], "spill");
    assert_eq!(cli.json(&spill).await["version"], spilling["version"], "once");
    let change = world.platform.options.dir.join("change.json");
    std::fs::write(&change, json!({ "name": "Renamed" }).to_string()).unwrap();
    let both = format!(
        "template edit {id} {} --accept-after replica --if-version {}",
        change.display(),
        spilling["version"]
    );
    cli.json(&both).await;
    let shown = cli.json(&format!("template show {id}")).await;
    assert_eq!((&shown["name"], &shown["accept_after"]), (&json!("Renamed"), &json!("replica")));
    let text = cli.run(&format!("template show {id}")).await;
    assert!(text.code == 0 && text.out.contains("claim_mode"), "{text:?}");
    for nothing in [format!("template edit {id}"), format!("template edit {id} --claim-mode no")] {
        assert_eq!(cli.run(&nothing).await.code, 2, "{nothing}");
    }

    for accepted in ["land", "reject"] {
        let pause = format!("template pause {id} --accepted {accepted}");
        assert_eq!(cli.json(&pause).await["state"], "paused", "{accepted}");
    }
    assert_eq!(cli.json(&format!("template resume {id}")).await["state"], "published");
    let end = format!("template end {id} --accepted reject --yes");
    assert_eq!(cli.json(&end).await["state"], "ended");
    world.assert_sound(None).await;
    world.end().await;
}
