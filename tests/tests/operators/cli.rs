//! `coupon`, the operator's command line, on a live platform: commands, JSON output, exit codes.

use std::{env, fs, net::TcpListener, path::PathBuf, process::Stdio};

use coupon::UserId;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate, Wish};
use testkit::Proxy;
use tokio::process::Command;

/// The command line with the settings of one platform only.
pub(crate) struct Cli {
    environment: Vec<(&'static str, String)>,
}

/// A command's exit code and output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cli {
    pub(crate) fn of(world: &World) -> Self {
        let options = &world.platform.options;
        let environment = vec![
            ("API_URL", world.platform.api_url().to_owned()),
            ("OPERATOR_KEY", options.operator_key.clone()),
            ("KAFKA_BROKERS", world.scope.endpoints.kafka_brokers.clone()),
            ("TOPIC_PREFIX", options.topic_prefix.clone()),
        ];
        Self { environment }
    }

    /// Returns a copy with another value of one setting.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut environment = self.environment.clone();
        environment.retain(|(known, _)| *known != name);
        environment.push((name, value.to_owned()));
        Self { environment }
    }

    /// Runs a command given as words separated by spaces.
    pub(crate) async fn run(&self, words: &str) -> Ran {
        self.run_words(&words.split(' ').collect::<Vec<_>>()).await
    }

    /// Runs a command given as words, which may contain spaces.
    pub(crate) async fn run_words(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(binary());
        command.args(words).env_clear().envs(self.environment.iter().cloned());
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Ran { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must succeed; returns its JSON output.
    pub(crate) async fn json(&self, words: &str) -> Value {
        let ran = self.run(&format!("{words} --json")).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words}: {ran:?}");
        assert_eq!(ran.out.lines().count(), 1, "one value: {}", ran.out);
        serde_json::from_str(&ran.out).unwrap()
    }
}

/// Path of the binary beside this test's.
fn binary() -> PathBuf {
    let own = env::current_exe().unwrap();
    let binary = own.ancestors().nth(2).unwrap().join("coupon");
    assert!(binary.is_file(), "`cargo build -p operator-cli` first");
    binary
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Asserts a usage error: one JSON object on standard error, for scripts.
fn assert_usage(ran: &Ran) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{ran:?}");
    let printed: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&printed["outcome"], &printed["code"]), (&json!("usage"), &Value::Null), "{ran:?}");
    assert!(!text(&printed["error"]).is_empty() && printed.get("advice").is_some(), "{ran:?}");
    assert_eq!(printed.as_object().unwrap().len(), 4, "{ran:?}");
}

