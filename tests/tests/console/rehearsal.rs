//! A rehearsal on a running platform: made-up users sell a template of its own out, which is marked and ends with it.

use std::fs;

use pipeline_tests::World;
use serde_json::{Value, json};

use crate::operators::cli::Cli;

/// Writes the file of a sale, whose window is over and whose validity is another than a rehearsal's.
fn sale(world: &World, stock: i64) -> String {
    let file = world.platform.options.dir.join("rehearsed.json");
    let sale = json!({
        "name": "Autumn sale", "discount": { "kind": "amount_off", "amount_off_minor": 500, "currency": "EUR" },
        "total_stock": stock, "per_user_limit": 1, "claim_starts_at": "2020-01-01T00:00:00Z",
        "claim_ends_at": "2020-01-02T00:00:00Z", "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2020-02-01T00:00:00Z",
    });
    fs::write(&file, sale.to_string()).unwrap();
    file.display().to_string()
}

#[tokio::test]
async fn a_rehearsal_sells_a_template_of_its_own_out_and_says_what_to_expect() {
    let world = World::start("rehearsal").await;
    let cli = Cli::of(&world).with("JWT_SECRET", &world.platform.options.jwt_secret);
    let file = sale(&world, 30);
    let figures = cli.json(&format!("rehearse --template {file} --users 50 --rate 200")).await;
    assert_eq!((&figures["landed"], &figures["total"]), (&json!(30), &json!(30)), "{figures}");
    assert_eq!(figures["answers"]["201"], 30, "{figures}");
    assert_eq!(figures["answers"]["409 SOLD_OUT"], 20, "{figures}");
    for none in ["oversold", "lost", "given_up"] {
        assert_eq!(figures[none], 0, "{none}: {figures}");
    }
    assert_eq!(figures["refused"], json!({}), "{figures}");
    assert!(figures["p99_ms"].as_f64().unwrap() > 0.0, "{figures}");
    assert!(!figures["expect"].as_array().unwrap().is_empty(), "{figures}");

    let page = cli.json("template list").await;
    let made: Vec<(&Value, &Value)> =
        page["data"].as_array().unwrap().iter().map(|one| (&one["name"], &one["state"])).collect();
    assert_eq!(made, [(&json!("Rehearsal: Autumn sale"), &json!("ended"))], "marked, and over");
    world.end().await;
}

#[tokio::test]
async fn a_rehearsal_that_cannot_be_held_leaves_no_template_open() {
    let world = World::start("no rehearsal").await;
    let cli = Cli::of(&world);
    let file = sale(&world, 5);
    let unsigned = cli.run(&format!("rehearse --template {file}")).await;
    assert_eq!(unsigned.code, 2, "{unsigned:?}");
    assert!(unsigned.err.contains("--token-command"), "{unsigned:?}");
    // It prints nothing.
    let words = format!("rehearse --template {file} --users 2 --token-command true");
    let empty = cli.run(&words).await;
    assert_eq!(empty.code, 2, "{empty:?}");
    assert!(empty.err.contains("0 tokens for 2 users"), "{empty:?}");
    let file = sale(&world, 0);
    let nothing = cli.run(&format!("rehearse --template {file} --token-command cat")).await;
    assert!(nothing.code == 2 && nothing.err.contains("0 coupons"), "{nothing:?}");
    // The command signals its parent, and hangs. SIGHUP is not among them: who runs the tests may ignore it.
    let file = sale(&world, 5);
    for signal in ["TERM", "INT"] {
        let command = format!("kill -{signal} $PPID; exec /bin/sleep 60");
        let words = ["rehearse", "--template", file.as_str(), "--token-command", command.as_str()];
        let stopped = cli.run_words(&words).await;
        assert_eq!(stopped.code, 1, "{signal}: {stopped:?}");
        assert!(stopped.err.contains("was stopped"), "{signal}: {stopped:?}");
    }
    let page = cli.json("template list").await;
    assert_eq!(page["data"], json!([]), "the draft is deleted");
    world.end().await;
}

#[tokio::test]
async fn a_rehearsal_whose_users_are_all_refused_is_no_success() {
    let world = World::start("refused rehearsal").await;
    let cli = Cli::of(&world).with("JWT_SECRET", "a secret of nobody, and long enough for HS256");
    let file = sale(&world, 5);
    let refused = cli.run(&format!("rehearse --template {file} --users 10 --rate 50")).await;
    assert_eq!(refused.code, 4, "{refused:?}");
    let said = "10 of 10 users were refused, with `401 UNAUTHENTICATED`";
    assert!(refused.out.contains(said), "{refused:?}");
    assert!(!refused.out.contains("expect 99 of 100"), "{refused:?}");
    world.end().await;
}
