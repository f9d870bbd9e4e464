//! The support desk and the checkout from the command line: single coupons, jobs, single uses, filters of the record.

use std::fs;

use coupon::{TemplateId, UserId};
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate};
use testkit::Proxy;

use crate::operators::cli::Cli;

#[tokio::test]
async fn a_coupon_is_used_shown_extended_and_replaced_and_the_record_filtered_from_the_command_line()
 {
    let world = World::start("cli desk").await;
    let cli = Cli::of(&world);
    let template = world.template(9, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, None, 1).await.unwrap().json().unwrap();
    let id = claimed.coupons[0].id;
    let until = claimed.valid_until;
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

/// One template has a long hold, so that a slow machine pays in time; the other a brief one.
#[tokio::test]
async fn holds_are_made_paid_for_cancelled_forgiven_and_accounted_for_from_the_command_line() {
    let world = World::start("cli holds").await;
    let cli = Cli::of(&world);
    let [long, short] = ["--hold-ms 1800000", "--hold-ms 1000 --lapses-allowed 1"]
        .map(|flags| format!("template create {{}} {flags} --returned-stock resell"));
    let file = world.platform.options.dir.join("drop.toml");
    fs::write(&file, cli.run("template create --example").await.out).unwrap();
    let file = file.display().to_string();
    let draft = cli.json(&long.replace("{}", &file)).await;
    assert_eq!((&draft["hold_ms"], &draft["lapses_allowed"]), (&json!(1_800_000), &json!(0)));
    let id = draft["id"].as_str().unwrap();
    let version = &draft["version"];
    let edit = format!("template edit {id} --hold-ms 900000 --if-version {version}");
    assert_eq!(cli.json(&edit).await["hold_ms"], 900_000);
    cli.json(&format!("template publish {id}")).await;
    let claim = async |template: &str, user| -> Claimed {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let template = TemplateId(template.parse().unwrap());
        let key = format!("visit-{user}");
        shopper.claim(template, Some(&key), 1).await.unwrap().json().unwrap()
    };
    let anna = claim(id, 1).await.id;
    let paid = cli.json(&format!("claim confirm {anna} --payment-ref p1")).await;
    assert_eq!(paid["coupons"][0]["status"], "unused");
    assert_eq!(cli.json(&format!("claim confirm {anna} --payment-ref p1")).await, paid);
    let twice = cli.run(&format!("claim confirm {anna} --payment-ref p2")).await;
    assert!(twice.code == 1 && twice.err.contains("(ALREADY_CONFIRMED)"), "{twice:?}");
    let bert = claim(id, 2).await;
    let of = bert.id;
    let coupon = bert.coupons[0].id;
    let cancelled = cli.json(&format!("claim cancel {of} {coupon} --reason declined")).await;
    assert_eq!(cancelled["coupons"][0]["status"], "cancelled");
    let ledger = cli.json(&format!("template ledger {id}")).await;
    let kinds: Vec<_> =
        ledger["data"].as_array().unwrap().iter().map(|line| &line["kind"]).collect();
    assert!(
        kinds.len() == 4 && kinds.iter().filter(|kind| **kind == "claim").count() == 2,
        "{ledger}"
    );
    let returns = cli.json(&format!("template ledger {id} --kind return")).await;
    let [back] = &returns["data"].as_array().unwrap()[..] else { panic!("{returns}") };
    assert_eq!((&back["quantity"], &back["reason"]), (&json!(1), &json!("declined")));
    assert!(cli.run(&format!("template ledger {id}")).await.out.contains("declined"));

    let draft = cli.json(&short.replace("{}", &file)).await;
    let id = draft["id"].as_str().unwrap();
    cli.json(&format!("template publish {id}")).await;
    let carl = claim(id, 3).await.id;
    let template = TemplateId(id.parse().unwrap());
    let stock = async || world.api().stock(template).await.unwrap();
    testkit::until(stock, |stock| stock.gate_stock == Some(1_000)).await;
    let late = cli.run(&format!("claim confirm {carl} --payment-ref p3")).await;
    assert!(late.code == 1 && late.err.contains("(HOLD_LAPSED)"), "{late:?}");
    let shown = cli.json(&format!("user lapses 3 --template {id}")).await;
    assert_eq!((&shown["lapses"], &shown["banned"]), (&json!(1), &json!(true)));
    let again = world.api().shopper(UserId(3)).unwrap();
    let refused = again.claim(template, Some("again"), 1).await.unwrap();
    assert_eq!(refused.code().as_deref(), Some("BANNED"), "{}", refused.body);
    let lifted = cli.json(&format!("user lift 3 --template {id} --reason sorry")).await;
    assert_eq!(lifted["banned"], false);
    assert_eq!(again.claim(template, Some("again"), 1).await.unwrap().status, 201);
    world.until(template, |counts| counts.lapsed == 2).await;
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    /// The template has no limit that would refuse a second grant.
    #[tokio::test]
    async fn grants_whose_end_was_not_seen_are_named_and_granted_once_by_the_way_out_of_the_advice()
    {
        let world = World::start("cli grants unseen").await;
        let template = world.template(12, |new| NewTemplate { per_user_limit: 12, ..new }).await;
        let file = world.platform.options.dir.join("users.txt");
        fs::write(&file, "1\n2\n3\n").unwrap();
        let grants = format!("grants {template} {} --reason t", file.display());
        let direct = Cli::of(&world);
        let url = world.platform.api_url();
        for (flags, granted) in [("", 3), (" --json", 6)] {
            let proxy = Proxy::before(url).await;
            let cli = direct.with("API_URL", &proxy.instead_of(url));
            // The job is created, but the api does not answer from the first look at it on.
            let mut look = proxy.hold_request(b"GET /v1/jobs/");
            let grants_unseen = format!("{grants}{flags}");
            let (ran, ()) = tokio::join!(cli.run(&grants_unseen), async {
                look.reached().await;
                proxy.close();
            });
            assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{ran:?}");
            let said = if flags.is_empty() {
                assert!(ran.err.contains("has begun, under `--request-id coupon-"), "{ran:?}");
                ran.err.clone()
            } else {
                let failure: Value = serde_json::from_str(&ran.err).unwrap();
                assert_eq!(failure["outcome"], "unknown", "{ran:?}");
                failure["advice"].as_str().unwrap().to_owned()
            };
            let behind = |words: &str| {
                let (_, rest) =
                    said.rsplit_once(words).unwrap_or_else(|| panic!("{words}: {ran:?}"));
                rest.split('`').next().unwrap().to_owned()
            };
            let job = behind("`coupon jobs wait ");
            let ended = direct.json(&format!("jobs wait {job}")).await;
            assert_eq!(ended["outcomes"], json!({ "granted": 3 }), "{ended}");
            let again = format!("{grants} --request-id {}", behind("`--request-id "));
            assert_eq!(direct.json(&again).await, ended, "the same job");
            assert_eq!(world.count(template).await.all(), granted);
        }
        // The repetition that the advice warns of.
        direct.json(&grants).await;
        assert_eq!(world.count(template).await.all(), 9);
        world.assert_sound(None).await;
        world.end().await;
    }
}