#[tokio::test]
async fn a_template_is_created_sold_topped_up_and_ended_from_the_command_line() {
    let world = World::start("operator cli").await;
    let cli = Cli::of(&world);
    let example = cli.run("template create --example").await;
    let toml = world.platform.options.dir.join("sale.toml");
    let json = "sale.json";
    fs::write(&toml, &example.out).unwrap();
    let draft = cli.json(&format!("template create {}", toml.display())).await;
    assert_eq!((&draft["state"], &draft["name"]), (&json!("draft"), &json!("Autumn sale")));
    let json = world.platform.options.dir.join(json);
    let other = json!({"name": "Other", "discount": {"kind": "free_shipping", "currency": "EUR"},
        "total_stock": 1, "per_user_limit": 1, "claim_starts_at": "2026-01-01T00:00:00Z",
        "claim_ends_at": "2030-01-01T00:00:00Z", "valid_for_ms": 60_000});
    fs::write(&json, other.to_string()).unwrap();
    let other = cli.json(&format!("template create {}", json.display())).await;
    let page = cli.json("template list --limit 1").await;
    assert_eq!(page["data"], json!([other]), "the newest first");
    let next = format!("template list --limit 1 --cursor {}", text(&page["next_cursor"]));
    assert_eq!(cli.json(&next).await["data"], json!([draft]));

    let id = text(&draft["id"]);
    let mut shown = cli.json(&format!("template show {id}")).await;
    assert_eq!(shown.as_object_mut().unwrap().remove("total_stock"), Some(json!(1_000)));
    assert_eq!(shown, draft);
    for (verb, state) in [("publish", "published"), ("publish", "published"), ("pause", "paused")] {
        assert_eq!(cli.json(&format!("template {verb} {id}")).await["state"], state, "{verb}");
    }
    assert_eq!(cli.json(&format!("template resume {id}")).await["state"], "published");
    let template = id.parse().unwrap();
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, Some("first"), 1).await.unwrap().json().unwrap();

    let add = format!("stock add {id} 5 --reason more --request-id top-up");
    let added = cli.json(&add).await;
    assert_eq!((&added["delta"], &added["total"]), (&json!(5), &json!(1_005)));
    assert_eq!(cli.json(&add).await, added, "under one name it counts once");
    assert_eq!(cli.json(&format!("stock cut {id} 3 --reason less --yes")).await["total"], 1_002);
    let stock = cli.json(&format!("stock show {id}")).await;
    assert_eq!((&stock["total"], &stock["landed"]), (&json!(1_002), &json!(1)));

    let claim = cli.json(&format!("claim show {}", claimed.id)).await;
    assert_eq!((&claim["user_id"], &claim["status"]), (&json!("1"), &json!("landed")));
    assert_eq!(claim["claim"]["quantity"], 1);
    let coupons = cli.json("user show 1").await;
    assert_eq!(coupons["data"][0]["id"], claimed.coupons[0].id.to_string());
    assert_eq!(cli.json("user show 2").await["data"], json!([]));
    assert!(cli.json("expiry").await["overdue"].is_object());
    for read in [
        "template list",
        "audit",
        "key list",
        "merchant list",
        "user show 1",
        "expiry",
        "dead-letters list",
    ] {
        let ran = cli.run(read).await;
        assert!(ran.code == 0 && !ran.out.is_empty() && !ran.out.starts_with('{'), "{ran:?}");
    }
    for of_template in ["template show", "stock show"] {
        let ran = cli.run(&format!("{of_template} {id}")).await;
        assert!(ran.code == 0 && ran.out.lines().count() > 3, "{ran:?}");
    }
    assert_eq!(cli.json(&format!("template end {id} --yes")).await["state"], "ended");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn discounts_and_amounts_are_given_and_shown_in_the_currencys_units() {
    let world = World::start("cli money").await;
    let cli = Cli::of(&world);
    let toml = world.platform.options.dir.join("money.toml");
    fs::write(&toml, cli.run("template create --example").await.out).unwrap();
    let create = format!("template create {}", toml.display());
    let draft = cli.json(&format!("{create} --percent-off 20 --at-most 20.00 --from 50.00")).await;
    let words = "20 % off, at most €20.00, from €50.00";
    assert_eq!(draft["discount_text"], words);
    let id = text(&draft["id"]);
    let shown = cli.run(&format!("template show {id}")).await;
    assert!(shown.out.contains(words) && !shown.out.contains("_minor"), "{shown:?}");
    assert_eq!(shown.err, "");
    let edit = format!("template edit {id} --if-version 1 --percent-off 0.2 --currency EUR");
    let edited = cli.run(&edit).await;
    assert!(edited.code == 0 && edited.out.contains("0.2 % off"), "{edited:?}");
    let warned = edited.err.starts_with("coupon: warning: ") && edited.err.contains("20 %");
    assert!(warned && edited.err.lines().count() == 1, "{edited:?}");
    for wrong in [
        "redeem A 1 --amount 5000",
        "validate 1 --amount 5000",
        &format!("{create} --amount-off 5.005"),
        &format!("{create} --amount-off 5.00 --currency JPY"),
        &format!("{create} --percent-off 20 --amount-off 5.00"),
        &format!("{create} --percent-off 100.01"),
    ] {
        assert_usage(&cli.run(&format!("{wrong} --json")).await);
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn what_is_refused_cannot_be_sent_or_is_not_answered_has_an_exit_code_of_its_own() {
    let world = World::start("exit codes").await;
    let cli = Cli::of(&world);
    let new = NewTemplate::simple("Draft", 1, world.clock.now(), chrono::TimeDelta::hours(1));
    let draft = world.api().create(&new).await.unwrap().id;
    let refused = [
        ("template show 1".to_owned(), "TEMPLATE_NOT_FOUND"),
        ("claim show 1".to_owned(), "CLAIM_NOT_FOUND"),
        (format!("template pause {draft}"), "INVALID_TRANSITION"),
        (format!("template rebuild-gate {draft}"), "NO_GATE"),
        (format!("stock cut {draft} 2 --reason less --yes"), "INSUFFICIENT_STOCK"),
        ("template watch 1".to_owned(), "TEMPLATE_NOT_FOUND"),
    ];
    for (command, code) in refused {
        let ran = cli.run(&command).await;
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command}: {ran:?}");
        assert!(
            ran.err.starts_with("coupon: ") && ran.err.contains(&format!("({code})")),
            "{ran:?}"
        );
        let ran = cli.run(&format!("{command} --json")).await;
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((&error["code"], &error["outcome"]), (&json!(code), &json!("refused")));
        assert!(error["error"].is_string() && ran.code == 1 && ran.out.is_empty(), "{ran:?}");
    }
    let stranger = cli.with("OPERATOR_KEY", "not-the-key").run("template list").await;
    assert!(stranger.code == 1 && stranger.err.contains("(UNAUTHENTICATED)"), "{stranger:?}");

    let zoneless = world.platform.options.dir.join("zoneless.toml");
    fs::write(&zoneless, "claim_ends_at = 2026-01-01T00:00:00").unwrap();
    for wrong in [
        "template show abc",
        "template show 1 --nonsense",
        "stock add 1 0 --reason none",
        "template create /nowhere/sale.toml",
        &format!("template create {}", zoneless.display()),
        "template list --api-url ftp://127.0.0.1",
    ] {
        let ran = cli.run(wrong).await;
        assert!(ran.code == 2 && ran.out.is_empty() && !ran.err.starts_with('{'), "{ran:?}");
        assert_usage(&cli.run(&format!("{wrong} --json")).await);
    }
    for incomplete in ["--json", "template --json", "--json stock add 1", "explode --json"] {
        assert_usage(&cli.run(incomplete).await);
    }
    for help in ["--help", "--version", "template --json --help"] {
        let ran = cli.run(help).await;
        assert!(ran.code == 0 && ran.out.contains("coupon") && ran.err.is_empty(), "{ran:?}");
    }
    for missing in ["API_URL", "OPERATOR_KEY"] {
        let ran = cli.with(missing, "").run("template list").await;
        assert!(ran.code == 2 && ran.err.contains(missing), "{ran:?}");
    }
    let ran = cli.with("KAFKA_BROKERS", "").run("dead-letters list").await;
    assert!(ran.code == 2 && ran.err.contains("KAFKA_BROKERS"), "{ran:?}");

    let nobody = cli.with("API_URL", "http://127.0.0.1:1");
    let ran = nobody.run(&format!("template publish {draft} --json")).await;
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(
        (ran.code, &error["outcome"]),
        (3, &json!("unavailable")),
        "nothing was sent: {ran:?}"
    );
    world.end().await;
}

#[tokio::test]
async fn a_sale_is_watched_line_by_line_until_it_is_sold_out_or_over() {
    let world = World::start("watch").await;
    let cli = Cli::of(&world);
    let template = world.template(30, |new| new).await;
    let crowd = world.crowd();
    let watched = format!("template watch {template} --json");
    let wishes = (1..=40).map(|user| Wish::one(template, UserId(user))).collect();
    let (ran, sold) = tokio::join!(cli.run(&watched), crowd.run(wishes));
    assert_eq!((ran.code, sold.unwrap().given_up), (0, 0), "{ran:?}");
    let looks: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = looks.last().unwrap();
    assert_eq!(
        (&last["landed"], &last["left"], &last["total"]),
        (&json!(30), &json!(0), &json!(30))
    );
    assert_eq!((&last["end"], &last["in_flight"]), (&json!("sold_out"), &json!(0)));
    for look in &looks {
        assert!(look["rate_per_s"].is_number() && look["elapsed_s"].is_number(), "{look}");
        assert!(look["landed"].as_i64().unwrap() <= 30);
    }

    let ran = cli.run(&format!("template watch {template}")).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "plain lines, no terminal: {ran:?}");
    assert!(lines[0].contains("100%  30/30 landed"), "{ran:?}");
    assert_eq!(lines[1], "Sold out.");

    let lasting = world.template(30, |new| new).await;
    let ran = cli.run(&format!("template watch {lasting} --for 1")).await;
    assert!(
        ran.code == 0 && ran.out.contains("0/30 landed") && ran.out.contains("lag 0"),
        "{ran:?}"
    );
    assert!(ran.out.ends_with("Watched for as long as asked.\n") && !ran.out.contains('\u{1b}'));
    cli.json(&format!("template end {lasting} --yes")).await;
    let ran = cli.run(&format!("template watch {lasting}")).await;
    assert!(ran.out.ends_with("The template has ended.\n"), "{ran:?}");
    world.end().await;
}

#[tokio::test]
async fn keys_are_made_replaced_and_withdrawn_and_see_their_own_merchant_only() {
    let world = World::start("operator keys").await;
    let platform = Cli::of(&world);
    let template = world.template(5, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, None, 1).await.unwrap().json().unwrap();

    let shop = platform.json("merchant create Shop").await;
    let merchants = platform.json("merchant list").await;
    assert_eq!(merchants["data"][0], shop);
    let merchant = text(&shop["id"]);
    let key = async |name: &str, scope: &str| {
        let create = format!("key create {name} --scope {scope} --merchant {merchant}");
        let made = platform.json(&create).await;
        (text(&made["id"]).to_owned(), platform.with("OPERATOR_KEY", text(&made["key"])))
    };
    let (_, reader) = key("reports", "read").await;
    let (id, till) = key("till", "operate").await;
    let own = world.platform.options.dir.join("own.toml");
    fs::write(&own, platform.run("template create --example").await.out).unwrap();
    let own = till.json(&format!("template create {}", own.display())).await;
    assert_eq!(reader.json("template list").await["data"], json!([own]));
    for (cli, command, code) in [
        (&till, format!("template show {template}"), "TEMPLATE_NOT_FOUND"),
        (&till, format!("template rebuild-gate {template}"), "TEMPLATE_NOT_FOUND"),
        (&till, format!("claim show {}", claimed.id), "TEMPLATE_NEEDED"),
        (&till, "key list".to_owned(), "SCOPE_LACKING"),
        (&till, "merchant list".to_owned(), "PLATFORM_ONLY"),
        (&reader, format!("template publish {}", text(&own["id"])), "SCOPE_LACKING"),
        (&reader, "user rebuild-view 1".to_owned(), "SCOPE_LACKING"),
    ] {
        let ran = cli.run(&command).await;
        assert!(ran.code == 1 && ran.err.contains(&format!("({code})")), "{command}: {ran:?}");
    }
    assert_eq!(reader.json("user show 1").await["data"], json!([]), "another merchant's coupons");
    assert_eq!(platform.json("user show 1").await["data"].as_array().unwrap().len(), 1);

    let rotated = platform.json(&format!("key rotate {id} --overlap-seconds 0")).await;
    let replaced = platform.with("OPERATOR_KEY", text(&rotated["key"]));
    assert_eq!(replaced.json("template list").await["data"], json!([own]));
    let refused = async |cli: &Cli| {
        let look = async || cli.run("template list").await;
        pipeline_tests::until(look, |ran| ran.err.contains("(UNAUTHENTICATED)")).await
    };
    assert_eq!(refused(&till).await.code, 1);
    let revoke = format!("key revoke {}", text(&rotated["id"]));
    for _ in 0..2 {
        assert_eq!(platform.json(&revoke).await, Value::Null);
    }
    assert_eq!(refused(&replaced).await.code, 1);
    let keys = platform.json(&format!("key list --merchant {merchant}")).await;
    let keys = keys["items"].as_array().unwrap();
    assert!(keys.len() == 3 && keys.iter().all(|key| key.get("key").is_none()), "{keys:?}");

    let audit = platform.json(&format!("audit --merchant {merchant} --limit 100")).await;
    let done: Vec<&str> =
        audit["data"].as_array().unwrap().iter().map(|entry| text(&entry["action"])).collect();
    let wanted = ["key.revoke", "key.rotate", "template.create", "key.create", "key.create"];
    assert_eq!(done, wanted, "the newest first");
    world.end().await;
}

#[tokio::test]
async fn completions_need_no_platform_and_know_the_commands() {
    let nowhere = Cli { environment: Vec::new() };
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = nowhere.run(&format!("completions {shell}")).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("rebuild-gate") && ran.out.contains("dead-letters"), "{shell}");
    }
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_call_whose_answer_is_lost_is_sent_again_and_counts_once() {
        let world = World::start("lost answers").await;
        let url = world.platform.api_url();
        let proxy = Proxy::before(url).await;
        let cli = Cli::of(&world).with("API_URL", &proxy.instead_of(url));
        let template = world.template(10, |new| new).await;

        let mut movement = proxy.hold_answer(b"stock-movements");
        let add = format!("stock add {template} 5 --reason more");
        let (ran, ()) = tokio::join!(cli.run(&add), async {
            movement.reached().await;
            movement.cut();
        });
        assert_eq!(ran.code, 0, "{ran:?}");
        let mut look = proxy.hold_answer(b"/stock HTTP");
        let show = format!("stock show {template}");
        let (stock, ()) = tokio::join!(cli.json(&show), async {
            look.reached().await;
            look.cut();
        });
        assert_eq!(stock["total"], 15, "the movement was sent twice and counts once");

        let sale = world.platform.options.dir.join("sale.toml");
        fs::write(&sale, cli.run("template create --example").await.out).unwrap();
        let create = format!("template create {}", sale.display());
        let mut created = proxy.hold_answer(b"POST /v1/templates HTTP");
        let (ran, ()) = tokio::join!(cli.run(&create), async {
            created.reached().await;
            created.cut();
        });
        assert_eq!(ran.code, 0, "{ran:?}");
        let listed = cli.json("template list").await;
        let sales = listed["data"].as_array().unwrap().iter();
        assert_eq!(sales.filter(|one| one["name"] == "Autumn sale").count(), 1, "{listed}");

        // A server that never answers: the outcome of each request is unknown.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let cli = Cli::of(&world).with("API_URL", &url);
        let ran = cli.run(&format!("{create} --json --timeout-seconds 1")).await;
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, &error["outcome"]), (3, &json!("unknown")), "{ran:?}");
        world.end().await;
    }
}
